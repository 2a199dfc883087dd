-- What devices send each other: what was sent, and what a captured function would send.

local core = require "tessera.core"
local units = require "tessera.units"

local sent = {}

-- Rows of {kind, operator, axes, bytes, from, to, place, count, when} that print as a table. count: of rounds of a loop; when: on what
-- it depends whether, or how often, it is sent, so that nobody knows that before.
local Rows = {}
function Rows.__tostring(rows)
  if #rows == 0 then return "nothing is sent" end
  local lines, width, sum, n, open = {}, {}, 0, 0, false
  for i, r in ipairs(rows) do
    lines[i] = { r.kind, "over " .. table.concat(r.axes, ","), units.size(r.bytes), r.operator, r.from .. " -> " .. r.to, r.place }
    local times = r.count > 1 and ("%d times"):format(r.count) or nil
    if times or r.when then lines[i][6] = table.concat({ r.place, times or r.when, times and r.when }, ", ") end
    for c, cell in ipairs(lines[i]) do width[c] = math.max(width[c] or 0, #cell) end
    sum, n, open = sum + r.bytes * r.count, n + r.count, open or r.when ~= nil
  end
  for i, line in ipairs(lines) do
    for c, cell in ipairs(line) do line[c] = cell .. (" "):rep(width[c] - #cell) end
    lines[i] = table.concat(line, "  "):gsub("%s+$", "")
  end
  lines[#lines + 1] = ("%d collective%s, %s%s"):format(n, n == 1 and "" or "s", units.size(sum), open and ", if each of them runs once" or "")
  return table.concat(lines, "\n")
end

--- The rows of the last run that was planned, if it was on a mesh.
function sent.planned(spread) return setmetatable(spread and core.mesh_plan() or {}, Rows) end

-- sent([n]): what devices sent each other lately, the last n (1024 are kept): rows of {kind, operator, axes, bytes, from, to,
-- place}, which print as a table. bytes are what all devices receive from others together.
--   print(dist.sent(3))
function sent.sent(n)
  if n ~= nil and (type(n) ~= "number" or n % 1 ~= 0 or n < 0) then core.fail "dist.sent: it takes a number of collectives, the last ones" end
  local total = core.mesh_sent()
  local _, rows = core.mesh_sent(n and math.max(total - n, 0) or 0)
  return setmetatable(rows, Rows)
end

return sent
