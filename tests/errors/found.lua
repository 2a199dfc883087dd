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
op.zeros { 2 ^ 34 } --! out of memory
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
