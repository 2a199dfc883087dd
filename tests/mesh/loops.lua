-- Loops and branches over a mesh: their functions, and what stands between them, run in pieces, with the bits of one device; what
-- is sent in them is known before, with how often; and what cannot be cut says why.
local tessera = require "tessera"
local core, dist, op, rng, graph = tessera.core, tessera.dist, tessera.op, tessera.rng, tessera.graph
local mesh = dist.Mesh { axes = { "dp", "tp" }, shape = { 2, 2 }, devices = { "cpu:0", "sim:0", "cpu:0", "sim:1" } }
dist.leaves(8)
local X, W = rng.normal { 8, 16 }, rng.normal { 16, 16 }
local x, w = dist.shard(X, mesh, { "dp", "tp" }), dist.shard(W, mesh, { "tp" })

local bodies = {
  counted = function(x, w)
    local i, y = op.while_loop(function(i, _) return i:lt(3) end, function(i, y) return i + 1, op.softmax(op.tanh(op.matmul(y, w))) end,
      op.zeros({}, { dtype = "i64" }), x)
    return y:sum { axis = 0 }, y
  end,
  until_large = function(x, w)
    return (op.while_loop(function(y) return y:abs():sum():lt(1e4) end, function(y) return op.matmul(y, w) end, x))
  end,
  branch = function(x, w)
    return op.cond(x:sum():gt(0), function(x) return op.layernorm(op.matmul(x, w)) end, function(x) return op.rmsnorm(x) * 2 end, x)
  end,
  rows = function(x, w) return op.scan(function(c, v) local n = op.tanh(op.matmul(c:reshape(1, 16), w)[0] + v) return n, n:sum() end, op.zeros { 16 }, x) end,
  nested = function(x, w)
    local a = op.matmul(x, w) * 2
    local _, y = op.while_loop(function(i, _) return i:lt(3) end, function(i, y)
      local b = op.tanh(op.matmul(y, w))
      local z = op.cond(b:sum():gt(0), function(b) return op.softmax(b) end, function(b) return b + y end, b)
      return i + 1, z + a
    end, op.zeros({}, { dtype = "i64" }), a)
    local q = op.dropout(y, { p = 0.5 })
    local c, ys = op.scan(function(c, v) return c + v, c * v end, op.zeros { 16 }, q - 1)
    return c, ys, q
  end,
}
local functions = {}
for name, body in pairs(bodies) do
  rng.seed(7)
  local want = { body(X, W) }
  functions[name] = graph.module(name, body)
  for round = 1, 3 do
    rng.seed(7)
    local got = { functions[name](x, w) }
    for i = 1, #want do assert(got[i]:hash() == want[i]:hash(), name .. " " .. i .. " in round " .. round) end
  end
  rng.seed(7)
  local alone = { graph.module(name, body)(X, W) }
  for i = 1, #want do assert(alone[i]:hash() == want[i]:hash(), name .. " on one device") end
end

-- Rows that are done by others have their leaves in loops, too.
for name, f in pairs { var = function(x) return op.var(x) end, logsumexp = function(x) return op.logsumexp(x, { axis = 0 }) end,
  cross_entropy = function(x) return op.cross_entropy(x, op.arange(8)) end } do
  local function looped(x) return op.cond(x:sum():gt(-1e9), function(x) return f(x) end, function(x) return f(x) * 2 end, x) end
  local want = f(X):hash()
  assert(graph.module(name, looped)(X):hash() == want and graph.module(name, looped)(x):hash() == want, name)
end

-- So have sums of what lies on one device, between loops and in them, where another argument is spread.
do
  local function mixed(x, y)
    local c = op.cond(y:sum():gt(0), function(v) return v * v:sum { axis = 0 } end, function(v) return v - v:mean { axis = 0 } end, y)
    local _, z = op.while_loop(function(i) return i:lt(2) end, function(i, v) return i + 1, op.tanh(op.matmul(v, v)) end,
      op.zeros({}, { dtype = "i64" }), op.matmul(c, y:T()))
    return op.matmul(z, c), x * 2
  end
  local y = rng.normal { 5, 17 }
  local want = mixed(X, y):hash()
  assert(graph.module("mixed", mixed)(X, y):hash() == want)
  for _, spread in ipairs { x, dist.replicate(X, mesh) } do assert(graph.module("mixed", mixed)(spread, y):hash() == want) end
end

-- What is sent is what was told, wherever that is known before: calls, their order in a round, and bytes.
local function sums(rows)
  local n, bytes = 0, 0
  for _, r in ipairs(rows) do n, bytes = n + r.count, bytes + r.count * r.bytes end
  return n .. " " .. bytes
end
for _, name in ipairs { "counted", "rows" } do
  local before = core.mesh_sent()
  functions[name](x, w)
  local _, sent = core.mesh_sent(before)
  assert(sums(functions[name]:collectives(x, w)) == sums(sent), name .. "\n" .. tostring(functions[name]:collectives(x, w)) .. "\n" .. tostring(dist.sent(#sent)))
end
tostring(functions.rows:collectives(x, w)):match ", 7 times" --> , 7 times
local told = tostring(functions.branch:collectives(x, w))
told:match "where a cond is true" ~= nil, told:match "where a cond is false" ~= nil, told:match "if each of them runs once" ~= nil --> true, true, true
tostring(functions.until_large:collectives(x, w)):match "all_reduce[^\n]*, in each round of a while_loop" ~= nil --> true

-- ---- what says so
tostring(functions.counted:why()):match "// counted: (.-);" --> its loops and branches (while_loop at tests/mesh/loops.lua:12) run round by round on its mesh
tostring(functions.nested:why()):match "\n// (dropout at [^\n]*)" --> dropout at tests/mesh/loops.lua:30 runs as a call of its own: what it draws depends on where it stands in the whole
functions.nested:facts "why".remarks[1]:match "^dropout" --> dropout
local list = tessera.profile.measure(functions.counted, { args = { x, w }, runs = 2, marks = false })
local pieces = 0
for _, row in ipairs(list.instructions) do pieces = pieces + (row.what:match "matmul" and row.calls or 0) end
pieces >= 12, list.collectives[1].calls --> true, 3
dist.leaves(0)
