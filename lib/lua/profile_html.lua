-- The page of a profile: one file without anything outside of it. Times by instruction, a timeline of
-- the last run over the threads, stages of kernels, and the roofline: what each instruction does and
-- moves, under what this machine does now, measured when the page is made. tessera.profile calls it.

local machine = require "tessera.machine"

local page = {}

local WIDTH, LEFT = 900, 70
local colours = { "#4878a8", "#c8763c", "#5c9460", "#a8566c", "#7a68a8", "#8c8048", "#4c9498", "#98685c" }
local function colour(i) return colours[(i - 1) % #colours + 1] end

local function escaped(text)
  return (tostring(text):gsub("[&<>\"]", { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;" }))
end

local function time_text(usec)
  if usec >= 1000 then return ("%.2f ms"):format(usec / 1000) end
  return ("%.1f us"):format(usec)
end

-- ---- parts of the page
local function rectangle(x, y, w, h, fill, title)
  return ('<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"><title>%s</title></rect>'):format(
    x, y, math.max(w, 0.5), h, fill, escaped(title))
end

local function text_at(x, y, text, anchor)
  return ('<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>'):format(x, y, anchor or "start", escaped(text))
end

local function line_of(x1, y1, x2, y2, stroke)
  return ('<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s"/>'):format(x1, y1, x2, y2, stroke)
end

local function picture(height, parts)
  return ('<svg viewBox="0 0 %d %d" width="%d">%s</svg>'):format(WIDTH, height, WIDTH, table.concat(parts))
end

local function table_of(rows, total)
  local out = { "<table><tr><th>time</th><th>part</th><th>GB/s</th><th>GFLOP/s</th><th>instruction</th></tr>" }
  for i, row in ipairs(rows) do
    local place = row.place and ' <span class="place">' .. escaped(row.place) .. "</span>" or ""
    out[#out + 1] = ('<tr><td>%s</td><td>%.1f%%</td><td>%s</td><td>%s</td><td style="padding-left:%dem">' ..
      '<i style="background:%s"></i>%s%s%s</td></tr>'):format(time_text(row.usec), 100 * row.usec / total,
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
      title .. ", " .. time_text(s.usec))
  end
  for _, s in ipairs(run.steps) do
    local i = index[s.depth .. "|" .. s.what .. "|" .. (s.place or "") .. "|" .. s.bytes] or 1
    if #s.phases == 0 then bar(0, s, i, s.what) end
    for _, p in ipairs(s.phases) do bar(p.thread, p, i, ("%s, phase %d"):format(s.what, p.phase)) end
  end
  for t = 0, last do parts[#parts + 1] = text_at(0, 22 * t + 17, "thread " .. t) end
  local height = 22 * (last + 1) + 24
  parts[#parts + 1] = text_at(LEFT, height - 6, "0")
  parts[#parts + 1] = text_at(WIDTH, height - 6, time_text(run.usec), "end")
  return picture(height, parts)
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
        local x, words = LEFT, {}
        parts[#parts + 1] = text_at(LEFT, y + 14, ("%s, phase %d"):format(row.what, n))
        for i, s in ipairs(phase.list) do
          local w = (WIDTH - LEFT) * s.part
          local said = ("%s %.0f%%"):format(s.name, 100 * s.part)
          parts[#parts + 1] = rectangle(x, y + 20, w, 18, colour(i), ("%s, %.0f times"):format(said, s.count))
          x, words[i] = x + w, said
        end
        parts[#parts + 1] = text_at(LEFT, y + 52, table.concat(words, ", ") ..
          (", between %.0f%%"):format(100 * phase.rest))
        y = y + 64
      end
    end
  end
  return y > 0 and "<h2>Stages of kernels</h2>" .. picture(y, parts) or ""
end

-- Logarithms of operations a byte to the right, of operations a second upwards.
local function roofline(rows, bandwidth, compute)
  local height, bottom = 360, 320
  local least, most, low = 2 ^ -6, 2 ^ 10, compute / 2 ^ 14
  local function x_of(v)
    v = math.min(math.max(v, least), most)
    return LEFT + (WIDTH - LEFT - 10) * math.log(v / least) / math.log(most / least)
  end
  local function y_of(v)
    return bottom - (bottom - 20) * math.log(math.min(math.max(v, low), 2 * compute) / low) / math.log(2 * compute / low)
  end
  local parts = { line_of(LEFT, bottom, WIDTH, bottom, "#888"), line_of(LEFT, 10, LEFT, bottom, "#888") }
  local ridge = compute / bandwidth
  parts[#parts + 1] = line_of(x_of(least), y_of(least * bandwidth), x_of(ridge), y_of(compute), "#222")
  parts[#parts + 1] = line_of(x_of(ridge), y_of(compute), x_of(most), y_of(compute), "#222")
  parts[#parts + 1] = text_at(x_of(most), y_of(compute) - 5, ("%.3g GFLOP/s, a product"):format(compute), "end")
  parts[#parts + 1] = text_at(x_of(least) + 4, y_of(least * bandwidth) - 30, ("%.3g GB/s, x + 1"):format(bandwidth))
  for i = -6, 10, 2 do
    local label = i < 0 and ("1/%d"):format(2 ^ -i) or ("%d"):format(2 ^ i)
    parts[#parts + 1] = text_at(x_of(2 ^ i), bottom + 16, label, "middle")
  end
  parts[#parts + 1] = text_at(WIDTH, bottom + 34, "operations a byte", "end")
  for i, row in ipairs(rows) do
    if row.flops > 0 and row.bytes > 0 then
      local rate = row.flops / row.usec / 1e3
      parts[#parts + 1] = ('<circle cx="%.1f" cy="%.1f" r="6" fill="%s"><title>%s: %.3g operations a byte, ' ..
        '%.3g GFLOP/s, %.0f%% of the roof</title></circle>'):format(x_of(row.flops / row.bytes), y_of(rate), colour(i),
        escaped(row.what), row.flops / row.bytes, rate,
        100 * rate / math.min(compute, bandwidth * row.flops / row.bytes))
    end
  end
  return picture(height, parts)
end

local style = [[
body { font: 14px sans-serif; margin: 2em auto; max-width: 920px; color: #222 }
h1 { font-size: 1.4em } h2 { font-size: 1.1em; margin-top: 2em }
table { border-collapse: collapse } td, th { padding: 2px 10px; text-align: right }
td:last-child, th:last-child { text-align: left } tr:nth-child(even) { background: #f4f4f4 }
i { display: inline-block; width: 10px; height: 10px; margin-right: 6px }
.place { color: #888 } svg text { font: 12px sans-serif; fill: #222 }
]]

--- The page as text: rows and the last run as profile.lua has them, microseconds of a run, and
--- sentences.
function page.text(name, rows, run, total, said)
  local bandwidth, compute = machine.roofs()
  return table.concat({ '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>', escaped(name),
    "</title><style>", style, "</style></head><body><h1>", escaped(name), ": ", time_text(total), "</h1><p>",
    (escaped(said):gsub("\n", "<br>")), "</p>", table_of(rows, total), "<h2>Threads</h2>", timeline(rows, run),
    stages(rows), "<h2>Roofline</h2>", roofline(rows, bandwidth, compute),
    "<p>Roofs are what this machine did when the page was made; caches lift points above them.</p></body></html>\n" })
end

return page
