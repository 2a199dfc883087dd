-- dist.inspect: who has which elements of a tensor, as text.

local core = require "tessera.core"
local grid = require "tessera.dist.grid"
local spec = require "tessera.dist.spec"
local units = require "tessera.units"

local inspect = {}
local MOST_COLUMNS, MOST_LINES = 8, 64

-- "0..3", or "0..1 4..5" of what is dealt out in turn.
local function range_text(layout, d, n, p)
  local runs = {}
  for i = 0, 3 do
    local start, count = core.mesh_run(layout, d, n, p, i)
    if not start then break end
    runs[#runs + 1] = count == 1 and ("%d"):format(start) or ("%d..%d"):format(start, start + count - 1)
    if i == 3 then runs[4] = ".." end
  end
  return runs[1] and table.concat(runs, " ") or "none"
end

local function device_name(mesh, p) return mesh.devices[p + 1] or ("#%d"):format(p) end

local function padded(rows)
  local width = {}
  for _, row in ipairs(rows) do
    for i, cell in ipairs(row) do width[i] = math.max(width[i] or 0, #cell) end
  end
  local lines = {}
  for r, row in ipairs(rows) do
    local cells = {}
    for i, cell in ipairs(row) do cells[i] = cell .. (" "):rep(width[i] - #cell) end
    lines[r] = (table.concat(cells, "  "):gsub("%s+$", ""))
  end
  return lines
end

-- A grid: ranges of the rows downwards, of the columns to the right, in each cell who has it.
local function as_grid(x, layout, mesh)
  local across = x.ndim - 1
  local down = x.ndim == 2 and 0 or nil
  local rows, columns, cells, row_at, column_at = {}, {}, {}, {}, {}
  for p = 0, mesh.n - 1 do
    local r = down and range_text(layout, down, x.shape[1], p) or ""
    local c = range_text(layout, across, x.shape[across + 1], p)
    local has = core.mesh_has(layout, p)
    if has and not row_at[r] then rows[#rows + 1], row_at[r] = r, true end
    if has and not column_at[c] then columns[#columns + 1], column_at[c] = c, true end
    local key = r .. "|" .. c
    if has then cells[key] = cells[key] and cells[key] .. " " .. device_name(mesh, p) or device_name(mesh, p) end
  end
  if #columns > MOST_COLUMNS or #rows > MOST_LINES then return nil end
  local lines = { { "" } }
  for i, c in ipairs(columns) do lines[1][i + 1] = "[" .. c .. "]" end
  for _, r in ipairs(rows) do
    local line = { down and "[" .. r .. "]" or "" }
    for i, c in ipairs(columns) do line[i + 1] = cells[r .. "|" .. c] or "-" end
    lines[#lines + 1] = line
  end
  return padded(lines)
end

local function as_list(x, layout, mesh, bytes)
  local rows = {}
  for p = 0, math.min(mesh.n, MOST_LINES) - 1 do
    local at, ranges = {}, {}
    local place = mesh:place(p)
    for i, a in ipairs(mesh.axes) do at[i] = a .. "=" .. place[a] end
    for d = 0, x.ndim - 1 do ranges[d + 1] = range_text(layout, d, x.shape[d + 1], p) end
    local has = core.mesh_has(layout, p)
    rows[#rows + 1] = { device_name(mesh, p), table.concat(at, " "), has and "[" .. table.concat(ranges, ", ") .. "]" or "nothing",
      units.size(bytes[p + 1]) }
  end
  if mesh.n > MOST_LINES then rows[#rows + 1] = { ("and %d more"):format(mesh.n - MOST_LINES) } end
  return padded(rows)
end

local function part_bytes(x, layout, p)
  if not core.mesh_has(layout, p) then return 0 end
  local n = x.nbytes / math.max(x.numel, 1)
  for _, size in ipairs(core.mesh_part_shape(layout, x.shape, p)) do n = n * size end
  local summands = core.mesh_summands(layout, p)
  return summands > 0 and n * summands or n
end

-- inspect(x): a picture of a tensor over a mesh, as text: which device has which elements (first..last, counted from 0), how
-- many bytes, how many copies. Of one or two axes it is a grid, of more a list.
--   print(dist.inspect(x))
function inspect.inspect(x)
  if not core.is_tensor(x) then core.fail(("dist.inspect: x must be a tensor, not a %s"):format(type(x))) end
  local layout = core.mesh_layout_of(x)
  if not layout then return ("%s on %s, %s"):format(core.type_text(x), tostring(x.device), units.size(x.nbytes)) end
  local s, mesh = spec.of_layout(layout)
  local bytes, held, most, least = {}, 0, 0, math.huge
  for p = 1, mesh.n do
    bytes[p] = part_bytes(x, layout, p - 1)
    held, most, least = held + bytes[p], math.max(most, bytes[p]), math.min(least, bytes[p])
  end
  local lines = { ("%s over %s"):format(core.type_text(x), grid.sizes_text(mesh)) }
  local picture = x.ndim >= 1 and x.ndim <= 2 and not s.over[1] and as_grid(x, layout, mesh) or as_list(x, layout, mesh, bytes)
  for _, line in ipairs(picture) do lines[#lines + 1] = "  " .. line end
  local low, each = units.size(least), units.size(most)
  if low ~= each then each = low .. " to " .. each end
  local copies = x.nbytes > 0 and held / x.nbytes or 1
  lines[#lines + 1] = ("%s a device, %s in all for %s%s%s"):format(each, units.size(held), units.size(x.nbytes),
    copies ~= 1 and not s.over[1] and (" (%.3g copies)"):format(copies) or "", s.over[1] and " (summands)" or "")
  if core.mesh_is_planned(x) then lines[#lines] = lines[#lines] .. ", planned" end
  return table.concat(lines, "\n")
end

local WAYS = { memory = "the same memory", direct = "direct: kernels of each read the memory of the other",
  host = "through the host, in copies: neither reaches the memory of the other" }

-- By pair of its devices, each once: each(a, b, way), way being a word of WAYS, or nil for what is not here.
local function each_link(mesh, each)
  local names, seen = {}, {}
  for p = 0, mesh.n - 1 do
    local name = device_name(mesh, p)
    if not seen[name] then names[#names + 1] = name end
    seen[name] = true
  end
  for i = 1, #names do
    for k = i + 1, #names do
      local ok, way = pcall(core.mesh_link, names[i], names[k])
      each(names[i], names[k], ok and way or nil)
    end
  end
  return names
end

local MOST_REMARKS = 4

--- Sentences on ways between GPUs that are missing, so that another one is taken.
function inspect.remarks(mesh)
  local list, more = {}, 0
  each_link(mesh, function(a, b, way)
    if way ~= "host" or a:match "^cpu" or b:match "^cpu" then return end
    if #list == MOST_REMARKS then more = more + 1 return end
    list[#list + 1] = ("%s and %s do not reach each other's memory: what they send each other goes through the host, in copies"):format(a, b)
  end)
  if more > 0 then list[#list + 1] = ("and so do %d more pairs"):format(more) end
  return list
end

-- links(mesh): how bytes go between its devices, as text: a line for each two, or one if all are alike.
--   print(dist.links(mesh))
function inspect.links(mesh)
  grid.need_mesh(mesh, "links")
  local lines, first, alike = {}, nil, true
  local names = each_link(mesh, function(a, b, way)
    local words = way and WAYS[way] or "not here"
    lines[#lines + 1], first = ("%s - %s: %s"):format(a, b, words), first or words
    alike = alike and words == first
  end)
  if alike and #names > 2 then return ("%s .. %s, each two: %s"):format(names[1], names[#names], first) end
  return #lines > 0 and table.concat(lines, "\n") or names[1] .. " alone"
end

return inspect
