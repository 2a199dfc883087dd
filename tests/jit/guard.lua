-- Targets out of range: a kernel says what the VM says, at the operator's line, and goes on
-- working afterwards.
local tessera = require "tessera"
local graph, op, jit = tessera.graph, tessera.op, tessera.jit
jit.eager(true)

local function same(name, f, good, bad)
  local m = graph.module(name, f)
  local function message()
    local ok, why = pcall(m, unpack(bad))
    return ok and "no error" or why
  end
  jit.off()
  local want = message()
  jit.on()
  for _ = 1, 2 do
    assert(message() == want, message())
    m(unpack(good))
  end
  return ((want:match "%a[%a_]*: target[^(]*" or want:match "%a[%a_]*: index[^(]*"):gsub("%s+$", ""))
end

local x = op.uniform({ 4, 10 }, { seed = 1, stream = 2 })
local function i64(list) return tessera.tensor(list, { dtype = "i64" }) end
local good = { x, i64({ 0, 9, -100, 3 }) }
local function loss(a, t) return op.cross_entropy(a * 2, t) end
print(same("loss", loss, good, { x, i64({ 0, 9, -100, 10 }) })) --> cross_entropy: target 10 of row 3 is not one of 10 classes
local function slope(a, t) return op.cross_entropy_grad(a * 2, t, tessera.tensor(1.0)) end
print(same("slope", slope, good, { x, i64({ -1, 9, 1, 3 }) })) --> cross_entropy_grad: target -1 of row 0 is not one of 10 classes
good = { x, i64({ { 0 }, { -10 }, { 9 }, { 3 } }) }
local function pick(a, t) return op.gather(op.exp(a), t, { axis = -1 }) end
print(same("pick", pick, good, { x, i64({ { 0 }, { -11 }, { 9 }, { 3 } }) })) --> gather: index -11 is out of range for axis 1 of f32[4,10], of size 10
jit.eager(false)
