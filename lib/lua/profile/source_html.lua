-- The program beside what became of it: lines of Lua, and the texts of a function's levels, each line of which says from
-- where in the program it comes. The pointer on one lights up the others (page.lua).
--
--   local sections, at = source_html.of(f)     -- HTML; at("model.lua:12") is an attribute that lights up with them

local picture = require "tessera.profile.picture"

local source_html = {}

local LEVELS = { "places", "schedule", "tile", "explicit", "bytecode" }
local NAMES = { places = "graph" }
local AROUND, MOST_LINES, MOST_BYTES, MOST_WIDTH = 3, 600, 400000, 400

-- ---- places
--- Places in a line of text, as a list of "file:12": "matmul at model.lua:12,14" has two.
local function places_of(text)
  local list = {}
  for file, numbers in text:gmatch "([^%s,:|\"]+):(%d[%d,]*)" do
    if file:find "%.%w+$" or file:find "/" then
      for n in numbers:gmatch "%d+" do list[#list + 1] = file .. ":" .. n end
    end
  end
  return list
end

--- The attribute of an element that stands for places in a text, or nothing.
function source_html.at(text)
  local list = text and places_of(text) or {}
  return #list > 0 and ' data-at="' .. picture.escaped(table.concat(list, "|")) .. '"' or ""
end

-- ---- texts of levels
local function level_text(f, level)
  local ok, text = pcall(f.ir, f, level)
  if not ok or type(text) ~= "string" or text == "" then return nil end
  if #text <= MOST_BYTES then return text end
  local from = text:sub(1, MOST_BYTES / 2):match "^(.*\n)"
  return (from or "") .. ("// .. %d bytes ..\n"):format(#text - MOST_BYTES) .. text:sub(-MOST_BYTES / 2):match "\n(.*)$"
end

local function code_of(text, mentioned)
  local out = {}
  for line in (text:gsub("\n+$", "") .. "\n"):gmatch "([^\n]*)\n" do
    for _, at in ipairs(places_of(line)) do mentioned[at] = true end
    local code, comment = line:match "^(.-)(//.*)$"
    if not code or #line > MOST_WIDTH then code, comment = line == "" and " " or #line > MOST_WIDTH and line:sub(1, MOST_WIDTH) .. " .." or line, nil end
    out[#out + 1] = ("<div%s>%s%s</div>"):format(source_html.at(line), picture.escaped(code), comment and '<span class="dim">' .. picture.escaped(comment) .. "</span>" or "")
  end
  return table.concat(out, "\n")
end

-- ---- lines of Lua
local function lines_of(file)
  return require("tessera.comments").lines_of("@" .. file)
end

-- Numbers of the lines of each file to show: those that are mentioned, some around, and the function's own.
local function wanted_lines(f, mentioned)
  local by = {}
  local function want(file, from, to)
    by[file] = by[file] or {}
    for n = math.max(1, from), to do by[file][n] = true end
  end
  for at in pairs(mentioned) do
    local file, n = at:match "^(.*):(%d+)$"
    want(file, n - AROUND, n + AROUND)
  end
  local body = type(f.body) == "function" and debug.getinfo(f.body, "S")
  local file = body and body.source:match "^@(.*)"
  if file and by[file] then want(file, body.linedefined, math.min(body.lastlinedefined, body.linedefined + 200)) end
  return by
end

local function program_of(f, mentioned)
  local out, names, shown = {}, {}, 0
  local by = wanted_lines(f, mentioned)
  for file in pairs(by) do names[#names + 1] = file end
  table.sort(names)
  for _, file in ipairs(names) do
    local lines, numbers = lines_of(file), {}
    if lines then
      for n in pairs(by[file]) do
        if n <= #lines then numbers[#numbers + 1] = n end
      end
      table.sort(numbers)
      out[#out + 1] = ('<div class="name">%s</div>'):format(picture.escaped(file))
      for i, n in ipairs(numbers) do
        if shown >= MOST_LINES then break end
        shown = shown + 1
        if i > 1 and numbers[i - 1] ~= n - 1 then out[#out + 1] = '<div class="name">..</div>' end
        local at = file .. ":" .. n
        out[#out + 1] = ("<div%s><b>%d</b>%s</div>"):format(mentioned[at] and source_html.at(at) or "", n, picture.escaped(lines[n]:sub(1, MOST_WIDTH)))
      end
    end
  end
  return #out > 0 and table.concat(out, "\n") or "<div>The program's file is not there.</div>"
end

--- The section of a captured function or a kernel of op.kernel, or nothing where it has no text.
function source_html.of(f)
  local texts, buttons, mentioned = {}, {}, {}
  for _, level in ipairs(LEVELS) do
    local text = level_text(f, level)
    if text then texts[#texts + 1] = { level = NAMES[level] or level, code = code_of(text, mentioned) } end
  end
  if #texts == 0 then return "" end
  local chosen -- tiles where they say from where they come, else the first text that does
  for _, t in ipairs(texts) do
    if t.code:find "data%-at" and (not chosen or t.level == "tile") then chosen = t.level end
  end
  chosen = chosen or texts[1].level
  local codes = {}
  for i, t in ipairs(texts) do
    buttons[i] = ('<button data-level="%s" aria-pressed="%s">%s</button>'):format(t.level, tostring(t.level == chosen), t.level)
    codes[i] = ('<div class="code" data-level="%s"%s>%s</div>'):format(t.level, t.level == chosen and "" or " hidden", t.code)
  end
  return table.concat { "<h2>The program, and what runs</h2><p>The pointer on a line shows what became of it, and the other way round.</p><div>",
    table.concat(buttons), '</div><div class="both"><div class="code" id="program">', program_of(f, mentioned), "</div><div>", table.concat(codes, "\n"), "</div></div>" }
end

return source_html
