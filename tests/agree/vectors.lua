-- Every row against references that we did not write: tests/vectors. With ACCURACY=path
-- in the environment, writes a table of the worst error of each row: name, dtype, ulp.
package.path = "tests/agree/?.lua;" .. package.path
local core = require "tessera.core"
local cases = require "_cases"

local covered, worst = {}, {}
for c in cases.each() do
  covered[c.row] = true
  local e, why = cases.check(c)
  cases.expect(cases.name(c), e, why)
  local key = c.row .. " " .. (c.t or "exact")
  if e and (not worst[key] or e > worst[key]) then worst[key] = e end
end

-- Rows that give back their input need no judge.
local x = core.op.normal { 2, 3 }
for name, inputs in pairs { stop_gradient = { x }, barrier = { x, x:T() }, reshard = { x } } do
  covered[name] = core.run(name, inputs, name == "reshard" and { spec = "a," } or {}):hash() == x:hash()
end

-- Whole numbers that blocks hold: their product is that of integers. The formats: tests/vm/blocks.lua.
local whole, codes = core.op.arange(3 * 64):reshape(3, 64):mod(7) - 3, core.op.arange(5 * 64):reshape(5, 64):mod(4)
local product = core.op.quantized_matmul(whole:cast "f32", codes:cast("f32"):cast "mxfp4")
covered.quantized_matmul = core.op.all(product:cast("i64"):eq(whole:matmul(codes:T()))):item()
local of_experts = core.op.experts_linear(whole:cast "f32", codes:cast("f32"):cast("mxfp4"):bitcast("u8"):unsqueeze(0):bitcast "mxfp4",
  core.op.zeros({ 3, 1 }, { dtype = "i64" })):select(1, 0)
covered.experts_linear = core.op.all(of_experts:cast("i64"):eq(whole:matmul(codes:T()))):item()

-- Pages side by side in the order of a table are keys and values as others have them. More of it: tests/vm/paged_attention.lua.
local pool_k, pool_v = core.op.normal { 2, 3, 4, 8 }, core.op.normal { 2, 3, 4, 8 }
local query, order = core.op.normal { 1, 4, 2, 8 }, core.tensor({ { 2, 0 } }, { dtype = "i64" })
local function side_by_side(pool) return core.op.concat({ pool:select(1, 2), pool:select(1, 0) }, { axis = 1 }):unsqueeze(0) end
covered.paged_attention = core.op.paged_attention(query, pool_k, pool_v, order, core.tensor({ 6 }, { dtype = "i64" })):hash() ==
  core.op.attention(query, side_by_side(pool_k), side_by_side(pool_v), nil, nil, { causal = true }):hash()

local missing = {}
for _, o in ipairs(core.operators()) do
  if not covered[o.name] then missing[#missing + 1] = o.name end
end
table.concat(missing, " ") -->

local path = os.getenv "ACCURACY"
if path then
  local keys = {}
  for k in pairs(worst) do keys[#keys + 1] = k end
  table.sort(keys)
  local out = assert(io.open(path, "w"))
  for _, k in ipairs(keys) do out:write(("%s %.4g\n"):format(k, worst[k])) end
  out:close()
end
