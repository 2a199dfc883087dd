-- A character language model of the GNU GPL, learnt in closed form.
--
--   tessera examples/char_model.lua [text file]
--
-- Interpolated n-grams: the probability of the next character is a mixture over
-- contexts of 0..ORDER characters, weighted by how many different characters were
-- seen after each context (Witten and Bell 1991). Counting and looking up are
-- operators on whole tensors: contexts are hashed into tables, counts are
-- scatter-adds, the mixture is elementwise.

local tessera = require "tessera"
local op, rng, data = tessera.op, tessera.rng, tessera.data

local ORDER, BITS = 7, 22
local SIZE = 2 ^ BITS

local path = arg and arg[1] or "/usr/share/common-licenses/GPL-3"
local text = data.text(path)
local tokenizer = data.CharTokenizer(text)
local tokens = tokenizer:encode(text)
local n, V = tokens.numel, tokenizer.size

-- A tenth from the middle is kept for testing.
local from, to = math.floor(0.5 * n), math.floor(0.6 * n)
local test = tokens:narrow(0, from, to - from)
local train = op.concat { tokens:narrow(0, 0, from), tokens:narrow(0, to, n - to) }

print(("%s: %d characters, %d different; %d to learn from, %d to test on"):format(path,
  n, V, train.numel, test.numel))

-- Multiplicative hashing of integer keys into [0, SIZE).
local function bucket(keys)
  local mixed = keys * 2654435761
  return (mixed:shift_right(15):bitwise_xor(mixed)):bitwise_and(SIZE - 1)
end

-- Keys of the n characters before each position i >= ORDER, mixed with n itself.
local function context_keys(x, n)
  local count = x.shape[1] - ORDER
  local key = op.full({ count }, n + 1, { dtype = "i64" })
  for j = 1, n do key = key * 1000003 + x:narrow(0, ORDER - j, count) + 7 end
  return key
end

local function table_of(indices, values)
  return op.scatter_add(op.zeros { SIZE }, indices, values, { axis = 0 })
end

-- ---- learning: counts of contexts, of pairs, and of different continuations
local next_char = train:narrow(0, ORDER, train.shape[1] - ORDER)
local ones = op.ones { next_char.shape[1] }
local model = {}
for n = 0, ORDER do
  local key = context_keys(train, n)
  local context, pair = bucket(key), bucket(key * 257 + next_char + 1)
  local pairs = table_of(pair, ones)
  -- Each pair contributes 1 / its count at every occurrence: different ones add up to 1.
  local kinds = table_of(context, ones / op.take(pairs, pair))
  model[n] = { contexts = table_of(context, ones), pairs = pairs, kinds = kinds }
end

-- P(char | the ORDER characters before), for keys of the same length.
local function probability(x, chars, expand)
  local p, most = op.full({ 1 }, 1 / V), math.huge
  for n = 0, ORDER do
    local key = context_keys(x, n)
    if expand then key = key:unsqueeze(1) end
    local context = bucket(key)
    local seen, kinds = op.take(model[n].contexts, context), op.take(model[n].kinds, context)
    -- No longer context is more frequent than a shorter one: this bound removes what
    -- colliding hashes would add.
    local hits = op.minimum(op.take(model[n].pairs, bucket(key * 257 + chars + 1)), most)
    most = hits
    -- An unseen context says nothing: all weight stays with the shorter one.
    p = op.where(seen:gt(0), (hits + kinds * p) / (seen + kinds), p)
  end
  return p
end

-- ---- what it learnt
local function loss(x)
  local chars = x:narrow(0, ORDER, x.shape[1] - ORDER)
  return -probability(x, chars):log():mean():item()
end

local test_loss = loss(test)
print(("loss %.3f nats a character on the training part, %.3f on the test part (%.2f bits)"):format(
  loss(train), test_loss, test_loss / math.log(2)))
print(("guessing every character alike would be %.3f"):format(math.log(V)))

local letters = op.arange(V):unsqueeze(0)
local function continuation(prompt)
  local before = tokenizer:encode(("\n"):rep(ORDER) .. prompt):narrow(0, #prompt, ORDER)
  -- One more character, whatever it is, gives the context its place.
  return probability(op.concat { before, op.zeros({ 1 }, { dtype = "i64" }) }, letters, true):squeeze(0)
end

print("\nmost likely next characters:")
for _, prompt in ipairs { "free softw", "General Public Lic", "WITHOUT ANY WARRANT", "th" } do
  local p, at = continuation(prompt):topk(3)
  local shown = {}
  for i = 0, 2 do
    shown[i + 1] = ("%q %.0f%%"):format(tokenizer:decode(at["" .. i .. ":" .. i + 1]), 100 * p[i]:item())
  end
  print(("  %-22s %s"):format(prompt, table.concat(shown, "  ")))
end

print("\na sample:")
rng.seed(3)
local written = "  You may "
for _ = 1, 300 do
  local logits = continuation(written:sub(-ORDER - 4)):log()
  written = written .. tokenizer:decode(rng.categorical(logits / 0.8))
end
print(written)

assert(test_loss < 1.7, "the model should do better than 1.7 nats")
return { test_loss = tessera.tensor(test_loss) }
