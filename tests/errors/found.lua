-- One small test for each defect that a search found.
local tessera = require "tessera"
local op = tessera.op
local x = op.arange(257):cast("f32"):reshape(257, 1)

-- Axes of size 1 may have any stride.
op.layernorm(x:T(), { dims = 2 }):hash() == op.layernorm(x:reshape(1, 257), { dims = 2 }):hash() --> true
-- mxfp4 of several rows.
local w = op.ones { 3, 64 } * tessera.tensor { 1, 2, 4 }:unsqueeze(1)
w:cast("mxfp4"):cast("f32"):hash() == w:hash() --> true
op.attention(op.ones { 1, 1, 2, 4 }, op.ones { 1, 1, 2, 4 }, op.ones { 1, 1, 2, 4 }, tessera.tensor(1)) --! at least one axis
local u = op.ones({ 2, 2 }, { dtype = "u8" })
op.matmul(u, u, { accumulate = "fp8_e4m3" }) --! cannot accumulate u8 in fp8_e4m3
op.matmul(u, u, { accumulate = "complex64" }) --! cannot accumulate
op.zeros({ 0, 17 }):split({ size = {} }) --! no sizes are given
-- An empty table of options means the defaults.
op.sum(op.ones { 3 }, {}):item() --> 3
op.ones({ 1 }):reshape({}).shape --> {}
op.zeros({}).shape --> {}
-- An in-place result keeps the kind of its dtype.
op.arange(3):add_(0.5) --! cannot be stored as i64
op.ones({ 2 }):add_(op.ones({ 2 }):cast "f64").dtype --> f32
op.zeros { 2 ^ 38 } --! out of memory
-- The first wrong row is named, whichever thread meets one first.
local many = op.full({ 40000 }, 7, { dtype = "i64" })
op.cross_entropy(op.ones { 40000, 3 }, many) --! target 7 of row 0 is not one of 3 classes
-- More tensors than the Lua stack has room for: an error of ours, and nothing leaks.
local list = {}
for i = 1, 10000 do list[i] = x end
op.concat(list) --! concat: too many tensors
op.concat(x, x, x, x, x, x, x, x, x, list) --! concat: too many tensors
-- Absurd options end soon, with an error or a result.
local far = { padding = 2 ^ 30, dilation = 2 ^ 31 - 1 }
op.conv3d(op.ones { 1, 1, 2, 2, 2 }, op.ones { 1, 1, 2, 2, 2 }, far) --! out of memory
op.conv1d(op.ones { 1, 3, 4 }, op.ones { 3, 1, 3 }, { groups = 2 ^ 62 }) --! channels do not fit
op.conv1d(op.ones { 1, 3, 4 }, op.ones { 3, 3, 3 }, { stride = 2 ^ 40 }) --! stride is 1099511627776, 1 to 2^31 make sense
op.conv_transpose(op.ones { 1, 1, 1 }, op.ones { 1, 1, 2 }, { stride = 2 ^ 31 }):sum():item() --> 2
-- Numbers that are none, and those whose bits would be a symbolic size.
local core, nan, packed = tessera.core, 0 / 0, -2 ^ 63 + 2 ^ 43
core.from_bytes("abcd", "f32", { 1 }, nan) --! from_bytes: 4 bytes needed
core.from_bytes("abcd", "f32", { 1.5 }) --! a size is a whole number
core.from_bytes("abcd", "f32", { nan }) --! a size is a whole number
x[nan] --! is not an integer
op.roll(x, { shift = packed }) --! must be an integer
op.roll(x, { shift = nan }) --! must be an integer
op.roll(x, { shift = -2 ^ 63 }).shape[1] --> 257
tessera.rng.seed(nan) --! a seed has at most 64 bits
tessera.rng.seed(-1)
tessera.rng.state() --> 1.844674407371e+19, 0
core.autotune_records(-5) --> {}
-- Switches take true and false: "off" would be true.
tessera.jit.overlap("off") --! jit.overlap takes true or false, not string
tessera.jit.ahead("off") --! jit.ahead takes true or false, not string
tessera.jit.overlap() --! jit.overlap takes true or false, not no value
tessera.jit.persistent("on") --! jit.persistent takes true or false, not string
tessera.jit.pages("on") --! jit.pages takes true or false, not string
tessera.jit.later(3) --! jit.later takes true or false, not number
tessera.jit.eager(1) --! jit.eager takes true or false, not number
tessera.jit.traces("on") --! jit.traces takes true or false
tessera.jit.device(0) --! jit.device takes true or false
tessera.jit.v("x") --! jit.v takes true or false
-- A comma may end a slice.
x["..., 0, "].shape --> {257}
-- A file that was closed by hand.
local map = core.map_file "tests/fuzz/bool.npy"
getmetatable(map).__gc(map)
map:size() --! the file is closed
-- Values of symbols are sizes.
local path = os.tmpname()
local file = assert(io.open(path, "w"))
file:write "graph @f(%x: f32[B]) -> %x {\n}\n"
file:close()
tessera.graph.load(path, { B = -1 }) --! the size B is a whole number from 1 on
tessera.graph.load(path, { B = 2.5 }) --! the size B is a whole number from 1 on
tessera.graph.load(path, { B = "x" }) --! the size B is a whole number from 1 on
tostring(tessera.graph.load(path, { B = 3 })) --> graph f(f32[3])
os.remove(path)
-- Steps and numbers that no axis has.
x["::9223372036854775807"].shape --> {1, 1}
x["::-9223372036854775808"]:item() --> 256
op.narrow(x, 0, -2 ^ 63, -2) --! narrow: elements -9223372036854775808..-9223372036854775808 of axis 0
op.group_norm(op.ones { 17, 0, 2 }, { groups = 2 ^ 62 }) --! has a size that makes no sense
op.arange(1e300) --! is larger than any memory
op.arange(2 ^ 63) --! is larger than any memory
-- The closest option, not the last one.
x:sum { axs = 1 } --! did you mean 'axis'

-- Offsets far beyond a matrix.
for _, far in ipairs { 2 ^ 53, 2 ^ 62, 2 ^ 31 } do
  for _, offset in ipairs { far, -far } do
    op.ones({ 3, 4 }):diagonal({ offset = offset }).shape[1] --> 0
    op.diag(op.ones { 2 }, { offset = offset }) --! is too far from the diagonal
    op.diag_embed(op.ones { 2 }, { offset = offset }) --! is too far from the diagonal
  end
end
op.diagonal(op.ones { 3, 4 }, { offset = -2 ^ 63 }).shape[1] --> 0
op.diag(op.ones { 2 }, { offset = -2 ^ 63 }) --! is too far from the diagonal

-- Options that fill the list, beside a padding that is a word.
local many = {}
for i = 1, 64 do many[i] = 1 end
op.conv1d(op.ones { 1, 1, 8 }, op.ones { 1, 1, 3 }, { padding = "same", stride = many }) --! more than 64 numbers in all
