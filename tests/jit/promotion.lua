-- Programs whose functions are promoted, at once, at any step, or never, have the same bits.
package.path = "tests/jit/?.lua;" .. package.path
local tiers = require "_tiers"
local tessera = require "tessera"
local nn, optim, op, rng, graph, jit = tessera.nn, tessera.optim, tessera.op, tessera.rng, tessera.graph, tessera.jit

-- ---- a training, promoted at some step, given up at another
local function train(steps, at)
  rng.seed(5)
  local model = nn.Sequential(nn.Linear(12, 40), nn.GELU(), nn.LayerNorm(40), nn.Linear(40, 3))
  local step = graph.training_step(model, function(m, x, y) return op.cross_entropy(m(x), y) end,
    optim.AdamW(model:parameters(), { lr = 1e-2 }))
  local x = rng.normal { 50, 12 }
  local y = x:narrow(1, 0, 3):argmax { axis = 1 }
  local loss
  for i = 1, steps do
    if at[i] then at[i]() end
    loss = step(x, y)
  end
  local parts = { loss:hash() }
  for _, p in ipairs(model:parameters()) do parts[#parts + 1] = p:hash() end
  return table.concat(parts, " ")
end

jit.off()
local want = train(100, {})
jit.on()
assert(train(100, {}) == want, "by itself")
local state = 1
local function random(n)
  state = (state * 1103515245 + 12345) % 2147483648
  return math.floor(state / 65536) % n + 1
end
local function now() jit.eager(true) end
for round = 1, 8 do
  jit.flush()
  jit.eager(false)
  local before = jit.stats().kernels
  local up, down = random(60), 60 + random(40)
  local acts = { [up] = now, [down] = round % 2 == 0 and jit.off or jit.flush }
  local got = train(100, acts)
  assert(got == want, ("promoted at step %d, given up at step %d"):format(up, down))
  assert(not jit.status() or jit.stats().kernels > before)
  jit.on()
end
jit.eager(false)

-- ---- the examples, small
local picture = os.tmpname()
local options = {
  cnn = "--steps 3 --train 256 --test 64 --target 0",
  gpt_char = "--steps 2",
  mlp = "--steps 20 --target 0",
  moe = "--steps 3",
  pinn = "--steps 5 --rounds 1 --points 64 --tolerance 100 --picture " .. picture .. ".png",
}
local EAGER = "local t = require [[tessera]] t.jit.eager(true)"
local function hashes(before, script)
  local out, status = tiers.shell(("%s %s --hash %s"):format(tiers.program, before, script))
  local list = {}
  for line in out:gmatch "[^\n]+" do
    if line:match " %x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x$" then list[#list + 1] = line end
  end
  -- Those that return no tensors print what they found, with times in some lines.
  return #list > 0 and table.concat(list, "\n") or out:gsub("[^\n]*%f[%w][mu]?s%f[%W][^\n]*", ""), status, out
end

local listed = tiers.shell "ls examples/*.lua"
local only, n, at = os.getenv "EXAMPLE" or "", 0, 0
for path in listed:gmatch "%S+" do
  local script = path .. " " .. (options[path:match "([%w_]+)%.lua"] or "")
  at = at + 1 -- each third; LONG or EXAMPLE: all
  if path:find(only, 1, true) and (at % 3 == 0 or only ~= "" or os.getenv "LONG") then
    local plain, status, text = hashes("--no-jit", script)
    assert(status == 0, path .. "\n" .. text)
    local eager, other, said = hashes("-e '" .. EAGER .. "'", script)
    assert(other == 0, path .. "\n" .. said)
    assert(plain == eager, path .. "\n" .. plain .. "\n" .. eager)
    n = n + 1
  end
end
os.remove(picture)
os.remove(picture .. ".png")
n > 0 --> true

-- ---- jit.wait() waits for all, also for what the first function has made ready behind it
local WAITS = [[
local tessera = require "tessera"
local op, graph, jit = tessera.op, tessera.graph, tessera.jit
local f = graph.module("f", function(x) return ((x * 2 + 1):exp() - x):sum{axis = 1} end)
local x, n = op.ones{100, 100}, 0
repeat f(x) n = n + 1 until jit.stats().jobs > 0 or n == 1e6
jit.wait()
print(n < 1e6, jit.stats().jobs)
]]
tiers.run(WAITS, "", "TESSERA_CACHE=off") --> true	0
--> , 0
