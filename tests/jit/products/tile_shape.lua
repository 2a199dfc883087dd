-- Tile shapes that a program pins: the kernel has them, the tuner leaves them, bits do not change.
local ts = require "tessera"
local core = require "tessera.core"
local op, rng, graph, jit = ts.op, ts.rng, ts.graph, ts.jit
if not jit.status() then print "skipped: nothing is compiled here: kernels" end
local x, w = rng.normal { 300, 700 }, rng.normal { 700, 400 }
jit.off()
local want = op.matmul(x, w):hash()
jit.on()
jit.eager(true)
for _, shape in ipairs { { 48 }, { 96, 64 }, { 64, 64, 32 }, { 1, 1, 1 }, { 100000, 100000, 100000 }, { 7, 300, 5 } } do
  local f = graph.module("f", function(x, w) return op.matmul(x, w, { tile_shape = shape }) end)
  assert(f(x, w):hash() == want, table.concat(shape, " "))
  assert(op.matmul(x, w, { tile_shape = shape }):hash() == want)
  if jit.status() then
    assert(f:ir("bytecode"):match "fused [^\n]*matmul", f:ir "why")
    -- The nearest that there is, and what became of what was asked for.
    local why = f:ir "why"
    local rows = why:match(("remark: rows = %d becomes (%%d+): whole register tiles"):format(shape[1])) or tostring(shape[1])
    assert(f:ir("schedule"):match("matmul with rows " .. rows .. "[ :]"), f:ir "schedule")
    assert(why:match("choice: rows " .. rows .. "[^\n]*, chosen by the user"), why)
    assert(tonumber(rows) >= math.min(shape[1], 300) and tonumber(rows) <= 320, why)
    ts.autotune.tune(f)
    assert(f(x, w):hash() == want)
    assert(f:ir("schedule"):match("matmul with rows " .. rows .. "[ :]"), f:ir "schedule")
  end
end
for _, form in ipairs { "block", "explicit" } do
  core.jit_interpret(form)
  local f = graph.module("f", function(x, w) return op.matmul(x, w, { tile_shape = { 30, 40, 64 } }) end)
  local a, b = x["0:40, 0:100"], w["0:100, 0:70"]
  jit.off()
  local small = f(a, b):hash()
  jit.on()
  assert(f(a, b):hash() == small, form)
end
core.jit_interpret()

-- ---- attention: query rows of a round
local q = rng.normal { 2, 4, 100, 32 }
local function heads(options)
  return function(q) return op.attention(q, q, q, options):transpose(1, 2):reshape { 2, 100, 128 } end
end
jit.off()
want = heads { causal = true }(q):hash()
jit.on()
local f = graph.module("f", heads { causal = true, tile_shape = { 16, 128 } })
assert(f(q):hash() == want)
assert(not jit.status() or f:ir("schedule"):match "attention with rows 16", f:ir "schedule")

-- ---- what is no tile shape
op.matmul(x, w, { tile_shape = { 0, 4 } }) --! matmul: tile_shape is 1 to 3 numbers above 0
op.matmul(x, w, { tile_shape = { 1, 2, 3, 4 } }) --! rows, columns and steps of k, as {128, 128, 64}
op.attention(q, q, q, { tile_shape = { 1, 2, 3 } }) --! attention: tile_shape is 1 to 2 numbers above 0
