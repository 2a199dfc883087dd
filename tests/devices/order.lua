-- Launches of a function that wait only for those whose results they need: in the order that is
-- most unlike the program's a simulated device gives the same bits; a real one runs them side by
-- side, against launches one by one.
package.path = "tests/devices/?.lua;" .. package.path
local tessera = require "tessera"
local core, op, graph, nn, optim = tessera.core, tessera.op, tessera.graph, tessera.nn, tessera.optim
local device = require "_device"
local name = device.name
if not name then return print(device.skipped) end

local heads, width, vocabulary, layers = 2, 128, 48, 2
local function reorder(on)
  core.jit_shuffle(on)
  core.jit_overlap(on)
end
local function train(shuffle)
  reorder(shuffle)
  core.seed(3)
  local text = tessera.device(name, function()
    local Net = nn.Module:extend "Net"
    function Net:init()
      self.wte, self.norm = nn.Embedding(vocabulary, width), nn.LayerNorm(width)
      self.qkv, self.out, self.mlp = nn.List(), nn.List(), nn.List()
      for i = 1, layers do
        self.qkv[i], self.out[i], self.mlp[i] = nn.Linear(width, 3 * width), nn.Linear(width, width), nn.Linear(width, width)
      end
    end
    local function linear(l, x) return op.matmul(x, l.weight:cast("bf16"):T(), { bias = l.bias:cast "bf16" }) end
    function Net:forward(ids)
      local b, t = unpack(ids.shape)
      local x = self.wte(ids)
      for i = 1, layers do
        local y = self.norm(x):cast "bf16"
        local q, k, v = linear(self.qkv[i], y):reshape(b, t, 3, heads, width / heads):permute(2, 0, 3, 1, 4):split { size = 1 }
        y = op.attention(q:squeeze(0), k:squeeze(0), v:squeeze(0), { causal = true })
        x = x + linear(self.out[i], y:permute(0, 2, 1, 3):reshape(b, t, width)):cast "f32"
        x = x + linear(self.mlp[i], op.gelu(x:cast "bf16", { approximate = "tanh" })):cast "f32"
      end
      return op.matmul(x, self.wte.weight:transpose(0, 1))
    end
    local net = Net()
    local step = graph.training_step(net, function(m, x, y)
      return op.cross_entropy(m(x):reshape(-1, vocabulary), y:reshape(-1))
    end, optim.AdamW(net:parameters(), { lr = 1e-2 }))
    local out = {}
    for i = 1, 7 do
      local ids = tessera.device("cpu", function()
        return op.randint({ 2, 33 }, { low = 0, high = vocabulary, seed = 5, stream = i })
      end)
      out[i] = step(ids:narrow(1, 0, 32):contiguous():to(name), ids:narrow(1, 1, 32):contiguous():to(name)):hash()
    end
    for _, p in ipairs(net:parameters()) do out[#out + 1] = p:hash() end
    return table.concat(out, " ")
  end)
  reorder(false)
  return text
end
tessera.jit.eager(true)
local want
if device.kind == "sim" then
  want = train(false)
else -- measured, launches are one by one
  tessera.jit.device_profile(function() want = train(false) end)
end
train(true) == want --> true

-- Without kernels of the whole function, and what writes over what is read.
tessera.jit.eager(false)
local function many(shuffle)
  reorder(shuffle)
  local a, b = op.ones({ 40, 30 }):to(name), op.ones({ 40, 30 }, { dtype = "f32" }):to(name)
  local f = graph.module("many", function(x)
    local u, v = a:exp(), (x * 3):tanh()
    a:mul_(0.5)
    b:add_(a)
    local w = a:sum { axis = 0 } + b:T():sum { axis = 1 }
    b:copy_(v)
    return u:sum() + w:sum(), b * 2, (v:T() + 1):contiguous()
  end)
  local text = {}
  for i = 1, 8 do
    for _, y in ipairs { f(op.full({ 40, 30 }, i / 8):to(name)) } do text[#text + 1] = y:hash() end
  end
  reorder(false)
  return table.concat(text, " ") .. a:hash() .. b:hash()
end
many(true) == many(false) --> true
