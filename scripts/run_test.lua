-- Runs one test script: an ordinary Lua script in which
--   expression --> text      compares how the prompt would show the value
--   statement  --> text      compares what the statement prints
--   code       --! text      expects an error whose message contains text
-- A lone comment line "--> text" continues the expected text of the line above.
-- Prints a line for each failure and, last, "checks N failed M". Each expectation has to be reached,
-- and something to be checked: an expectation, or an assert of the tests' own. A script that cannot
-- do it here prints "skipped: why". GOLDEN=1 in the environment writes what comes out as what is
-- expected; errors stay as they are written.

local core = require "tessera.core"
local path = arg[1]
local failed, checks = 0, 0
local golden = os.getenv "GOLDEN" and {} -- text by line
local expected, reached = {}, {} -- lines with an expectation; those that ran
local asserted, skipped = false, false

local function fail(line, what, wanted, got)
  failed = failed + 1
  print(("%s:%d: %s\n    wanted: %s\n    got:    %s"):format(path, line, what,
    (wanted:gsub("\n", "\n            ")), (got:gsub("\n", "\n            "))))
end

local show

local function show_table(t)
  local parts, n = {}, #t
  for i = 1, n do parts[i] = show(t[i]) end
  local keys = {}
  for k in pairs(t) do
    if not (type(k) == "number" and k >= 1 and k <= n and k % 1 == 0) then keys[#keys + 1] = k end
  end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  for _, k in ipairs(keys) do parts[#parts + 1] = tostring(k) .. "=" .. show(t[k]) end
  return "{" .. table.concat(parts, ", ") .. "}"
end

function show(v)
  if core.is_tensor(v) then return (core.display(v, 80):gsub("%s+$", "")) end
  if type(v) == "table" then return show_table(v) end
  if type(v) == "number" then return ("%.14g"):format(v) end
  return tostring(v)
end

local function show_all(...)
  local parts = {}
  for i = 1, select("#", ...) do parts[i] = show((select(i, ...))) end
  return table.concat(parts, ", ")
end

local function compare(line, what, wanted, got)
  if got == wanted then return end
  if golden then golden[line] = got else fail(line, what, wanted, got) end
end

local check = {}

local function count(line)
  checks = checks + 1
  reached[line] = true
end

function check.value(line, wanted, ...)
  count(line)
  local got = show_all(...)
  compare(line, "value", wanted, got)
end

function check.prints(line, wanted, run)
  count(line)
  local out, real = {}, print
  print = function(...)
    local parts = {}
    for i = 1, select("#", ...) do parts[i] = tostring((select(i, ...))) end
    out[#out + 1] = table.concat(parts, "\t")
  end
  local ok, err = pcall(run)
  print = real
  if ok then return compare(line, "output", wanted, table.concat(out, "\n")) end
  fail(line, "output", wanted, "error: " .. tostring(err))
end

function check.fails(line, wanted, run)
  count(line)
  local ok, err = pcall(run)
  if ok then
    fail(line, "no error", wanted, "success")
  elseif not tostring(err):find(wanted, 1, true) then
    fail(line, "error", wanted, tostring(err))
  end
end

local function lines_of(text)
  local lines = {}
  for line in (text .. "\n"):gmatch "(.-)\r?\n" do lines[#lines + 1] = line end
  return lines
end

-- The script with the golden lines in place of what was expected there.
local function rewritten(text)
  local lines, out, i = lines_of((text:gsub("\n$", ""))), {}, 1
  while lines[i] do
    local new = golden[i] and lines_of(golden[i])
    out[#out + 1] = new and lines[i]:match "^(.-%s*%-%->).*$" .. " " .. new[1] or lines[i]
    i = i + 1
    if new then
      local indent = lines[i - 1]:match "^%s*"
      for k = 2, #new do out[#out + 1] = indent .. "--> " .. new[k] end
      while lines[i] and lines[i]:match "^%s*%-%->" do i = i + 1 end
    end
  end
  return table.concat(out, "\n") .. "\n"
end

-- The script with its expectations turned into calls, line for line.
local function translate(text)
  local lines, out = lines_of(text), {}
  for i, line in ipairs(lines) do
    local code, mark, wanted = line:match("^(.-)%s*%-%-([>!]) ?(.*)$")
    if not code or code:match("^%s*$") or code:match("^%s*%-%-") then
      out[i] = line
    else
      local k = i + 1
      while lines[k] and lines[k]:match("^%s*%-%->") do
        wanted = wanted .. "\n" .. lines[k]:match("^%s*%-%-> ?(.*)$")
        k = k + 1
      end
      wanted = wanted:gsub("%s+$", "")
      expected[#expected + 1] = i
      local is_value = loadstring("return " .. code) ~= nil
      if mark == "!" then
        out[i] = ("__check.fails(%d, %q, function() %s%s end)"):format(i, wanted,
          is_value and "return " or "", code)
      elseif is_value and not code:match("^%s*print%s*%(") then
        out[i] = ("__check.value(%d, %q, %s)"):format(i, wanted, code)
      else
        out[i] = ("__check.prints(%d, %q, function() %s end)"):format(i, wanted, code)
      end
      out[i] = out[i]:gsub("\\\n", "\\n")
    end
  end
  return table.concat(out, "\n")
end

-- An assert of something true or false, in the script, a library of the tests or another script, is a check;
-- that a file could be opened is none. What follows the first is not looked at.
local function watch_asserts()
  local real = assert
  function assert(...)
    local kind, source = type((...)), debug.getinfo(2, "S").source
    if (kind == "boolean" or kind == "number" or kind == "string")
      and (source == "@" .. path or source:match "[@/]_[^/]*%.lua$" or source:match "^@tests/") then
      asserted, assert = true, real
    end
    return real(...)
  end
end

local function watch_prints()
  local real = print
  function print(...)
    skipped = skipped or tostring((...)):match "^skipped: %S" ~= nil
    return real(...)
  end
end

local file = assert(io.open(path, "rb"))
local text = file:read "*a"
local code = translate(text)
file:close()
__check = check
watch_asserts()
watch_prints()
local chunk, err = loadstring(code, "@" .. path)
if chunk then
  local ok
  ok, err = xpcall(chunk, function(e) return debug.traceback(tostring(e), 2) end)
  if ok then err = nil end
end
if err then
  failed = failed + 1
  print(err)
end
if not err and not skipped then
  for _, line in ipairs(expected) do
    if not reached[line] then fail(line, "never reached", "an expectation that is compared", "none") end
  end
  if checks == 0 and not asserted then
    failed = failed + 1
    print(path .. ": nothing is checked: no expectation, no assert, no \"skipped: why\"")
  end
end
if golden and next(golden) and not err then
  file = assert(io.open(path, "wb"))
  file:write(rewritten(text))
  file:close()
  print(path .. ": written")
end
print(("checks %d failed %d"):format(checks, failed))
-- What is well ends as a script does, which closes all that was opened.
if failed > 0 then os.exit(1, true) end
