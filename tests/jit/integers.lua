-- Rows of floats given integers and truth values compute in floats: values and gradients are those
-- of the same numbers as floats. Bools are bytes 0 and 1, whatever bytes came from outside.
package.path = "tests/jit/?.lua;tests/agree/?.lua;" .. package.path
local tessera = require "tessera"
local everywhere = require "_everywhere"
local cases = require "_cases"
local core, op, tensor = tessera.core, tessera.op, tessera.tensor
local ffi = require "ffi"

local function u8(t) return tensor(t, { dtype = "u8" }) end
local function bools(t) return tensor(t, { dtype = "bool" }) end

-- ---- losses (NumPy, in float64)
local a, b = u8 { 0, 255, 3 }, u8 { 255, 0, 1 }
everywhere(op.mse, a, b):item() --> 43351.33203125
everywhere(op.l1, a, b):item() --> 170.66667175293
everywhere(op.huber, a, b):item() --> 170.16667175293
everywhere(op.mse, bools { true, false }, bools { false, false }):item() --> 0.5
everywhere(op.l1, tensor({ 2 ^ 24 + 1 }, { dtype = "i32" }), tensor({ 2 ^ 24 }, { dtype = "i32" })):item() --> 1
everywhere(op.l1, tensor({ 2 ^ 31 - 1 }, { dtype = "i32" }), tensor({ -2 ^ 31 }, { dtype = "i32" })):item() --> 4294967296
everywhere(op.mse, u8 { 1 }, bools { true }):item() --> 0
everywhere(op.bce, op.full({ 2 }, 0.5), u8 { 2, 0 }):item() --> 0.6931471824646
everywhere(op.bce_with_logits, u8 { 200 }, u8 { 200 }):item() --> -39800
everywhere(op.kl_divergence, u8 { 3 }, u8 { 200 }):item() --> 459.66348266602

-- ---- fields
local field = u8 { 0, 255, 0, 255 }
local function edge(f) return op.d(f, { boundary = "edge" }) end
everywhere(edge, field) --> [510.   0.   0. 510.]
--> f32[4]
everywhere(op.laplacian, field) --> [ 510. -510.  510. -510.]
--> f32[4]
op.linear(u8 { { 200 } }, u8 { { 200 } }) --! linear: takes floats, complex numbers, not u8[1,1]
op.batch_norm(op.zeros({ 1, 2 }, { dtype = "u8" }), op.zeros { 2 }, op.ones { 2 }) --! takes floats

-- ---- every row that takes integers beside floats: gradients as with the same numbers as floats
local function backward(c, x, wanted)
  local y, loss = { unpack(x, 1, #c.x) }, nil
  for _, k in ipairs(wanted) do y[k] = x[k]:clone():requires_grad_() end
  for i, o in ipairs(cases.call(c, y)) do
    if o.dtype == "f64" then
      local part = (o * op.normal(o.shape, { seed = 5, stream = i, dtype = "f64" })):sum()
      loss = loss and loss + part or part
    end
  end
  loss:backward()
  local g = {}
  for i, k in ipairs(wanted) do g[i] = y[k].grad or false end
  return g
end

-- Cases of pointwise rows are of special values.
local function ordinary(c, x, k)
  if c.family ~= "pointwise" then return x:cast "f64" end
  return op.uniform(x.shape, { low = 0.2, high = 0.9, seed = k, stream = 1, dtype = "f64" })
end

-- Rows whose masks and targets mean something else as floats, or where only f32 is left.
local apart = { attention = true, attention_grad = true, cross_entropy = true, cross_entropy_grad = true }
local tried, done = 0, {}
for c in cases.each() do
  for i = 1, apart[c.row] and 0 or #c.x do
    local key = c.row .. i
    local x = (done[key] or 0) < 2 and #c.x > 1 and c.x[i] and cases.inputs(c) or {}
    if x[i] and x[i].dtype == "f32" then
      local whole, floats, wanted = {}, {}, {}
      for k = 1, #c.x do
        local real = x[k] and x[k].dtype == "f32"
        whole[k] = real and ordinary(c, x[k], k) or x[k]
        floats[k] = whole[k]
        if k ~= i and real then wanted[#wanted + 1] = k end
      end
      whole[i] = cases.generate("u8", x[i].shape, 7 + i, 1, 255)
      floats[i] = whole[i]:cast "f64"
      local fine, g = pcall(backward, c, whole, wanted)
      if #wanted > 0 and fine then
        done[key], tried = (done[key] or 0) + 1, tried + 1
        for j, want in ipairs(backward(c, floats, wanted)) do
          local same = g[j] == want or g[j].numel == 0
          if not same and (g[j] - want):abs():gt(want:abs():max() * 1e-12):any():item() then print(("%s: input %d of u8, gradient of input %d"):format(cases.name(c), i, wanted[j])) end
        end
      end
    end
  end
end
tried > 80 --> true

-- ---- bools from outside
local odd = core.from_bytes("\2\0\1\255", "bool", { 4 })
local function uses(x) return x:sum(), op.where(x, 1, 0), x:eq(op.ones_like(x)), x:cast "f32" * 2, op.masked_fill(x, x, 0) end
everywhere(uses, odd):item() --> 3
odd:bytes() == "\1\0\1\1" --> true
local held = op.zeros({ 3 }, { dtype = "bool" })
local at = ffi.cast("uint8_t *", held:data_ptr())
local known = tessera.graph.module("known", function(x) return x:sum(), (x + held:cast "f32"):sum() end)
for i = 1, 4 do
  at[0], at[2] = 2 ^ i, 0x80
  local n, m = known(op.zeros { 3 })
  assert(held:cast("i64"):sum():item() == 2 and held:eq(true):sum():item() == 2 and m:item() == 2)
  assert(held:to("sim:0"):cast("i32"):max():item() == 1)
end
at[1] = 7
held:hash() == op.ones({ 3 }, { dtype = "bool" }):hash() --> true

-- ---- mxfp4 lies in whole blocks of its last axis
core.from_bytes(("\0"):rep(17), "mxfp4", {}) --! mxfp4 needs a last axis of a multiple of 32 elements, not mxfp4[]
core.from_bytes(("\0"):rep(17), "mxfp4", { 33 }) --! not mxfp4[33]
core.from_bytes(("\0"):rep(17), "mxfp4", { 32, 1 }) --! not mxfp4[32,1]
op.ones({ 31 }):cast "mxfp4" --! last axis of a multiple of 32
local block = core.from_bytes(("\0"):rep(34), "mxfp4", { 2, 32 })
block:cast("f32"):sum():item() --> 0
block[0] --! mxfp4
op.matmul(op.ones { 1, 32 }, block) --! mxfp4 is a storage format
select(2, core.graph_parse "graph @f(%x: mxfp4[5]) -> %x {\n}"):match "^[^\n]*" --> line 1: parameter: mxfp4 needs a last axis of a multiple of 32 elements, not mxfp4[5]
