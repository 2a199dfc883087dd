-- Rows of tables that are stored in blocks, of which those that are asked for are read: the numbers of the table's cast to f32.
local tessera = require "tessera"
local op, graph = tessera.op, tessera.graph
local formats = { "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "iq4_nl", "q4_k", "q5_k", "q6_k", "mxfp4" }
local places = tessera.tensor({ { 2, 0, -1 }, { 4, 1, 1 } }, { dtype = "i32" })
local cast = graph.module(function(q, i) return op.embedding(q:cast "bf16", i), op.embedding(q:cast "f64", i), op.embedding(q, i) end)

local wrong = {}
for _, d in ipairs(formats) do
  local q = (op.normal({ 5, 512 }, { seed = 1, stream = 2 }) * 7):cast(d)
  local rows = op.embedding(q, places)
  local same = rows.dtype == "f32" and rows:hash() == op.embedding(q:cast "f32", places):hash()
  local narrow, wide, captured = cast(q, places)
  same = same and captured:hash() == rows:hash() and narrow:hash() == op.embedding(q:cast "bf16", places):hash()
  if not same or wide:hash() ~= op.embedding(q:cast "f64", places):hash() then wrong[#wrong + 1] = d end
end
table.concat(wrong, " ") -->

-- Beside what the Python package gguf reads of its own files.
local tensors, known = tessera.load "tests/vectors/small.gguf", tessera.load "tests/vectors/small.safetensors"
local compared = 0
for name, want in pairs(known) do
  local q = tensors[name]
  if q.ndim == 2 then
    local last = tessera.tensor({ q.shape[1] - 1, 0 }, { dtype = "i64" })
    local got = op.embedding(q, last):cast "f32"
    assert(op.allclose(got, op.embedding(want, last), { rtol = 0, atol = 0, equal_nan = true }), name)
    compared = compared + 1
  end
end
compared > 5 --> true

-- The largest scale of mxfp4 is beyond f32, and not beyond f64.
local m = op.concat({ op.full({ 2, 1 }, 254, { dtype = "u8" }), op.full({ 2, 16 }, 0x77, { dtype = "u8" }) }, { axis = 1 }):bitcast "mxfp4"
local first = tessera.tensor({ 0 }, { dtype = "i64" })
op.embedding(m, first)["0, 0"]:item() == math.huge --> true
select(2, cast(m, first))["0, 0"]:item() == 6 * 2 ^ 127 --> true

local q = op.normal({ 5, 512 }, { seed = 1, stream = 2 }):cast "q4_0"
op.embedding(q, tessera.tensor({ 5 }, { dtype = "i64" })) --! embedding: index 5 is out of range for axis 0 of q4_0[5,512], of size 5
op.embedding(q, tessera.tensor { 1. }) --! embedding: the index must be integers, not f32
op.embedding(q:bitcast "u8":reshape(5, 16, 18):bitcast "q4_0", first) --! embedding: w must be [n, d], not q4_0[5,16,32]
op.embedding(q, op.zeros({ 2, 0 }, { dtype = "i64" })).shape[3] --> 512
op.index_select(q, first, { axis = 0 }) --! hint: convert with x:cast("f32") or x:cast("bf16") first
q.requires_grad = true --! requires_grad: q4_0[5,512]; only floats and complex numbers have derivatives
graph.grad(function(w) return op.embedding(w, first):sum() end)(q) --! q4_0
