-- Which operand has the wrong dtype: a message names it, not the first one.
local tessera = require "tessera"
local core, op = tessera.core, tessera.op

local function ones(dtype) return op.ones({ 3 }, { dtype = dtype }) end
local f, i, c, b = ones "f32", ones "i64", ones "complex64", ones "bool"

op.atan2(f, c) --! atan2: takes floats, not complex64[3] as x
op.atan2(c, f) --! atan2: takes floats, not complex64[3] as y
op.atan2(i, c) --! atan2: takes floats, not complex64[3] as x
op.maximum(i, c) --! maximum: takes floats, integers, bool, not complex64[3] as y
op.maximum(i, c) --! hint: complex numbers have the parts y:real()
op.bitwise_and(i, f) --! bitwise_and: takes integers, bool, not f32[3] as y
op.bitwise_and(i, f) --! hint: convert with y:cast("i64") first
op.bitwise_and(i, 2.5) --! bitwise_and: takes integers, bool, not the number 2.5
op.bitwise_and(f, 2.5) --! bitwise_and: takes integers, bool, not f32[3] as x
op.fma(f, f, c) --! fma: takes floats, not complex64[3] as z
op.fma(f, c, i) --! fma: takes floats, not complex64[3] as y
op.matmul(b, b) --! not bool[3] as a
op.sigmoid(c) --! sigmoid: takes floats, not complex64[3]
op.attention(f, f, i) --! attention: q, k and v differ in dtype: q f32[3], v i64[3]
op.attention(f, i, f) --! attention: q, k and v differ in dtype: q f32[3], k i64[3]
tessera.graph.module(function(x, y) return op.atan2(x, y) end)(f, c) --! not complex64[3] as x

-- Every row of several tensors: where a wrong dtype in one place is refused for its kind, it is that one.
local seen = 0
for _, row in ipairs(core.operators()) do
  local names = {}
  for word, mark in row.inputs:gmatch "([%a_][%w_]*)([?.]*)" do
    if mark == "" then names[#names + 1] = word end
  end
  for place, name in ipairs(names) do
    for _, right in ipairs { "f32", "i64" } do
      for _, wrong in ipairs { "complex64", "f32", "bool" } do
        local args = {}
        for k = 1, #names do args[k] = op.ones({ 2, 2 }, { dtype = k == place and wrong or right }) end
        local same = {}
        for k = 1, #names do same[k] = op.ones({ 2, 2 }, { dtype = right }) end
        local fine, before = pcall(op[row.name], unpack(same))
        local taken = fine or not before:find(": takes ", 1, true)
        local ok, why = pcall(op[row.name], unpack(args))
        if taken and not ok and #names > 1 and why:find(": takes ", 1, true) then
          assert(why:find((", not %s[2,2] as %s"):format(wrong, name), 1, true), row.name .. ": " .. why)
          seen = seen + 1
        end
      end
    end
  end
end
assert(seen > 40, seen)

-- Nothing that refuses complex numbers advises a cast that drops their imaginary part.
local advice = {}
for _, row in ipairs(core.operators()) do
  local n = 0
  for _ in row.inputs:gmatch "%S+" do n = n + 1 end
  for shape = 1, 3 do
    local x = op.ones(({ { 3 }, { 2, 2 }, { 1, 2, 3, 3 } })[shape], { dtype = "complex64" })
    local args = {}
    for k = 1, n do args[k] = x end
    local ok, why = pcall(op[row.name], unpack(args))
    if n > 0 and not ok and why:match 'cast%("[fbi]' then advice[#advice + 1] = row.name .. ": " .. why end
  end
end
table.concat(advice, "\n") -->
