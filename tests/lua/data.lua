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
local n = 0
for _ in data.range(5, { out = out, terminal = false }) do n = n + 1 end
n --> 5
