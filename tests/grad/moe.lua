-- Derivatives of routers, of rows that go to experts and back, and of products of groups with room of their own.
local core = require "tessera.core"
local check = dofile "tests/grad/_check.lua"
local op = core.op
local function x(...) return check.random { ... } end
local function ints(list) return core.tensor(list, { dtype = "i64" }) end

check("router", { x(4, 5) }, { k = 2 })
check("router", { x(4, 5) }, { k = 2, softmax = "before" })
check("router", { x(4, 5) }, { k = 3, softmax = "none" })
check("router", { x(4, 5) }, { k = 2, noise = 0.5, seed = 3, stream = 1 })

local index = ints { { 2, 0 }, { 1, 2 }, { 2, 1 }, { 0, 2 } }
for _, capacity in ipairs { false, 4, 2, 1, 0 } do
  local o = { experts = 3, capacity = capacity or nil }
  check("moe_dispatch", { x(4, 3), index }, o)
  local place, source = op.moe_places(index, o)
  local shape = { unpack(source.shape) }
  shape[#shape + 1] = 3
  check("moe_combine", { x(unpack(shape)), place, source, x(4, 2) })
  check("moe_combine", { x(unpack(shape)), place, source })
  check("route_rows", { x(unpack(shape)), place, source })
  check("route_rows", { x(4, 3), source, place }, { times = 2 })
end
check("moe_dispatch", { x(2, 2, 3), index:reshape(2, 2, 2) }, { experts = 3 })

for _, activation in ipairs { "gelu", "silu", "swiglu" } do
  local h = activation == "swiglu" and 2 or 4
  check("moe", { x(4, 3), x(4, 2), index, x(3, 3, 4), x(3, h, 3), x(3, 4), x(3, 3) }, { activation = activation })
end
check("moe", { x(4, 3), x(4, 2), index, x(3, 3, 4), x(3, 4, 3) }, { activation = "silu" })

for _, list in ipairs { { 2, 3 }, { 0, 4 }, { 4, 4 }, { 0, 0 } } do
  check("grouped_matmul", { x(2, 4, 3), x(2, 3, 2), ints(list) })
  check("grouped_matmul_weight_grad", { x(2, 4, 3), x(2, 4, 2), ints(list) })
end
check.narrow("grouped_matmul", { x(2, 5, 3), x(2, 3, 4), ints { 2, 5 } })
check.narrow("grouped_matmul_weight_grad", { x(2, 5, 3), x(2, 5, 4), ints { 2, 5 } })
check.narrow("moe_dispatch", { x(4, 3), index }, { experts = 3 })

-- Experts in blocks, which have no gradient; rows and biases do. -1 is no expert.
do
  local w = check.random({ 3, 5, 64 }):cast("f32"):cast "mxfp4"
  local index = core.tensor({ { 2, 0 }, { 1, -1 }, { 2, 1 } }, { dtype = "i64" })
  check("experts_linear", { check.random { 3, 64 }, w, index, check.random { 3, 5 } })
  check("experts_linear", { check.random { 3, 2, 64 }, w, index })
end
