-- Runs one test of IR text: a graph (*.graph), a graph and behind it its schedule (*.sched) or a
-- kernel (*.tile). A file is one of
--   graph ...              printed canonically, it is the file again; lines that begin with //
--                          do not count
--   // run: json           printed in another form (of graphs places, json, dot; of kernels
--                          places, of schedules fuse), or behind a pass of kernels (cse, dce,
--                          expand, fix, vectorise avx512); what is expected
--   graph ...              stands behind the line "// want", or is the graph itself
--   // want
--   {"graphs": ...
--   //! error text         the first line: reading fails, with a message that contains the text
-- GOLDEN=1 in the environment writes what comes out as what is expected.
-- Last it prints "checks N failed M", as scripts/run_test.lua does.
local core = require "tessera.core"
local path = arg[1]

local function read(name)
  local file = assert(io.open(name, "rb"))
  local text = file:read "*a"
  file:close()
  return text
end

local function without_comments(text)
  return (("\n" .. text):gsub("\n//[^\n]*", ""):gsub("^\n+", ""))
end

local function fail(wanted, got)
  print(("%s:\n    wanted: %s\n    got:    %s"):format(path, (wanted:gsub("\n", "\n            ")),
    (got:gsub("\n", "\n            "))))
  print "checks 1 failed 1"
  os.exit(1, true)
end

-- The first line that differs, with its number.
local function difference(wanted, got)
  local next_wanted, n = (wanted .. "\n"):gmatch "(.-)\n", 0
  for line in (got .. "\n"):gmatch "(.-)\n" do
    n = n + 1
    local want = next_wanted() or "nothing"
    if line ~= want then return fail(n .. ": " .. want, n .. ": " .. line) end
  end
  fail(next_wanted() or "less", "nothing")
end

local text = read(path)
local form, target = text:match "^// run: (%w+) ?(%w*)"
form = form or "text"
local passes = {
  cse = true, dce = true, expand = true, fix = true, pipeline = true, vectorise = true, product = true,
}
local input, wanted = text:match "^(.-\n)// want\n(.*)$"
local message = text:match "^//! ([^\n]*)"
local parse = path:match "%.tile$" and core.tile_parse or path:match "%.sched$" and core.sched_parse
  or core.graph_parse
if passes[form] and path:match "%.tile$" then
  parse = function(kernel) return core.tile_pass(kernel, form, target) end
end
local got, err = parse(input or text, form)
if message then
  if got then fail(message, "no error") end
  if not err:find(message, 1, true) then fail(message, err) end
elseif not got then
  fail("no error", err)
elseif got == (wanted or without_comments(text)) then
  -- as expected
elseif os.getenv "GOLDEN" then
  local head = input and input .. "// want\n" or text:match "^[^\n]*//[^\n]*\n" or ""
  local file = assert(io.open(path, "wb"))
  file:write(head, got)
  file:close()
else
  difference(wanted or without_comments(text), got)
end
print "checks 1 failed 0"
