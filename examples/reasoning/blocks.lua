-- What the reasoning models are made of: stacks of transformer blocks with the norm behind each part, the weights' start, and
-- cross-entropy by stablemax.

local tessera = require "tessera"
local op, nn = tessera.op, tessera.nn

local blocks = {}

-- A normal distribution cut at two deviations has 0.8796 of the deviation that it was made with.
local CUT = 0.87962566103423978

function blocks.drawn(shape, std) return op.truncated_normal(shape, { std = std / CUT }) end

-- ---- layers without biases; products run in `dtype`, on weights that are f32 and rounded once a step
local Linear = nn.Module:extend "Linear"

function Linear:init(from, to, dtype) self.weight, self.dtype = blocks.drawn({ to, from }, 1 / math.sqrt(from)), dtype end

function Linear:forward(x) return op.linear(x, self.weight:cast(self.dtype)) end

local Attention = nn.Module:extend "Attention"

function Attention:init(o)
  self.heads = o.heads
  self.qkv, self.out = Linear(o.width, 3 * o.width, o.dtype), Linear(o.width, o.width, o.dtype)
end

function Attention:forward(x)
  local b, n, width = unpack(x.shape)
  local qkv = self.qkv(x):reshape(b, n, 3, self.heads, width / self.heads):permute(2, 0, 3, 1, 4)
  local q, k, v = qkv:split { size = 1 }
  local y = op.attention(q:squeeze(0):rope { theta = 10000 }, k:squeeze(0):rope { theta = 10000 }, v:squeeze(0))
  return self.out(y:permute(0, 2, 1, 3):reshape(b, n, width))
end

local SwiGLU = nn.Module:extend "SwiGLU"

function SwiGLU:init(width, o)
  local hidden = math.ceil(math.floor(o.expansion * width * 2 / 3 + 0.5) / o.multiple) * o.multiple
  self.gate_up, self.down = Linear(width, 2 * hidden, o.dtype), Linear(hidden, width, o.dtype)
end

-- Two products, and not the halves of one: the gate is made behind one of them, and multiplied behind the other.
function SwiGLU:forward(x)
  local gate, up = self.gate_up.weight:cast(self.gate_up.dtype):split { size = self.down.weight.shape[2], axis = 0 }
  return self.down(op.linear(x, gate):silu() * op.linear(x, up))
end

-- x + attention, normed; x + MLP, normed. mixer: in place of attention an MLP over the places of a sequence of that length.
local Block = nn.Module:extend "Block"

function Block:init(o)
  if o.mixer then self.mixer = SwiGLU(o.mixer, o) else self.attention = Attention(o) end
  self.mlp = SwiGLU(o.width, o)
end

function Block:forward(x)
  if self.mixer then
    local y = x:transpose(1, 2)
    x = op.rmsnorm(y + self.mixer(y)):transpose(1, 2)
  else
    x = op.rmsnorm(x + self.attention(x))
  end
  return op.rmsnorm(x + self.mlp(x))
end

--- Stack {layers, width, heads, expansion, multiple, dtype, mixer}: stack(z, injected) are the blocks on z + injected, [B, L, width].
blocks.Stack = nn.Module:extend "Stack"

function blocks.Stack:init(o)
  self.blocks = nn.List()
  for i = 1, o.layers do self.blocks[i] = Block(o) end
end

function blocks.Stack:forward(z, injected)
  z = z + injected
  for _, block in ipairs(self.blocks) do z = block(z) end
  return z
end

--- Heads {width, words, outputs, dtype}: embedding of words, logits of words at each place, and `outputs` numbers of the first place, which
--- say whether to halt: their weights begin as 0 and their biases as -5, so that nothing halts early while nothing is known.
blocks.Heads = nn.Module:extend "Heads"

function blocks.Heads:init(o)
  self.width, self.dtype = o.width, o.dtype
  self.embedding = blocks.drawn({ o.words, o.width }, 1 / math.sqrt(o.width))
  self.word = Linear(o.width, o.words, o.dtype)
  self.halt, self.halt_bias = op.zeros { o.outputs, o.width }, op.full({ o.outputs }, -5)
end

function blocks.Heads:embed(ids) return op.embedding(self.embedding, ids):cast(self.dtype) * math.sqrt(self.width) end

function blocks.Heads:words(z) return self.word(z):cast "f32" end

function blocks.Heads:halting(z)
  return op.linear(z:select(1, 0):cast "f32", self.halt, self.halt_bias)
end

-- ---- the loss of words

--- Mean over places and batch of -log(s(logit of the answer) / sum of s), s(x) = x + 1 from 0 on and 1 / (1 - x) below; in f64, since s has
--- neither the range nor the shift of exp. logits [B, L, words], answers i64[B, L].
function blocks.stablemax_loss(logits, answers)
  local x = logits:cast "f64"
  local s = op.where(x:lt(0), 1 / (1 - op.minimum(x, 0)), x + 1)
  local own = s:gather(answers:unsqueeze(2), { axis = 2 }):squeeze(2)
  return (s:sum { axis = 2 } / own):log():mean():cast "f32"
end

return blocks
