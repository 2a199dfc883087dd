-- Sums of squares that leave the type where the result does not (NumPy, in float64), in every mode.
package.path = "tests/jit/?.lua;" .. package.path
local tessera = require "tessera"
local everywhere = require "_everywhere"
local op, tensor = tessera.op, tessera.tensor

local function of(name, o) return function(x) return op[name](x, o) end end
local function near(y, want) return math.abs(y:item() / want - 1) < 1e-6 end

local large = tensor { 1e19, -1e19, 1e19, -1e19 }
near(everywhere(of("var", {}), large), 1e38) --> true
near(everywhere(of("var", { correction = 1 }), large), 4e38 / 3) --> true
near(everywhere(of("std", {}), tensor { 3e38, -3e38, 1e38 }), 2.4944382578493e38) --> true
near(everywhere(of("norm", {}), tensor { 3e20, 4e20 }), 5e20) --> true
near(everywhere(of("std", {}), tensor({ 3e200, -3e200 }, { dtype = "f64" })), 3e200) --> true
near(everywhere(of("norm", {}), tensor({ 3e200, 4e200 }, { dtype = "f64" })), 5e200) --> true
everywhere(of("std", {}), tensor({ 2 ^ 100, -2 ^ 100 }, { dtype = "bf16" })):item() == 2 ^ 100 --> true
everywhere(of("var", {}), tensor { 1e20, -1e20 }):item() --> inf
-- Divided by nothing, a variance is infinite, or NaN where all elements are equal.
local few = tensor { { 1, 0, 1 }, { 0, 0, 1 } }
for _, dtype in ipairs { "f32", "f64", "bf16", "u8", "bool" } do
  for _, correction in ipairs { 2, 3 } do
    for _, name in ipairs { "var", "std" } do
      local y = everywhere(of(name, { axis = 0, correction = correction }), few:cast(dtype))
      assert(y[0]:item() == 1 / 0 and y[1]:isnan():item() and y[2]:isnan():item(), name .. dtype)
    end
  end
end
-- Beside others: rows and columns, what is not a number and what is infinite stay so.
local mixed = tensor { { 1, 2, 4 }, { 2e19, -1e19, 0 }, { 1 / 0, 1, 1 }, { 0 / 0, 1, 1 }, { 1, 2, 4 } }
local rows = everywhere(of("var", { axis = 1 }), mixed)
rows[0]:item() == rows[4]:item() and rows[0]:item() == mixed[0]:var():item() --> true
near(rows[1], 1.5555555555556e38) --> true
rows["2:4"] --> [nan nan]
--> f32[2]
local columns = everywhere(of("var", { axis = 0 }), mixed:T():clone())
columns:hash() == rows:hash() --> true
everywhere(of("norm", { axis = 1 }), mixed)["2:4"] --> [inf nan]
--> f32[2]
-- Rows of several leaves.
local long = op.concat(op.full({ 5000 }, 1e19), op.full({ 5000 }, -1e19))
near(everywhere(of("var", {}), long), 1e38) --> true
near(everywhere(of("norm", {}), long), 1e21) --> true
-- Nothing.
everywhere(of("norm", { ord = 1 / 0, axis = 1 }), op.zeros { 2, 0 }) --> [0. 0.]
--> f32[2]

-- batch_norm and group_norm of narrow floats round once: half an ulp, beside f64.
local function R(seed, ...) return op.normal({ ... }, { seed = seed, stream = 2, dtype = "f32" }):cast "bf16" end
local x, mean, var, w, b = R(1, 4, 8, 5, 5), R(2, 8), R(3, 8):abs(), R(4, 8), R(5, 8)
local function ulps(got, want) -- below 2^-3 the bias has cancelled what is left of the rest
  local exponent = op.maximum(want:abs(), 2 ^ -3):log2():floor()
  return ((got:cast "f64" - want):abs() / op.exp2(exponent - 7)):max():item()
end
local function wide(f, ...)
  local y = { ... }
  for i, t in ipairs(y) do y[i] = t:cast "f64" end
  return f(unpack(y))
end
local function batch(...) return op.batch_norm(...) end
local function group(x, w, b) return op.group_norm(x, w, b, { groups = 2 }) end
everywhere(batch, x, mean, var, w, b).dtype --> bf16
ulps(batch(x, mean, var, w, b), wide(batch, x, mean, var, w, b)) < 0.51 --> true
ulps(everywhere(group, x, w, b), wide(group, x, w, b)) < 0.51 --> true
