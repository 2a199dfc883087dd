local tessera = require "tessera"
-- Layers, losses and optimiser steps against PyTorch: the cases of
-- tests/vm/vectors_nn.txt, in f64 and f32, from row-major and from permuted inputs.
local op = tessera.op
local cases = assert(loadfile("tests/vm/vectors_nn.txt"))()

-- The formula of tests/vm/vectors_nn.py.
local function input(spec, dtype)
  local shape, seed = spec[1], spec[2]
  local n, v = 1, {}
  for _, s in ipairs(shape) do n = n * s end
  for i = 0, n - 1 do
    local r = (i * 7919 + seed * 104729) % 2003
    v[i + 1] = spec.below and r % spec.below or (r / 1001 - 1) * spec.scale
  end
  local x = tessera.tensor(v)
  x = spec.below and x:cast("i64") or x:cast("f32"):cast(dtype)
  return x:reshape(shape)
end

-- The same values behind other strides.
local function permuted(x)
  local n = x.ndim
  if n < 2 then return x end
  local p = {}
  for i = 1, n do p[i] = n - i end
  return x:permute(p):contiguous():permute(p)
end

local function distance(y, expected)
  local v = {}
  for word in expected[2]:gmatch("%S+") do v[#v + 1] = tonumber(word) or 0 / 0 end
  if #v == 0 then return 0 end
  local x = tessera.tensor(v, {dtype = "f64"}):reshape(expected[1])
  local scale = math.max(1, x:abs():max():item())
  return (y:cast("f64") - x):abs():max():item() / scale
end

local squared = {square_v = {[4] = true}, square_state = {[3] = true, [4] = true}}

local function run(case, dtype, change)
  local name, specs, attr, expected = case[1], case[2], {}, case[4]
  local special = {}
  for k, v in pairs(case[3]) do
    if squared[k] or k == "bool_mask" then special[k] = true else attr[k] = v end
  end
  local args, count = {}, #specs
  for i = 1, count do
    local x = specs[i] and input(specs[i], dtype) or nil
    if x and special.bool_mask and i == 4 then x = x:gt(0) end
    for k, set in pairs(squared) do if special[k] and set[i] then x = x * x end end
    args[i] = x and change(x)
  end
  args[count + 1] = attr
  local y = {op[name](unpack(args, 1, count + 1))}
  local worst = 0
  for i, e in ipairs(expected) do worst = math.max(worst, distance(y[i], e)) end
  return worst, #y == #expected
end

-- Nine stored digits: half a unit of the last one is up to 5e-9 of the number.
local limit = {f32 = 4e-6, f64 = 5.1e-9}
local function same(x) return x end

for i, case in ipairs(cases) do
  for dtype, bound in pairs(limit) do
    for _, change in ipairs {same, permuted} do
      local worst, complete = run(case, dtype, change)
      assert(complete, case[1] .. ": wrong number of results")
      assert(worst <= bound, ("case %d, %s %s: off by %g"):format(i, case[1], dtype, worst))
    end
  end
end
