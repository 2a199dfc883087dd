-- How tensors look. The forms are those of NumPy and PyTorch; what differs is said
-- in repl/display.c.
local core = require "tessera.core"
local tensor = require("tessera").tensor
local ffi = require "ffi"
local inf, nan = 1 / 0, 0 / 0

-- 0, 1, 2, ... in the given shape.
local function count(...)
  local shape, n = {...}, 1
  for _, d in ipairs(shape) do n = n * d end
  local b = ffi.new("float[?]", math.max(n, 1))
  for i = 0, n - 1 do b[i] = i end
  return core.from_bytes(ffi.string(b, 4 * n), "f32", shape)
end

-- scalars and empty tensors stay on one line
tensor(3.14159265) --> 3.1416 f32[]
tensor(2) --> 2. f32[]
tensor(-0.0) --> -0. f32[]
tensor(7, {dtype = "i16"}) --> 7 i16[]
tensor(true) --> true bool[]
tensor({}) --> [] f32[0]
count(2, 0, 3) --> [] f32[2,0,3]

-- one format for all numbers of a tensor
tensor({1, 2, -3}) --> [ 1.  2. -3.]
--> f32[3]
tensor({1.5, 2, -30}) --> [  1.5000   2.0000 -30.0000]
--> f32[3]
tensor({0.00001, 1}) --> [1.0000e-05 1.0000e+00]
--> f32[2]
tensor({0.001, 50.5}) --> [ 0.0010 50.5000]
--> f32[2]
tensor({0.001, 500.5}) --> [1.0000e-03 5.0050e+02]
--> f32[2]
tensor({1e9, 1}) --> [1.0000e+09 1.0000e+00]
--> f32[2]
tensor({99999999, 1}, {dtype = "f64"}) --> [99999999.        1.]
--> f64[2]
tensor({inf, -inf, nan, -0.0, 1}) --> [ inf -inf  nan  -0.   1.]
--> f32[5]
tensor({inf, -inf, nan, 0.25}) --> [   inf   -inf    nan 0.2500]
--> f32[4]
tensor({nan, inf}) --> [nan inf]
--> f32[2]
tensor({1, 200, -3}, {dtype = "i32"}) --> [  1 200  -3]
--> i32[3]
tensor({{9007199254740993LL}}) --> [[9007199254740993]]
--> i64[1,1]
tensor({true, false}) --> [ true false]
--> bool[2]
tensor({0.1, 1}, {dtype = "bf16"}) --> [0.1001 1.0000]
--> bf16[2]
tensor({ffi.new("complex", 1.5, -2), ffi.new("complex", -10, 0.25)}) --> [  1.5000-2.0000i -10.0000+0.2500i]
--> complex64[2]
tensor({ffi.new("complex", nan, inf)}) --> [nan+infi]
--> complex64[1]

-- brackets, blank lines between matrices
count(2, 3) --> [[0. 1. 2.]
-->  [3. 4. 5.]]
--> f32[2,3]
count(2, 2, 2) --> [[[0. 1.]
-->   [2. 3.]]
-->
-->  [[4. 5.]
-->   [6. 7.]]]
--> f32[2,2,2]
count(2, 2):T() --> [[0. 2.]
-->  [1. 3.]]
--> f32[2,2]

-- more than 1000 elements: three at each end
count(1001) --> [   0.    1.    2. ...  998.  999. 1000.]
--> f32[1001]
count(100, 11) --> [[   0.    1.    2. ...    8.    9.   10.]
-->  [  11.   12.   13. ...   19.   20.   21.]
-->  [  22.   23.   24. ...   30.   31.   32.]
-->  ...
-->  [1067. 1068. 1069. ... 1075. 1076. 1077.]
-->  [1078. 1079. 1080. ... 1086. 1087. 1088.]
-->  [1089. 1090. 1091. ... 1097. 1098. 1099.]]
--> f32[100,11]

-- what does not fit the width is cut in the middle
core.display(count(2, 20), 31) --> [[ 0.  1.  2. ... 17. 18. 19.]
-->  [20. 21. 22. ... 37. 38. 39.]]
--> f32[2,20]
core.display(count(4), 3) --> [0. ... 3.]
--> f32[4]
select(2, core.display(count(2000), 0):gsub(" ", "")) > 1999 --> true

-- every line fits, whatever the shape and the width
local function longest(x, width)
  local most = 0
  for line in (core.display(x, width) .. "\n"):gmatch "(.-)\n" do most = math.max(most, #line) end
  return most
end
for width = 30, 90, 7 do
  for _, x in ipairs {count(7, 33), count(3, 2, 50), count(1000), count(40, 40), count(2, 2, 2, 99)} do
    assert(longest(x, width) <= width, "a line is too long")
  end
end
local lines = select(2, core.display(count(2, 2, 2, 2, 2, 2, 2, 2, 2), 80):gsub("\n", ""))
lines <= 61 --> true

-- the device where it is not the default one, and gradients
count(2):to("null:0") --> [0. 1.]
--> f32[2] null:0
count(2):requires_grad_() --> [0. 1.]
--> f32[2] requires_grad
