-- A U-Net marks what belongs to an object in pictures of 64 x 64: 4 a step.

local tessera = require "tessera"
local op, nn, optim, rng = tessera.op, tessera.nn, tessera.optim, tessera.rng

local function twice(inputs, outputs)
  return nn.Sequential {
    nn.Conv2d(inputs, outputs, 3, { padding = 1 }), nn.BatchNorm(outputs), nn.ReLU(),
    nn.Conv2d(outputs, outputs, 3, { padding = 1 }), nn.BatchNorm(outputs), nn.ReLU(),
  }
end

local UNet = nn.Module:extend "UNet"

function UNet:init()
  self.down1, self.down2, self.bottom = twice(3, 16), twice(16, 32), twice(32, 64)
  self.pool = nn.MaxPool2d(2)
  self.widen2, self.up2 = nn.ConvTranspose2d(64, 32, 2, { stride = 2 }), twice(64, 32)
  self.widen1, self.up1 = nn.ConvTranspose2d(32, 16, 2, { stride = 2 }), twice(32, 16)
  self.head = nn.Conv2d(16, 1, 1)
end

function UNet:forward(x)
  local a = self.down1(x)
  local b = self.down2(self.pool(a))
  local y = self.bottom(self.pool(b))
  y = self.up2(op.concat({ self.widen2(y), b }, { axis = 1 }))
  y = self.up1(op.concat({ self.widen1(y), a }, { axis = 1 }))
  return self.head(y)
end

local model = UNet()

return {
  model = model,
  data = { rng.normal { 32, 3, 64, 64 }, rng.bernoulli({ 32, 1, 64, 64 }, { dtype = "f32" }) },
  batch = 4,
  loss = function(m, x, y) return op.bce_with_logits(m(x), y) end,
  optimizer = optim.Adam(model:parameters(), 1e-4),
}
