-- dist.map and its collectives beside the same programs without a mesh; gradients too, eager and captured.
local tessera = require "tessera"
local dist, op, graph = tessera.dist, tessera.op, tessera.graph
local cpu = "cpu:0"
-- tests/net runs it in several processes.
local devices = dist.world() > 1 and dist.range(4) or { cpu, cpu, cpu, cpu }
local mesh = dist.Mesh { axes = { "dp", "tp" }, shape = { 2, 2 }, devices = devices }

local function run(f, args)
  local own = {}
  for i, a in ipairs(args) do
    own[i] = a:clone()
    own[i].requires_grad = true
  end
  local y = f(unpack(own))
  y:square():sum():backward()
  local out = { dist.gather(y:detach()) }
  for i, a in ipairs(own) do out[i + 1] = a.grad end
  return out
end

local function agree(name, plain, mapped, args)
  local want = run(plain, args)
  for how, f in pairs { eager = mapped, captured = graph.module("map", function(...) return mapped(...) end) } do
    local got = run(f, args)
    for i = 1, #want do
      local apart = (got[i] - want[i]):abs():max():item()
      assert(apart <= 1e-5 * math.max(want[i]:abs():max():item(), 1), ("%s, %s, %d: %g"):format(name, how, i, apart))
    end
  end
end

local x = op.normal({ 4, 4 }, { seed = 1 })
local function halves(y, d) return y:narrow(d, 0, 2), y:narrow(d, 2, 2) end
local function swapped(y)
  local a, b = halves(y, 0)
  return op.concat({ b, a }, { axis = 0 })
end
local programs = {
  all_reduce = { { "dp" }, {}, function(t) return dist.all_reduce(t, "dp") end, function(t)
    local a, b = halves(t, 0)
    return a + b
  end },
  all_gather = { { "dp" }, {}, function(t) return dist.all_gather(t * t, "dp") * 2 end, function(t) return t * t * 2 end },
  reduce_scatter = { {}, { "dp" }, function(t) return dist.reduce_scatter(t * (dist.place "dp" + 1), "dp") end, function(t) return t * 3 end },
  all_to_all = { { "dp" }, { nil, "dp" }, function(t) return dist.all_to_all(t * t, "dp", { split = 1, concat = 0 }) end,
    function(t) return t * t end },
  ragged = { { "dp" }, { "dp" }, function(t) return dist.all_to_all(t * t, "dp", { sizes = dist.place "dp" == 0 and { 0, 2 } or { 2, 0 } }) end,
    function(t) return swapped(t * t) end },
  broadcast = { { "dp" }, { "dp" }, function(t) return dist.broadcast(t, "dp", { from = 1 }) * t end, function(t)
    local _, b = halves(t, 0)
    return op.concat({ b, b }, { axis = 0 }) * t
  end },
  scatter = { {}, { "dp" }, function(t) return dist.scatter(t * 3, "dp") end, function(t) return t * 3 end },
  gather = { { "dp" }, {}, function(t)
    return dist.broadcast(dist.gather(t * t, "dp") or op.zeros { 4, 4 }, "dp")
  end, function(t) return t * t end },
  permute = { { "dp" }, { "dp" }, function(t) return dist.permute(t * t, "dp", 1) end, function(t) return swapped(t * t) end },
  send = { { "dp" }, { "dp" }, function(t)
    if dist.place "dp" == 1 then return dist.recv("dp", 0) * t end
    dist.send(t * 2, "dp", 1)
    return t
  end, function(t)
    local a, b = halves(t, 0)
    return op.concat({ a, a * 2 * b }, { axis = 0 })
  end },
  barrier = { { nil, { "dp", "tp" } }, { nil, { "dp", "tp" } }, function(t)
    dist.barrier()
    return t:exp()
  end, op.exp },
  summands = { { "dp" }, { reduce = "sum", over = { "dp" } }, function(t) return t:sum { axis = 0 } end, function(t) return t:sum { axis = 0 } end },
}
for name, p in pairs(programs) do agree(name, p[4], dist.map(mesh, p[1], p[2], p[3]), { x }) end

-- A layer split by hand over tp, its batch over dp, of uneven sizes.
agree("layer", function(t, a, b) return op.matmul(op.relu(op.matmul(t, a)), b) end,
  dist.map(mesh, { { "dp" }, { nil, "tp" }, { "tp" } }, { { "dp" } }, function(t, a, b)
    return dist.all_reduce(op.matmul(op.relu(op.matmul(t, a)), b), "tp")
  end), { op.normal({ 5, 6 }, { seed = 1 }), op.normal({ 6, 7 }, { seed = 2 }), op.normal({ 7, 3 }, { seed = 3 }) })
dist.map(mesh, { { "dp" } }, { {} }, function(t) return dist.all_reduce(t:max(), "dp", "max") end)(x):gather():item() == x:max():item() --> true

-- Of tensors over a mesh.
local s = dist.map(mesh, { { "dp" } }, { { reduce = "sum", over = { "dp" } } }, function(t) return t * 1 end)(x)
assert(dist.all_reduce(s, "dp"):hash() == programs.all_reduce[4](x):hash())
assert(tostring(dist.spec_of(dist.reduce_scatter(s, "dp"))) == '{"dp"}')
local d = dist.shard(x, mesh, { "dp", "tp" })
tostring(dist.spec_of(dist.all_gather(d, "dp"))) --> {nil, "tp"}
tostring(dist.spec_of(dist.all_to_all(dist.all_gather(d, "tp"), "dp", { split = 1, concat = 0 }))) --> {nil, "dp"}
dist.all_reduce(d, "dp") --! has no summands along dp
dist.all_reduce(x, "dp") --! it stands in dist.map
dist.barrier() --! it stands in the function of dist.map

-- ---- what is wrong
local function mapped(f, out) return dist.map(mesh, { { "dp" } }, { out or {} }, f)(x) end
mapped(function(t) if dist.place "dp" == 1 then return dist.all_reduce(t, "dp") end dist.barrier() return t end) --! part 0 stands at dist.barrier (map.lua:
mapped(function(t) return dist.place "dp" == 1 and dist.all_reduce(t, "dp") or t end) --! part 0 has returned, part 2 stands at dist.all_reduce
mapped(function(t) return dist.all_reduce(t, dist.place "dp" == 1 and "tp" or "dp") end) --! all parts come to the same collectives
mapped(function() return dist.recv("dp", 0) end) --! nobody answers
mapped(function(t) return dist.all_reduce(t, "pp") end) --! has no axis 'pp'
dist.map(mesh, { {} }, { {} }, function(t) return t end)(x, x) --! dist.map: 2 arguments, of which in_specs has 1: argument 2 has none
mapped(function(t) return dist.broadcast(t, "dp", { from = 2 }) end) --! from = 2, of 2 parts
dist.map(mesh, { { "dp" } }, { { "tp" } }, function(t) return t end)(op.ones { 5, 4 }) --! result 1 of part 2 is f32[3,4]
mapped(function() return 1 end) --! is a number, not a tensor
mapped(function(t) return t, t end) --! gives 2 results, and there are 1 specs
mapped(function(t) error("in the body", 0) end) --! in the body
dist.map(mesh, { { "dp" } }, { {} }, 3) --! dist.map
