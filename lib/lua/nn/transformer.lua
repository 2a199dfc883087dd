-- Attention and what is built of it: blocks of language models, PyTorch's layers of encoders and
-- decoders. Loaded by nn, whose classes these become.

local core = require "tessera.core"
local heads = require "tessera.nn.heads"
local Module = require "tessera.module"
local options = require "tessera.options"
local op, rng = core.op, core.op

local FLAG, DTYPE, need = options.flag, options.dtype, options.argument
local SIZE, COUNT, SHARE = options.whole { least = 0 }, options.whole { least = 1 }, options.number { least = 0, most = 1 }

local nn -- given by who loads this

local function define(name) return Module:extend(name) end

-- ---- keys and values of earlier positions

local KVCache = {}
KVCache.__index = KVCache

local function grown(old, new, length)
  local shape = { unpack(new.shape) }
  shape[3] = math.max(64, 2 * (length + new.shape[3]))
  local buffer = op.zeros(shape, { dtype = new.dtype })
  if old then buffer:narrow(2, 0, length):copy_(old:narrow(2, 0, length)) end
  return buffer
end

-- Appends k and v; returns all keys and values so far.
function KVCache:append(k, v)
  local n = k.shape[3]
  if not self.k or self.length + n > self.k.shape[3] then
    self.k, self.v = grown(self.k, k, self.length), grown(self.v, v, self.length)
  end
  self.k:narrow(2, self.length, n):copy_(k)
  self.v:narrow(2, self.length, n):copy_(v)
  self.length = self.length + n
  return self.k:narrow(2, 0, self.length), self.v:narrow(2, 0, self.length)
end

-- ---- attention whose probabilities are there: to drop some of them, or to see them

-- y and the probabilities [B, H, S, T]. o: options of op.attention, and dropout.
local function attend_openly(q, k, v, o)
  local n = q.shape[2]
  local scores = op.matmul(q, heads.repeated(k, n):T()) * (1 / math.sqrt(q.shape[4]))
  local seen, mask = heads.seen(q.shape[3], k.shape[3], o, q.device), o.mask
  if mask and mask.dtype == "bool" then
    seen = seen and seen:logical_and(mask) or mask
  elseif mask then
    scores = scores + mask:cast(scores.dtype)
  end
  if seen then scores = scores:masked_fill(seen:logical_not(), { value = -math.huge }) end
  local p = op.softmax(scores)
  if o.dropout > 0 then p = op.dropout(p, { p = o.dropout }) end
  return op.matmul(p, heads.repeated(v, n)), p
end

-- Attention of heads [B, H, S, D]; where nobody asks for probabilities, one operator.
local function attend(q, k, v, o)
  if o.dropout > 0 or o.weights then return attend_openly(q, k, v, o) end
  return op.attention(q, k, v, { mask = o.mask, causal = o.causal, window = o.window, upper_left = o.upper_left })
end

-- ---- self-attention of language models

local MultiHeadAttention = define "MultiHeadAttention"
local attention_kinds = { kv_heads = COUNT, head_dim = COUNT, bias = FLAG, causal = FLAG, rope = options.table, window = COUNT,
  attention_dropout = SHARE, dtype = DTYPE }
local attention_defaults = { bias = true, causal = false, attention_dropout = 0 }
local read_attention = options.of("MultiHeadAttention", attention_kinds, attention_defaults)
local read_call = options.of("MultiHeadAttention", { mask = options.tensor, cache = options.table })

-- MultiHeadAttention(width, heads, {kv_heads = heads, head_dim = width / heads, bias = true, causal = false, rope, window,
-- attention_dropout = 0, dtype}): attention of x [B, S, width] with itself, and what comes out projected back to width.
-- kv_heads, which divides heads: fewer keys and values than queries. rope: a table of options of op.rope. window: how
-- many positions back are seen. attention_dropout is of probabilities, while training. Called with (x, {mask, cache}).
-- Keys and values of another tensor: ? nn.MultiheadAttention.
--   y = nn.MultiHeadAttention(8, 2, {causal = true, rope = {}})(rng.normal{1, 5, 8})
function MultiHeadAttention:init(width, heads, o)
  o = read_attention(o)
  need("MultiHeadAttention", "width", COUNT, width)
  need("MultiHeadAttention", "heads", COUNT, heads)
  local kv = o.kv_heads or heads
  local d = o.head_dim or width / heads
  if d % 1 ~= 0 then
    d = math.floor(d)
    error(("MultiHeadAttention: heads * head_dim = %d * %d = %d, but width = %d"):format(heads, d, heads * d, width), 3)
  end
  if heads % kv ~= 0 then
    error(("MultiHeadAttention: kv_heads = %d does not divide heads = %d"):format(kv, heads), 3)
  end
  self.heads, self.kv_heads, self.head_dim = heads, kv, d
  self._told = options.told("MultiHeadAttention", o, "width", width, "heads", heads)
  self.causal, self.rope, self.window = o.causal, o.rope, o.window
  self.attention_dropout = o.attention_dropout
  self.qkv = nn.Linear(width, (heads + 2 * kv) * d, { bias = o.bias, dtype = o.dtype })
  self.out = nn.Linear(heads * d, width, { bias = o.bias, dtype = o.dtype })
end

function MultiHeadAttention:forward(x, o)
  o = read_call(o)
  local q, k, v = op.qkv_projection(x, self.qkv.weight, self.qkv.bias,
    { heads = self.heads, kv_heads = self.kv_heads })
  if self.rope then
    local r = {}
    for key, value in pairs(self.rope) do r[key] = value end
    r.offset = o.cache and o.cache.length or 0
    q, k = op.rope(q, r), op.rope(k, r)
  end
  if o.cache then k, v = o.cache:append(k, v) end
  return self.out(heads.join((attend(q, k, v, { mask = o.mask, causal = self.causal, window = self.window,
    dropout = self.training and self.attention_dropout or 0 }))))
end

-- ---- attention of queries to keys and values, with PyTorch's parameters

local MultiheadAttention = define "MultiheadAttention"
local read_multihead = options.placed("MultiheadAttention", { dropout = SHARE, bias = FLAG, kdim = COUNT, vdim = COUNT,
  batch_first = FLAG, dtype = DTYPE }, { dropout = 0, bias = true, batch_first = false }, { "dropout", "bias" })
local query_kinds = { mask = options.tensor, key_padding_mask = options.tensor, causal = FLAG, upper_left = FLAG, weights = FLAG }
local read_query = options.of("MultiheadAttention", query_kinds, { causal = false })

-- MultiheadAttention(width, heads, {dropout = 0, bias = true, kdim, vdim, batch_first = false, dtype}):
-- attention of queries to keys and values, with the names of PyTorch's parameters (in_proj_weight ..
-- out_proj.bias), whose states load; ? nn.MultiHeadAttention is the one of language models, with a
-- cache and grouped heads. kdim and vdim are the widths of keys and values, width if not given;
-- dropout is of probabilities, while training.
-- y, p = attention(q, k, v, {mask, key_padding_mask, causal, upper_left, weights}): q [S, B, width],
-- k [T, B, kdim] and v [T, B, vdim], or batches first, or without batches; k and v are q if they are
-- not given, v is k. mask as of op.attention, bool (true: seen, the opposite of PyTorch's attn_mask)
-- or added, for [B, heads, S, T], to which it broadcasts, or [B heads, S, T]; key_padding_mask bool
-- [B, T], true where a key is padding; causal and upper_left as of op.attention. p, the probabilities,
-- the mean of all heads, [B, S, T], if weights is true.
--   attention = nn.MultiheadAttention(16, 4, {batch_first = true})
--   y = attention(rng.normal{2, 3, 16}, rng.normal{2, 5, 16})   -- f32[2,3,16]
function MultiheadAttention:init(width, heads, ...)
  local o, name = read_multihead(...), "MultiheadAttention"
  need(name, "width", COUNT, width)
  need(name, "heads", COUNT, heads)
  if width % heads ~= 0 then core.fail(("%s: %d heads do not divide width = %d"):format(name, heads, width)) end
  self.width, self.heads, self.dropout, self.batch_first = width, heads, o.dropout, o.batch_first
  self.kdim, self.vdim = o.kdim or width, o.vdim or width
  self._told = options.told(name, o, "width", width, "heads", heads)
  local function drawn(rows, columns) -- Glorot's
    local bound = math.sqrt(6 / (rows + columns))
    return rng.uniform({ rows, columns }, { low = -bound, high = bound, dtype = o.dtype })
  end
  if self.kdim == width and self.vdim == width then
    self.in_proj_weight = drawn(3 * width, width)
  else
    self.q_proj_weight, self.k_proj_weight, self.v_proj_weight = drawn(width, width), drawn(width, self.kdim), drawn(width, self.vdim)
  end
  if o.bias then self.in_proj_bias = op.zeros({ 3 * width }, { dtype = o.dtype }) end
  self.out_proj = nn.Linear(width, width, { bias = o.bias, dtype = o.dtype })
  if o.bias then core.no_grad(self.out_proj.bias.copy_, self.out_proj.bias, 0) end
end

-- Queries, keys and values as heads, of inputs [B, .., width].
local function project(self, q, k, v)
  local w, b, n = self.in_proj_weight, self.in_proj_bias, self.width
  if w and rawequal(q, k) and rawequal(k, v) then return op.qkv_projection(q, w, b, { heads = self.heads }) end
  local own, out = { self.q_proj_weight, self.k_proj_weight, self.v_proj_weight }, {}
  for i, x in ipairs { q, k, v } do
    local rows = w and w:narrow(0, (i - 1) * n, n) or own[i]
    out[i] = heads.split(op.linear(x, rows, b and b:narrow(0, (i - 1) * n, n)), self.heads)
  end
  return unpack(out)
end

-- One mask for [B, H, S, T] of what a call has.
local function joined_mask(self, o, batch, t)
  local mask, padding = o.mask, o.key_padding_mask
  if mask and mask.ndim == 3 and mask.shape[1] == batch * self.heads then
    mask = mask:reshape { batch, self.heads, mask.shape[2], mask.shape[3] }
  end
  if not padding then return mask end
  if padding.dtype ~= "bool" or padding.ndim > 2 or padding.shape[padding.ndim] ~= t then
    core.fail(("MultiheadAttention: key_padding_mask is %s, and has to be bool[%d,%d], true where a key is padding"):format(
      core.type_text(padding), batch, t))
  end
  local seen = padding:logical_not():reshape { padding.ndim == 2 and padding.shape[1] or 1, 1, 1, t }
  if not mask then return seen end
  if mask.dtype == "bool" then return mask:logical_and(seen) end
  return op.where(seen, mask, -math.huge)
end

function MultiheadAttention:forward(q, k, v, o)
  need("MultiheadAttention", "the query", options.tensor, q)
  o = read_query(o)
  k = k or q
  v = v or k
  local single, turned = q.ndim == 2, not self.batch_first
  local function batched(x, width, what)
    need("MultiheadAttention", "the " .. what, options.tensor, x)
    if x.ndim ~= (single and 2 or 3) or x.shape[x.ndim] ~= width then
      core.fail(("MultiheadAttention: the %s is %s, and has to be [%s%d]"):format(what, core.type_text(x),
        single and ".., " or "..,.., ", width))
    end
    return single and x:unsqueeze(0) or turned and x:permute(1, 0, 2) or x
  end
  local same_k, same_v = rawequal(k, q), rawequal(v, k)
  q = batched(q, self.width, "query")
  k = same_k and q or batched(k, self.kdim, "key")
  v = same_v and k or batched(v, self.vdim, "value")
  local mask = joined_mask(self, o, k.shape[1], k.shape[2])
  q, k, v = project(self, q, k, v)
  local y, p = attend(q, k, v, { mask = mask, causal = o.causal, upper_left = o.upper_left, weights = o.weights,
    dropout = self.training and self.dropout or 0 })
  y = self.out_proj(heads.join(y))
  if single then y = y:squeeze(0) elseif turned then y = y:permute(1, 0, 2) end
  if not o.weights then return y end
  p = p:mean { axis = 1 }
  return y, single and p:squeeze(0) or p
end

-- ---- blocks of language models

local MLP = define "MLP"
local mlp_kinds = { activation = options.operator, bias = FLAG, dtype = DTYPE }
local mlp_defaults = { activation = "gelu", bias = true }
local read_mlp = options.of("MLP", mlp_kinds, mlp_defaults)

-- MLP(width, hidden, {activation = "gelu", bias = true, dtype}): a linear layer to hidden, the operator
-- activation, and a linear layer back.
--   y = nn.MLP(4, 16, {activation = "relu"})(rng.normal{2, 4})
function MLP:init(width, hidden, o)
  o = read_mlp(o)
  self.activation, self._told = o.activation, options.told("MLP", o, "width", width, "hidden", hidden)
  local linear = { bias = o.bias, dtype = o.dtype }
  self.up = nn.Linear(need("MLP", "width", SIZE, width), need("MLP", "hidden", SIZE, hidden), linear)
  self.down = nn.Linear(hidden, width, linear)
end

function MLP:forward(x) return self.down(op[self.activation](self.up(x))) end

local TransformerBlock = define "TransformerBlock"
local block_kinds = { hidden = SIZE, norm = options.one_of("layernorm", "rmsnorm"), dropout = SHARE }
local block_defaults = { norm = "layernorm", dropout = 0 }
for _, kinds in ipairs { attention_kinds, mlp_kinds } do
  for name, kind in pairs(kinds) do block_kinds[name] = kind end
end
for _, defaults in ipairs { attention_defaults, mlp_defaults } do
  for name, v in pairs(defaults) do block_defaults[name] = v end
end
local read_block = options.of("TransformerBlock", block_kinds, block_defaults)

-- The options that are of these kinds.
local function only(o, kinds)
  local some = {}
  for name in pairs(kinds) do some[name] = o[name] end
  return some
end

-- TransformerBlock(width, heads, {hidden = 4 * width, norm = "layernorm", dropout = 0, activation = "gelu",
-- bias = true, kv_heads, head_dim, causal = false, rope, window, attention_dropout = 0, dtype}): a norm, "layernorm" or
-- "rmsnorm", and nn.MultiHeadAttention, then a norm and nn.MLP, each added to what it got. Options that
-- are theirs go to them.
--   y = nn.TransformerBlock(8, 2, {causal = true, norm = "rmsnorm"})(rng.normal{1, 5, 8})
function TransformerBlock:init(width, heads, o)
  o = read_block(o)
  need("TransformerBlock", "width", COUNT, width)
  self._told = options.told("TransformerBlock", o, "width", width, "heads", heads)
  local Norm = o.norm == "rmsnorm" and nn.RMSNorm or nn.LayerNorm
  self.norm1, self.attention = Norm(width), nn.MultiHeadAttention(width, heads, only(o, attention_kinds))
  self.norm2, self.mlp = Norm(width), nn.MLP(width, o.hidden or 4 * width, only(o, mlp_kinds))
  self.dropout = nn.Dropout(o.dropout)
end

function TransformerBlock:forward(x, o)
  x = x + self.dropout(self.attention(self.norm1(x), o))
  return x + self.dropout(self.mlp(self.norm2(x)))
end

-- ---- PyTorch's encoders and decoders

local layer_places = { "hidden", "dropout", "activation", "eps", "batch_first", "norm_first", "bias" }
local layer_kinds = { hidden = COUNT, dropout = SHARE, activation = options.operator, eps = options.number { least = 0 },
  batch_first = FLAG, norm_first = FLAG, bias = FLAG, dtype = DTYPE }
local layer_defaults = { hidden = 2048, dropout = 0.1, activation = "relu", eps = 1e-5, batch_first = false, norm_first = false,
  bias = true }

-- What both layers have: attention by the names given, two linear layers, norms.
local function init_layer(self, o, width, heads, attentions)
  local dropout, linear = o.dropout, { bias = o.bias, dtype = o.dtype }
  need(self.class, "width", COUNT, width)
  need(self.class, "heads", COUNT, heads)
  self._told = options.told(self.class, o, "width", width, "heads", heads)
  self.norm_first, self.activation = o.norm_first, o.activation
  for _, name in ipairs(attentions) do
    self[name] = nn.MultiheadAttention(width, heads, { dropout = dropout, bias = o.bias, batch_first = o.batch_first, dtype = o.dtype })
  end
  self.linear1 = nn.Linear(width, o.hidden, linear)
  self.linear2 = nn.Linear(o.hidden, width, linear)
  for i = 1, #attentions + 1 do
    self["norm" .. i] = nn.LayerNorm(width, { eps = o.eps, bias = o.bias, dtype = o.dtype })
  end
  self.dropout = nn.Dropout(dropout)
end

-- x + f(x), normalised before or behind.
local function residual(self, norm, x, f)
  if self.norm_first then return x + self.dropout(f(norm(x))) end
  return norm(x + self.dropout(f(x)))
end

local function feed_forward(self, x)
  return residual(self, self["norm" .. (self.norm3 and 3 or 2)], x, function(y)
    return self.linear2(self.dropout(op[self.activation](self.linear1(y))))
  end)
end

local TransformerEncoderLayer = define "TransformerEncoderLayer"
local read_encoder = options.placed("TransformerEncoderLayer", layer_kinds, layer_defaults, layer_places)
local read_encoder_call = options.of("TransformerEncoderLayer", { mask = options.tensor, key_padding_mask = options.tensor, causal = FLAG })

-- TransformerEncoderLayer(width, heads, {hidden = 2048, dropout = 0.1, activation = "relu", eps = 1e-5,
-- batch_first = false, norm_first = false, bias = true, dtype}): self-attention and two linear layers,
-- with the names of PyTorch's parameters. y = layer(x, {mask, key_padding_mask, causal}): x [S, B, width],
-- [B, S, width] if batch_first, or [S, width]; masks as in ? nn.MultiheadAttention. activation is the name
-- of an operator.
--   layer = nn.TransformerEncoderLayer(16, 4, {batch_first = true})
--   y = layer(rng.normal{2, 5, 16}, {causal = true})      -- f32[2,5,16]
function TransformerEncoderLayer:init(width, heads, ...) init_layer(self, read_encoder(...), width, heads, { "self_attn" }) end

function TransformerEncoderLayer:forward(x, o)
  o = read_encoder_call(o)
  x = residual(self, self.norm1, x, function(y) return (self.self_attn(y, y, y, o)) end)
  return feed_forward(self, x)
end

local TransformerDecoderLayer = define "TransformerDecoderLayer"
local read_decoder = options.placed("TransformerDecoderLayer", layer_kinds, layer_defaults, layer_places)
local decoder_call = { mask = options.tensor, key_padding_mask = options.tensor, causal = FLAG, memory_mask = options.tensor,
  memory_key_padding_mask = options.tensor }
local read_decoder_call = options.of("TransformerDecoderLayer", decoder_call)

-- TransformerDecoderLayer(width, heads, {hidden = 2048, dropout = 0.1, activation = "relu", eps = 1e-5,
-- batch_first = false, norm_first = false, bias = true, dtype}): self-attention, attention to an encoder's
-- results, and two linear layers, with the names of PyTorch's parameters. y = layer(x, memory, {mask,
-- key_padding_mask, causal, memory_mask, memory_key_padding_mask}): x and memory as in
-- ? nn.TransformerEncoderLayer; the first three options are of the self-attention.
--   layer = nn.TransformerDecoderLayer(16, 4, {batch_first = true})
--   y = layer(rng.normal{2, 3, 16}, rng.normal{2, 5, 16})      -- f32[2,3,16]
function TransformerDecoderLayer:init(width, heads, ...)
  init_layer(self, read_decoder(...), width, heads, { "self_attn", "multihead_attn" })
end

function TransformerDecoderLayer:forward(x, memory, o)
  need("TransformerDecoderLayer", "the memory", options.tensor, memory)
  o = read_decoder_call(o)
  local own = { mask = o.mask, key_padding_mask = o.key_padding_mask, causal = o.causal }
  local other = { mask = o.memory_mask, key_padding_mask = o.memory_key_padding_mask }
  x = residual(self, self.norm1, x, function(y) return (self.self_attn(y, y, y, own)) end)
  x = residual(self, self.norm2, x, function(y) return (self.multihead_attn(y, memory, memory, other)) end)
  return feed_forward(self, x)
end

-- n copies of a layer, which start with equal parameters.
local function init_stack(self, layer, layers, norm)
  if not Module.is_module(layer) then core.fail(("%s: the layer is a %s, not a module"):format(self.class, type(layer))) end
  need(self.class, "layers", COUNT, layers)
  if norm ~= nil and not Module.is_module(norm) then core.fail(("%s: the norm is a %s, not a module"):format(self.class, type(norm))) end
  local list = {}
  for i = 1, layers do list[i] = layer:clone() end
  self.layers, self.norm = nn.List(list), norm
end

local TransformerEncoder = define "TransformerEncoder"
-- TransformerEncoder(layer, layers, norm): copies of a ? nn.TransformerEncoderLayer one behind the other,
-- and a norm behind them, if one is given. y = encoder(x, options of the layer).
--   encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32), 2)
--   y = encoder(rng.normal{5, 2, 16})      -- f32[5,2,16]
function TransformerEncoder:init(layer, layers, norm) init_stack(self, layer, layers, norm) end
function TransformerEncoder:forward(x, o)
  for _, layer in ipairs(self.layers) do x = layer(x, o) end
  return self.norm and self.norm(x) or x
end

local TransformerDecoder = define "TransformerDecoder"
-- TransformerDecoder(layer, layers, norm): copies of a ? nn.TransformerDecoderLayer one behind the other,
-- and a norm behind them, if one is given. y = decoder(x, memory, options of the layer).
--   decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(16, 4, 32), 2)
--   y = decoder(rng.normal{3, 2, 16}, rng.normal{5, 2, 16})      -- f32[3,2,16]
function TransformerDecoder:init(layer, layers, norm) init_stack(self, layer, layers, norm) end
function TransformerDecoder:forward(x, memory, o)
  for _, layer in ipairs(self.layers) do x = layer(x, memory, o) end
  return self.norm and self.norm(x) or x
end

local Transformer = define "Transformer"
local transformer_kinds = { encoder_layers = COUNT, decoder_layers = COUNT }
local transformer_defaults = { encoder_layers = 6, decoder_layers = 6 }
for name, kind in pairs(layer_kinds) do transformer_kinds[name] = kind end
for name, v in pairs(layer_defaults) do transformer_defaults[name] = v end
local read_transformer = options.placed("Transformer", transformer_kinds, transformer_defaults, { "encoder_layers", "decoder_layers", unpack(layer_places) })
local transformer_call = { src_mask = options.tensor, src_key_padding_mask = options.tensor, src_causal = FLAG }
for name, kind in pairs(decoder_call) do transformer_call[name] = kind end
local read_transformer_call = options.of("Transformer", transformer_call)

-- Transformer(width, heads, {encoder_layers = 6, decoder_layers = 6, hidden = 2048, dropout = 0.1, activation = "relu",
-- eps = 1e-5, batch_first = false, norm_first = false, bias = true, dtype}): an encoder and a decoder of layers as
-- ? nn.TransformerEncoderLayer and ? nn.TransformerDecoderLayer, each with a norm behind it, with the names of PyTorch's
-- parameters, whose matrices begin as Glorot's. y = model(source, target, {src_mask, src_key_padding_mask, src_causal, mask,
-- key_padding_mask, causal, memory_mask, memory_key_padding_mask}): the first three are of the encoder, the others of the
-- decoder; masks as in ? nn.MultiheadAttention, true where something is seen.
--   model = nn.Transformer(16, 4, 1, 1, 32, {batch_first = true})
--   y = model(rng.normal{2, 5, 16}, rng.normal{2, 3, 16}, {causal = true})      -- f32[2,3,16]
function Transformer:init(width, heads, ...)
  local o = read_transformer(...)
  self.batch_first = o.batch_first
  self._told = options.told("Transformer", o, "width", width, "heads", heads)
  local own, norm = only(o, layer_kinds), { eps = o.eps, bias = o.bias, dtype = o.dtype }
  self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(width, heads, own), o.encoder_layers, nn.LayerNorm(width, norm))
  self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(width, heads, own), o.decoder_layers, nn.LayerNorm(width, norm))
  for _, p in ipairs(self:parameters()) do
    local bound = p.ndim > 1 and math.sqrt(6 / (p.shape[1] + p.shape[2]))
    if bound then core.no_grad(p.copy_, p, rng.uniform(p.shape, { low = -bound, high = bound, dtype = p.dtype })) end
  end
end

function Transformer:forward(source, target, given)
  local o = read_transformer_call(given)
  local memory = self.encoder(source, { mask = o.src_mask, key_padding_mask = o.src_key_padding_mask, causal = o.src_causal })
  return self.decoder(target, memory, only(o, decoder_call))
end

core.keep_line(KVCache, true)

return function(nn_)
  nn = nn_
  -- Keys and values of earlier positions, for generating text step by step: an attention appends to it, k and v being
  -- [B, H, T, D], and it grows by doubling.
  --   local attention = nn.MultiHeadAttention(64, 4, {causal = true})
  --   cache = nn.KVCache()
  --   y = attention(op.ones{1, 1, 64}, {cache = cache})      -- cache.length is 1
  function nn.KVCache() return setmetatable({ length = 0 }, KVCache) end
  for _, class in ipairs { MultiHeadAttention, MultiheadAttention, MLP, TransformerBlock, TransformerEncoderLayer,
    TransformerDecoderLayer, TransformerEncoder, TransformerDecoder, Transformer } do
    nn[class.class] = class
  end
end
