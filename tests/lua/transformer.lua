-- Attention with keys and values of their own, encoders and decoders beside PyTorch's.
local tessera = require "tessera"
local op, nn, rng, graph = tessera.op, tessera.nn, tessera.rng, tessera.graph
local layers = dofile "tests/lua/_layers.lua"

layers.check("attention", nn.MultiheadAttention(8, 2))
layers.check("attention_self", nn.MultiheadAttention(8, 2, { batch_first = true }), function(m, x) return m(x, x, x, { weights = true }) end)
layers.check("attention_wide", nn.MultiheadAttention(8, 2, { bias = false, kdim = 3, vdim = 5, batch_first = true }))
layers.check("attention_single", nn.MultiheadAttention(8, 2))
layers.check("attention_masks", nn.MultiheadAttention(8, 2), function(m, q, k, hidden, padding)
  return m(q, k, k, { mask = hidden:logical_not(), key_padding_mask = padding, weights = true })
end)
layers.check("attention_added", nn.MultiheadAttention(8, 2), function(m, q, k, mask, padding)
  return m(q, k, k, { mask = mask, key_padding_mask = padding })
end)
layers.check("encoder_layer", nn.TransformerEncoderLayer(8, 2, 12, 0))
layers.check("encoder_first", nn.TransformerEncoderLayer(8, 2, 12, 0, "gelu", { batch_first = true, norm_first = true, bias = false }),
  function(m, x, padding) return m(x, { causal = true, key_padding_mask = padding }) end)
layers.check("decoder_layer", nn.TransformerDecoderLayer(8, 2, { hidden = 12, dropout = 0 }), function(m, x, y) return m(x, y, { causal = true }) end)
layers.check("encoder", nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 12, 0), 2, nn.LayerNorm(8)))
layers.check("decoder", nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 12, 0, { norm_first = true }), 2))

-- The operator: a triangle from the upper left corner, masks that broadcast along leading axes.
local function left(_, q, k, v) return op.attention(q, k, v, { causal = true, upper_left = true }) end
layers.check("attention_left_wide", nil, left)
layers.check("attention_left_high", nil, left)
layers.check("attention_left_square", nil, left)
layers.check("attention_spread", nil, function(_, q, k, v, mask) return op.attention(q, k, v, mask) end)
-- With a window, and more rows than keys: rows that see nothing are 0.
local ones = op.ones { 1, 8, 4 }
op.attention(ones, ones["0:1, 0:3"], ones["0:1, 0:3"], { window = 2, upper_left = true }):select(2, 0) --> [[1. 1. 1. 1. 0. 0. 0. 0.]]
--> f32[1,8]
-- Sizes for which there are kernels.
for _, st in ipairs { { 128, 128 }, { 128, 256 }, { 256, 128 } } do
  local s, t = unpack(st)
  local q, k, v = rng.normal { 1, 2, s, 16 }, rng.normal { 1, 2, t, 16 }, rng.normal { 1, 2, t, 16 }
  local function f(q, k, v) return op.attention(q, k, v, { causal = true, upper_left = true }) end
  local mask = op.arange(t):le(op.arange(s):unsqueeze(1))
  local slow = graph.grad(function(q, k, v) return op.attention(q, k, v, mask):square():sum() end, { 1, 2, 3 })
  local fast = graph.grad(function(q, k, v) return f(q, k, v):square():sum() end, { 1, 2, 3 })
  local want, got = { slow(q, k, v) }, { fast(q, k, v) }
  for round = 1, 3 do got = { fast(q, k, v) } end
  layers.near("upper left", f(q, k, v), op.attention(q, k, v, mask), 1e-6)
  for i = 1, 3 do layers.near("upper left, gradient " .. i, got[i], want[i], 1e-5) end
end

-- Dropout of probabilities, while training; the mean of what is seen stays.
local m = nn.MultiheadAttention(8, 2, { dropout = 0.5 })
local x = rng.normal { 4, 2, 8 }
m(x):hash() == m(x):hash() --> false
local _, p = m(x, x, x, { weights = true })
p.shape --> {2, 4, 4}
m:eval()
m(x):hash() == m(x):hash() --> true
local a = nn.MultiHeadAttention(8, 4, { attention_dropout = 0.5, kv_heads = 2, causal = true })
a(x):hash() == a(x):hash() --> false
a:eval()
local plain = nn.MultiHeadAttention(8, 4, { kv_heads = 2, causal = true })
plain:load_state_dict(a:state_dict())
a(x):hash() == plain(x):hash() --> true
a.attention_dropout = 1e-9 -- the written-out form agrees with the operator
a:train()
layers.near("written out", a(x), plain(x), 1e-5)

-- Copies have tensors of their own, shared ones stay shared.
local tied = nn.List { nn.Linear(2, 2), nn.Linear(2, 2) }
tied[2].weight = tied[1].weight
local copy = tied:clone()
rawequal(copy[1].weight, copy[2].weight) --> true
rawequal(copy[1].weight, tied[1].weight) --> false
copy[1].weight:hash() == tied[1].weight:hash() --> true
copy[1].weight.requires_grad --> true
#copy:parameters() --> 3

nn.MultiheadAttention(8, 3) --! MultiheadAttention: 3 heads do not divide width = 8
nn.MultiheadAttention(8, 2)(x, x, x, { attn_mask = op.ones { 4, 4 } }) --! MultiheadAttention: unknown option 'attn_mask'
nn.MultiheadAttention(8, 2)(rng.normal { 4, 2, 7 }) --! MultiheadAttention: the query is f32[4,2,7], and has to be [..,.., 8]
nn.TransformerEncoder(3, 2) --! TransformerEncoder: the layer is a number, not a module
nn.TransformerEncoderLayer(8, 2, { activation = "rellu" }) --! TransformerEncoderLayer: option 'activation' must be the name of an operator, not 'rellu'
