-- Kernels of devices on the page of a profile: a table of all, for the dearest their stages by role and what their
-- processors did when, and the roofline of each device. html.lua puts it behind the rest.

local kernels = require "tessera.kernel.profile"
local picture = require "tessera.profile.picture"
local units = require "tessera.units"

local html = {}

local WIDTH, LEFT = picture.width, picture.left
local colour, escaped, percent = picture.colour, picture.escaped, units.percent
local MOST_KERNELS, MOST_BARS = 16, 4000 -- with pictures; of a timeline

local function table_of(groups, total)
  local out = { "<table><tr><th>time</th><th>part</th><th>launches</th><th>B/s</th><th>FLOP/s</th><th>occupancy</th><th>registers</th>" ..
    "<th>shared</th><th>spilled</th><th>device</th><th>kernel</th></tr>" }
  local function rate(x, most, unit, k)
    if x <= 0 or k.usec <= 0 or k.simulated then return "" end
    x = x / k.usec * 1e6
    return units.rate(x, unit) .. (most > 0 and (", %s"):format(percent(x / most)) or "")
  end
  for i, g in ipairs(groups) do
    local k = g.first
    local function real(text) return k.simulated and "" or text end
    out[#out + 1] = ('<tr><td>%s</td><td>%.1f%%</td><td>%d</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td>' ..
      '<td><i style="background:%s"></i>%s</td></tr>'):format(k.simulated and ("%.0f statements"):format(g.usec * 1000) or units.time(g.usec),
      total > 0 and 100 * g.usec / total or 0, g.count, rate(k.bytes, k.most_bytes, "B/s", k), rate(k.flops, k.most_flops, "FLOP/s", k),
      real(k.occupancy and percent(k.occupancy) or ""), real(("%d"):format(k.registers)), real(units.size(k.shared)), real(units.size(k.spilled)), escaped(k.device),
      colour(i), escaped(k.name))
  end
  return table.concat(out, "\n") .. "</table>"
end

local function stages(k)
  local parts, y, fills, n = {}, 0, {}, 0
  local function fill(name) -- a stage has its colour in all roles
    if not fills[name] then fills[name], n = colour(n + 1), n + 1 end
    return fills[name]
  end
  for _, role in ipairs(k.roles) do
    if #role.stages > 0 then
      local list = {}
      for i, s in ipairs(role.stages) do
        list[i] = { name = s.name, part = s.part, fill = fill(s.name), more = ("%d times, median %.0f cycles, 95%% below %.0f"):format(s.count, s.median, s.p95) }
      end
      y = picture.bars(parts, y, ("%s%d of %d warps"):format(role.name ~= "" and role.name .. ", " or "", role.warps - role.idle, k.warps), list)
    end
  end
  return picture.of(y, parts)
end

-- A line for each processor, in it its blocks, shades by turns, those side by side below each other. Of too many blocks neighbours are one bar.
local function processors(k)
  local numbers, parts, last, blocks = {}, {}, 0, 0
  for number, p in pairs(k.processors) do
    numbers[#numbers + 1], last, blocks = number, math.max(last, p.ended), blocks + p.count
  end
  table.sort(numbers)
  local each = math.ceil(blocks / MOST_BARS)
  local high, scale = #numbers <= 16 and 18 or 6, (WIDTH - LEFT) / math.max(1, last)
  for row, number in ipairs(numbers) do
    local list, lanes = kernels.blocks(k.processors[number])
    if each > 1 then lanes = 1 end
    local y, h, shade = (high + 2) * (row - 1), high / lanes, {}
    for i = 1, #list, each do
      local a, ended = list[i], 0
      for j = i, math.min(i + each - 1, #list) do ended = math.max(ended, list[j].ended) end
      local time = k.simulated and ("%d to %d statements"):format(a.begun, ended) or ("%s to %s"):format(units.time(a.begun / 1000), units.time(ended / 1000))
      local lane = math.min(a.lane, lanes)
      shade[lane] = not shade[lane]
      parts[#parts + 1] = picture.rectangle(LEFT + a.begun * scale, y + h * (lane - 1), (ended - a.begun) * scale, h,
        shade[lane] and "#4878a8" or "#88a8c8", ("processor %d, block %d%s, %s"):format(number, a.number, each > 1 and " and next ones" or "", time))
    end
    if high == 18 or row % 8 == 1 then parts[#parts + 1] = picture.text_at(0, y + 12, ("proc. %d"):format(number)) end
  end
  local height = (high + 2) * #numbers + 22
  parts[#parts + 1] = picture.text_at(LEFT, height - 4, "0")
  parts[#parts + 1] = picture.text_at(WIDTH, height - 4, k.simulated and ("%d statements"):format(last) or units.time(last / 1000), "end")
  return picture.of(height, parts)
end

-- Of each device whose limits are known.
local function rooflines(groups)
  local devices, by, out = {}, {}, {}
  for i, g in ipairs(groups) do
    local k = g.first
    local d = by[k.device]
    if not d then
      d = { name = k.device, most_bytes = 0, points = {}, roofs = {}, seen = {}, simulated = k.simulated }
      by[k.device], devices[#devices + 1] = d, d
    end
    d.most_bytes = math.max(d.most_bytes, k.most_bytes)
    if k.most_flops > 0 and not d.seen[k.most_flops] then
      d.seen[k.most_flops], d.roofs[#d.roofs + 1] = true, { rate = k.most_flops, word = "in the types of " .. k.name }
    end
    d.points[#d.points + 1] = { what = k.name, bytes = k.bytes, flops = k.flops, usec = k.usec, colour = colour(i), most = k.most_flops > 0 and k.most_flops or nil }
  end
  for _, d in ipairs(devices) do
    out[#out + 1] = ("<h2>Roofline of %s</h2>"):format(escaped(d.name))
    if d.simulated then out[#out + 1] = "<p>None is known: the device is simulated, and its cycles are statements of the interpreter.</p>"
    elseif d.most_bytes > 0 and #d.roofs > 0 then
      out[#out + 1] = picture.roofline(d.points, { rate = d.most_bytes, word = "its memory" }, d.roofs)
      out[#out + 1] = "<p>Roofs are what the device can do; its cache lifts points above that of memory.</p>"
    else out[#out + 1] = "<p>The limits of this device are not known.</p>" end
  end
  return table.concat(out)
end

--- The sections for launches of kernels.run.
function html.sections(list)
  local groups, total = kernels.groups(list)
  local out = { "<h2>Kernels on devices</h2>", table_of(groups, total) }
  for i = 1, math.min(#groups, MOST_KERNELS) do
    local k = groups[i].first
    out[#out + 1] = ('<h2><i style="background:%s"></i>%s on %s</h2><p>%d blocks of %d threads%s. Its limit: %s.</p>'):format(colour(i), escaped(k.name),
      escaped(k.device), k.grid, k.threads, kernels.recorded(k), escaped(kernels.limit(k)))
    if k.turns > 0 then out[#out + 1] = "<h3>Stages of its warps</h3>" .. stages(k) end
    if next(k.processors) then out[#out + 1] = "<h3>Blocks on its processors</h3>" .. processors(k) end
  end
  if #groups > MOST_KERNELS then out[#out + 1] = ("<p>%d more kernels</p>"):format(#groups - MOST_KERNELS) end
  out[#out + 1] = rooflines(groups)
  return table.concat(out)
end

return html
