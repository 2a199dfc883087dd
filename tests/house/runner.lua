-- The runner of these tests: what fails, what is said, and that nothing passes in silence.
local tessera = arg[-1] or "bin/tessera"
local name = os.tmpname()

local function sh(command)
  local p = io.popen("unset TIMES SLOW GOLDEN; { " .. command .. "; } 2>&1; echo exit $?")
  local out = p:read("*a"):gsub("%s+$", "")
  p:close()
  return (out:gsub("[^\n]*" .. name:gsub("%p", "%%%0"), "F"))
end

local function run(code)
  local file = assert(io.open(name, "w"))
  file:write(code)
  file:close()
  return sh(tessera .. " scripts/run_test.lua " .. name)
end

-- ---- expectations
run("1 + 1 --" .. "> 2") --> checks 1 failed 0
--> exit 0
run("1 + 1 --" .. "> 3") --> F:1: value
-->     wanted: 3
-->     got:    2
--> checks 1 failed 1
--> exit 1
run("error 'no' --" .. "! no") --> checks 1 failed 0
--> exit 0
run("error 'no' --" .. "! yes"):match "failed %d" --> failed 1
run("print('a') --" .. "> a"):match "failed %d" --> failed 0

-- ---- one that is never reached fails, on its line; one of many rounds is reached
run("for i = 1, 0 do\n  i --" .. "> 1\nend\n1 --" .. "> 1") --> F:2: never reached
-->     wanted: an expectation that is compared
-->     got:    none
--> checks 1 failed 1
--> exit 1
run("do return end\n1 --" .. "> 1"):match "never reached" --> never reached
run("for i = 1, 3 do\n  i > 0 --" .. "> true\nend") --> checks 3 failed 0
--> exit 0

-- ---- a script in which nothing was checked fails; an assert is a check, of something that may be false
run "local x = 1":match "nothing is checked" --> nothing is checked
run "assert(1 == 1)" --> checks 0 failed 0
--> exit 0
run "if false then assert(1 == 1) end":match "nothing is checked" --> nothing is checked
run("assert(io.open '" .. name .. "'):close()"):match "nothing is checked" --> nothing is checked
run "assert(1 == 2)":match "failed %d" --> failed 1
run "require('tessera').op.ones(3)":match "nothing is checked" --> nothing is checked

-- ---- who says why may leave both out
run("if true then return print 'skipped: no machine' end\n1 --" .. "> 1") --> skipped: no machine
--> checks 0 failed 0
--> exit 0
run "print 'skipped:'":match "nothing is checked" --> nothing is checked

-- ---- all of them: what is skipped is listed, wholly and in part; a script that ends early fails
local function check(...) return sh(tessera .. " scripts/check.lua --c " .. table.concat({ ... }, " ") .. " -- no-such-script") end
check "'echo skipped: no-such-script'" --> skipped: no-such-script: echo skipped: no-such-script
--> 1 passed, 0 failed
--> exit 0
check "'sh -c \"echo checks 2 failed 0; echo skipped: half; true no-such-script\"'":match "skipped: half" --> skipped: half
check("'false no-such-script'", "'true no-such-script'"):match "%d passed, %d failed\n.*" --> 1 passed, 1 failed
--> exit 1
check "'true other'" --> no test has a name that contains no-such-script
--> exit 1
local folder = name .. ".d"
sh("mkdir -p " .. folder .. "/tests && ln -s $PWD/scripts " .. folder .. " && ln -s $(realpath " .. tessera .. ") " .. folder .. "/tessera")
sh("echo 'os.exit(0, true)' > " .. folder .. "/tests/early.lua; echo '1 -" .. "-> 1' > " .. folder .. "/tests/fine.lua")
sh("cd " .. folder .. " && ./tessera scripts/check.lua | grep -v '^$'; rm -r " .. folder) --> FAIL tests/early.lua
--> it says no checks
--> 1 passed, 1 failed
--> exit 0
os.remove(name)
