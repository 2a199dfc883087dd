-- The training step of a GPT of the given sizes, for a speed row and, as a program
-- (`tessera scripts/bench/gpt.lua peak SIZES`), for the memory that a step needs: the growth
-- of the peak over what was resident before the first one, in KiB.

local ts = require "tessera"
local op, nn, optim, graph, rng = ts.op, ts.nn, ts.optim, ts.graph, ts.rng

local GPT = nn.Module:extend "GPT"

function GPT:init(layers, width, heads, context, vocabulary)
  self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
  self.blocks = nn.List()
  for i = 1, layers do self.blocks[i] = nn.TransformerBlock(width, heads, { causal = true }) end
  self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, { bias = false })
  for _, table in ipairs { self.token, self.position } do
    table.weight:copy_(op.normal(table.weight.shape, { std = 0.02 }))
  end
end

function GPT:forward(ids)
  local x = self.token(ids) + self.position(op.arange(ids.shape[2]))
  for _, block in ipairs(self.blocks) do x = block(x) end
  return self.head(self.norm(x))
end

local function new_step(layers, width, heads, context, batch, vocabulary)
  local model = GPT(layers, width, heads, context, vocabulary)
  local step = graph.training_step(model, function(m, x, y) return op.cross_entropy(m(x), y) end,
    optim.AdamW(model:parameters(), { lr = 1e-4 }))
  return function()
    local ids = { batch, context }
    local x = rng.randint(ids, { low = 0, high = vocabulary })
    return step(x, rng.randint(ids, { low = 0, high = vocabulary }))
  end
end

local function status(key)
  for line in io.lines("/proc/self/status") do
    local kib = line:match("^" .. key .. ":%s*(%d+)")
    if kib then return tonumber(kib) end
  end
end

if arg and arg[1] == "peak" then
  local sizes = {}
  for i = 2, #arg do sizes[i - 1] = tonumber(arg[i]) end
  local step = new_step(unpack(sizes))
  local before = status "VmRSS"
  for _ = 1, 5 do step():item() end
  print(status "VmHWM" - before)
end

return new_step, GPT
