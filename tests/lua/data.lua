local tessera = require "tessera"
local op, data = tessera.op, tessera.data

local t = data.CharTokenizer("hello world")
t.size --> 8
t:decode(t:encode("low roll")) --> low roll
t:encode("help!") --! character "p" at 4 is not in the vocabulary
t:encode("").shape --> {0}

-- Windows are a function of the seed: the same after a restart in the middle.
local tokens = op.arange(100)
local next_batch = data.windows(tokens, { batch = 2, length = 5, seed = 3 })
next_batch()
local x, y = next_batch()
x.shape --> {2, 5}
(y - x):totable() --> {{1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}}
local again = data.windows(tokens, { batch = 2, length = 5, seed = 3, start = 1 })()
again:hash() == x:hash() --> true
data.windows(op.arange(3), { batch = 1, length = 5 }) --! shorter than one window

-- One pass meets every row once.
local seen = {}
for a, b in data.batches({ tokens, tokens * 2 }, { batch = 16, shuffle = true, seed = 1 }) do
  assert((b - a * 2):abs():max():item() == 0)
  seen[#seen + 1] = a
end
#seen --> 7
op.concat(seen):sort():sub(tokens):abs():sum():item() --> 0
data.batches({ tokens, op.arange(3) }, { batch = 1 }) --! tensor 2 has 3 rows, the first 100

-- Progress: lines in a pipe, a bar on a terminal.
local function collect()
  local lines = {}
  return lines, { write = function(_, ...) lines[#lines + 1] = table.concat { ... } end, flush = function() end }
end
local lines, out = collect()
local bar = data.progress(20, { label = "train", out = out, terminal = false })
for i = 0, 20 do bar:update(i, { loss = 1 / (i + 1) }) end
bar:finish()
#lines >= 10 and #lines <= 12 --> true
assert(lines[#lines]:match("^train 20/20  %S+ it/s  0:00<0:00  loss 0.04762\n$"), lines[#lines])
lines, out = collect()
bar = data.progress(4, { out = out, terminal = true })
bar:update(4)
assert(lines[1]:match("^\r%[=+%] 4/4"), lines[1])
for _, width in ipairs { 10, 30, 50, 80, 200 } do assert(#bar:text(1e6, { loss = 0.125 }, width) <= width - 3, width) end
-- Lines between: the bar goes, and is there again at once.
bar = data.progress(1000, { out = out, terminal = true })
bar:update(1)
bar:clear()
bar:update(2)
lines[#lines - 1] == "\r\27[K", lines[#lines]:match "2/1000" --> true, 2/1000
bar = data.progress(1000, { out = out, terminal = false })
bar:update(1)
local before = #lines
bar:clear()
bar:update(90) -- not due: the line stood for it
#lines - before --> 0
bar:update(102)
#lines - before --> 1
local n = 0
for _ in data.range(5, { out = out, terminal = false }) do n = n + 1 end
n --> 5

-- Each pass has another order: that of the seed and the number of the pass, or of the common generator.
local rows = op.arange(64)
local function order(batches)
  local list = {}
  for x in batches do list[#list + 1] = x end
  return op.concat(list):hash()
end
local batches = data.batches(rows, { batch = 10, shuffle = true, seed = 5 })
local first, second = order(batches), order(batches)
first ~= second, batches.epoch, batches.count --> true, 2, 7
local again = data.batches(rows, { batch = 10, shuffle = true, seed = 5 })
order(again) == first, order(again) == second --> true, true
order(data.batches(rows, { batch = 10, shuffle = true, seed = 5, epoch = 1 })) == second --> true
tessera.rng.seed(3)
local loose = data.batches(rows, { batch = 10, shuffle = true })
local one, two = order(loose), order(data.batches(rows, { batch = 10, shuffle = true }))
one ~= two and one ~= first --> true
tessera.rng.seed(3)
order(loose) == one --> true
for _ in batches do break end
order(batches:restart()) == order(data.batches(rows, { batch = 10, shuffle = true, seed = 5, epoch = 3 })) --> true
tostring(data.batches(rows, { batch = 10, drop_last = true })) --> data.batches(6 of 10 rows, epoch 0)

-- Rows in parts, each once.
local a, b, c = data.random_split({ rows, rows * 2 }, { 0.5, 0.3, 0.2 }, { seed = 1 })
a[1].shape[1], b[1].shape[1], c[1].shape[1] --> 33, 19, 12
op.concat({ a[1], b[1], c[1] }):sort():hash() == rows:hash(), (a[2] - a[1] * 2):abs():max():item() --> true, 0
local x, y = data.random_split(rows, { 60, 4 })
x.shape[1], y.shape[1] --> 60, 4
data.random_split(rows, { 60, 5 }) --! data.random_split: the parts add up to 65, and have to be 1, or all 64 rows
data.random_split(rows, { 0.5, 63.5 }) --! data.random_split: part 1 is 0.5 rows

-- A loop that was left is over; one over the same batches inside of another ends both.
local ten = tessera.data.batches(tessera.op.arange(10), { batch = 4 })
local seen = {}
for x in ten do seen[#seen + 1] = x[0]:item() break end
for x in ten do seen[#seen + 1] = x[0]:item() end
for x in ten do
  seen[#seen + 1] = "outer"
  for y in ten do seen[#seen + 1] = y[0]:item() end
end
table.concat(seen, " ") --> 0 0 4 8 outer 0 4 8
ten()[0]:item(), ten()[0]:item() --> 0, 4
