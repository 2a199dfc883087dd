-- The test runner: every tests/**/*.lua (see scripts/run_test.lua), every
-- tests/**/*.graph and *.tile (scripts/run_graph.lua) and every C test program given after
-- "--c". A test that cannot run here, or not all of it, prints "skipped: why" and passes; these are
-- listed. Ends with "N passed, N failed". TIMES=1 in the environment: and what time of processors
-- each folder took, scripts and programs apart; SLOW=30: and the 30 tests that took most.
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

-- What a shell says last: the exit code, and the seconds of itself and of what it ran.
local ending = "exit (%d+)\n%S+ %S+\n(%d+)m([%d.]+)s (%d+)m([%d.]+)s%s*$"

local passed, failed, skipped, seconds = 0, 0, {}, {}
local function finish(test, out)
  test.ended = true
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
    test.seconds = m * 60 + s + m_system * 60 + s_system
    seconds[folder] = (seconds[folder] or 0) + test.seconds
  end
  if bad > 0 then
    io.write("FAIL ", test.name, "\n", (out:gsub(ending, "")), lost and "it says no checks\n" or "", "\n")
  end
end

if #tests == 0 then
  io.stderr:write("no test has a name that contains ", table.concat(filters, " or "), "\n")
  os.exit(1)
end

-- Who is done says its number, and the next begins: a long one holds up no other. What a test said
-- stands in a file meanwhile, so none waits until it is read.
local place = io.popen("mktemp -d"):read "*l"
local list = assert(io.open(place .. "/tests", "w"))
for _, test in ipairs(tests) do list:write(test.command, "\n") end
list:close()
local run = [[command=$(sed -n "$1p" "$0/tests")
{ eval "$command"; } >"$0/$1" 2>&1; { echo "exit $?"; times; } >>"$0/$1"; echo "$1"]]
local done = io.popen(("seq %d | xargs -P %d -n 1 sh -c '%s' %s"):format(#tests, jobs, run, place))
for n in done:lines() do
  local file = assert(io.open(place .. "/" .. n, "rb"))
  finish(tests[tonumber(n)], file:read "*a")
  file:close()
  os.remove(place .. "/" .. n)
end
done:close()
for _, test in ipairs(tests) do
  if not test.ended then finish(test, "it did not end\n") end
end
os.execute("rm -r " .. place)
table.sort(skipped)
for _, line in ipairs(skipped) do print(line) end
if os.getenv "TIMES" then
  local folders = {}
  for folder in pairs(seconds) do folders[#folders + 1] = folder end
  table.sort(folders)
  for _, folder in ipairs(folders) do print(("%8.1f s  %s"):format(seconds[folder], folder)) end
end
if tonumber(os.getenv "SLOW") then
  table.sort(tests, function(a, b) return (a.seconds or 0) > (b.seconds or 0) end)
  for i = 1, math.min(tonumber(os.getenv "SLOW"), #tests) do
    print(("%8.1f s  %s"):format(tests[i].seconds or 0, tests[i].name))
  end
end
print(("%d passed, %d failed"):format(passed, failed))
os.exit(failed == 0 and 0 or 1)
