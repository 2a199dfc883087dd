-- Random tensors, meshes of up to eight devices and layouts over them, and what is done with these: moves, sums, products and
-- their gradients, each beside one device. Library of tests; `devices(i)` names device i from 0.
local tessera = require "tessera"
local dist, op, rng, graph = tessera.dist, tessera.op, tessera.rng, tessera.graph
local M = {}

local SHAPES = { { 8 }, { 4, 2 }, { 2, 4 }, { 2, 2, 2 }, { 3, 2 }, { 7 }, { 5 }, { 2, 3 } }
local AXES = { "a", "b", "c" }

local function pick(list) return list[math.random(#list)] end

local function shuffle(list)
  for i = #list, 2, -1 do
    local j = math.random(i)
    list[i], list[j] = list[j], list[i]
  end
  return list
end

-- Devices in their order, or in another one.
local function mesh_of(devices)
  local shape, n, axes, all, own = pick(SHAPES), 1, {}, {}, {}
  for i, size in ipairs(shape) do n, axes[i] = n * size, AXES[i] end
  for i = 0, 7 do all[i + 1] = i end
  if math.random() < 0.3 then shuffle(all) end
  local first = math.random(0, 8 - n)
  for i = 1, n do own[i] = devices(all[first + i]) end
  return dist.Mesh { axes = axes, shape = shape, devices = own }, axes
end

-- Axes of a tensor by one axis of the mesh, by two of them or by none; now and then dealt in turn.
local function spec_of(ndim, axes)
  local left, s, text = shuffle { unpack(axes) }, {}, {}
  for d = 1, ndim do
    if #left > 0 and math.random() < 0.6 then
      if #left > 1 and math.random() < 0.3 then s[d] = { table.remove(left), table.remove(left) } else s[d] = table.remove(left) end
    end
    text[d] = type(s[d]) == "table" and table.concat(s[d], "*") or s[d] or "-"
  end
  if math.random() < 0.15 then
    s.block = pick { 1, 2, 3 }
    text[#text + 1] = "/" .. s.block
  end
  return s, "{" .. table.concat(text, ",") .. "}"
end

local function sizes(n, most)
  local s = {}
  for d = 1, n do s[d] = pick { math.random(most), 8 * math.random(3), 16, math.random(9) } end
  return s
end

local function gradients(l, r)
  l, r = l:detach(), r:detach()
  l.requires_grad, r.requires_grad = true, true
  op.tanh(op.matmul(l, r)):sum():backward()
  return l.grad:gather():hash() .. " " .. r.grad:gather():hash()
end

local DTYPES = { "f32", "f32", "bf16", "f16", "f64", "i32", "i8", "bool" }

-- Calls check(what, want, f) so often: f gives a hash, which is to be want.
function M.run(seed, count, devices, check)
  math.randomseed(seed)
  rng.seed(seed)
  for _ = 1, count do
    local mesh, axes = mesh_of(devices)
    local dtype, shape = pick(DTYPES), sizes(math.random(4), 20)
    local x = (rng.normal(shape) * 8):cast(dtype)
    local from, from_text = spec_of(#shape, axes)
    local to, to_text = spec_of(#shape, axes)
    local what = ("%s %s[%s] %s"):format(tostring(mesh):match "[^\n]*", dtype, table.concat(shape, ","), from_text)
    local captured = math.random() < 0.3
    check(what .. " to " .. to_text, x:hash(), function()
      local xs, y = dist.shard(x, mesh, from), nil
      local f = function(t) return t:reshard(to) end
      if captured then f = graph.module("f", f) end
      for _ = 1, captured and 3 or 1 do y = f(xs) end
      return y:gather():hash()
    end)
    if math.random() < 0.3 then
      local other, names = mesh_of(devices)
      local there, text = spec_of(#shape, names)
      check(what .. " to " .. tostring(other):match "[^\n]*" .. " " .. text, x:hash(), function()
        return dist.shard(x, mesh, from):reshard(there, other):gather():hash()
      end)
    end
    if dtype:find "f" then
      local leaves = pick { 8, 13, 16, 24, 64, 100 }
      dist.leaves(leaves, function()
        local reduce, axis = pick { "sum", "sum", "max", "mean" }, math.random(#shape) - 1
        local out = math.random() < 0.4 and spec_of(#shape - 1, axes) or nil
        if out then out.block = nil end
        check(("%s over %d of %s, %d leaves"):format(reduce, axis, what, leaves), op[reduce](x, { axis = axis }):hash(), function()
          return op[reduce](dist.shard(x, mesh, from), { axis = axis, out = out }):gather():hash()
        end)
        local m, k, n = unpack(sizes(3, 40))
        local l, r = rng.normal({ m, k }):cast(dtype), rng.normal({ k, n }):cast(dtype)
        local left, left_text = spec_of(2, axes)
        local right, right_text = spec_of(2, axes)
        what = ("%s %s %dx%dx%d %s %s, %d leaves"):format(tostring(mesh):match "[^\n]*", dtype, m, k, n, left_text, right_text, leaves)
        check("product " .. what, op.matmul(l, r):hash(), function()
          return op.matmul(dist.shard(l, mesh, left), dist.shard(r, mesh, right)):gather():hash()
        end)
        if dtype == "f32" or dtype == "bf16" then
          check("gradients " .. what, gradients(l, r), function()
            return gradients(dist.shard(l, mesh, left), dist.shard(r, mesh, right))
          end)
        end
      end)
    end
  end
end

return M
