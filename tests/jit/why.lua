-- :why has one reason for each pair of kernels of which one reads the other, on every target, and one for each member of a
-- kernel; and where a size makes a fusion possible the reason is gone.
package.path = "tests/jit/?.lua;" .. package.path
local tessera = require "tessera"
local core = require "tessera.core"
local pairs_of = require "_pairs"
local op, graph, rng, nn, optim = tessera.op, tessera.graph, tessera.rng, tessera.nn, tessera.optim

local targets = { "avx512", "avx2", "base", "sm_80", "sm_90a", "gfx942" }
local seen = {}

-- Runs f, and looks at all targets; gives the reasons on one of them.
local function reasons(f, target, ...)
  f(...)
  local list
  for _, t in ipairs(targets) do
    local found, why = pairs_of.check(f, { target = t })
    if t == target then list = found end
    for _, part in ipairs(why.functions) do
      for _, g in ipairs(part.groups) do
        for _, m in ipairs(g.members) do seen[m.reason] = true end
        for _, r in ipairs(g.reads) do seen[r.reason] = r.text end
      end
    end
  end
  pairs_of.check(f)
  local names = {}
  for _, reason in pairs(list) do names[#names + 1] = reason end
  table.sort(names)
  return table.concat(names, " ")
end
local function module(...) return graph.module("f", ...) end

local function f32(...) return rng.normal({ ... }, { seed = 1, stream = 0 }) end
local function f16(...) return f32(...):cast "f16" end

-- A product, its bias and gelu; then rows, longer than its tiles and as short.
reasons(module(function(x, w, b) return op.gelu(x:matmul(w) + b) end), "avx512", f32(64, 256), f32(256, 512), f32(512)) -->
reasons(module(function(x, w, b) return op.layernorm(op.gelu(x:matmul(w) + b)) end), "avx512", f32(64, 256), f32(256, 1024), f32(1024)) --> row_of_tiles
reasons(module(function(x, w) return op.softmax(x:matmul(w)) end), "avx512", f32(64, 256), f32(256, 64)) --> reduces_tiles
reasons(module(function(x, w) return op.layernorm(x):matmul(w) end), "avx512", f32(64, 256), f32(256, 512)) --> rows_packed
reasons(module(function(x, w) return op.softmax(x):matmul(w) end), "avx512", f32(64, 256), f32(256, 512)) --> rows_packed
-- What is dear to make again is made once; what is cheap is made where it is packed.
reasons(module(function(x, w) return op.gelu(x):matmul(w) end), "avx512", f32(256, 256), f32(256, 4096)) --> packed_cost
reasons(module(function(x, w) return (x * 2):matmul(w) end), "avx512", f32(64, 512), f32(512, 64)) -->
reasons(module(function(x, w) local y = op.gelu(x) return y:matmul(w), y end), "avx512", f32(64, 256), f32(256, 64)) --> read_twice
reasons(module(function(x, w) return op.gelu(x:matmul(w)):sum(0) end), "avx512", f32(64, 256), f32(256, 512)) --> reduces_tiles

-- Columns are gone through twice up to a length.
local centred = module(function(x) return x - x:mean(0) end)
reasons(centred, "avx512", f32(512, 64)) -->
reasons(centred, "avx512", f32(8192, 64)) --> again
-- Rows of the same length are one kernel.
local two_rows = function(n) return module(function(x) return op.softmax(op.layernorm(x):reshape(-1, n)) end) end
reasons(two_rows(64), "avx512", f32(128, 64)) -->
reasons(two_rows(32), "avx512", f32(128, 64)) --> row_lengths
reasons(module(function(x) return op.softmax(x):sum(0) end), "avx512", f32(64, 32)) --> row_or_column
-- Extents, orders, results, several readers, what is no kernel.
reasons(module(function(x) return op.exp(x):sum(1):reshape(8, 8) + op.ones { 8, 8 } end), "avx512", f32(64, 32)) ~= nil --> true
reasons(module(function(x) return op.exp(x):T() + x end), "avx512", f32(64, 64)) ~= nil --> true
reasons(module(function(x) return op.sort(x * 2) + 1 end), "avx512", f32(64, 32)) --> gives_memory takes_memory
reasons(module(function(x, i) return op.scatter_add(x * 2, i, op.exp(x), { axis = 0 }) end), "avx512", f32(8, 4), op.zeros({ 8, 4 }, { dtype = "i64" })) --> takes_memory
reasons(module(function(q, k, v) return op.attention(q * 2, k, v) + 1 end), "avx512", f32(2, 4, 64, 32), f32(2, 4, 64, 32), f32(2, 4, 64, 32)) --> gives_memory takes_memory
reasons(module(function(x) return op.dropout(x, 0.5):matmul(x:T()) end), "avx512", f32(64, 128)) ~= nil --> true

-- Halves for matrix units: what follows is said by what the epilogue takes.
reasons(module(function(x, w, b) return op.tanh(op.relu(x:matmul(w) + b)) end), "sm_90a", f16(128, 128), f16(128, 128), f16(128)) ~= nil --> true
reasons(module(function(x, w) return op.softmax(x:matmul(w) * 2) end), "sm_90a", f16(128, 128), f16(128, 128)) --> reduces_tiles
reasons(module(function(x, w) return op.erf(x:matmul(w)) end), "sm_90a", f16(128, 128), f16(128, 128)) --> unit_heavy
reasons(module(function(x, w) return op.lgamma(x:matmul(w)) end), "sm_90a", f16(128, 128), f16(128, 128)):find "nodes" ~= nil --> true

-- Models: a convolution, a block of a transformer, their gradients and steps.
local conv = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), op.relu)
reasons(module(function(x) return conv(x) end), "avx512", f32(2, 3, 16, 16)) ~= nil --> true
local Block = nn.TransformerEncoderLayer(64, 4)
reasons(module(function(x) return Block(x) end), "avx512", f32(2, 32, 64)) ~= nil --> true
reasons(graph.grad(function(x, w) return op.gelu(op.layernorm(x):matmul(w)):sum() end), "avx512", f32(64, 128), f32(128, 256)) ~= nil --> true
local model = nn.Sequential(nn.Linear(64, 128), op.gelu, nn.LayerNorm(128), nn.Linear(128, 10))
local step = graph.training_step(model, function(m, x, y) return op.cross_entropy(m(x), y) end, optim.AdamW(model:parameters(), { lr = 1e-3 }))
reasons(step, "avx512", f32(64, 64), op.zeros({ 64 }, { dtype = "i64" })) ~= nil --> true
reasons(module(function(x) return op.while_loop(function(h) return h:sum():lt(1e3) end, function(h) return op.exp(h) + h:sum() end, x) end), "avx512", f32(4, 4)) ~= nil --> true

-- What these have seen of the table.
for _, name in ipairs { "begins", "element", "along_row", "down_column", "on_product", "one_reader", "nearer", "same_input", "packed",
  "later", "operand", "readers", "nodes", "axes_of_rows", "extents", "order", "draws", "unit_types", "unit_kind" } do
  if not seen[name] then print("not seen: " .. name) end
end

-- The texts name the operators that it is about, not those that only pass values on.
local function texts(f, ...)
  f(...)
  local list = {}
  for _, g in ipairs(f:why({ target = "avx512" }).functions[1].groups) do
    for _, r in ipairs(g.reads) do list[#list + 1] = r.text end
  end
  return table.concat(list, "; ")
end
texts(module(function(x, w) return (op.softmax(x) * 2):matmul(w) end), f32(64, 256), f32(256, 512)) --> softmax works along rows of 256 elements, an operand of matmul is packed element by element
texts(module(function(x, y) return x:matmul(x) + op.layernorm(y):sum(1, true) end), f32(64, 64), f32(64, 64)) --> layernorm reduces 64 elements at a time, the kernel of matmul stores tiles as they are

-- Hot loops: the same, from the graph that the loop became.
tessera.jit.traces(true)
local x, y = f32(64, 64), f32(64, 64)
for _ = 1, 200 do y = op.softmax((y * 0.5 + x):tanh()):matmul(x) + op.layernorm(y):sum(1, true) end
local loops = tessera.jit.loops()
#loops > 0 --> true
for _, loop in ipairs(loops) do
  local why = loop:why()
  local mine, n = pairs_of.why(why)
  local theirs, m = pairs_of.texts(loop:ir "graph":gsub(" *//[^\n]*", ""), loop:ir "schedule")
  assert(n == m and next(mine))
  for key in pairs(theirs) do assert(mine[key], key) end
  for key in pairs(mine) do assert(theirs[key], key) end
  assert(loop:ir "why":find(mine["0 1"] and "rows of 64 elements" or "", 1, true))
end

-- Kernels on a device.
local function on_sim(f, ...)
  local list = { ... }
  for i, v in ipairs(list) do list[i] = v:to "sim:0" end
  f(unpack(list))
  return pairs_of.check(f, unpack(list))
end
local found = on_sim(module(function(a, b) return op.softmax(op.gelu(a:matmul(b)) + 1):sum(0) end), f32(64, 64), f32(64, 64))
next(found) ~= nil --> true

-- Why a product of few bits has no kernel on a target: what its unit multiplies, and into what it adds up.
local function product(d, to, target)
  local function values() return op.ones({ 64, 64 }):cast(d) end
  local f = module(function(a, b) return op.matmul(a, b, { accumulate = to }) end)
  f(values(), values())
  return f:ir("why", { target = target }):match "product[^\n]*" or "a kernel"
end
product("i8", "i32", "gfx942") --> a kernel
product("i8", "i8", "sm_80") --> product: its result is i8, and the matrix unit of sm_80 adds up i8 in i32: with accumulate = "i32" there is one, 22 us expected
product("i8", "i32", "sm_80") --> a kernel
product("i8", "i32", "dg2") --> product: dg2 has no matrix unit that multiplies i8, 22 us expected
product("fp8_e4m3", "fp8_e4m3", "gfx950") --> product: its result is fp8_e4m3, and the matrix unit of gfx950 adds up fp8_e4m3 in f32: with accumulate = "f32" there is one, 22 us expected
product("fp8_e4m3", "f32", "gfx950") --> a kernel
product("fp8_e4m3", "f32", "sm_90a") --> product: the matrix unit of sm_90a takes fp8_e4m3 that lies along k, in rows of whole words, 22 us expected
product("i32", "i32", "sm_90a") --> product of i32 with a result of i32, 22 us expected
