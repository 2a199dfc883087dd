-- Two GPUs in one program: copies between them, the same bits on both, training steps by turns.
-- Needs `make check DEV=cuda` on a machine that has two.
package.path = "tests/devices/?.lua;" .. package.path
local ts = require "tessera"
local device = require "_device"
local op, rng, nn, optim, graph = ts.op, ts.rng, ts.nn, ts.optim, ts.graph
if device.kind ~= "cuda" or not device.name then return print(device.skipped or "skipped: no two GPUs") end
local names = {}
for _, d in ipairs(ts.devices()) do
  if d.name:match "^cuda:" then names[#names + 1] = d.name end
end
if #names < 2 then return print "skipped: no two GPUs" end
local first, second = names[1], names[2]

local function same(a, b, what) assert(a:hash() == b:hash(), what) end

local x = rng.normal({ 1000, 777 }, { seed = 1, stream = 2 })
local a, b = x:to(first), x:to(second)
same(a, x, "to the first")
same(b, x, "to the second")
same(a:to(second), x, "from one to the other")
same(b:to(first):to "cpu", x, "and back")
for i = 1, 50 do -- long enough for hot loops and recorded launches
  local c, d = op.gelu(a * 2 + i):softmax(), op.gelu(b * 2 + i):softmax()
  same(c, d, "rows")
  same(c, op.gelu(x * 2 + i):softmax(), "rows of the CPU")
  same(c:to(second) + d, d + d, "added on the second")
end
local ok, why = pcall(function() return a + b end)
assert(not ok and why:find("inputs on " .. first .. " and " .. second, 1, true), why)

local m, n = rng.normal({ 512, 1024 }):cast "bf16", rng.normal({ 1024, 768 }):cast "bf16"
same(m:to(first):matmul(n:to(first)), m:to(second):matmul(n:to(second)), "bf16 product")
local q = rng.normal({ 2, 8, 512, 64 }):cast "bf16"
local qa, qb = q:to(first), q:to(second)
same(op.attention(qa, qa, qa, { causal = true }), op.attention(qb, qb, qb, { causal = true }), "attention")

local function trainer(where)
  return ts.device(where, function()
    rng.seed(5)
    local model = nn.Sequential(nn.Linear(64, 256), op.gelu, nn.Linear(256, 10))
    return graph.training_step(model, function(net, data, y) return op.cross_entropy(net(data), y) end,
      optim.AdamW(model:parameters(), { lr = 1e-3 }))
  end)
end
local step = { trainer(first), trainer(second), trainer "cpu" }
for i = 1, 60 do
  local data, y = rng.normal { 32, 64 }, rng.randint({ 32 }, { low = 0, high = 10 })
  local loss = {}
  for k = 1, 3 do loss[k] = step[k](data, y):item() end
  assert(loss[1] == loss[2] and loss[1] == loss[3], ("step %d: %.9g %.9g %.9g"):format(i, unpack(loss)))
end
