-- A function of convolutions by the matrix unit keeps its images channels last on a device, and has the bits that its operators have
-- there one by one.
local tessera = require "tessera"
local op, nn, graph, optim = tessera.op, tessera.nn, tessera.graph, tessera.optim
package.path = "tests/devices/?.lua;" .. package.path
local name = require("_device").name or "sim:0"

local function drawn(shape, stream) return op.normal(shape, { seed = 5, stream = stream }) end

local Net = nn.Module:extend "Net"
function Net:init(pool)
  self.conv1, self.bn1 = nn.Conv2d(3, 32, 3, { padding = 1, bias = false }), nn.BatchNorm2d(32)
  self.conv2, self.bn2 = nn.Conv2d(32, 32, 3, { padding = 1, bias = false }), nn.BatchNorm2d(32)
  self.conv3, self.bn3 = nn.Conv2d(32, 40, 1, { stride = 2 }), nn.BatchNorm2d(40)
  self.conv4 = nn.Conv2d(72, 8, 3, { padding = 1 })
  self.pool = pool -- images of half the size
  self.fc = nn.Linear(8, 5)
end
function Net:forward(x)
  local a = self.bn1(op.conv2d(x:cast "bf16", self.conv1.weight:cast "bf16", nil, nil, { padding = 1 })):relu()
  local b = self.bn2(op.conv2d(a, self.conv2.weight:cast "bf16", nil, nil, { padding = 1 })):relu() + a
  b = self.pool(b)
  local c = self.bn3(op.conv2d(b, self.conv3.weight:cast "bf16", self.conv3.bias:cast "bf16", nil, { stride = 2 }))
  local d = op.concat({ c, op.avg_pool(b, { window = { 2, 2 } }) }, { axis = 1 })
  d = op.conv2d(d, self.conv4.weight:cast "bf16", self.conv4.bias:cast "bf16", nil, { padding = 1 })
  return self.fc(d:cast("f32"):square():mean { axis = { 2, 3 } })
end

local x, y = drawn({ 2, 3, 8, 8 }, 1):to(name), op.randint({ 2 }, { low = 0, high = 5, seed = 1, stream = 2 }):to(name)
local function loss_of(m, px, py) return op.cross_entropy(m(px), py) end

local function trained(pool, captured)
  tessera.rng.seed(3)
  local m = tessera.no_grad(Net, pool)
  m:to(name)
  local o = optim.SGD(m:parameters(), { lr = 0.1 })
  local step = captured and graph.training_step(m, loss_of, o) or function(px, py)
    o:zero_grad()
    local loss = loss_of(m, px, py)
    loss:backward()
    o:step()
    return loss
  end
  for _ = 1, 3 do
    step(x, y)
    tessera.jit.wait()
  end
  local all = {}
  for _, p in ipairs(m:named_parameters()) do all[#all + 1] = p[1] .. " " .. p[2]:to("cpu"):hash() end
  for _, b in ipairs { "bn1", "bn2", "bn3" } do
    all[#all + 1] = b .. " " .. m[b].running_mean:to("cpu"):hash() .. m[b].running_var:to("cpu"):hash()
  end
  return table.concat(all, "\n"), step
end

for which, pool in pairs {
  max = function(t) return op.max_pool(t, { window = { 3, 3 }, stride = { 2, 2 }, padding = { 1, 1 } }) end,
  mean = function(t) return op.avg_pool(t, { window = { 2, 2 } }) end,
} do
  local before = tessera.jit.device().fallback
  local want = trained(pool, false)
  before = tessera.jit.device().fallback
  local have, step = trained(pool, true)
  if have ~= want then print(which .. ":\n" .. want .. "\nand by the function:\n" .. have) end
  assert(have == want, which)
  if os.getenv "SHOW" then print(step:ir "schedule") print(step:ir "graph") print(step:why()) end
  assert(tessera.jit.device().fallback == before, "the CPU ran some")
  if os.getenv "SHOW" then print(step:ir "schedule") print(step:ir "graph") print(step:why()) end
end

-- Results have bytes of their own: images row-major, numbers that are computed once for two of them.
local w = (drawn({ 32, 32, 3, 3 }, 7) / 16):cast("bf16"):to(name)
local image = drawn({ 2, 32, 5, 5 }, 8):cast("bf16"):to(name)
local function several(t)
  local c = op.conv2d(t, w, nil, nil, { padding = 1 })
  local wide = c:cast "f32"
  local m, k = wide:mean { axis = { 0, 2, 3 } }, wide:mean { axis = { 0, 2, 3 }, keepdims = true }
  return c, m, k, ((wide - k):square():sum { axis = { 2, 3 } }), wide:var { axis = { 0, 2, 3 }, correction = 1 }, op.relu(wide):max { axis = 1 }
end
local want, f = { several(image) }, graph.module("several", several)
for _ = 1, 3 do
  local have = { f(image) }
  tessera.jit.wait()
  for i = 1, #want do
    assert(have[i]:is_contiguous() and have[i]:to("cpu"):hash() == want[i]:to("cpu"):hash(), "result " .. i)
    have[i]:add_(1)
  end
  for i = 1, #want do assert(have[i]:to("cpu"):hash() == (want[i] + 1):to("cpu"):hash(), "result " .. i .. " after a change in place") end
end
-- A variance whose squares leave the type.
local function spread(t) return (op.conv2d(t, w, nil, nil, { padding = 1 }):cast "f32" * 1e25):var { axis = { 0, 2, 3 } } end
local g, large = graph.module("spread", spread), spread(image)
for _ = 1, 3 do
  local have = g(image)
  tessera.jit.wait()
  assert(have:to("cpu"):hash() == large:to("cpu"):hash())
end
