-- Whether rows of a batch have the bits that they have alone, operator by operator, in the shapes of Llama 8B:
--   tessera scripts/bench/models/bits.lua [DEVICE [small]]
-- A line each: the operator, how many elements of rows alone differ in the batch, the first of them, and whether the same batch
-- again has the same bits, TIMES=50 times over. BATCH=64 says how many rows; ONLY=word takes operators whose name holds it. small:
-- sizes for the simulated device, which keep numbers of columns, heads and keys, and take short sums. The exit code is 1 if some
-- row differs.
local T = require "tessera"
local core, op, graph = T.core, T.op, T.graph

local device, small = arg[1] or "cuda:0", arg[2] == "small"
local BATCH, TIMES = tonumber(os.getenv "BATCH") or 64, tonumber(os.getenv "TIMES") or small and 2 or 50
local PROMPT, HEADS, KEY_HEADS, D = 16, 32, 8, 128
local function size(usual, little) return small and little or usual end
local WIDTH, HIDDEN, VOCABULARY = 4096, 14336, size(128256, 17024)
if small then HEADS, KEY_HEADS = 4, 1 end

local stream = 0
local function drawn(shape, std, dtype)
  stream = stream + 1
  return op.normal(shape, { std = std or 1, dtype = dtype or "bf16", seed = 1, stream = stream, device = device })
end
local function weights(out, inner) return drawn({ out, inner }, 0.02) end

-- ---- what is compared: inputs whose first axis is the batch, and a function of them
local cases = {}
local function case(name, f, ...) cases[#cases + 1] = { name = name, f = f, inputs = { ... } } end

local function linear(name, rows, out, inner)
  inner = size(inner, 64)
  local w = weights(out, inner)
  local x = drawn { BATCH, rows, inner }
  case(name, function(a) return op.linear(a, w) end, x)
  case(name .. " + residual", function(a, r) return r + op.linear(a, w) end, x, drawn { BATCH, rows, out })
end

local function gated(name, rows)
  local inner = size(WIDTH, 64)
  local gate, up = weights(HIDDEN, inner), weights(HIDDEN, inner)
  case(name, function(a) return op.silu(op.linear(a, gate)) * op.linear(a, up) end, drawn { BATCH, rows, inner })
end

local function positions(n)
  local list = {}
  for i = 1, BATCH do list[i] = { n - 1 - i % 3 } end
  return core.tensor(list, { dtype = "i64", device = device })
end

local function attends(keys)
  local q, k, v = drawn { BATCH, HEADS, 1, D }, drawn { BATCH, KEY_HEADS, keys, D }, drawn { BATCH, KEY_HEADS, keys, D }
  case("attention of a step, " .. keys .. " keys", function(a, b, c, last)
    local seen = op.arange(keys):to(a.device):le(last:unsqueeze(-1)):unsqueeze(1)
    return op.attention(a, b, c, seen, nil, {})
  end, q, k, v, positions(keys))
  case("attention, causal, " .. keys .. " keys", function(a, b, c) return op.attention(a, b, c, nil, nil, { causal = true }) end, q, k, v)
end

local function all()
  for _, rows in ipairs { 1, PROMPT } do
    local of = rows == 1 and "" or (" of %d positions"):format(rows)
    linear("q, o 4096 x 4096" .. of, rows, WIDTH, WIDTH)
    linear("k, v 1024 x 4096" .. of, rows, KEY_HEADS * D, WIDTH)
    linear("gate, up 14336 x 4096" .. of, rows, HIDDEN, WIDTH)
    linear("down 4096 x 14336" .. of, rows, WIDTH, HIDDEN)
    gated("silu(gate) up" .. of, rows)
    local w = drawn({ WIDTH }, 0.02)
    case("norm" .. of, function(a) return op.rmsnorm(a, w, { eps = 1e-5 }) end, drawn { BATCH, rows, WIDTH })
    case("norm of a sum" .. of, function(a, b) return op.rmsnorm(a + b, w, { eps = 1e-5 }) end, drawn { BATCH, rows, WIDTH }, drawn { BATCH, rows, WIDTH })
  end
  linear(("head %d x 4096"):format(VOCABULARY), 1, VOCABULARY, WIDTH)
  for _, keys in ipairs { 128, 256, 512, size(4096, 1100) } do attends(keys) end
  case("attention of a prompt", function(q, k, v) return op.attention(q, k, v, nil, nil, { causal = true }) end,
    drawn { BATCH, HEADS, PROMPT, D }, drawn { BATCH, KEY_HEADS, PROMPT, D }, drawn { BATCH, KEY_HEADS, PROMPT, D })
  local keys = 128
  case("scatter", function(cache, one, at) return op.scatter(cache, at, one, { axis = 2 }) end, drawn { BATCH, KEY_HEADS, keys, D },
    drawn { BATCH, KEY_HEADS, 1, D }, positions(keys):unsqueeze(-1):unsqueeze(-1):broadcast_to({ BATCH, KEY_HEADS, 1, D }):contiguous())
  local logits = (drawn { BATCH, VOCABULARY } * 4):cast "i32":cast "bf16" -- with ties
  case("argmax", function(a) return a:cast "f32":argmax { axis = -1, keepdims = true } end, logits)
  local table_ = weights(VOCABULARY, size(WIDTH, 64))
  case("embedding", function(ids) return op.embedding(table_, ids) end, positions(1000))
end

-- ---- comparing
local ROWS = { 0, 1, 6, 31, BATCH - 1 }
local BITS = { bf16 = "i16", f32 = "i32", i64 = "i64" }
local function bits(t) return t:bitcast(BITS[t.dtype]) end
local function differ(a, b) return bits(a:contiguous()):ne(bits(b:contiguous())):cast "i32" end

-- Kernels are there behind the third call.
local function compiled(f, inputs)
  for _ = 1, 2 do f(unpack(inputs)) end
  T.jit.wait()
  return f(unpack(inputs))
end

local function compare(c)
  local f = graph.module(c.name:gsub("[^%w]+", "_"), c.f)
  local y = compiled(f, c.inputs)
  local again = 0
  for _ = 1, TIMES do again = again + differ(y, f(unpack(c.inputs))):sum() end
  again = tonumber(again:item())
  local wrong, first = 0, nil
  for _, row in ipairs(ROWS) do
    if row < BATCH then
      local alone = {}
      for i, x in ipairs(c.inputs) do alone[i] = x:narrow(0, row, 1):clone() end
      local z = compiled(f, alone)
      local d = differ(y:narrow(0, row, 1), z):reshape { -1 }
      local n = tonumber(d:sum():item())
      if n > 0 and not first then first = ("row %d, element %d"):format(row, d:argmax():item()) end
      wrong = wrong + n
    end
  end
  print(("%s\t%s\t%s\t%s"):format(wrong == 0 and again == 0 and "same" or "OTHER", c.name,
    wrong == 0 and "" or ("%d elements differ, first %s"):format(wrong, first), again == 0 and "" or again .. " differ from call to call"))
  io.stdout:flush()
  return wrong + again > 0
end

core.no_grad(function()
  local some, only = false, os.getenv "ONLY"
  all()
  for _, c in ipairs(cases) do
    if not only or c.name:find(only, 1, true) then some = compare(c) or some end
  end
  os.exit(some and 1 or 0)
end)
