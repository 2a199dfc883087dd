-- Long text at a terminal, a screen at a time: Enter goes on, q ends, a number or a name shows one part of a text that has
-- parts, as the kernels of `:ir f tile`; what is typed there and looks like an input of the prompt ends it, and is the next
-- one. $PAGER, where it is set, has all of it instead. Where no terminal reads and shows, or
-- the text fits, it is written as it is.

local core = require "tessera.core"
local console = require "tessera.console"

local pager = { on = true }
local write = io.write

-- Where lines begin, not the lines: of a text of megabytes a screen is shown. Those from `from` to `to`; the line behind the
-- last one of all begins behind what ends that.
local function lines_of(text)
  local at, n, from, size = {}, 0, 1, #text
  while from <= size do
    n = n + 1
    at[n] = from
    from = (text:find("\n", from, true) or size + 1) + 1
  end
  at[n + 1] = from
  return { text = text, at = at, from = 1, to = n }
end
local function line_of(lines, i) return lines.text:sub(lines.at[i], lines.at[i + 1] - 2) end

-- Rows of the terminal that line i takes.
local function rows_of(lines, i, width) return math.max(1, math.ceil((lines.at[i + 1] - 1 - lines.at[i]) / width)) end

local function fits(lines, rows, width)
  local n = 0
  for i = lines.from, lines.to do
    n = n + rows_of(lines, i, width)
    if n >= rows then return false end
  end
  return true
end

-- The parts of a text that numbers or names them at the beginnings of lines: "// group 0: matmul", "tile @name(..) {".
local SPACE, TAB, PERCENT = (" \t%"):byte(1, 3)
local function parts_of(lines)
  local parts, grouped = {}, false
  for i = lines.from, lines.to do
    local first = lines.text:byte(lines.at[i])
    if first ~= SPACE and first ~= TAB and first ~= PERCENT then -- most lines by far
      local line = line_of(lines, i)
      local number, group = line:match "^[/;#]+ group ([%w/.]+): (.*)$"
      local name = group or not grouped and line:match "^%a+ @([%w_.]+)"
      grouped = grouped or group ~= nil
      if name then parts[#parts + 1] = { number = number or tostring(#parts + 1), name = name, from = i } end
    end
  end
  for i, p in ipairs(parts) do p.to = parts[i + 1] and parts[i + 1].from - 1 or lines.to end
  return #parts > 1 and parts or {}
end

-- A command, or Lua that is more than a word.
local function is_input(answer)
  return answer:find "^%s*[:?!]" ~= nil or answer:find "[=(\"'{]" ~= nil and loadstring("return " .. answer) ~= nil or
    answer:find "=" ~= nil and loadstring(answer) ~= nil
end

local function find(parts, word)
  for _, p in ipairs(parts) do
    if p.number == word or p.name == word then return p end
  end
  for _, p in ipairs(parts) do
    if p.name:find(word, 1, true) then return p end
  end
end

local function list(parts)
  local out = {}
  for i, p in ipairs(parts) do out[i] = ("%3s  %s"):format(p.number, p.name) end
  return lines_of(table.concat(out, "\n"))
end

-- where: "39 of 1200 lines".
local function ask(where, parts)
  local how = parts[1] and ("Enter: on, %s-%s or a name: that kernel, l: their list, q: end"):format(parts[1].number,
    parts[#parts].number) or "Enter: on, q: end"
  write(("-- %s; %s: "):format(where, how))
  io.flush()
  return io.read()
end

local show

-- Asks until it is known how it goes on: "on", "end", or "input", one of the prompt that was typed here. lines(part): the
-- lines of one part.
local function answered(where, parts, lines, rows, width)
  while true do
    local answer = ask(where, parts)
    local part = answer and answer ~= "" and find(parts, answer)
    if not answer or answer == "q" then return "end" end
    if answer == "" then return "on" end
    if answer == "l" and parts[1] then
      if show(list(parts), {}, rows, width) then return "input" end
    elseif part then
      if show(lines(part), {}, rows, width) then return "input" end
    elseif is_input(answer) then
      console.next_input(answer)
      return "input"
    else
      write(("there is no part '%s' here\n"):format(core.shown(answer, 40)))
    end
  end
end

-- True: an input was typed.
function show(lines, parts, rows, width)
  local at = lines.from
  while at <= lines.to do
    local left = rows - 1
    while at <= lines.to do
      left = left - rows_of(lines, at, width)
      if left < 0 and left < rows - 2 then break end
      write(line_of(lines, at), "\n")
      at = at + 1
    end
    if at <= lines.to then
      local how = answered(("%d of %d lines"):format(at - lines.from, lines.to - lines.from + 1), parts,
        function(part) return { text = lines.text, at = lines.at, from = part.from, to = part.to } end, rows, width)
      if how ~= "on" then return how == "input" end
    end
  end
end

-- The same of parts whose texts are made when they are shown: parts[i].text().
local function show_made(parts, rows, width)
  local left, shown = rows - 1, 0
  local function lines(part)
    part.lines = part.lines or lines_of(part.text())
    return part.lines
  end
  for i, part in ipairs(parts) do
    local of = lines(part)
    for at = of.from, of.to do
      local need = rows_of(of, at, width)
      if left < need and left < rows - 1 then
        local where = ("%d lines, in kernel %s, the %d. of %d"):format(shown, part.number, i, #parts)
        if answered(where, parts, lines, rows, width) ~= "on" then return end
        left = rows - 1
      end
      write(line_of(of, at), "\n")
      left, shown = left - need, shown + 1
    end
  end
end

local function outside(text)
  local name = os.tmpname()
  local file = io.open(name, "w")
  if not file then return false end
  file:write(text)
  file:close()
  local status = os.execute(("%s < %s"):format(os.getenv "PAGER", name))
  os.remove(name)
  return status == 0
end

-- A line in pieces of at most so many columns; those behind the first stand further in.
local function broken_line(line, width, out)
  local indent = (" "):rep(math.min(#line:match "^ *" + 4, math.floor(width / 2)))
  while #line > width do
    local cut = line:sub(1, width + 1):match "^(.*%S) +%S*$"
    if not cut or #cut <= #indent then break end
    out[#out + 1] = cut
    line = indent .. line:sub(#cut + 1):gsub("^ +", "")
  end
  out[#out + 1] = line
end

--- A text whose lines break between words, at a terminal.
function pager.broken(text)
  local width = console.rows() and console.width()
  if not width or width < 20 then return text end
  local out = {}
  local lines = lines_of(text)
  for i = lines.from, lines.to do broken_line(line_of(lines, i), width, out) end
  return table.concat(out, "\n") .. (text:sub(-1) == "\n" and "\n" or "")
end

--- Writes a text, by pages where it is longer than the terminal.
function pager.page(text)
  local rows, width = console.rows(), math.max(1, console.width())
  local lines = rows and pager.on and lines_of(text)
  if not lines or fits(lines, rows, width) then return write(text) end
  local program = os.getenv "PAGER"
  local parts = parts_of(lines)
  if program and program ~= "" and not parts[1] and outside(text) then return end
  show(lines, parts, rows, width)
end

--- Whether parts are shown one by one: where a terminal reads and shows, by pages of ours.
function pager.shows_parts() return pager.on and console.rows() ~= nil end

--- Writes parts of a text, {number, name, text = function}, by pages; each is made when somebody comes to it.
function pager.parts(parts) show_made(parts, console.rows(), math.max(1, console.width())) end

return pager
