-- The cache on disk and the compile queue, seen from programs. Nothing is timed.
package.path = "tests/jit/?.lua;" .. package.path
local tiers = require "_tiers"
local run = tiers.run
if not require "tessera".jit.status() then return print "skipped: nothing is compiled here" end

local PROGRAM = [[
local tessera = require "tessera"
local op, graph, jit = tessera.op, tessera.graph, tessera.jit
jit.eager(true)
local f = graph.module("f", function(x) return (x * 2 + 1):sum{axis = 1} - x:exp():max{axis = 1} end)
local x = op.linspace(0, 1, 6000):reshape{12, 500}
local h = f(x):hash()
h = f(x):hash()
local s = jit.stats()
print(h, s.kernels, s.from_disk, s.refused)
]]
local function program(environment)
  local out, status = run(PROGRAM, "", environment)
  local h, kernels, disk, refused = out:match "^(%x+)%s+(%d+)%s+(%d+)%s+(%d+)%s*$"
  assert(status == 0 and h, out)
  return { hash = h, kernels = tonumber(kernels), from_disk = tonumber(disk) }
end

-- A second process compiles nothing; a damaged file is compiled again; without a cache all is.
tiers.directory(function(dir)
  local environment = "TESSERA_CACHE=" .. dir
  local first = program(environment)
  assert(first.kernels > 0 and first.from_disk == 0)
  local second = program(environment)
  assert(second.kernels == first.kernels and second.from_disk == second.kernels)
  assert(second.hash == first.hash)
  for _, damage in ipairs { "truncate -s 100 $f", ": > $f", "printf damage | dd of=$f bs=1 seek=300 conv=notrunc",
    "rm $f; mkdir $f", "chmod 0 $f", "head -c 9000 /dev/urandom > $f" } do
    tiers.shell(("for f in $(find %s -type f); do %s; done"):format(dir, damage))
    assert(program(environment).hash == first.hash, damage)
    tiers.shell("chmod -R u+rwX " .. dir .. "; rm -rf " .. dir .. "/*")
    assert(program(environment).hash == first.hash, damage)
  end
  -- A folder to which others may write is not used, and the log says so.
  tiers.shell("chmod 777 " .. dir)
  local open = program(environment)
  assert(open.from_disk == 0 and open.hash == first.hash)
  assert(tiers.run(PROGRAM, "-jv", environment):find("cache " .. dir .. ": not used: others may write to it", 1, true))
  tiers.shell("chmod 700 " .. dir)
  -- Entries under each other's names are not run: all are the first one.
  program(environment)
  tiers.shell(("cd %s && set -- *.o && for f in *.o; do [ $f = $1 ] || cp $1 $f; done"):format(dir))
  local swapped = program(environment)
  assert(swapped.hash == first.hash and swapped.from_disk <= 1)
  local off = program "TESSERA_CACHE=off"
  assert(off.from_disk == 0 and off.kernels == first.kernels and off.hash == first.hash)
  assert(program("TESSERA_CACHE=/proc/none").hash == first.hash)
  assert(program("TESSERA_CACHE=/dev/null").hash == first.hash)
  assert(program("HOME= XDG_CACHE_HOME= TESSERA_CACHE=").hash == first.hash)
end)

-- Entries with a right hash, which anybody can write: whatever is no whole object is compiled again.
local HEAD, LENGTH, HASH = 88, 16, 56
local little = require("tessera.little_endian").bytes
local function forge(path, change)
  local file = assert(io.open(path, "rb"))
  local head, object = file:read(HEAD), file:read "*a"
  file:close()
  object = change(object)
  file = assert(io.open(path .. ".object", "wb"))
  file:write(object)
  file:close()
  local p = io.popen("sha256sum " .. path .. ".object")
  local hash = p:read(64):gsub("%x%x", function(hex) return string.char(tonumber(hex, 16)) end)
  p:close()
  os.remove(path .. ".object")
  file = assert(io.open(path, "wb"))
  file:write(head:sub(1, LENGTH), little(#object, 8), head:sub(LENGTH + 9, HASH), hash, object)
  file:close()
end
local function at(object, where, text) return object:sub(1, where) .. text .. object:sub(where + #text + 1) end
tiers.directory(function(dir)
  local environment = "TESSERA_CACHE=" .. dir
  local first = program(environment)
  local paths = {}
  local p = io.popen(("find %s -name '*.o'"):format(dir))
  for line in p:lines() do paths[#paths + 1] = line end
  p:close()
  assert(#paths > 0)
  local function every(name, change)
    for _, path in ipairs(paths) do forge(path, change) end
    local again = program(environment)
    assert(again.hash == first.hash, name)
    return again.from_disk
  end
  assert(every("as it is", function(o) return o end) > 0)
  local huge = ("\255"):rep(8)
  for name, change in pairs {
    empty = function() return "" end,
    half = function(o) return o:sub(1, #o / 2) end,
    ["one byte less"] = function(o) return o:sub(1, -2) end,
    sections = function(o) return at(o, 0x28, huge) end,
    count = function(o) return at(o, 0x3c, "\255\255") end,
    zeros = function(o) return ("\0"):rep(#o) end,
    text = function() return "tessera tune 1\n" end,
  } do
    assert(every(name, change) == 0, name)
  end
end)

-- Many shapes: the functions of each go away, memory stays bounded, no jobs pile up. (What is freed is
-- not kept back by AddressSanitizer, which would count as ours.)
local out, status = run([[
local tessera = require "tessera"
local op, graph, jit = tessera.op, tessera.graph, tessera.jit
local function resident()
  return tonumber(io.open "/proc/self/status":read "*a":match "VmRSS:%s*(%d+)")
end
local f = graph.module("f", function(x) return ((x * 2 + 1):exp() - x):sum{axis = 1} + x.shape[1] end)
local function shapes(from, to)
  for n = from, to do
    local x = op.ones{n % 7 + 1, n}
    for _ = 1, 4 do f(x) end
  end
  collectgarbage()
  collectgarbage()
end
shapes(1, 200)
local before = resident()
shapes(201, 1000)
jit.wait()
assert(jit.stats().jobs == 0)
local grown = resident() - before
assert(grown < 60000, "grown by " .. grown .. " kB")
jit.eager(true)
for n = 1, 60 do f(op.ones{3, n}) end
jit.wait()
assert(jit.stats().jobs == 0)
print "fine"
]], "", "TESSERA_CACHE=off ASAN_OPTIONS=$ASAN_OPTIONS:quarantine_size_mb=1")
assert(out:find "fine" and status == 0, out)

-- Functions that are collected, switches and flushes while jobs run, in any order.
for seed = 1, 4 do
  local out, status = run([[
local tessera = require "tessera"
local op, graph, jit = tessera.op, tessera.graph, tessera.jit
local state = ]] .. seed .. [[

local function random(n)
  state = (state * 1103515245 + 12345) % 2147483648
  return math.floor(state / 65536) % n + 1
end
local function make(i)
  return graph.module("f" .. i, function(x) return ((x * i + 1):exp() * x):sum{axis = 1} end)
end
local x = op.linspace(-1, 1, 40000):reshape{40, 1000}
local want = {}
jit.off()
for i = 1, 4 do want[i] = make(i)(x):hash() end
jit.on()
local live = {}
local acts = {
  function() jit.on() end, function() jit.off() end, function() jit.flush() end,
  function() jit.wait() end, function() live[random(4)] = nil collectgarbage() end,
  function() jit.eager(random(2) == 1) end, function() collectgarbage() end,
}
for round = 1, 400 do
  local i = random(4)
  live[i] = live[i] or make(i)
  for _ = 1, random(4) do assert(live[i](x):hash() == want[i]) end
  acts[random(#acts)]()
end
print "fine"
]], "", "TESSERA_CACHE=off")
  assert(out:find "fine" and status == 0, out)
end

-- Exit while a job runs, by every way out; os.exit leaves the state as it is.
local BUSY = [[
local tessera = require "tessera"
local op, graph, jit = tessera.op, tessera.graph, tessera.jit
local keep = {}
for i = 1, 8 do
  local f = graph.module("f" .. i, function(x)
    for k = 1, 12 do x = (x * (i + k) + 1):tanh() end
    return x
  end)
  keep[i] = f
  local x = op.ones{300, 300}
  for _ = 1, 6 do f(x) end
end
]]
for code, want in pairs { ["os.exit(3)"] = 3, ["error 'stop'"] = 1, [""] = 0, ["os.exit(0, true)"] = 0,
  ["keep = nil collectgarbage()"] = 0, ["jit.flush() jit.off()"] = 0 } do
  local out, status = run(BUSY .. code, "", "TESSERA_CACHE=off ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0")
  assert(status == want, code .. ": " .. tostring(status) .. "\n" .. out)
end

-- Ctrl-C while a job runs: the program ends as without one, and at once.
local name = os.tmpname()
local file = io.open(name, "w")
file:write("io.stderr:write 'GO\\n'", BUSY .. "while true do keep[1](tessera.op.ones{3, 3}) end")
file:close()
local _, status = tiers.shell(("TESSERA_CACHE=off sh tests/stop.sh 1 %s %s"):format(tiers.program, name))
assert(status == 130 or status == 1, status)
os.remove(name)
