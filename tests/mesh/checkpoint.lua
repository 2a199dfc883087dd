-- Checkpoints: what is saved comes back, over other meshes too; and only whole ones do.
local program = arg[-1] or "bin/tessera"
local tessera = require "tessera"
local op, rng, data, checkpoint, core = tessera.op, tessera.rng, tessera.data, tessera.checkpoint, tessera.core
local dir = os.tmpname()
os.remove(dir)

local function shell(command)
  local p = io.popen("{ " .. command .. "; } 2>&1; echo \"exit $?\"")
  local out = p:read "*a"
  p:close()
  return (out:gsub(dir:gsub("%p", "%%%0"), "{D}"):gsub("exit 0\n$", ""):gsub("\n$", ""))
end

local function names(d)
  local out = {}
  for i, c in ipairs(checkpoint.list(d or dir)) do out[i] = c.name:gsub("^step%-0*", "") end
  return table.concat(out, " ")
end

local function folders() return (shell("ls -A " .. dir):gsub("\n", " ")) end

-- The digest is the one of its description.
core.digest "" --> ef46db3751d8e999
core.digest "a" --> d24ec4f1a98c6e5b
core.digest "abc" --> 44bc2cf5ad770999
core.digest "Nobody inspects the spammish repetition" --> fbcea83c8a378bf1

-- ---- over meshes of eight devices
local said = shell(("CHECKPOINTS=%s/mesh %s --devices=cpu:8 scripts/run_test.lua tests/mesh/_checkpoint.lua"):format(dir, program))
said:match "failed 0$" or said --> failed 0

-- Python's reader finds in the files what was saved, and the manifest says where it belongs.
local python = io.open "build/python/bin/python3" and "build/python/bin/python3" or "python3"
local joined = shell(("%s tests/mesh/join.py %s/mesh/joined"):format(python, dir))
if joined:find "no safetensors" or joined:find "not found" then
  print "skipped: checkpoints read by another program: Python's package safetensors is not here"
else
  local crc = shell(([[cd %s/mesh; for f in *.npy; do %s - $f <<'END'
import sys, zlib
text = open(sys.argv[1], "rb").read()
print("x." + sys.argv[1][:-4], "%%08x" %% zlib.crc32(text[10 + text[8] + 256 * text[9]:]))
END
done]]):format(dir, python:find "/" and shell "pwd" .. "/" .. python or python))
  local wanted, n = {}, 0
  for name, sum in joined:gmatch "(x%S+) (%x+)" do wanted[name] = sum end
  for name, sum in crc:gmatch "(x%S+) (%x+)" do
    assert(wanted[name] == sum, name)
    n = n + 1
  end
  assert(n > 20, crc)
end

-- ---- values of all kinds, and tensors that stand at two places
local X = rng.normal({ 4, 3 }, { seed = 1, stream = 2 })
local state = { b = { X, X + 1, 3, "hi", true }, again = X, odd = { [5] = 1, [7] = X:T() }, ["%s"] = { ["a.b"] = 0.1, e = {} } }
local saving = checkpoint.save(dir, state)
tostring(saving):match "^checkpoint .*/step%-00000001: 0%.000144 MB in " ~= nil --> true
saving.path == dir .. "/step-00000001" --> true
local s, which = checkpoint.load(dir)
which.name, which.step --> step-00000001, 1
s.b[3], s.b[4], s.b[5], s["%s"]["a.b"], next(s["%s"].e) --> 3, hi, true, 0.1, nil
s.b[1]:hash() == X:hash(), s.again:hash() == X:hash(), s.odd[7]:hash() == X:T():hash() --> true, true, true
rawequal(s.b[1], s.again) --> true
s.b[1]:add_(1)
checkpoint.load(dir).b[1]:hash() == X:hash() --> true

-- ---- names, steps, and what is kept
checkpoint.save(dir, state).step --> 2
checkpoint.save(dir, state, { name = "best" }).name --> best
checkpoint.save(dir, state, { step = 10 }).step --> 10
names() --> 1 2 best 10
checkpoint.latest(dir).step --> 10
checkpoint.save(dir, { v = 2 }, { step = 2 })
names() --> 1 best 10 2
checkpoint.load(dir).v --> 2
checkpoint.save(dir, { v = 3 }, { step = 11, keep = 2 })
names() --> best 2 11
folders() --> best mesh step-00000002~1 step-00000011
checkpoint.load(dir, { name = "best" }).b[3] --> 3
checkpoint.load(dir, { step = 11 }).v --> 3
checkpoint.load(dir, { step = 3 }) --! there are 'best', 2, 11
checkpoint.load(dir, { name = "worst" }) --! there is no checkpoint 'worst'
checkpoint.load(dir .. "/none") --! there is no whole checkpoint
checkpoint.latest(dir .. "/none") --> nil

-- ---- what is asked wrongly
checkpoint.save(dir, state, { asinc = true }) --! did you mean 'async'?
checkpoint.load(dir, { lik = state }) --! did you mean 'like'?
checkpoint.save(dir, X) --! the state must be a table, not a tensor
checkpoint.save(dir) --! the state must be a table, not nothing
checkpoint.save(nil, state) --! the folder must be a path
checkpoint.save(dir, { f = print }) --! 'f' is a function, which no file holds
checkpoint.save(dir, state, { step = 1, name = "x" }) --! exclude each other
checkpoint.save(dir, state, { name = "a/b" }) --! a name of letters
checkpoint.save(dir, state, { name = "step-1" }) --! which is no step's
checkpoint.save(dir, state, { keep = 0 }) --! option 'keep' must be a whole number >= 1
checkpoint.save(dir, state, { data = { X } }) --! data must be data.batches
names() --> best 2 11
checkpoint.save(dir, { a = X, b = { X, X }, c = X }, { step = 12 })
local ok, why = pcall(checkpoint.load, dir, { like = { a = X:cast "f64", b = { X, op.ones { 2 } }, d = X } })
why:match "(%d tensors.*)" --> 4 tensors differ:
-->   a: f32[4,3] in the checkpoint, f64[4,3] in like
-->   b.1: f32[4,3] in the checkpoint, f32[2] in like
-->   c: f32[4,3] in the checkpoint, and nothing in like
-->   d: nothing in the checkpoint, f32[4,3] in like

-- ---- the random generator and positions in data
local function batches(o)
  local b = data.batches(op.arange(10), o)
  local taken = {}
  return b, function(n)
    local out = {}
    for x in b do
      out[#out + 1] = x:hash()
      if #out == n then break end
    end
    return table.concat(out, " ")
  end
end

for _, o in ipairs { { batch = 3 }, { batch = 3, shuffle = true, seed = 4 }, { batch = 3, shuffle = true } } do
  rng.seed(3)
  local b = batches(o)
  for _ in b do break end
  for x in b do
    if b.at >= 6 then break end
  end
  rng.normal { 2 }
  checkpoint.save(dir, { w = X }, { data = { train = b }, step = 20 })
  -- What comes next here, in the same loop as it were:
  local rest = {}
  repeat
    local x = b()
    rest[#rest + 1] = x and x:hash() or "end"
  until not x
  for x in b do rest[#rest + 1] = x:hash() end
  rest[#rest + 1] = rng.normal({ 3 }):hash()
  -- And there:
  rng.seed(99)
  local c, there = batches(o), {}
  checkpoint.load(dir, { data = { train = c }, rng = true })
  for x in c do there[#there + 1] = x:hash() end
  there[#there + 1] = "end"
  for x in c do there[#there + 1] = x:hash() end
  there[#there + 1] = rng.normal({ 3 }):hash()
  assert(table.concat(rest, " ") == table.concat(there, " "))
  #rest --> 8
end
checkpoint.load(dir, { data = { train = batches { batch = 4 } } }) --! the state is of batches with batch = 3, and here it is 4
checkpoint.load(dir, { data = { test = batches { batch = 3 } } }) --! it has no position of data 'test'
checkpoint.load(dir, { step = 12, data = batches { batch = 3 } }) --! it has no positions of data
rng.seed(5)
checkpoint.load(dir)
rng.state() --> 5, 0

-- ---- beside the program
local w = op.zeros { 512, 512 }
for i = 1, 4 do
  local saving = checkpoint.save(dir, { w = w, half = w:narrow(0, 3, 5):T(), i = i }, { async = true, keep = 3 })
  w:add_(1)
  w:narrow(0, 5, 2):mul_(7)
  if i == 2 then saving:wait() end
  local s = checkpoint.load(dir)
  assert(s.i == i and saving.done and not saving.error and saving.path == checkpoint.latest(dir).path)
  if i == 1 then assert(s.w:abs():sum():item() == 0) end
  if i == 2 then assert(s.w:max():item() == 7 and s.half:max():item() == 7 and s.w:min():item() == 1) end
end
#checkpoint.list(dir) --> 4
-- A graph of one step, captured, that updates in place.
local step = tessera.graph.module("step", function(x) w:add_(x) return x * 2 end)
for i = 1, 20 do
  local before = w:hash()
  local saving = checkpoint.save(dir, { w = w }, { async = true, step = 50 })
  step(op.ones { 512, 512 })
  saving:wait()
  assert(checkpoint.load(dir).w:hash() == before and w:hash() ~= before)
end
-- On a device of its own memory.
if tessera.devices().missing.sim == nil then
  local there = X:to "sim:0":clone()
  local saving = checkpoint.save(dir, { there = there }, { async = true, step = 60 })
  there:add_(1)
  saving:wait()
  local s = checkpoint.load(dir, { like = { there = there } })
  s.there.device --> sim:0
  s.there:hash() == X:hash() --> true
end

-- ---- errors of writing
local blocked = dir .. "/blocked"
assert(io.open(blocked, "w")):close()
checkpoint.save("/proc/none", state) --! cannot write /proc/none: No such file or directory
checkpoint.save(blocked, state) --! cannot be read: Not a directory
local saving = checkpoint.save("/proc/none", state, { async = true })
saving:wait() --! cannot write /proc/none
saving.error:match "cannot write" --> cannot write
checkpoint.save(dir, { v = 1 }, { step = 70 }).step --> 70
local saving = checkpoint.save("/proc/none", state, { async = true })
checkpoint.save(dir, state) --! the one before: cannot write
saving.done --> true

-- Files that can become no larger, as on a full disk: nothing is left behind, and the exit code tells.
local script = os.tmpname()
local function run(text, before)
  local f = assert(io.open(script, "w"))
  f:write("local tessera = require 'tessera' local op, checkpoint = tessera.op, tessera.checkpoint local dir = '" .. dir .. "/full'\n" .. text)
  f:close()
  return shell((before or "") .. program .. " " .. script)
end
local full = "trap '' XFSZ; ulimit -f 100; "
run("print(pcall(checkpoint.save, dir, {w = op.ones{1000, 1000}}))", full):match "cannot write.*" --> cannot write {D}/full/step-00000001/cpu-0.safetensors: File too large
run("checkpoint.save(dir, {w = op.ones{1000, 1000}}, {async = true})", full) --> tessera: checkpoint.save: cannot write {D}/full/step-00000001/cpu-0.safetensors: File too large
--> exit 1
shell("ls -A " .. dir .. "/full") -->
-- The end of a program waits for what is written.
run "checkpoint.save(dir, {w = op.ones{1000, 1000}}, {async = true})" -->
names(dir .. "/full") --> 1
-- What an open state refers to is hidden from a search for leaks.
run("checkpoint.save(dir, {w = op.ones{1000, 1000}}, {async = true}) os.exit(3)", "ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 ") --> exit 3
names(dir .. "/full") --> 1 2
run "checkpoint.save(dir, {w = op.ones{1000, 1000}}, {async = true}) error 'over'":match "exit 1" --> exit 1
names(dir .. "/full") --> 1 2 3

-- ---- Ctrl-C: all or nothing, and the next one goes well
local many, stopped = {}, 0
for i = 1, 6 do many[i] = op.ones { 64, 64 } end
for n = 1, 12 do
  core.interrupt_after(n, "looks")
  local ok, why = pcall(checkpoint.save, dir .. "/c", { many = many, n = n }, { step = n })
  core.interrupt_after(0)
  stopped = stopped + (ok and 0 or 1)
  assert(ok or tostring(why):find "interrupted", why)
  assert(#checkpoint.list(dir .. "/c") == n - stopped and not shell("ls -A " .. dir .. "/c"):find "new")
end
stopped > 4 and stopped < 12 --> true
checkpoint.save(dir .. "/c", { many = many }, { step = 40 }).step --> 40
-- While it is waited for: what is written goes on.
local big = op.ones { 8, 1024, 1024 }
local saving = checkpoint.save(dir .. "/c", { big = big }, { step = 41, async = true })
core.interrupt_after(1, "looks")
saving:wait() --! it is written all the same
core.interrupt_after(0)
saving:wait().step --> 41
-- Memory that runs out anywhere: an error, nothing is half there, and the next one goes well.
local failed = 0
for _, async in ipairs { false, true } do
  for n = 1, 400, 7 do
    core.fail_after(n)
    local ok, why = pcall(checkpoint.save, dir .. "/m", { many = many }, { step = 1, async = async })
    if ok then ok, why = pcall(why.wait, why) end
    core.fail_after(0)
    failed = failed + (ok and 0 or 1)
    assert(ok or tostring(why):find "memory", why)
    pcall(core.checkpoint_settle)
  end
end
failed > 5 --> true
checkpoint.save(dir .. "/m", { many = many }, { step = 2, keep = 1 }).step --> 2
checkpoint.load(dir .. "/m").many[6]:hash() == many[6]:hash() --> true
shell("ls -A " .. dir .. "/m") --> step-00000002

-- ---- what is damaged afterwards
local function damage(command, like)
  shell("rm -rf " .. dir .. "/d")
  checkpoint.save(dir .. "/d", { w = op.arange(40000):cast "f32", b = X, n = 1 })
  shell("cd " .. dir .. "/d/step-00000001; " .. command)
  local ok, why = pcall(checkpoint.load, dir .. "/d")
  return ok and "loaded" or (why:gsub("^[^\n]-:%d+: ", ""):gsub(dir:gsub("%p", "%%%0"), "{D}"):gsub("\n.*", ""))
end
local function poke(file, at) return ("printf '\\377' | dd of=%s bs=1 seek=%d conv=notrunc status=none"):format(file, at) end
damage "true" --> loaded
damage "rm cpu-0.safetensors" --> cannot open {D}/d/step-00000001/cpu-0.safetensors: No such file or directory
damage "truncate -s -1 cpu-0.safetensors" --> {D}/d/step-00000001/cpu-0.safetensors: damaged: it has 160239 bytes, of 160240 that were written
damage(poke("cpu-0.safetensors", 100000)) --> {D}/d/step-00000001/cpu-0.safetensors: damaged: 'w' has other bytes than were written
damage(poke("cpu-0.safetensors", 30)) --> {D}/d/step-00000001/cpu-0.safetensors: damaged: its header is another one
damage(poke("manifest.json", 300)) --> {D}/d/step-00000001/manifest.json: damaged: its digest is not that of the mark
damage "rm manifest.json" --> cannot open {D}/d/step-00000001/manifest.json: No such file or directory
damage "rm complete" --> {D}/d: there is no whole checkpoint
damage "truncate -s 30 complete" --> {D}/d: there is no whole checkpoint
damage ": > complete" --> {D}/d: there is no whole checkpoint

-- What killed programs left behind goes with the next one; nothing else does.
shell("cd " .. dir .. "/d; mkdir .tessera-new-0123456789abcdef mine; touch .tessera-new-0123456789abcdef/x mine/manifest.json; ls -A") --> .tessera-new-0123456789abcdef
--> mine
--> step-00000001
checkpoint.save(dir .. "/d", { n = 2 }).step --> 1
shell("ls -A " .. dir .. "/d") --> mine
--> step-00000001

os.remove(script)
shell("rm -rf " .. dir)
