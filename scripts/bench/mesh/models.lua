-- Models of the mesh's benchmark, with every projection a matrix of its own, so that heads and hidden numbers split over an axis
-- "tp": a decoder as Llama's, dense or with mixtures of experts. All weights are of one type (o.dtype, or f32).

local tessera = require "tessera"
local op, nn = tessera.op, tessera.nn

local Block, Decoder = nn.Module:extend "Block", nn.Module:extend "Decoder"

local function linear(inputs, outputs, dtype) return nn.Linear(inputs, outputs, { bias = false, dtype = dtype }) end

function Block:init(o)
  self.heads, self.head = o.heads, o.head or o.width / o.heads
  local all, few = o.heads * self.head, (o.key_heads or o.heads) * self.head
  self.norm1, self.norm2 = nn.RMSNorm(o.width, { dtype = o.dtype }), nn.RMSNorm(o.width, { dtype = o.dtype })
  self.q, self.k, self.v = linear(o.width, all, o.dtype), linear(o.width, few, o.dtype), linear(o.width, few, o.dtype)
  self.o = linear(all, o.width, o.dtype)
  if o.experts then
    self.moe = nn.MoE(o.width, o.hidden, { experts = o.experts, k = o.k or 2, activation = o.activation or "swiglu", bias = false, dtype = o.dtype })
  else
    self.gate, self.up, self.down = linear(o.width, o.hidden, o.dtype), linear(o.width, o.hidden, o.dtype), linear(o.hidden, o.width, o.dtype)
  end
end

function Block:forward(x)
  local b, t, w = unpack(x.shape)
  local y = self.norm1(x)
  local function heads(z) return z:reshape { b, t, z.shape[3] / self.head, self.head }:permute(0, 2, 1, 3) end
  local q, k, v = op.rope(heads(self.q(y))), op.rope(heads(self.k(y))), heads(self.v(y))
  x = x + self.o(op.attention(q, k, v, { causal = true }):permute(0, 2, 1, 3):reshape { b, t, self.heads * self.head })
  y = self.norm2(x)
  if self.moe then
    local z, routing = self.moe(y)
    return x + z, op.load_balance_loss(routing.logits, routing.index) * 0.01
  end
  return x + self.down(op.silu(self.gate(y)) * self.up(y))
end

function Decoder:init(o)
  self.token, self.norm = nn.Embedding(o.vocabulary, o.width, { dtype = o.dtype }), nn.RMSNorm(o.width, { dtype = o.dtype })
  self.head = linear(o.width, o.vocabulary, o.dtype)
  self.token.weight:copy_(op.normal(self.token.weight.shape, { std = 0.02 }))
  self.blocks = nn.List()
  for i = 1, o.layers do
    self.blocks[i] = Block(o)
    if o.spread then o.spread(self.blocks[i]) end -- before the next one is drawn
  end
end

-- Logits, and what uneven choices of experts cost.
function Decoder:forward(ids)
  local x, cost, more = self.token(ids), 0, nil
  for _, block in ipairs(self.blocks) do
    x, more = block(x)
    cost = cost + (more or 0)
  end
  return self.head(self.norm(x)), cost
end

local M = { Decoder = Decoder }

-- How tensor parallel devices split the decoder, and how experts lie.
M.tp = { ["*q.weight"] = { "tp" }, ["*k.weight"] = { "tp" }, ["*v.weight"] = { "tp" }, ["*o.weight"] = { nil, "tp" },
  ["*gate.weight"] = { "tp" }, ["*up.weight"] = { "tp" }, ["*down.weight"] = { nil, "tp" } }
-- Of mixtures heads and the rows of all experts.
M.tp_experts = { ["*q.weight"] = { "tp" }, ["*k.weight"] = { "tp" }, ["*v.weight"] = { "tp" }, ["*o.weight"] = { nil, "tp" },
  ["*experts.up"] = { nil, nil, "tp" }, ["*experts.down"] = { nil, "tp" } }
M.ep = { ["*experts.up"] = { "ep" }, ["*experts.down"] = { "ep" } }

-- Layouts of several axes of a mesh as one: what any of them splits is split.
function M.together(...)
  local all = {}
  for _, specs in ipairs { ... } do
    for pattern, spec in pairs(specs) do
      all[pattern] = all[pattern] or {}
      for d, axis in pairs(spec) do all[pattern][d] = axis end
    end
  end
  return all
end

function M.loss(m, x, y)
  local logits, cost = m(x)
  return op.cross_entropy(logits, y) + cost
end

return M
