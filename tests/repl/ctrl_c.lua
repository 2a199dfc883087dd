-- Ctrl-C in scripts: an error with a line, which a script may catch; what ends it all the same.
local tessera = arg[-1] or "bin/tessera"
local folder = os.tmpname()
os.remove(folder)
os.execute("mkdir -p " .. folder)

local function write(name, text)
  local f = assert(io.open(folder .. "/" .. name, "w"))
  f:write((text:gsub("{F}", folder)))
  f:close()
end

-- What a script says, and its exit code first: Ctrl-C comes after each of the seconds, the first of which
-- count from its GO.
local function run(text, seconds, input)
  write("s.lua", "io.stdout:setvbuf 'no' " .. text)
  local kills = {}
  for i, s in ipairs(seconds) do kills[i] = ("sleep %g; kill -INT $p"):format(s) end
  write("run.sh", ([[
%s exec timeout --foreground -s KILL 120 env --default-signal=INT,ALRM "$1" {F}/s.lua > {F}/out 2>&1 &
p=$!
while ! grep -qs GO {F}/out && kill -0 $p 2> {F}/gone; do sleep 0.02; done
%s
wait $p
echo $?
sed 's|{F}/||; /^GO$/d' {F}/out
]]):format(input or "", table.concat(kills, "\n")))
  local p = io.popen(("sh %s/run.sh %s 2>&1"):format(folder, tessera))
  local out = p:read "*a"
  p:close()
  return (out:gsub("\n$", ""))
end

local said
-- The training is caught, what it has is saved, and work goes on.
said = run([[local tessera = require "tessera"
local x = tessera.op.ones { 8, 8 }
print "GO"
local ok, why = pcall(function() while true do x = x * 0.5 + 1 end end)
print(why:match "s.lua:4: .*interrupted$" ~= nil)
tessera.save("{F}/x.safetensors", { x = x })
local again = tessera.load "{F}/x.safetensors"
print((again.x + x):sum():item() == 2 * x:sum():item())
local t = os.time()
while os.time() - t < 2 do x = x + 0 end
print "done"]], { 0.2 })
said --> 0
--> true
--> true
--> done

-- Each one raises an error of its own.
said = run([[print "GO"
for i = 1, 3 do
  print(pcall(function() while i < 3 do loadstring "return 1" end end))
end]], { 0.2, 1.2 })
said --> 0
--> false	s.lua:3: interrupted
--> false	s.lua:3: interrupted
--> true

-- The third one within a second of each other ends what catches them all.
local stubborn = run([[print "GO"
while true do
  pcall(function() while true do loadstring "return 1" end end)
end]], { 0.2, 0.4, 0.4 })
stubborn:match "^130\ns.lua:[23]: interrupted\n" ~= nil --> true

stubborn = run([[print "GO"
while true do
  pcall(os.execute, "sleep 9")
end]], { 0.3, 0.5, 0.5 })
stubborn:match "^130\ns.lua:[23]: .*interrupted\n" ~= nil --> true

-- A loop that LuaJIT compiled as a whole is left as any other, and the program may catch it.
local deaf = [[local n = 0
local function f()
  print "GO"
  while true do n = n + 1 end
end
print(pcall(f))
print(n > 1000)]]
run(deaf, { 0.3 }) --> 0
--> false	s.lua:4: interrupted
--> true
-- Loops of each form: what they have written into tables and variables of others stays, each round whole.
for form, text in pairs {
  counted = "for i = 1, 1e12 do t[1] = t[1] + 1 t[2] = t[2] + 1 end",
  endless = "while true do t[1] = t[1] + 1 t[2] = t[2] + 1 end",
  broken = "while true do t[1] = t[1] + 1 t[2] = t[2] + 1 if t[1] < 0 then break end end",
  two_ways = "for i = 1, 1e12 do if i % 3 == 0 then t[1] = t[1] + 1 else t[1] = t[1] + 1 end t[2] = t[2] + 1 end",
  nested = "for i = 1, 1e9 do for j = 1, 50 do t[1] = t[1] + 1 t[2] = t[2] + 1 end end",
  repeated = "repeat t[1] = t[1] + 1 t[2] = t[2] + 1 until t[1] < 0",
  calls = "local function add(i) t[i] = t[i] + 1 end while true do add(1) add(2) end",
  recursion = "local function f(n) t[1] = t[1] + 1 t[2] = t[2] + 1 if n > 0 then return f(n) end end f(1)",
  deep = "local function f(n) if n == 0 then return 0 end t[1] = t[1] + 1 t[2] = t[2] + 1 return 1 + f(n - 1) end while true do f(50) end",
  int64 = "local k = 0LL while k < 1000000000000LL do t[1] = t[1] + 1 t[2] = t[2] + 1 k = k + 1 end",
  writes = "local a = {} for i = 1, 1e12 do a[i % 100] = i t[1] = t[1] + 1 t[2] = t[2] + 1 end",
} do
  said = run(("local t = { 0, 0 }\nlocal function f()\n  print 'GO'\n  %s\nend\nlocal ok, why = pcall(f)\n"):format(text) .. [[
print(ok, why:match "s.lua:4: interrupted$" ~= nil or why, t[1] > 1000, t[1] - t[2] <= 1)
local sum = 0
for i = 1, 1e6 do sum = sum + i end
print(sum)]], { 0.3 })
  if said ~= "0\nfalse\ttrue\ttrue\ttrue\n500000500000" then error(form .. ": " .. said) end
end

-- A long table is sorted as a short one, or stays as it was.
said = run([[local t = {}
for i = 1, 2e6 do t[i] = (i * 7919) % 2000003 end
local first = t[1]
print "GO"
local ok, why = pcall(function() while true do table.sort(t) if first then first = nil end
  for i = 1, #t do t[i] = (i * 7919) % 2000003 end end end)
print(ok, why:match "interrupted$", #t)]], { 0.3 })
said --> 0
--> false	interrupted	2000000
for _, make in ipairs { function(i) return (i * 7919) % 20011 - 0.5 end, function(i) return tostring((i * 7919) % 20011) .. "\0x" end } do
  local long, expected = {}, {}
  for i = 1, 40000 do long[i] = make(i) expected[i] = long[i] end
  table.sort(long)
  table.sort(expected, function(a, b) return a < b end)
  for i = 1, #long do assert(long[i] == expected[i], i) end
end
local mixed = {}
for i = 1, 30000 do mixed[i] = i % 2 == 0 and i or tostring(i) end
table.sort(mixed) --! attempt to compare
table.sort(5) --! bad argument #1 to 'sort'

-- A command that hears none is ended by the third.
said = run([[io.stdout:setvbuf "no"
os.execute "trap '' INT; echo GO; for i in 1 2 3 4 5 6 7 8 9; do sleep 1; done"]], { 0.3, 0.3, 0.3 })
said:match "^130\ns.lua:2: os.execute: interrupted\n" ~= nil or said --> true

-- What hears none, as a function of C that takes long, is ended after a second, and says where it was.
said = run([[print "GO"
local function f(text)
  return text:find((".-"):rep(12) .. "b")
end
f(("a"):rep(1000))]], { 0.3 })
said --> 130
--> s.lua:3: interrupted

-- Reading is interrupted as anything else, and can go on.
said = run([[print "GO"
print(pcall(function() for line in io.lines() do print(line) end end))
print(pcall(function() return (io.read()) end))
print(io.read())
for line in io.popen("sleep 5"):lines() do print(line) end]], { 0.2, 1.2, 2 }, "(sleep 2; echo line; sleep 6) |")
said --> 130
--> false	s.lua:2: interrupted
--> false	s.lua:3: interrupted
--> line
--> s.lua:5: interrupted
-->     for line in io.popen("sleep 5"):lines() do print(line) end
-->     ^

-- Lines that nobody interrupts.
write("lines", "a\n\nb\n")
local lines = {}
for line in io.lines(folder .. "/lines") do lines[#lines + 1] = line end
table.concat(lines, ",") --> a,,b
for a, b in io.open(folder .. "/lines"):lines(1, "*l") do lines[#lines + 1] = (a .. "|" .. b):gsub("\n", "n") end
table.concat(lines, ",") --> a,,b,a|,n|b
io.lines(folder .. "/nosuch") --! bad argument #1 to 'lines'
for _ in io.lines(folder) do end --! Is a directory

os.execute("rm -r " .. folder)
