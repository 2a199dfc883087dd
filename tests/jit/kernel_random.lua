-- Kernels of op.kernel drawn at random: tiles of rank 1 to 3 over memory that they do not divide, from places
-- before its beginning and behind its end, reduced along each axis. Compiled code, the interpreter and the
-- simulated GPU give equal bits. KERNELS: how many; SEED.
local tessera = require "tessera"
local op, rng = tessera.op, tessera.rng
local seed, count = tonumber(os.getenv "SEED") or 1, tonumber(os.getenv "KERNELS") or 120
tessera.jit.later(false)
math.randomseed(seed)
rng.seed(seed)

local function one_of(list) return list[math.random(#list)] end
local function maybe(p) return math.random() < p end

local dtypes = { "f32", "f32", "f64", "bf16", "f16", "i32", "i64", "i8", "u8" }
local floats = { f32 = true, f64 = true, bf16 = true, f16 = true }
local sizes, tiles = { 1, 2, 3, 5, 8, 16, 17, 33, 70 }, { 1, 2, 3, 4, 7, 8, 16, 31, 32, 64 }
local reductions = { "sum", "max", "min", "prod", "argmax", "argmin", "mean" }
local unary, binary = { "abs", "neg", "exp", "tanh", "floor", "relu" }, { "add", "sub", "mul", "maximum", "minimum" }

local function result_type(d, reduction)
  local wide = d == "f64" and "f64" or floats[d] and "f32" or d
  if not reduction then return d end
  if reduction:find "^arg" then return "i64" end
  if reduction == "mean" then return d == "f64" and "f64" or "f32" end
  return not floats[d] and (reduction == "sum" or reduction == "prod") and "i64" or wide
end

local function without(list, k)
  local rest = {}
  for i, v in ipairs(list) do if i ~= k then rest[#rest + 1] = v end end
  return rest
end

local function drawn()
  local d, rank = one_of(dtypes), math.random(3)
  local k = { d = d, shape = {}, tile = {}, from = {}, names = {}, reduction = maybe(0.7) and one_of(reductions) or nil }
  for i = 1, rank do
    k.shape[i] = rank == 3 and one_of { 1, 2, 3, 5, 9 } or one_of(sizes)
    k.tile[i] = rank == 3 and one_of { 1, 2, 3, 4, 8 } or one_of(tiles)
    k.from[i] = maybe(0.3) and math.random(-5, 5) or 0
    k.names[i] = maybe(0.5) and ("MNK"):sub(i, i) or tostring(k.shape[i])
  end
  k.axis = k.reduction and math.random(rank)
  k.fill = maybe(0.4) and one_of(floats[d] and { 1, -1, math.huge, -math.huge } or { 1, 5 }) or 0
  k.unary = floats[d] and maybe(0.4) and one_of(unary) or nil
  k.binary = maybe(0.3) and one_of(binary) or nil
  k.out = k.axis and without(k.shape, k.axis) or k.shape
  k.out_names = k.axis and without(k.names, k.axis) or k.names
  k.out_tile = k.axis and without(k.tile, k.axis) or k.tile
  return k
end

local function body(k)
  return function(t, x, y)
    local edge = { edge = true, fill = k.fill }
    local function value(at)
      local place = {}
      for i = 1, #k.shape do place[i] = (at[i] or 0) + k.from[i] end
      local v = x:load(place, k.tile, edge)
      if k.unary then v = v[k.unary](v) end
      if k.binary then v = v[k.binary](v, x:load(place, k.tile, { edge = true })) end
      return k.reduction and v[k.reduction](v, k.axis - 1) or v
    end
    -- Loops over the axes of the result, the first of them parallel.
    local function nest(i, at, to)
      if i > #k.out then
        y:store(to, value(at), { edge = true })
        return
      end
      local size = tonumber(k.out_names[i]) or t[k.out_names[i]]
      local axis = k.axis and i >= k.axis and i + 1 or i
      for p in t[i == 1 and "parallel" or "range"](t, 0, size, k.out_tile[i]) do
        at[axis], to[i] = p, p
        nest(i + 1, at, to)
      end
    end
    if #k.out == 0 then
      for _ in t:parallel(0, 1) do y:store({}, value {}) end
    else
      nest(1, {}, {})
    end
  end
end

local function text(k)
  return ("%s[%s] tile %s from %s %s %s fill %s %s %s"):format(k.d, table.concat(k.shape, ","), table.concat(k.tile, "x"),
    table.concat(k.from, ","), k.reduction or "-", k.axis or "-", k.fill, k.unary or "-", k.binary or "-")
end

local wrong, ran = {}, 0
for n = 1, count do
  local k = drawn()
  local types = { x = ("%s[%s]"):format(k.d, table.concat(k.names, ",")) }
  local out = { y = ("%s[%s]"):format(result_type(k.d, k.reduction), table.concat(k.out_names, ",")) }
  local ok, compiled = pcall(op.kernel, "random", types, out, body(k))
  if ok then
    local interpreted = op.kernel("random", types, out, body(k), { interpret = true })
    local x = (rng.normal(k.shape) * 3):cast(k.d == "u8" and "i32" or k.d):cast(k.d)
    local want = interpreted(x):hash()
    local got, there = compiled(x):hash(), compiled(x:to "sim:0"):hash()
    ran = ran + 1
    if got ~= want or there ~= want then
      wrong[#wrong + 1] = ("%d: %s%s%s"):format(n, text(k), got ~= want and ", compiled" or "", there ~= want and ", sim" or "")
    end
  else
    wrong[#wrong + 1] = ("%d: %s: %s"):format(n, text(k), compiled)
  end
end
assert(ran > 0)
#wrong == 0 or table.concat(wrong, "\n") --> true
