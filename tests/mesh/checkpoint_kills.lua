-- A training that is killed at any moment goes on from a whole checkpoint, on another mesh, to the same bits as one that
-- never was. KILLS: how many times.
local program = arg[-1] or "bin/tessera"
local dir = os.tmpname()
os.remove(dir)
local KILLS, EACH = tonumber(os.getenv "KILLS") or 10, 25 -- and steps for each
local LAST = KILLS * EACH

local function shell(command)
  local p = io.popen("{ " .. command .. "; } 2>&1; echo \"exit $?\"")
  local out = p:read "*a"
  p:close()
  return (out:gsub("exit 0\n$", ""):gsub("\n$", ""))
end

local function train(where, devices, last)
  return ("%s --devices=cpu:8 tests/mesh/_training.lua %s/%s %d %d"):format(program, dir, where, devices, last)
end

local function losses(where)
  local out, n = {}, 0
  for line in io.lines(("%s/%s.log"):format(dir, where)) do
    local step, loss = line:match "^(%d+) (%x+ %d+)$" -- the last line may be cut off
    if loss then
      assert(not out[step] or out[step] == loss, line)
      n = n + (out[step] and 0 or 1)
      out[step] = loss
    end
  end
  return out, n
end

shell("mkdir " .. dir)
local wanted = shell(train("never", 2, LAST))
assert(wanted:match "^%d+" == tostring(LAST), wanted)

math.randomseed(os.time())
local meshes, killed, whole = { 1, 2, 4, 8 }, 0, 0
for i = 1, KILLS do
  -- Before it has begun, or some steps on, however long these take.
  local steps = i % 5 == 0 and 0 or math.random(EACH)
  local said = shell(("touch %s/often.log; n=$(($(wc -l < %s/often.log) + %d)); %s > %s/out & p=$!; while [ $(wc -l < %s/often.log) -lt $n ] && kill -0 $p 2> %s/gone; do sleep 0.01; done; sleep %.3f; kill -9 $p; wait $p")
    :format(dir, dir, steps, train("often", meshes[i % 4 + 1], LAST), dir, dir, dir, 0.03 * math.random()))
  killed = killed + (said:find "exit 137" and 1 or 0)
  -- What is there can be loaded, whatever it was killed at.
  local there = shell(([[%s -l tessera -e 'local c = checkpoint.latest "%s/often" if c then print(checkpoint.load("%s/often").step == c.step) end']])
    :format(program, dir, dir))
  assert(there == "true" or there == "", there)
  whole = whole + (there == "true" and 1 or 0)
end
assert(killed > 0 and whole > 0)
shell(train("often", 4, LAST)) == wanted --> true

local never, n = losses "never"
local often, m = losses "often"
n == LAST and m == LAST --> true
for step, loss in pairs(never) do assert(often[step] == loss, step) end
-- Nothing is left but what was to be kept.
select(2, shell("ls -A " .. dir .. "/often"):gsub("step%-", "")) --> 2
shell("ls -A " .. dir .. "/often | grep -v step") --> exit 1
shell("rm -rf " .. dir)
print(("# %d kills, a checkpoint was there after %d"):format(killed, whole))
