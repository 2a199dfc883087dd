local tessera = require "tessera"
local op, rng = tessera.op, tessera.rng

-- Philox of counter 0 and key 0 begins 6627e8d5 e169c58d bc57ac4c 9b00dbd8
rng.randint({1}, 0, 2^32, {seed = 0}):item() --> 3781805453
rng.randint({17}, 0, 2^32, {seed = 0})[16]:item() --> 2600524760
rng.uniform({1}, {seed = 0}):item() * 2^24 --> 6694888
rng.uniform({17}, {seed = 0})[16]:item() * 2^24 --> 14772677

-- a value depends on seed, stream and its index, not on the shape
local a = rng.normal({3000}, {seed = 5, stream = 2})
local b = rng.normal({30, 50}, {seed = 5, stream = 2})
assert(a:narrow(0, 0, 1500):hash() == b:flatten():hash())
assert(a:hash() ~= rng.normal({3000}, {seed = 5, stream = 3}):hash())
assert(a:hash() ~= rng.normal({3000}, {seed = 6, stream = 2}):hash())
assert(rng.normal({8}):hash() ~= rng.normal({8}):hash())

-- moments; the bounds are five standard deviations
local n = 200000
local function moments(x)
  local d = x:cast("f64")
  local m = d:sum():item() / x.numel
  local c = d - m
  return m, (c * c):sum():item() / x.numel
end
local function near(x, y, bound)
  assert(math.abs(x - y) < bound, ("%g is not %g"):format(x, y))
end
for _, d in ipairs{"f32", "f64", "f16", "bf16"} do
  local m, v = moments(rng.uniform({n}, {dtype = d, seed = 1}))
  near(m, 0.5, 0.0033) near(v, 1 / 12, 0.0009)
  m, v = moments(rng.normal({n}, 3, 2, {dtype = d, seed = 1}))
  near(m, 3, 0.023) near(v, 4, 0.07)
  m, v = moments(rng.truncated_normal({n}, {dtype = d, seed = 1}))
  near(m, 0, 0.01) near(v, 0.77374, 0.012)
end
local m = moments(rng.truncated_normal({n}, {low = 5, high = 6, seed = 1}))
near(m, 5.18432, 0.002) -- from scipy.stats.truncnorm
near(moments(rng.bernoulli({n}, 0.2, {seed = 1})), 0.2, 0.0045)
near(moments(rng.randint({n}, -3, 4, {seed = 1})), 0, 0.0224)

-- ranges
local u = rng.uniform({n}, 2, 3, {dtype = "bf16", seed = 3})
assert(u:min():item() >= 2 and u:max():item() < 3)
local t = rng.truncated_normal({n}, 10, 2, {low = -1, high = 0.5, seed = 3})
assert(t:min():item() >= 8 and t:max():item() <= 11)
local k = rng.randint({n}, -3, 4, {dtype = "i8", seed = 3})
k:min():item() --> -3
k:max():item() --> 3
rng.uniform({5}, 2, 2):sum():item() --> 10
rng.bernoulli({9}, 1):sum():item() --> 9
rng.bernoulli({9}, 0):sum():item() --> 0

-- bernoulli and dropout are uniform < p
local p = rng.uniform({1000}, {seed = 9}):lt(0.3)
assert(rng.bernoulli({1000}, 0.3, {seed = 9}):hash() == p:hash())
local x = op.ones({1000})
local kept = op.where(p, 0, x * (1 / 0.7))
assert(op.dropout(x, 0.3, {seed = 9}):hash() == kept:hash())
op.dropout(op.full({4}, 0 / 0), 1):sum():item() --> 0

-- permutation
local q = rng.permutation(1000, {seed = 4})
assert(op.sort(q):hash() == op.arange(1000):hash())
assert(q:hash() ~= op.arange(1000):hash())
rng.permutation(0).numel --> 0
rng.permutation(300, {dtype = "u8"}) --! 299 does not fit into u8

-- categorical follows the softmax
local logits = tessera.tensor({{0, math.log(3)}, {-math.huge, 0}})
local drawn = rng.categorical(logits, 40000, {seed = 2})
drawn.shape[2] --> 40000
near(drawn[0]:sum():item() / 40000, 0.75, 0.011)
drawn[1]:sum():item() --> 40000
rng.categorical(op.zeros({2, 0})) --! no classes
rng.categorical(op.full({2, 3}, -math.huge)) --! row 0 has no class to draw

-- mistakes
rng.uniform({2}, 1, 0) --! no interval from 1 to 0
rng.uniform({2}, {dtype = "i32"}) --! makes floats, not i32
rng.normal({2}, 0, -1) --! std -1
rng.randint({2}, 3, 3) --! no whole number in [3, 3)
rng.randint({2}, 0, 300, {dtype = "u8"}) --! does not fit into u8
rng.bernoulli({2}, 1.5) --! p = 1.5 is no probability
rng.truncated_normal({2}, {low = 1, high = 1}) --! nothing lies between 1 and 1

-- Several logits of +inf are drawn alone, each as often; of wider floats as of f32.
for _, d in ipairs { "f32", "f64", "bf16" } do
  local logits = tessera.tensor({ 1 / 0, 5, 1 / 0, -1 / 0, 1 / 0 }, { dtype = d })
  local n = rng.categorical(logits, { count = 6000, seed = 4, stream = 9 })
  for class, most in ipairs { 2150, 0, 2150, 0, 2150 } do
    local drawn = n:eq(class - 1):sum():item()
    assert(drawn <= most and drawn >= most - 300, d .. " " .. drawn)
  end
end
rng.categorical(tessera.tensor { 1, 1 / 0, 2 }, { count = 3 }) --> [1 1 1]
--> i64[3]
rng.categorical(tessera.tensor { 1 / 0, 0 / 0 }) --! no class to draw

-- A call that fails has drawn nothing, also while a function is captured.
local function state() return table.concat({ rng.state() }, " ") end
local wrong = {
  function() return rng.uniform({ 2 }, { dtype = "i32" }) end,
  function() return op.dropout(tessera.tensor { 1 }:cast "complex64", 0.3) end,
  function() return rng.categorical(tessera.tensor { 1 / 0, 0 / 0 }) end,
  function() return rng.normal({ 2 }, { std = -1 }) end,
  function() return op.dropout(tessera.tensor { 1 }, 2) end,
  function() return rng.bernoulli({ 2 }, { p = 2 }) end,
  function() return rng.randint({ 2 }, 3, 3) end,
}
for k, f in ipairs(wrong) do
  rng.seed(7)
  local at = state()
  assert(not pcall(f) and state() == at, k)
  local g = tessera.graph.module("g", function(x)
    if pcall(f) then return x:item() end -- known when it runs: this one is no use here
    return x + rng.uniform { 2 }
  end)
  local x = tessera.tensor { 1, 2 }
  rng.seed(7)
  local want = (x + rng.uniform { 2 }):hash()
  local after = state()
  rng.seed(7)
  local fine, y = pcall(g, x)
  assert(not fine or (y:hash() == want and state() == after), k)
end
