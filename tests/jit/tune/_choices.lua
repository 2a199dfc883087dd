-- Random choices for kernels of each family, whose results must have the bits that they have without any. A program of its own,
-- for an instruction set or a device: "tessera tests/jit/tune/_choices.lua [device [family ..]]"; SEED in the environment.
local ts = require "tessera"
local core, op, graph, rng, jit = ts.core, ts.op, ts.graph, ts.rng, ts.jit
local choose = require "tessera.tune.choose"
local device = arg[1] ~= "cpu" and arg[1] or nil
local seed = tonumber(os.getenv "SEED") or 11
ts.autotune.mode "off"
if device then core.jit_later(false) end

local at = 0
local function R(shape, dtype)
  at = at + 1
  local t = rng.normal(shape, { seed = at, stream = 1, dtype = dtype })
  return device and t:to(device) or t
end
local half = device and "bf16" or "f32" -- what matrix units take
local cases = {
  { "map", function(a, b) return op.gelu(a * 2 + b), a - b end, R { 7001 }, R { 7001 } },
  { "map", function(a, b) return (a * b):relu() end, R({ 9, 1031 }, "bf16"), R({ 1031 }, "bf16") },
  { "rows", function(a, b) return op.layernorm(op.gelu(a + b)), op.softmax(a) end, R { 40, 771 }, R { 771 } },
  { "rows", function(a, b) return (a * b):sum { axis = 1 } end, R { 3, 9500 }, R { 3, 9500 } },
  { "columns", function(a) return (a * 2):sum { axis = 0 } end, R { 600, 140 } },
  { "matmul", function(a, b) return a:matmul(b):relu() end, R { 133, 70 }, R { 70, 99 } },
  { "matmul", function(a, b) return a:T():matmul(b) * 2 end, R { 300, 70 }, R { 300, 99 } },
  { "matmul", function(a, b, c) return op.gelu(op.matmul(a, b, { bias = c })) end, R({ 136, 64 }, "bf16"), R({ 64, 136 }, "bf16"), R({ 136 }, "bf16") },
  { "matmul", function(a, b) return a:T():matmul(b) end, R({ 64, 128 }, "bf16"), R({ 64, 136 }, "bf16") },
  { "attention", function(q, k, v) return op.attention(q, k, v, { causal = true }):transpose(1, 2):reshape { 1, 150, 128 } end,
    R({ 1, 2, 150, 64 }, half), R({ 1, 2, 150, 64 }, half), R({ 1, 2, 150, 64 }, half) },
  { "attention", function(q, k, v) return op.attention(q, k, v) * 1 end, -- few queries
    R({ 1, 4, 1, 64 }, half), R({ 1, 2, 300, 64 }, half), R({ 1, 2, 300, 64 }, half) },
  { "conv", function(x, w) return op.conv2d(x, w, nil, { padding = 1 }):relu() end, R({ 1, 64, 7, 7 }, half), R({ 64, 64, 3, 3 }, half) },
}
local values = { 1, 2, 3, 4, 5, 8, 12, 16, 32, 48, 64, 100, 128, 192, 256, 500, 1024, 4096, 99999 }
math.randomseed(seed)

local function hash(f, case)
  local t = { f(unpack(case, 3)) }
  for i = 1, #t do t[i] = t[i]:hash() end
  return table.concat(t, " ")
end

local function options_for(g)
  local can, o = {}, {}
  for _, c in ipairs(core.choices()) do
    if g.can[c.name] then can[#can + 1] = c.name end
  end
  for _ = 1, math.random(1, 3) do o[can[math.random(#can)]] = values[math.random(#values)] end
  return o
end

local chosen, names = {}, {}
jit.eager(true)
for n, case in ipairs(cases) do
  local family, f = case[1], graph.module(case[1], case[2])
  f(unpack(case, 3))
  local want = hash(f, case)
  for _, g in ipairs(choose.groups(f)) do
    for _ = 1, g.kernel and next(g.can) and 5 or 0 do
      local c = f:choose(g.group, options_for(g))
      if hash(f, case) ~= want then error(("case %d, %s, seed %d: other bits with %s"):format(n, family, seed, c.choice)) end
      for _, r in ipairs(c.remarks) do
        if r:match "is not possible" then error(("case %d, %s, seed %d: %s"):format(n, family, seed, r)) end
      end
      if c.origin == "chosen by the user" and not chosen[family] and (g.kind == family or g.what:find(family, 1, true)) then
        chosen[family] = true
        names[#names + 1] = family
      end
    end
  end
end
print(table.concat(names, " "))
