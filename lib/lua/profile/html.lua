-- The page of a profile: one file without anything outside of it. Times by instruction, a timeline of
-- the last run over the threads, stages of kernels, and the roofline: what each instruction does and
-- moves, under what this machine does now, measured when the page is made. tessera.profile calls it.

local machine = require "tessera.machine"
local picture = require "tessera.profile.picture"
local units = require "tessera.units"

local page = {}

local WIDTH, LEFT = picture.width, picture.left
local colour, escaped, rectangle, text_at = picture.colour, picture.escaped, picture.rectangle, picture.text_at

local function table_of(rows, total)
  local out = { "<table><tr><th>time</th><th>part</th><th>GB/s</th><th>GFLOP/s</th><th>instruction</th></tr>" }
  for i, row in ipairs(rows) do
    local place = row.place and ' <span class="place">' .. escaped(row.place) .. "</span>" or ""
    out[#out + 1] = ('<tr><td>%s</td><td>%.1f%%</td><td>%s</td><td>%s</td><td style="padding-left:%dem">' ..
      '<i style="background:%s"></i>%s%s%s</td></tr>'):format(units.time(row.usec), 100 * row.usec / total,
      row.bytes > 0 and ("%.3g"):format(row.bytes / row.usec / 1e3) or "",
      row.flops > 0 and ("%.3g"):format(row.flops / row.usec / 1e3) or "", row.depth, colour(i),
      escaped(row.what), row.calls > 1 and (" (%d times)"):format(row.calls) or "", place)
  end
  return table.concat(out, "\n") .. "</table>"
end

local function timeline(rows, run)
  local index, parts, last = {}, {}, 0
  for i, row in ipairs(rows) do index[row.key] = i end
  local scale = (WIDTH - LEFT) / run.usec
  local function bar(thread, s, i, title)
    last = math.max(last, thread)
    parts[#parts + 1] = rectangle(LEFT + s.start * scale, 22 * thread + 4, s.usec * scale, 18, colour(i),
      title .. ", " .. units.time(s.usec))
  end
  for _, s in ipairs(run.steps) do
    local i = index[s.depth .. "|" .. s.what .. "|" .. (s.place or "") .. "|" .. s.bytes] or 1
    if #s.phases == 0 then bar(0, s, i, s.what) end
    for _, p in ipairs(s.phases) do bar(p.thread, p, i, ("%s, phase %d"):format(s.what, p.phase)) end
  end
  for t = 0, last do parts[#parts + 1] = text_at(0, 22 * t + 17, "thread " .. t) end
  local height = 22 * (last + 1) + 24
  parts[#parts + 1] = text_at(LEFT, height - 6, "0")
  parts[#parts + 1] = text_at(WIDTH, height - 6, units.time(run.usec), "end")
  return picture.of(height, parts)
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

local style = [[
body { font: 14px sans-serif; margin: 2em auto; max-width: 920px; color: #222 }
h1 { font-size: 1.4em } h2 { font-size: 1.1em; margin-top: 2em }
table { border-collapse: collapse } td, th { padding: 2px 10px; text-align: right }
td:last-child, th:last-child { text-align: left } tr:nth-child(even) { background: #f4f4f4 }
i { display: inline-block; width: 10px; height: 10px; margin-right: 6px }
.place { color: #888 } pre { overflow-x: auto } svg text { font: 12px sans-serif; fill: #222 }
]]

local function page_of(name, head, body)
  return table.concat { '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>', escaped(name), "</title><style>", style,
    "</style></head><body><h1>", escaped(head), "</h1>", body, "</body></html>\n" }
end

-- Kernels of devices, as kernels.run has them, if there are any.
local function inside_of(list)
  return #list > 0 and require("tessera.profile.kernel_html").sections(list) or ""
end

--- The page as text: rows and the last run as profile.lua has them, microseconds of a run, sentences, and kernels of
--- devices.
function page.text(name, rows, run, total, said, inside)
  local body = { "<p>", (escaped(said):gsub("\n", "<br>")), "</p>", table_of(rows, total), "<h2>Threads</h2>", timeline(rows, run),
    stages(rows) }
  if #inside == 0 then -- times of instructions are those of the CPU
    local bandwidth, compute = machine.roofs()
    local points = {}
    for i, row in ipairs(rows) do
      points[i] = { what = row.what, bytes = row.bytes, flops = row.flops, usec = row.usec, colour = colour(i) }
    end
    body[#body + 1] = "<h2>Roofline</h2>" .. picture.roofline(points, { rate = bandwidth * 1e9, word = "x + 1" }, { { rate = compute * 1e9, word = "a product" } })
    body[#body + 1] = "<p>Roofs are what this machine did when the page was made; caches lift points above them.</p>"
  end
  body[#body + 1] = inside_of(inside)
  return page_of(name, name .. ": " .. units.time(total), table.concat(body))
end

--- The page of what is no captured function: the text of its tree, and kernels of devices.
function page.program(text, inside)
  return page_of("profile", "Profile", "<pre>" .. escaped(text) .. "</pre>" .. inside_of(inside))
end

return page
