-- ResNet-18 looks at a picture of 224 x 224.

local tessera = require "tessera"
local rng = tessera.rng
local ResNet = dofile "scripts/bench/programs/resnet.lua"

local model = ResNet(1000):eval()

return {
  model = model,
  data = { rng.normal { 1, 3, 224, 224 } },
  run = function(x) return tessera.no_grad(model, x) end,
}
