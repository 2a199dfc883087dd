-- Norms over several axes of tensors that are stretched, reversed or transposed within them: as
-- of a copy.
local tessera = require "tessera"
local op, rng, graph = tessera.op, tessera.rng, tessera.graph
local x = rng.normal { 2, 3, 4, 1 }
local views = {
  x:expand { 2, 3, 4, 5 }, x:squeeze(3):unsqueeze(2):expand { 2, 3, 5, 4 }, x["::-1, :, ::2"]:expand { 2, 3, 2, 5 },
  rng.normal { 1, 1, 1, 1 }:expand { 2, 3, 2, 5 }, rng.normal { 5, 4, 3, 2 }:permute { 3, 2, 1, 0 }, rng.normal { 2, 3, 8, 5 }["..., ::-2, :"],
}
local wrong = {}
for i, v in ipairs(views) do
  for _, d in ipairs { "f32", "f64", "bf16" } do
    local y = v.dtype == d and v or v:cast "f32"
    for _, f in ipairs { "layernorm", "rmsnorm" } do
      for dims = 1, 4 do
        local function g(t) return op[f](t, { dims = dims }) end
        local slope = graph.grad(function(t) return (g(t) * g(t) * 0.3 + g(t)):sin():sum() end)
        if g(y):hash() ~= g(y:clone()):hash() then wrong[#wrong + 1] = ("%s of view %d, %d axes"):format(f, i, dims) end
        if slope(y):hash() ~= slope(y:clone()):hash() then wrong[#wrong + 1] = ("gradient of %s of view %d, %d axes"):format(f, i, dims) end
      end
    end
  end
end
table.concat(wrong, "\n") --> 
