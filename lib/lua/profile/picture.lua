-- Pictures of a profile's page, as SVG without anything outside of it: bars, lines, words, the roofline.
-- html.lua and kernel_html.lua draw with it.

local units = require "tessera.units"

local picture = { width = 900, left = 70 }

local WIDTH, LEFT = picture.width, picture.left
local colours = { "#4878a8", "#c8763c", "#5c9460", "#a8566c", "#7a68a8", "#8c8048", "#4c9498", "#98685c" }
function picture.colour(i) return colours[(i - 1) % #colours + 1] end

function picture.escaped(text)
  return (tostring(text):gsub("[&<>\"]", { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;" }))
end
local escaped = picture.escaped

--- at: an attribute of source_html.at, or nothing.
function picture.rectangle(x, y, w, h, fill, title, at)
  return ('<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"%s><title>%s</title></rect>'):format(
    x, y, math.max(w, 0.5), h, fill, at or "", escaped(title))
end

function picture.text_at(x, y, text, anchor, class)
  return ('<text x="%.1f" y="%.1f" text-anchor="%s"%s>%s</text>'):format(x, y, anchor or "start", class and (' class="%s"'):format(class) or "", escaped(text))
end
local text_at = picture.text_at

--- class: "roof", or nil for axes.
function picture.line(x1, y1, x2, y2, class)
  return ('<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"%s/>'):format(x1, y1, x2, y2, class and (' class="%s"'):format(class) or "")
end
local line_of = picture.line

function picture.of(height, parts)
  return ('<svg viewBox="0 0 %d %d" width="%d">%s</svg>'):format(WIDTH, height, WIDTH, table.concat(parts))
end

-- Of a time a round number of which four to eight fit.
local function step_of(usec)
  local step = 10 ^ math.floor(math.log10(usec / 4))
  for _, times in ipairs { 5, 2 } do
    if usec / (step * times) >= 4 then return step * times end
  end
  return step
end

local GREY, NARROW = "#9aa2aa", 0.7 -- of bars that are several; what cannot be told apart, in units of the picture

--- A timeline: lanes {name, {from, to, fill, title, at}..} below each other, over so many microseconds. Neighbours too narrow
--- to be seen are one bar, so the picture stays small whatever ran.
function picture.lanes(lanes, usec)
  local left, parts = LEFT + 40, {}
  local scale = (WIDTH - left - 30) / math.max(usec, 1e-9)
  local height = 26 * #lanes
  local step = step_of(math.max(usec, 1e-3))
  for at = 0, usec, step do
    parts[#parts + 1] = line_of(left + at * scale, 0, left + at * scale, height + 4)
    parts[#parts + 1] = text_at(left + at * scale, height + 18, units.time(at), "middle", "dim")
  end
  for i, lane in ipairs(lanes) do
    local y, last = 26 * (i - 1) + 4, nil
    table.sort(lane, function(a, b) return a.from < b.from or a.from == b.from and a.to > b.to end)
    local function draw()
      if not last then return end
      local title = last.n > 1 and ("%s and %d more, %s"):format(last.title, last.n - 1, units.time(last.to - last.from)) or
        ("%s, %s"):format(last.title, units.time(last.to - last.from))
      parts[#parts + 1] = picture.rectangle(left + last.from * scale, y, (last.to - last.from) * scale, 18, last.fill, title, last.n == 1 and last.at or nil)
    end
    for _, bar in ipairs(lane) do
      if last and (bar.to - bar.from) * scale < NARROW and (bar.from - last.to) * scale < NARROW and (last.n > 1 or (last.to - last.from) * scale < NARROW) then
        last.n, last.to = last.n + 1, math.max(last.to, bar.to)
        if last.title ~= bar.title then last.fill = GREY end
      else
        draw()
        last = { from = bar.from, to = bar.to, fill = bar.fill, title = bar.title, at = bar.at, n = 1 }
      end
    end
    draw()
    local name = #lane.name > 15 and lane.name:sub(1, 14) .. ".." or lane.name
    parts[#parts + 1] = text_at(0, y + 13, name)
  end
  return picture.of(height + 24, parts)
end

--- Bars one behind another from the left edge: {name, part, more, fill} each, their words below. Returns the next y.
function picture.bars(parts, y, title, list, rest)
  local x, words = LEFT, {}
  parts[#parts + 1] = text_at(LEFT, y + 14, title)
  for i, s in ipairs(list) do
    local w = (WIDTH - LEFT) * s.part
    local said = ("%s %s"):format(s.name, units.percent(s.part))
    parts[#parts + 1] = picture.rectangle(x, y + 20, w, 18, s.fill or picture.colour(i), said .. ", " .. s.more)
    x = x + w
    if s.part >= 0.005 then words[#words + 1] = said end
  end
  if rest then words[#words + 1] = "between " .. units.percent(rest) end
  parts[#parts + 1] = text_at(LEFT, y + 52, table.concat(words, ", "))
  return y + 64
end

--- Operations a second over operations a byte, both logarithmic, under the limits: bytes a second, {rate, word},
--- and operations a second, a list of such. rows: {what, bytes, flops, usec, colour}.
function picture.roofline(rows, bandwidth, roofs)
  local height, bottom, top, left = 370, 320, 20, LEFT + 30
  local most_rate = 0
  for _, roof in ipairs(roofs) do most_rate = math.max(most_rate, roof.rate) end
  local least, most, low, high = 2 ^ -6, 2 ^ 12, most_rate / 2 ^ 18, 2 * most_rate
  local function x_of(v)
    v = math.min(math.max(v, least), most)
    return left + (WIDTH - left - 20) * math.log(v / least) / math.log(most / least)
  end
  local function y_of(v)
    return bottom - (bottom - top) * math.log(math.min(math.max(v, low), high) / low) / math.log(high / low)
  end
  local parts = { line_of(left, bottom, WIDTH, bottom), line_of(left, 10, left, bottom) }
  local ridge = most_rate / bandwidth.rate
  local from = math.max(least, low / bandwidth.rate) -- where the roof of memory comes into the picture
  parts[#parts + 1] = line_of(x_of(from), y_of(from * bandwidth.rate), x_of(ridge), y_of(most_rate), "roof")
  local middle = math.sqrt(from * ridge)
  parts[#parts + 1] = text_at(x_of(middle) + 14, y_of(middle * bandwidth.rate) + 16, units.rate(bandwidth.rate, "B/s, ") .. bandwidth.word)
  for _, roof in ipairs(roofs) do
    parts[#parts + 1] = line_of(x_of(roof.rate / bandwidth.rate), y_of(roof.rate), x_of(most), y_of(roof.rate), "roof")
    parts[#parts + 1] = text_at(x_of(most), y_of(roof.rate) - 5, units.rate(roof.rate, "FLOP/s, ") .. roof.word, "end")
  end
  for i = -6, 12, 2 do
    local label = i < 0 and ("1/%d"):format(2 ^ -i) or ("%d"):format(2 ^ i)
    parts[#parts + 1] = text_at(x_of(2 ^ i), bottom + 16, label, "middle")
  end
  for i = math.ceil(math.log10(low)), math.floor(math.log10(high)) do
    local y = y_of(10 ^ i)
    parts[#parts + 1] = line_of(left - 4, y, left, y)
    parts[#parts + 1] = text_at(left - 6, y + 4, units.rate(10 ^ i, ""):gsub("%.00", ""):gsub("%.0 ", " "), "end")
  end
  parts[#parts + 1] = text_at(WIDTH, bottom + 34, "operations a byte (FLOP/B)", "end")
  parts[#parts + 1] = ('<text x="12" y="%d" text-anchor="middle" transform="rotate(-90 12 %d)">operations a second (FLOP/s)</text>'):format(
    (bottom + top) / 2, (bottom + top) / 2)
  for _, row in ipairs(rows) do
    if row.flops > 0 and row.bytes > 0 and row.usec > 0 then
      local rate, intensity = row.flops / row.usec * 1e6, row.flops / row.bytes
      parts[#parts + 1] = ('<circle cx="%.1f" cy="%.1f" r="6" fill="%s"%s><title>%s: %.3g operations a byte, ' ..
        '%s, %s of the roof</title></circle>'):format(x_of(intensity), y_of(rate), row.colour, row.at or "", escaped(row.what), intensity,
        units.rate(rate, "FLOP/s"), units.percent(rate / math.min(row.most or most_rate, bandwidth.rate * intensity)))
    end
  end
  return picture.of(height, parts)
end

return picture
