-- hf.generate and hf.stream for models of one's own, which keep no keys and values: the tokens of the same model with a cache.
local tessera = require "tessera"
local hf, nn, op = tessera.hf, tessera.nn, tessera.op
local vectors = dofile "tests/hf/_vectors.lua"

-- A model of a family that shows only what is asked for: config, forward and, of an encoder, encode.
local Own, Pair = nn.Module:extend "Own", nn.Module:extend "Pair"
function Own:init(model) self.inner, self.config = model, model.config end
function Own:forward(o) return self.inner { ids = o.ids } end
function Pair:init(model) self.inner, self.config = model, model.config end
function Pair:encode(ids, o) return self.inner:encode(ids, o) end
function Pair:forward(o) return self.inner { decoder_ids = o.decoder_ids, memory = o.memory, mask = o.mask } end

local function told(about)
  local list = {}
  for i, a in ipairs(about) do
    list[i] = table.concat(a.tokens, " ") .. " " .. tostring(a.reason)
    for _, b in ipairs(a.beams or {}) do list[#list + 1] = table.concat(b.tokens, " ") end
  end
  return table.concat(list, "; ")
end

local function same(model, own, o)
  local tokens, about = model:generate(o)
  local own_tokens, own_about = hf.generate(own, o)
  assert(told(about) == told(own_about), told(about) .. "\nnot " .. told(own_about))
  assert(vectors.same(tokens, own_tokens))
end

local uneven = { { 5, 17, 60, 3, 9, 42 }, { 7, 2 }, { 11 } }
local llama, t5, ins = vectors.load "llama", vectors.load "t5", vectors.read("t5").ins
local own, pair = Own(llama), Pair(t5)
for _, more in ipairs { {}, { eos = { 9, 3 } }, { temperature = 0.8, seed = 3, top_k = 20 }, { beams = 3, eos = { 9 } }, { beams = 2, length_penalty = 0 } } do
  more.max_new_tokens = 7
  more.ids = uneven
  same(llama, own, more)
  more.ids, more.mask = ins.ids, ins.mask
  same(t5, pair, more)
end

local list = {}
for step, tokens in hf.stream(own, { ids = uneven, max_new_tokens = 3 }) do list[step] = table.concat(tokens, " ") end
local tokens = hf.generate(own, { ids = uneven, max_new_tokens = 3 })
#list, table.concat(list, " ") == table.concat(tokens:T():flatten():totable(), " ") --> 3, true

hf.generate(7, { ids = { 1 } }) --! hf.generate: the model is a number, not a module
hf.stream(nn.Linear(2, 2), { ids = { 1 } }) --! hf.stream: the model has no config.vocab_size
hf.generate(own, { ids = { 1 }, beems = 2 }) --! unknown option 'beems'
hf.generate(own, { ids = { 1 }, cache_dtype = "f16" }) --! option 'cache_dtype' is of models that keep keys and values
hf.generate(own, { ids = { 61 } }) --! token 1 of text 1 is 61, and has to be a whole number from 0 to 60
local Narrow = nn.Module:extend "Narrow"
function Narrow:init() self.w, self.config = op.ones { 2 }, { vocab_size = 2 } end
function Narrow:forward() return op.ones { 1, 2 } end
hf.generate(Narrow(), { ids = { 1 } }) --! gives f32[1,2] of tokens i64[1,1], and has to give logits [1,1,2], config.vocab_size being 2
hf.generate(own) --! ids is not given
hf.generate(own, { ids = tessera.tensor(1) }) --! have to be [texts, positions] or [positions]
hf.generate(own, { ids = op.ones({ 1, 1, 1 }, { dtype = "i64" }) }) --! tokens are i64[1,1,1], and have to be [texts, positions]
-- A model without tensors is the CPU's; what an encoder has to give, and where texts begin.
local Constant = nn.Module:extend "Constant"
function Constant:init(given, start) self.given, self.config = given, { vocab_size = 3, decoder_start_token_id = start } end
function Constant:forward(o)
  return op.arange(3):cast("f32"):broadcast_to { (o.ids or o.decoder_ids).shape[1], (o.ids or o.decoder_ids).shape[2], 3 }
end
hf.generate(Constant(), { ids = { 1 }, max_new_tokens = 2 }):totable()[1] --> {2, 2}
local Encoding = Constant:extend "Encoding"
function Encoding:encode() return self.given end
hf.generate(Encoding(nil, 1), { ids = { 1 } }) --! m:encode gives nothing, and has to give a tensor [texts, ..]
hf.generate(Encoding(op.ones { 1, 2 }, 3), { ids = { 1 } }) --! config.decoder_start_token_id is 3, and has to be a whole number from 0 to 2
local plain = nn.Sequential(nn.Embedding(4, 8), nn.Linear(8, 4))
plain.config = { vocab_size = 4 }
hf.generate(plain, { ids = { 1 } }) --! the model is called as m{ids = tokens}, and takes that table for a tensor
local Failing = nn.Module:extend "Failing"
function Failing:init() self.config = { vocab_size = 4 } end
function Failing:forward(o) return op.matmul(o.ids:cast "f32", op.ones { 7, 7 }) end
hf.generate(Failing(), { ids = { 1 } }) --! matmul: inner sizes differ
-- A model without weights.
local Next = nn.Module:extend "Next"
function Next:init() self.config = { vocab_size = 4 } end
function Next:forward(o) return op.one_hot((o.ids + 1) % 4, { classes = 4 }):cast "f32" end
hf.generate(Next(), { ids = { 1 }, max_new_tokens = 5 }):flatten():totable() --> {2, 3, 0, 1, 2}
