-- ResNet-18, which the programs resnet18_* use.

local nn = require("tessera").nn

local Block = nn.Module:extend "Block"

function Block:init(inputs, outputs, stride)
  self.conv1 = nn.Conv2d(inputs, outputs, 3, { stride = stride, padding = 1, bias = false })
  self.bn1 = nn.BatchNorm(outputs)
  self.conv2 = nn.Conv2d(outputs, outputs, 3, { padding = 1, bias = false })
  self.bn2 = nn.BatchNorm(outputs)
  if stride ~= 1 or inputs ~= outputs then
    self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, { stride = stride, bias = false }), nn.BatchNorm(outputs))
  end
end

function Block:forward(x)
  local y = self.bn1(self.conv1(x)):relu()
  y = self.bn2(self.conv2(y))
  return (y + (self.downsample and self.downsample(x) or x)):relu()
end

local ResNet = nn.Module:extend "ResNet"

function ResNet:init(classes)
  self.conv1 = nn.Conv2d(3, 64, 7, { stride = 2, padding = 3, bias = false })
  self.bn1, self.maxpool = nn.BatchNorm(64), nn.MaxPool2d(3, { stride = 2, padding = 1 })
  local width = 64
  for i = 1, 4 do
    local outputs = 64 * 2 ^ (i - 1)
    self["layer" .. i] = nn.Sequential(Block(width, outputs, i > 1 and 2 or 1), Block(outputs, outputs, 1))
    width = outputs
  end
  self.fc = nn.Linear(512, classes)
end

function ResNet:forward(x)
  x = self.maxpool(self.bn1(self.conv1(x)):relu())
  x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
  return self.fc(x:mean { axis = { 2, 3 } })
end

return ResNet
