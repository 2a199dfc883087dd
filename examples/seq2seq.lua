-- An encoder and a decoder learn to translate numbers from English words to German ones, whose order is another:
-- "three hundred forty five" is "drei hundert fünf und vierzig". Translations are searched for with beams.
--
--   tessera examples/seq2seq.lua [--steps N] [--batch N] [--width N] [--layers N] [--train N] [--test N] [--beams N]
--                                [--device cuda:0] [--dtype f32|bf16] [--lr RATE] [--seed N] [--target PERCENT] [--save FILE]
--
-- Numbers are below a million; those that are tested are none of those that were learned from, and a translation counts where all its
-- words are right. The model is one of nn's own layers; hf.generate, which finds the words, asks it for config, encode and forward.

local here = debug.getinfo(1, "S").source:match "^@(.*)seq2seq%.lua$" or "examples/"
package.path = here .. "shared/?.lua;" .. package.path

local tessera = require "tessera"
local op, nn, optim, graph, hf, rng = tessera.op, tessera.nn, tessera.optim, tessera.graph, tessera.hf, tessera.rng
local learn = require "learn"

local options = tessera.arguments { steps = 400, batch = 64, width = 64, layers = 2, train = 8000, test = 200, beams = 4, device = "cpu", dtype = "f32",
  lr = 2e-3, seed = 1, target = "95%", save = ">.safetensors" }

assert(options.width % 4 == 0, "--width must be a multiple of 4, the heads of attention")

-- ---- the two languages: lists of words

local function words(text)
  local list = {}
  for w in text:gmatch "%S+" do list[#list + 1] = w end
  return list
end

local ENGLISH = { ones = words "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen",
  tens = words "ten twenty thirty forty fifty sixty seventy eighty ninety", others = words "hundred thousand" }
local GERMAN = { ones = words "ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn",
  tens = words "zehn zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig", others = words "hundert tausend und eins" }

local function add(list, ...)
  for _, w in ipairs { ... } do list[#list + 1] = w end
  return list
end

local function english(n)
  local list = {}
  if n >= 1000 then list = add(english(math.floor(n / 1000)), "thousand") end
  n = n % 1000
  if n >= 100 then add(list, ENGLISH.ones[math.floor(n / 100)], "hundred") end
  n = n % 100
  if n >= 20 then add(list, ENGLISH.tens[math.floor(n / 10)]) n = n % 10 end
  if n > 0 then add(list, ENGLISH.ones[n]) end
  return list
end

-- A one at the end is "eins", elsewhere "ein".
local function german(n, more)
  local list = {}
  if n >= 1000 then list = add(german(math.floor(n / 1000), true), "tausend") end
  n = n % 1000
  if n >= 100 then add(list, GERMAN.ones[math.floor(n / 100)], "hundert") end
  n = n % 100
  local ones = n % 10
  if n == 1 and not more then return add(list, "eins") end
  if n > 0 and n < 20 then return add(list, GERMAN.ones[n]) end
  if n >= 20 and ones > 0 then add(list, GERMAN.ones[ones], "und") end
  return n >= 20 and add(list, GERMAN.tens[math.floor(n / 10)]) or list
end

local PAD, BEGIN, END = 0, 1, 2

-- Words by number and numbers by word, behind the three that are none.
local function vocabulary(language)
  local list, index = { [PAD] = "", [BEGIN] = "", [END] = "" }, {}
  for _, part in ipairs { language.ones, language.tens, language.others } do
    for _, w in ipairs(part) do
      if not index[w] then
        index[w] = #list + 1
        list[#list + 1] = w
      end
    end
  end
  return { words = list, index = index, size = #list + 1 }
end
local from, to = vocabulary(ENGLISH), vocabulary(GERMAN)
local SOURCE, TARGET = 9, 12 -- words at most, of German ones with the end

local function ids_of(list, v, most, finish)
  local row = {}
  for i = 1, most do row[i] = v.index[list[i]] or (finish and i == #list + 1 and END) or PAD end
  return row
end

-- Numbers as ids: i64 [n, SOURCE] and [n, TARGET], whose rows end with END.
local function pairs_of(numbers)
  local source, target = {}, {}
  for i, n in ipairs(numbers) do source[i], target[i] = ids_of(english(n), from, SOURCE), ids_of(german(n), to, TARGET, true) end
  return tessera.tensor(source, { dtype = "i64" }), tessera.tensor(target, { dtype = "i64" })
end

-- n numbers of one to six digits, most of them long: held back for tests, or not.
local function draw(n, held)
  local list = {}
  while #list < n do
    local digits = rng.randint({ n }, { low = 0, high = 2 ^ 31 }):totable()
    local sizes = rng.randint({ n }, { low = 0, high = 8 }):totable()
    for i, d in ipairs(digits) do
      local number = d % 10 ^ math.min(6, sizes[i] + 1)
      if number > 0 and (number * 2654435761 % 2 ^ 32 < 2 ^ 29) == held and #list < n then list[#list + 1] = number end
    end
  end
  return list
end

-- ---- the model

local Translator = nn.Module:extend "Translator"

function Translator:init(o)
  local width = o.width
  self.source, self.target = nn.Embedding(from.size, width), nn.Embedding(to.size, width)
  self.position = nn.Embedding(math.max(SOURCE, TARGET), width)
  self.transformer = nn.Transformer(width, 4, { encoder_layers = o.layers, decoder_layers = o.layers, hidden = 4 * width, dropout = o.dropout or 0,
    batch_first = true, norm_first = true })
  self.head = nn.Linear(width, to.size)
  self.config = { vocab_size = to.size, decoder_start_token_id = BEGIN, eos_token_id = END, pad_token_id = PAD }
  for _, table_ in ipairs { self.source, self.target, self.position } do table_.weight:copy_(table_.weight * 0.1) end
end

local function embed(self, table_, ids) return table_(ids) + self.position(op.arange(ids.shape[2]):to(ids.device)) end

-- mask [B, S]: true where there is a word.
function Translator:encode(ids, o)
  return self.transformer.encoder(embed(self, self.source, ids), { key_padding_mask = o.mask:logical_not() })
end

-- Logits [B, T, words] of what follows each of decoder_ids.
function Translator:forward(o)
  local memory = o.memory or self:encode(o.ids, o)
  return self.head(self.transformer.decoder(embed(self, self.target, o.decoder_ids), memory,
    { causal = true, memory_key_padding_mask = o.mask:logical_not() }))
end

local function loss_of(m, ids, out)
  local before = op.concat({ op.full_like(out:narrow(1, 0, 1), BEGIN), out:narrow(1, 0, out.shape[2] - 1) }, { axis = 1 })
  local logits = m { ids = ids, mask = ids:ne(PAD), decoder_ids = before }
  return op.cross_entropy(logits:reshape(-1, to.size), out:reshape(-1), { ignore_index = PAD })
end

-- ---- training

rng.seed(options.seed)
local source, target = pairs_of(draw(options.train, false))
local test_numbers = draw(options.test, true)
local test_source = pairs_of(test_numbers)
local model = tessera.no_grad(Translator, options)
model:to(options.device)
local optimizer = optim.AdamW(model:parameters(), { betas = { 0.9, 0.98 }, weight_decay = 0.01, clip = 1 })
local step = graph.training_step(model, loss_of, optimizer, { autocast = options.dtype == "bf16" and "bf16" or nil,
  schedule = optim.schedule.cosine { lr = options.lr, warmup = math.floor(options.steps / 10), steps = math.max(1, options.steps) } })

print(("%s is %s; %d pairs, %d parameters, %d steps of %d"):format(table.concat(english(21345), " "), table.concat(german(21345)), options.train,
  model:num_parameters(), options.steps, options.batch))
source, target = source:to(options.device), target:to(options.device)
local loss = learn(step, optimizer, { source, target }, { steps = options.steps, batch = options.batch, unit = "pair" })

-- ---- translation

model:eval()
local function text_of(ids)
  local list = {}
  for _, id in ipairs(ids) do list[#list + 1] = to.words[id] end
  return table.concat(list)
end

-- How many per cent of texts are right, and what is known of each.
local function translate(beams)
  local ids = test_source:to(options.device)
  local _, about = hf.generate(model, { ids = ids, mask = ids:ne(PAD), beams = beams, max_new_tokens = TARGET })
  local right = 0
  for i, n in ipairs(test_numbers) do
    if text_of(about[i].tokens) == table.concat(german(n)) then right = right + 1 end
  end
  return 100 * right / #test_numbers, about
end

if options.save then tessera.save(options.save, model:state_dict()) end
if options.test > 0 then
  local greedy = translate()
  local share, about = translate(options.beams)
  for i = 1, math.min(3, #test_numbers) do
    print(("%d, %s:"):format(test_numbers[i], table.concat(english(test_numbers[i]), " ")))
    for _, beam in ipairs(about[i].beams) do print(("  %8.4f  %s"):format(beam.score, text_of(beam.tokens))) end
  end
  print(("%.1f%% of %d numbers are right word by word, %.1f%% with %d beams"):format(greedy, #test_numbers, share, options.beams))
  assert(share >= options.target, ("%.1f%% are right, and --target asks for %g%%; more steps would help"):format(share, options.target))
end
return { state = model:state_dict(), loss = loss, Translator = Translator, loss_of = loss_of, pairs_of = pairs_of, model = model }
