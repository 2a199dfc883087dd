-- The gradient of a maximum adds up what its windows bring, without sorting: bits of the CPU, channels first and last, windows that
-- lie over each other, beside each other and apart.
local tessera = require "tessera"
local op, graph = tessera.op, tessera.graph
package.path = "tests/devices/?.lua;" .. package.path
local name = require("_device").name or "sim:0"

local cases = {
  { { 2, 3, 9, 8 }, { window = { 3, 3 }, stride = { 2, 2 }, padding = { 1, 1 } } },
  { { 2, 3, 9, 8 }, { window = { 2, 2 } } },
  { { 2, 3, 9, 8 }, { window = { 2, 3 }, stride = { 3, 1 }, padding = { 1, 0 } } },
  { { 2, 3, 9, 8 }, { window = { 3, 3 }, stride = { 1, 1 }, dilation = { 2, 1 } } },
  { { 2, 3, 11 }, { window = { 5 }, stride = { 2 }, padding = { 2 } } },
  { { 1, 2, 4, 5, 6 }, { window = { 2, 2, 3 }, stride = { 1, 2, 2 } } },
  { { 2, 9, 8, 3 }, { window = { 3, 3 }, stride = { 2, 2 }, padding = { 1, 1 }, layout = "nhwc" } },
}
for i, case in ipairs(cases) do
  for _, dtype in ipairs { "f32", "bf16", "f64" } do
    -- Few different numbers, so that windows have several of the largest.
    local x = (op.normal(case[1], { seed = 1, stream = i }) * 2):round():cast(dtype)
    local g = op.normal(op.max_pool(x, case[2]).shape, { seed = 2, stream = i }):cast(dtype)
    local gradient = graph.module("gradient_" .. i .. dtype, function(a, b)
      return graph.grad(function(t) return (op.max_pool(t, case[2]):cast "f64" * b:cast "f64"):sum() end)(a)
    end)
    local want, before = gradient(x, g), tessera.jit.device().fallback
    local have
    for _ = 1, 3 do
      have = gradient(x:to(name), g:to(name))
      tessera.jit.wait()
    end
    assert(have:to("cpu"):hash() == want:hash(), ("case %d of %s"):format(i, dtype))
    assert(tessera.jit.device().fallback == before, ("case %d of %s: the CPU ran some"):format(i, dtype))
  end
end
