-- Help is derived from the operator table: every row has all of it.
local core = require "tessera.core"

local function help(name, width)
  return (core.help(name, width or 80):gsub("%s+$", ""))
end

help "softmax" --> op.softmax(x [, {axis}])
-->     e^(x - max) / sum(e^(x - max)) along axis
-->
-->   inputs   x           tensor
-->   options  axis        integer = -1
-->   kernel   on a CPU stages, unroll, vector, grain, stream; on a GPU vector,
-->            threads: they choose how its kernel is cut, rounded to what there is;
-->            no bit depends on them (? :choose)
-->   dtypes   floats
-->   returns  the dtype of the input; the shape of the input
-->   autocast takes f32
-->   example  y = op.softmax(x)
-->            y = x:softmax{axis = 0}

help("op.full", 60) --> op.full(shape, value [, {dtype, device}])
-->     tensor with every element set to value
-->
-->   options  shape       integers, needed
-->            value       number, needed
-->            dtype       dtype = "f32"
-->            device      string, optional
-->   returns  the dtype asked for; the given shape
-->   example  y = op.full({2, 3}, 0.5)
-->            y = op.full({2, 3}, 0.5, {dtype = "f64"})

help "var":match "y = x:[^\n]*" --> y = x:var{axis = {0, 1}}
help "roll":match "y = x:[^\n]*" --> y = x:roll(1, {axis = 0})
help "concat":match "[^\n]*" --> op.concat(xs... [, {axis}])
help "einsum":match "example +([^\n]*)" --> y = op.einsum("bij,bjk->bik", a, b)
help "sofmax" --> no help on 'sofmax'; did you mean 'softmax'?
select(2, core.help("sofmax", 80)) --> false
select(2, core.help("softmax", 80)) --> true
help "f16" --> f16         IEEE half precision

for _, row in ipairs(core.operators()) do
  local text = help(row.name)
  assert(text:find("op." .. row.name .. "(", 1, true), row.name)
  assert(text:find "\n  returns +%S", row.name .. " does not say what it returns")
  for word in row.inputs:gmatch "[%a_][%w_]*" do
    assert(text:find(" " .. word .. " ", 1, true), row.name .. ": input " .. word)
  end
  for word in row.attrs:gmatch "([%a_][%w_]*):" do
    assert(text:find(" " .. word .. " ", 1, true), row.name .. ": option " .. word)
  end
  -- Examples are Lua.
  local examples = text:match "\n  example  (.*)$"
  for line in examples:gmatch "[^\n]+" do
    assert(loadstring(line), row.name .. ": " .. line)
  end
  -- Lines fit, as far as their words do.
  for _, width in ipairs {50, 80, 120} do
    for line in help(row.name, width):gmatch "[^\n]+" do
      local code = line:find "y = " or line:find "^op%."
      assert(#line <= width or code, row.name .. ": too long: " .. line)
    end
  end
  assert(help "":find("%f[%w_]" .. row.name .. "%f[^%w_]"), row.name .. " is not in the list")
end

-- What becomes of integers is said of rows that take them alone.
for _, row in ipairs(core.operators()) do
  local text = core.help(row.name, 400)
  local takes = text:match "\n  dtypes%s+([^\n]*)" or ""
  assert(takes:find("integers", 1, true) or not (text:match "\n  returns%s+([^\n]*)" or ""):find("integers", 1, true), row.name)
end

-- Options that calls take beside those of the row.
local function option(row, name) return (help(row, 200):match("  %f[%w_]" .. name .. "%s+(%S[^\n]*)")) end
option("max", "indices") --> true or false = false: places as a second result
help "max":match "[^\n]*" --> op.max(x [, {axis, keepdims, indices}])
option("cross_entropy", "weight") --> tensor of a number for each class, optional
option("conv2d", "padding") --> integers, "same" or "valid" = 0
option("quantile", "method") --> "linear" | "lower" | "higher" | "midpoint" | "nearest" = "linear"
option("div", "rounding_mode") --> "floor" | "trunc", optional
option("var", "unbiased") --> true or false: correction 1 or 0, optional
option("clamp", "min") --> number or tensor, optional
