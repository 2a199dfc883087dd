-- Every room, a folder with sources or tests, has few files, and one with 8 or more sources a README.md of one screen,
-- which says what a newcomer asks. Smaller rooms stand in the README of the folder around them.
local LEAST, MOST, LINES, COLUMNS = 8, 60, 60, 110
local roots = "lib devices text ir vm jit repl"
local answers = { "In", "Out", "Called by", "Holds", "Tests", "Open first" }
-- Folders of other rooms have a picture of these instead.
local pictures = { ir = true, jit = true, vm = true }

local function read(path)
  local file = io.open(path)
  local text = file and file:read "*a"
  if file then file:close() end
  return text
end

local function lines_of(command)
  local list, pipe = {}, io.popen(command)
  for line in pipe:lines() do list[#list + 1] = line end
  pipe:close()
  return list
end

-- What is wrong with the README of a room; there: whether a file of that name is in it.
local function wrong_of(room, text, there)
  local wrong, n = {}, 0
  if not text then return { room .. ": no README.md" } end
  local function say(format, ...) wrong[#wrong + 1] = room .. "/README.md: " .. format:format(...) end
  for line in text:gmatch "([^\n]*)\n" do
    n = n + 1
    if #line:gsub("[\128-\191]", "") > COLUMNS then say("line %d is wider than %d", n, COLUMNS) end
  end
  if n > LINES then say("%d lines, of %d", n, LINES) end
  if pictures[room] then
    if not text:find("```text\n", 1, true) then say "no picture" end
    return wrong
  end
  for _, word in ipairs(answers) do
    if not text:find("\n- **" .. word .. ":** ", 1, true) then say("no line '%s'", word) end
  end
  local first = text:match "%*%*Open first:%*%* `([^`]+)`"
  if first and not there(first) then say("%s is not there", first) end
  return wrong
end

-- ---- the test sees what is wrong
local function small(text) return table.concat(wrong_of("x", text, function(name) return name == "a.c" end), "; ") end
local good = "# x\n\n- **In:** a\n- **Out:** b\n- **Called by:** c\n- **Holds:** d\n- **Tests:** e\n- **Open first:** `a.c`.\n"
small(nil) --> x: no README.md
small(good) -->
small(good:gsub("%- %*%*Holds[^\n]*\n", "")) --> x/README.md: no line 'Holds'
small(good:gsub("a%.c", "b.c")) --> x/README.md: b.c is not there
small(good .. ("\n"):rep(60)) --> x/README.md: 68 lines, of 60
small(good .. ("w"):rep(111) .. "\n") --> x/README.md: line 9 is wider than 110
table.concat(wrong_of("ir", "# ir\n"), "; ") --> ir/README.md: no picture

-- ---- the rooms
local sources = { c = true, h = true, inc = true, def = true, lua = true }
local wrong, seen = {}, 0
for _, room in ipairs(lines_of("find " .. roots .. " tests -maxdepth 0 -type d; find " .. roots .. " -mindepth 1 -type d")) do
  local files, n, all = {}, 0, 0
  for _, name in ipairs(lines_of("find " .. room .. " -mindepth 1 -maxdepth 1 -printf '%y%f\\n'")) do
    files[name:sub(2)] = true
    if name:sub(1, 1) == "f" then
      all = all + 1
      if sources[name:match "%.(%w+)$" or ""] then n = n + 1 end
    end
  end
  if all > MOST then wrong[#wrong + 1] = ("%s: %d files, of %d"):format(room, all, MOST) end
  local text = read(room .. "/README.md")
  if text or n >= LEAST or pictures[room] then
    seen = seen + 1
    for _, what in ipairs(wrong_of(room, text, function(name) return files[name] or read(room .. "/" .. name) end)) do
      wrong[#wrong + 1] = what
    end
  elseif n > 0 then
    local above = room:match "^(.*)/[^/]*$"
    local told = read(above .. "/README.md") or ""
    if not told:find(room:match "[^/]*$" .. "/", 1, true) then
      wrong[#wrong + 1] = ("%s: neither a README.md nor a word in %s/README.md"):format(room, above)
    end
  end
end
seen > 40 --> true
-- Rooms of tests have as few, whatever the files are.
for _, room in ipairs(lines_of "find tests -type d") do
  local all = #lines_of("find " .. room .. " -mindepth 1 -maxdepth 1 -type f")
  if all > MOST then wrong[#wrong + 1] = ("%s: %d files, of %d"):format(room, all, MOST) end
end
table.concat(wrong, "\n") -->

-- ---- links of the pages lead somewhere
local dead, links = {}, 0
for _, page in ipairs(lines_of("find . -name '*.md' -not -path './build/*' -not -path './.git/*'")) do
  for link in read(page):gmatch "%]%(([^)#]+)" do
    local path = page:match "^(.*)/" .. "/" .. link
    links = links + 1
    if not link:find "^%a+://" and not read(path) then dead[#dead + 1] = page .. ": " .. link end
  end
end
links > 80 --> true
table.concat(dead, "\n") -->
