-- The test runner: every tests/**/*.lua (see scripts/run_test.lua), every
-- tests/**/*.graph and *.tile (scripts/run_graph.lua) and every C test program given after
-- "--c". A test that cannot run here, or not all of it, prints "skipped: why" and passes; these are
-- listed. Ends with "N passed, N failed". TIMES=1 in the environment: and what time of processors
-- each folder took, scripts and programs apart.
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
    tests[#tests + 1] = { name = path, counts = true, command = tessera .. " scripts/" .. runner .. path }
  end
end
list:close()
for _, program in ipairs(programs) do
  if wanted(program) then tests[#tests + 1] = { name = program, command = program } end
end

local function start(test)
  test.pipe = io.popen("{ " .. test.command .. "; } 2>&1; echo \"exit $?\"; times")
end

-- What a shell says last: the exit code, and the seconds of itself and of what it ran.
local ending = "exit (%d+)\n%S+ %S+\n(%d+)m([%d.]+)s (%d+)m([%d.]+)s%s*$"

local passed, failed, skipped, seconds = 0, 0, {}, {}
local function finish(test)
  local out = test.pipe:read("*a")
  test.pipe:close()
  local code, m, s, m_system, s_system = out:match(ending)
  code = tonumber(code or "255")
  local checks, bad = out:match "^.*checks (%d+) failed (%d+)" -- the last ones, its own
  local lost = test.counts and not checks -- it ended before it said what it had checked
  bad = tonumber(bad or (code == 0 and not lost and 0 or 1))
  checks = tonumber(checks or 0)
  if code ~= 0 and bad == 0 then bad = 1 end
  -- A script without expectations, or a program, counts as one check.
  passed = passed + math.max(checks, 1) - math.min(bad, math.max(checks, 1))
  failed = failed + bad
  for line in ("\n" .. out):gmatch "\n(skipped: %S[^\n]*)" do
    skipped[#skipped + 1] = line .. ": " .. test.name
  end
  if m then
    local folder = (test.name:match "tests/%w+" or "tests") .. (test.counts and "" or " in C")
    seconds[folder] = (seconds[folder] or 0) + m * 60 + s + m_system * 60 + s_system
  end
  if bad > 0 then
    io.write("FAIL ", test.name, "\n", (out:gsub(ending, "")), lost and "it says no checks\n" or "", "\n")
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
for _, line in ipairs(skipped) do print(line) end
if os.getenv "TIMES" then
  local folders = {}
  for folder in pairs(seconds) do folders[#folders + 1] = folder end
  table.sort(folders)
  for _, folder in ipairs(folders) do print(("%8.1f s  %s"):format(seconds[folder], folder)) end
end
print(("%d passed, %d failed"):format(passed, failed))
os.exit(failed == 0 and 0 or 1)
