local tessera = require "tessera"
local op = tessera.op
local function list(x)
  local t = {}
  for i, v in ipairs(x:flatten():totable()) do t[i] = tostring(v) end
  return table.concat(t, " ")
end

list(op.arange(5)) --> 0 1 2 3 4
list(op.arange(5, 0, -2)) --> 5 3 1
op.arange(5).dtype --> i64
op.arange(0, 1, 0.25).dtype --> f32
list(op.arange(0, 1, 0.25)) --> 0 0.25 0.5 0.75
op.arange(3, 3).numel --> 0
list(op.linspace(0, 1, 5)) --> 0 0.25 0.5 0.75 1
list(op.linspace(3, 9, 1)) --> 3
op.linspace(0, 1, 0).numel --> 0
list(op.eye(2, 3)) --> 1 0 0 0 1 0
op.eye(100, {dtype = "i32"}):sum():item() --> 100
list(op.full({3}, 2.5)) --> 2.5 2.5 2.5
op.zeros({0, 3}).numel --> 0
op.ones({}):item() --> 1
op.full_like(op.zeros({2, 2}, {dtype = "i16"}), -7):sum():item() --> -28
op.ones_like(op.zeros({3}), {dtype = "u8"}).dtype --> u8
list(op.one_hot(tessera.tensor({2, 0}, {dtype = "i64"}), 3)) --> 0 0 1 1 0 0
op.one_hot(op.zeros({0}, {dtype = "i64"}), 3).shape[2] --> 3

local x = op.arange(9):reshape(3, 3)
list(op.tril(x)) --> 0 0 0 3 4 0 6 7 8
list(op.triu(x, 1)) --> 0 1 2 0 0 5 0 0 0
list(op.tril(x, -1)) --> 0 0 0 3 0 0 6 7 0
list(op.triu(x:T())) --> 0 3 6 0 4 7 0 0 8
op.tril(op.ones({2, 3, 3}), 100):sum():item() --> 18

op.one_hot(tessera.tensor({3}, {dtype = "i64"}), 3) --! class 3 is out of range for 3 classes
op.one_hot(tessera.tensor({-1}, {dtype = "i64"}), 3) --! class -1 is out of range
op.full({2}, 300, {dtype = "u8"}) --! 300 does not fit into u8
op.full({2}, 1.5, {dtype = "i32"}) --! 1.5 does not fit into i32
op.arange(300, {dtype = "u8"}) --! 299 does not fit into u8
op.arange(0, 1, 0) --! no finite count
op.linspace(0, math.huge, 3) --! no interval
op.tril(op.ones({3})) --! at least two axes
-- Before anything is computed, eagerly and captured alike, of nothing as well.
op.full({0}, 300, {dtype = "u8"}) --! full: 300 does not fit into u8
op.full_like(op.zeros({2}, {dtype = "bool"}), 2) --! full_like: 2 does not fit into bool
op.pad(op.zeros({2}, {dtype = "i8"}), {pads = {1, 1}, value = 128}) --! pad: 128 does not fit into i8
tessera.graph.module("f", function(x) return op.full({2}, 300, {dtype = "u8"}):cast("f32") + x end)(op.ones{2}) --! full: 300 does not fit into u8
tessera.graph.module("f", function(x) return op.full_like(x, 0.5) + x end)(op.ones({2}, {dtype = "i8"})) --! full_like: 0.5 does not fit into i8

-- totable: whole rows are converted at once, as each element alone would be
op.arange(6):reshape {2, 3}:transpose():totable() --> {{0, 3}, {1, 4}, {2, 5}}
op.zeros {2, 0}:totable() --> {{}, {}}
op.full({}, 3):totable() --> 3
tessera.tensor({1.5, -2, 448}, {dtype = "fp8_e4m3"}):totable() --> {1.5, -2, 448}
tessera.tensor({1, 2, 255}, {dtype = "u8"})["::2"]:totable() --> {1, 255}
op.full({1, 32}, 3):cast "mxfp4":totable()[1][32] --> 3
local special = tessera.tensor({0 / 0, 1 / 0, -0.0}, {dtype = "bf16"}):totable()
assert(special[1] ~= special[1] and special[2] == 1 / 0 and 1 / special[3] == -1 / 0)
tessera.tensor({true, false}):totable() --> {true, false}

-- options of tensor, beside the numbers too
tessera.tensor({1, 2}, {dtyp = "f64"}) --! did you mean 'dtype'?
tessera.tensor({1, 2}, "f64") --! options are a table, not a string
tessera.tensor({1, 2}, {2, 3}) --! options have names
tessera.tensor({1, 2}, {dtype = 3}) --! dtype must be a string, not a number
tessera.tensor(1, 2, 3) --! 3 arguments given
tessera.tensor({1, 2, dtype = "f64"}).dtype --> f64
tessera.tensor({1, 2, requires_grad = true}).requires_grad --> true
tessera.tensor({1, 2}, {dtype = "i32", requires_grad = true}) --! only floats and complex numbers have derivatives
