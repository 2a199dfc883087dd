-- Products with weights of few bits that run at once have the bits of their definition.
local tessera = require "tessera"
local op, graph = tessera.op, tessera.graph

local wrong = {}
local function compare(what, x, q, s, z, b, options)
  local want = op.linear(x:cast "f32", op.dequantize(q, s, z, options), b):cast(x.dtype)
  local y = op.scaled_linear(x, q, s, z, b, options)
  if y.dtype ~= x.dtype or y:hash() ~= want:hash() then wrong[#wrong + 1] = what end
end

local stream = 0
local function normal(shape)
  stream = stream + 1
  return op.normal(shape, { seed = 1, stream = stream })
end
local formats = { "fp8_e4m3", "fp8_e5m2", "i8", "u8", "i4", "u4" }
for _, size in ipairs { { 24, 64 }, { 37, 130 }, { 9, 1030 } } do
  local n, k = size[1], size[2]
  local w, b = normal { n, k }, normal { n }
  for _, to in ipairs(formats) do
    for _, block in ipairs { { 1, k }, { 1, 32 }, { 16, 48 }, { 128, 128 }, { 5 }, false } do
      local q, s, z = op.quantize(w, { to = to, block = block or nil })
      local o = { block = block or nil, packed = to == "i4" or to == "u4" }
      for _, rows in ipairs { 1, 3, 8, 9, 70 } do
        local name = ("%s %dx%d %s %d"):format(to, n, k, block and table.concat(block, ",") or "tensor", rows)
        compare(name, normal { rows, k }, q, s, z, b, o)
        compare(name .. " bf16", normal({ rows, k }):cast "bf16", q, s, z, nil, o)
      end
    end
  end
end
-- Scales of rows, of columns and of elements; tensors that lie otherwise; more axes.
local w = normal { 24, 66 }
local q = (w * 20):cast "i8"
for _, shape in ipairs { {}, { 1 }, { 24, 1 }, { 66 }, { 1, 66 }, { 24, 66 } } do
  for _, zero in ipairs { {}, { 24, 1 }, { 66 } } do
    local s, z = normal(shape), (normal(zero) * 3):cast "i8"
    compare("broadcast", normal { 2, 5, 66 }, q, s, z, nil, {})
    compare("broadcast", normal { 66 }, q, s:cast "bf16", nil, nil, {})
  end
end
compare("lies otherwise", normal({ 66, 3 }):T(), normal({ 66, 24 }):cast("i8"):T(), normal({ 1, 24 }):T(), nil, normal({ 48 })["::2"], {})
-- In captured functions, and what the definition alone takes.
local steps = graph.module(function(x, scale) return op.scaled_linear(x, q, scale) end)
local x, scale = normal { 4, 66 }, normal { 24, 1 }
steps(x, scale):hash() == op.scaled_linear(x, q, scale):hash() --> true
compare("f16", x:cast "f16", q, scale, nil, nil, {})
op.scaled_linear(x:cast "f64", q, scale).dtype --> f64
table.concat(wrong, "; ") -->

-- Gradients of x and of scales are those of the steps.
x.requires_grad, scale.requires_grad = true, true
op.scaled_linear(x, q, scale):sum():backward()
local of_x, of_scale = x.grad, scale.grad
x.grad, scale.grad = nil, nil
op.linear(x, op.dequantize(q, scale)):sum():backward()
of_x:hash() == x.grad:hash() and of_scale:hash() == scale.grad:hash() --> true
op.scaled_linear(normal { 4, 65 }, q, normal { 24, 1 }) --! linear: x [.., in] does not fit w [out, in]
op.scaled_linear(x, q, normal { 5, 5 }) --! scaled_linear
