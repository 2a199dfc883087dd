-- The page of a profile: one file without anything outside of it. Times by instruction, a timeline of
-- the last run over the threads, stages of kernels, the roofline: what each instruction does and
-- moves, under what this machine does now, measured when the page is made; and the program beside what became of it.
-- tessera.profile calls it.

local machine = require "tessera.machine"
local page = require "tessera.profile.page"
local picture = require "tessera.profile.picture"
local source_html = require "tessera.profile.source_html"
local units = require "tessera.units"

local html = {}

local colour, escaped = picture.colour, picture.escaped
local MOST_ROWS = 1000 -- of a table

local function table_of(rows, total)
  local out = { "<div class=\"wide\"><table><tr><th>time</th><th>part</th><th>GB/s</th><th>GFLOP/s</th><th>instruction</th></tr>" }
  for i = 1, math.min(#rows, MOST_ROWS) do
    local row = rows[i]
    local place = row.place and ' <span class="place">' .. escaped(row.place) .. "</span>" or ""
    out[#out + 1] = ('<tr%s><td>%s</td><td>%.1f%%</td><td>%s</td><td>%s</td><td style="padding-left:%dem">' ..
      '<i style="background:%s"></i>%s%s%s</td></tr>'):format(source_html.at(row.place or row.what), units.time(row.usec), 100 * row.usec / total,
      row.bytes > 0 and ("%.3g"):format(row.bytes / row.usec / 1e3) or "",
      row.flops > 0 and ("%.3g"):format(row.flops / row.usec / 1e3) or "", row.depth, colour(i),
      escaped(row.what), row.calls > 1 and (" (%d times)"):format(row.calls) or "", place)
  end
  if #rows > MOST_ROWS then out[#out + 1] = ("<tr><td></td><td></td><td></td><td></td><td>%d more</td></tr>"):format(#rows - MOST_ROWS) end
  return table.concat(out, "\n") .. "</table></div>"
end

local function timeline(rows, run)
  local index, lanes, last = {}, {}, 0
  for i, row in ipairs(rows) do index[row.key] = i end
  local function bar(lane, s, i, title, place)
    last = math.max(last, lane)
    lanes[lane] = lanes[lane] or {}
    table.insert(lanes[lane], { from = s.start, to = s.start + s.usec, fill = colour(i), title = title, at = source_html.at(place) })
  end
  for _, s in ipairs(run.steps) do
    local i = index[s.depth .. "|" .. s.what .. "|" .. (s.place or "") .. "|" .. s.bytes] or 1
    local place = s.place or s.what
    bar(1, s, i, s.what, place)
    for _, p in ipairs(s.phases) do bar(p.thread + 2, p, i, ("%s, phase %d"):format(s.what, p.phase), place) end
  end
  local list = {}
  for lane = 1, last do
    if lanes[lane] then
      lanes[lane].name = lane == 1 and "instructions" or "thread " .. lane - 2
      list[#list + 1] = lanes[lane]
    end
  end
  return picture.lanes(list, run.usec)
end

-- A bar for each phase of each kernel.
local function stages(rows)
  local parts, y = {}, 0
  for _, row in ipairs(rows) do
    local last = -1
    for phase in pairs(row.stages or {}) do last = math.max(last, phase) end
    for n = 0, last do
      local phase = row.stages[n]
      if phase and #phase.list > 0 then
        local list = {}
        for i, s in ipairs(phase.list) do list[i] = { name = s.name, part = s.part, more = ("%.0f times"):format(s.count) } end
        y = picture.bars(parts, y, ("%s, phase %d"):format(row.what, n), list, phase.rest)
      end
    end
  end
  return y > 0 and "<h2>Stages of kernels</h2>" .. picture.of(y, parts) or ""
end

-- Kernels of devices, as kernels.run has them, if there are any.
local function inside_of(list)
  return #list > 0 and require("tessera.profile.kernel_html").sections(list) or ""
end

--- The page as text: a captured function or a kernel, its name, rows and the last run as profile.lua has them, microseconds
--- of a run, sentences, kernels of devices, and what these sent each other.
function html.text(f, name, rows, run, total, said, inside, collectives)
  local body = { "<p>", (escaped(said):gsub("\n +", " "):gsub("\n(.)", "<br>%1")), "</p>", table_of(rows, total), "<h2>What ran when</h2>", timeline(rows, run),
    require("tessera.profile.sent").html(collectives, run.times, run.usec), stages(rows) }
  if #inside == 0 then -- times of instructions are those of the CPU
    local bandwidth, compute = machine.roofs()
    local points = {}
    for i = 1, math.min(#rows, MOST_ROWS) do
      local row = rows[i]
      points[i] = { what = row.what, bytes = row.bytes, flops = row.flops, usec = row.usec, colour = colour(i), at = source_html.at(row.place or row.what) }
    end
    body[#body + 1] = "<h2>Roofline</h2>" .. picture.roofline(points, { rate = bandwidth * 1e9, word = "x + 1" }, { { rate = compute * 1e9, word = "a product" } })
    body[#body + 1] = "<p>Roofs are what this machine did when the page was made; caches lift points above them.</p>"
  end
  body[#body + 1] = inside_of(inside)
  body[#body + 1] = source_html.of(f)
  return page.of(name, name .. ": " .. units.time(total), table.concat(body))
end

--- The page of a program: r, its sentence and words of its tree as program_profile.lua has them, and kernels of devices.
function html.program(r, said, word_of, inside)
  return require("tessera.profile.program_html").text(r, said, word_of, inside_of(inside))
end

return html
