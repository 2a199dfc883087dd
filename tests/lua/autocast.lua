-- Automatic casts: beside PyTorch's, beside the same casts written out, in all ways of running, and by training steps.
local tessera = require "tessera"
local core = require "tessera.core"
local op, nn, optim, graph, rng, autocast = tessera.op, tessera.nn, tessera.optim, tessera.graph, tessera.rng, tessera.autocast

local function f32(name, ...) return rng.normal({ ... }, { seed = 3, stream = #name }) end
local function equal(a, b) return a.dtype == b.dtype and a:hash() == b:hash() end

-- ---- PyTorch's: products in 16 bits, the loss in f32, gradients of f32 weights in f32
local torch = tessera.load "tests/lua/autocast.safetensors"
for _, dtype in ipairs { "bf16", "f16" } do
  local w = {}
  for _, name in ipairs { "conv", "conv_bias", "w", "bias" } do w[name] = torch[name]:clone():requires_grad_(true) end
  local h, z, loss
  autocast(dtype, function()
    h = op.relu(op.conv2d(torch.x, w.conv, w.conv_bias))
    z = op.linear(h:flatten(1), w.w, w.bias)
    loss = op.mse(z, torch.y)
  end)
  assert(equal(h, torch[dtype .. "/h"]) and equal(z, torch[dtype .. "/z"]), dtype)
  -- Twelve squares: their sum is rounded in another order.
  assert(loss.dtype == "f32" and math.abs(loss:item() / torch[dtype .. "/loss"]:item() - 1) <= 12 * 2 ^ -24, dtype)
  loss:backward()
  for name, p in pairs(w) do
    local wanted = torch[dtype .. "/grad/" .. name]
    assert(p.grad.dtype == "f32")
    -- Behind both products gradients are rounded to 16 bits, from sums in another order: each is off by a place at most.
    local off = (p.grad - wanted):abs():max():item() / wanted:abs():max():item()
    assert(off <= (2 * (dtype == "bf16" and 2 ^ -8 or 2 ^ -11)), dtype .. name .. off)
  end
end

-- ---- each operator of the column, and some without, beside casts written out
local x, y = f32("x", 4, 6), f32("yy", 4, 6)
local low = {
  matmul = function(c) return op.matmul(c(x), c(y):transpose()) end,
  linear = function(c) return op.linear(c(x), c(y)) end,
  einsum = function(c) return op.einsum(c(x), c(y), "ij,kj->ik") end,
  prelu = function(c) return op.prelu(c(x), c(f32("p", 6))) end,
  attention = function(c)
    local q, mask = c(f32("q", 1, 2, 4, 8)), c(f32("m", 4, 4))
    return op.attention(q, q, q, mask)
  end,
  lstm = function(c)
    local s = f32("state", 2, 3)
    return (op.lstm(c(f32("l", 4, 2, 12)), c(f32("lw", 12, 3)), c(s), c(s)))
  end,
}
local full = {
  exp = function(c) return op.exp(c(x)) end,
  sum = function(c) return op.sum(c(x), { axis = 1 }) end,
  softmax = function(c) return op.softmax(c(x)) end,
  layernorm = function(c) return op.layernorm(c(x), c(f32("g", 6)), c(f32("b", 6))) end,
  cross_entropy = function(c) return op.cross_entropy(c(x), tessera.tensor({ 1, 0, 5, 2 }, { dtype = "i64" })) end,
  pow = function(c) return c(x) ^ 2 end,
  method = function(c) return c(x):mean() end,
}
local function as(dtype) return function(t) return t:cast(dtype) end end
local function same(t) return t end
for _, dtype in ipairs { "bf16", "f16" } do
  for name, f in pairs(low) do
    local wanted = f(as(dtype))
    assert(wanted.dtype == dtype, name)
    assert(equal(autocast(dtype, f, same), wanted), name)
    assert(equal(autocast(dtype, graph.module(f), same), wanted), name)
    assert(equal(autocast(dtype, f, as "f64"), f(as "f64")), name) -- f64 stays
  end
  for name, f in pairs(full) do
    local wanted = f(function(t) return t:cast(dtype):cast "f32" end)
    assert(wanted.dtype == "f32", name)
    assert(equal(autocast(dtype, f, as(dtype)), wanted), name)
    assert(equal(autocast(dtype, graph.module(f), as(dtype)), wanted), name)
    assert(equal(autocast(dtype, f, as "f64"), f(as "f64")), name)
  end
  -- Others take what they are given, by the usual promotion.
  assert(equal(autocast(dtype, op.add, x:cast(dtype), y), x:cast(dtype) + y))
  assert(autocast(dtype, op.relu, x:cast(dtype)).dtype == dtype)
end
-- Integers and bare numbers.
autocast("bf16", function() return op.matmul(op.ones({ 2, 2 }, { dtype = "i64" }), op.ones({ 2, 2 }, { dtype = "i64" })).dtype end) --> i64
autocast("bf16", function() return (2 ^ x:cast "bf16").dtype end) --> f32

-- What an operator is defined by is no call of the program's: cdist is full, and has a product in it.
assert(equal(autocast("bf16", op.cdist, x, y), op.cdist(x, y)))
local cosine = graph.module(op.cosine_similarity)
assert(equal(autocast("bf16", cosine, x, y), op.cosine_similarity(x, y)))

-- ---- where it ends: behind the function, an error, an interrupt of it, and inside by false
local function dtype_of() return op.matmul(x, y:transpose()).dtype end
dtype_of() --> f32
autocast("bf16", dtype_of) --> bf16
autocast("bf16", function() return autocast(false, dtype_of) .. dtype_of() .. autocast("f16", dtype_of) end) --> f32bf16f16
pcall(autocast, "bf16", error) --> false, nil
autocast("bf16", function() op.matmul(x, x) end) --! matmul: inner sizes differ
dtype_of() --> f32
select("#", autocast("bf16", function(...) return ... end, 1, nil, 3)) --> 3
autocast("bf16") --! autocast: a function is needed, not a no value
autocast("f32", dtype_of) --! autocast: the dtype is 'bf16' or 'f16', or false for no casts, not f32
autocast(nil, dtype_of) --! or false for no casts, not nothing

-- ---- captured functions are captured for each, and their reasons say so
local product = graph.module(function(a, b) return op.matmul(a, b:transpose()) end)
product(x, y).dtype --> f32
autocast("bf16", product, x, y).dtype --> bf16
product(x, y).dtype --> f32
autocast("f16", product, x, y).dtype --> f16
#product.history >= 1 --> true
product.history[1]:match "captured: automatic casts are to %w+, in the closest one %w+" --> captured: automatic casts are to bf16, in the closest one off

-- ---- training steps: captured and eager ones have the same bits, weights stay in f32
local data, wanted = f32("data", 16, 6), f32("wanted", 16, 1)
local function loss(m, a, b) return op.mse(m(a), b) end
local function train(given, eager, around)
  core.seed(5)
  local model = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 1))
  local step = graph.training_step(model, loss, optim.AdamW(model:parameters(), { lr = 0.01 }), given)
  local last
  graph.eager = eager or false
  for i = 1, 5 do last = around and autocast(around, step, data, wanted) or step(data, wanted) end
  graph.eager = false
  local text = { last:hash() }
  for _, p in ipairs(model:parameters()) do
    assert(p.dtype == "f32")
    text[#text + 1] = p:hash()
  end
  return table.concat(text, " "), last:item()
end
local plain, at = train()
for _, dtype in ipairs { "bf16", "f16" } do
  for _, scale in ipairs { false, 1024 } do
    local given = { autocast = dtype, scale = scale or nil }
    local bits, loss = train(given)
    assert(bits ~= plain and math.abs(loss - at) < 0.05 * at, dtype)
    assert(bits == train(given, true), dtype)
    assert(bits == train({ scale = scale or nil }, false, dtype), dtype)
  end
end
graph.training_step(nn.Linear(2, 2), loss, optim.SGD({ op.zeros { 1 } }), { autocast = "f32" }) --! option 'autocast' must be one of 'bf16', 'f16', not 'f32'
