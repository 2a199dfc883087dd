-- The test runner: every tests/**/*.lua (see scripts/run_test.lua), every
-- tests/**/*.graph and *.tile (scripts/run_graph.lua) and every C test program given after
-- "--c". A test that cannot run here prints "skipped: why" and passes; these are listed. Ends
-- with "N passed, N failed".
--   bin/tessera scripts/check.lua [--jobs N] [--c program...] [-- filter...]
local tessera = arg[-1] or "bin/tessera"
local jobs, programs, filters, into = 2, {}, {}, nil
local i = 1
while arg[i] do
  if arg[i] == "--jobs" then
    jobs = tonumber(arg[i + 1])
    i = i + 1
  elseif arg[i] == "--c" then
    into = programs
  elseif arg[i] == "--" then
    into = filters
  elseif into then
    into[#into + 1] = arg[i]
  else
    filters[#filters + 1] = arg[i]
  end
  i = i + 1
end

local function wanted(name)
  if #filters == 0 then return true end
  for _, f in ipairs(filters) do
    if name:find(f, 1, true) then return true end
  end
  return false
end

local tests = {}
local list = io.popen("find tests -name '*.lua' -o -name '*.graph' -o -name '*.tile' -o -name '*.sched' | LC_ALL=C sort")
for path in list:lines() do
  -- Names that begin with _ are libraries of the tests.
  if not path:match("/_[^/]*$") and wanted(path) then
    local runner = not path:match "%.lua$" and "run_graph.lua " or "run_test.lua "
    tests[#tests + 1] = { name = path, command = tessera .. " scripts/" .. runner .. path }
  end
end
list:close()
for _, program in ipairs(programs) do
  if wanted(program) then tests[#tests + 1] = { name = program, command = program } end
end

local function start(test)
  test.pipe = io.popen("{ " .. test.command .. "; } 2>&1; echo \"exit $?\"")
end

local passed, failed, skipped = 0, 0, {}
local function finish(test)
  local out = test.pipe:read("*a")
  test.pipe:close()
  local code = tonumber(out:match("exit (%d+)%s*$") or "255")
  local bad = tonumber(out:match("checks %d+ failed (%d+)") or (code == 0 and 0 or 1))
  local checks = tonumber(out:match("checks (%d+) failed") or 0)
  if code ~= 0 and bad == 0 then bad = 1 end
  -- A script without expectations, or a program, counts as one check.
  passed = passed + math.max(checks, 1) - math.min(bad, math.max(checks, 1))
  failed = failed + bad
  local why = bad == 0 and checks == 0 and out:match "skipped: ([^\n]*)"
  if why then skipped[#skipped + 1] = why .. ": " .. test.name end
  if bad > 0 then
    io.write("FAIL ", test.name, "\n", (out:gsub("exit %d+%s*$", "")), "\n")
  end
end

local running = 0
for n, test in ipairs(tests) do
  start(test)
  running = running + 1
  if running == jobs then
    finish(tests[n - jobs + 1])
    running = running - 1
  end
end
for n = #tests - running + 1, #tests do finish(tests[n]) end
table.sort(skipped)
for _, line in ipairs(skipped) do print("skipped: " .. line) end
print(("%d passed, %d failed"):format(passed, failed))
os.exit(failed == 0 and 0 or 1)
