-- Attention over pages has the bits of attention over the same keys side by side, wherever pages lie, of what type they are, and
-- whatever stands in those that nobody looks at; by the definition as well, which graphs and devices have.
local tessera = require "tessera"
local op = tessera.op

local pages_of = dofile "tests/vm/_pages.lua"

local seed = 0
local function draw(shape, dtype)
  seed = seed + 1
  return op.normal(shape, { seed = 5, stream = seed }):cast(dtype or "f32")
end
local function same(a, b) return op.all(op.eq(a, b)):item() and table.concat(a.shape, ",") == table.concat(b.shape, ",") end

local function check(o)
  local heads, kv, d, e, dtype = o.heads, o.kv, o.d, o.e or o.d, o.dtype or "f32"
  local k, v, start, want = {}, {}, {}, {}
  local q = draw({ #o.lengths, heads, o.queries, d }, dtype)
  local sink = o.sink and draw { heads } or nil
  for b, n in ipairs(o.lengths) do
    k[b], v[b], start[b] = draw({ kv, n, d }, dtype), draw({ kv, n, e }, dtype), n - o.queries
    want[b] = op.attention(q:narrow(0, b - 1, 1), k[b]:unsqueeze(0), v[b]:unsqueeze(0), nil, sink, { causal = true, window = o.window })
  end
  local pool, lists = pages_of(k, o.size)
  local values = pages_of(v, o.size)
  local tables = tessera.tensor(lists, { dtype = "i64" })
  local from = tessera.tensor(start, { dtype = "i64" })
  want = op.concat(want, { axis = 0 })
  local y = op.paged_attention(q, pool, values, tables, from, sink, { window = o.window })
  assert(same(y, want), "pages change bits")
  local there = op.paged_attention(q:to "sim:0", pool:to "sim:0", values:to "sim:0", tables:to "sim:0", from:to "sim:0", sink and sink:to "sim:0",
    { window = o.window })
  assert(dtype ~= "f32" or same(there:to "cpu", want), "the definition has other bits")
end

for _, size in ipairs { 1, 16, 48, 256 } do
  for _, window in ipairs { false, 20, 150 } do
    local w = window or nil
    check { heads = 4, kv = 2, d = 8, lengths = { 1, 130, 300, 17 }, queries = 1, size = size, window = w }
    check { heads = 6, kv = 2, d = 24, e = 40, lengths = { 40, 133 }, queries = 33, size = size, window = w, sink = true }
  end
end
check { heads = 9, kv = 3, d = 64, lengths = { 700 }, queries = 256, size = 32 }
for _, dtype in ipairs { "bf16", "f16", "f64" } do
  check { heads = 4, kv = 4, d = 16, lengths = { 33, 200 }, queries = 1, size = 32, dtype = dtype }
  check { heads = 4, kv = 1, d = 16, lengths = { 33, 200 }, queries = 20, size = 32, dtype = dtype }
end

-- Pages of another type are read as numbers of q's, with scales by row.
local tables, start = tessera.tensor({ { 2, 0 }, { 1, 3 } }, { dtype = "i64" }), tessera.tensor({ 11, 25 }, { dtype = "i64" })
for _, dtype in ipairs { "fp8_e4m3", "bf16", "f16", "f32" } do
  for _, queries in ipairs { 1, 5, 7 } do
    for _, of in ipairs { "f32", "bf16", "f64" } do
      local q = draw({ 2, 4, queries, 8 }, of)
      local k, v = draw({ 2, 4, 16, 8 }, dtype), draw({ 2, 4, 16, 8 }, dtype)
      local scale = op.exp(draw { 2, 4, 16 })
      local function wide(x) return (x:cast "f32" * scale:unsqueeze(3)):cast(of) end
      assert(same(op.paged_attention(q, k, v, tables, start), op.paged_attention(q, k:cast(of), v:cast(of), tables, start)))
      local y = op.paged_attention(q, k, v, tables, start, nil, scale, scale)
      assert(same(y, op.paged_attention(q, wide(k), wide(v), tables, start)), dtype .. " " .. of)
      local f = tessera.graph.module("scaled", function(...) return op.paged_attention(...) end)
      assert(same(f(q, k, v, tables, start, nil, scale, scale), y), "captured: " .. dtype .. " " .. of)
    end
  end
end

local q, k = draw { 2, 4, 1, 8 }, draw { 2, 4, 16, 8 }
op.paged_attention(q, k, k, tessera.tensor({ { 4 }, { 0 } }, { dtype = "i64" }), start) --! index 4 is out of range
op.paged_attention(q, k, k, tables:narrow(0, 0, 1), start) --! table has a row for each text
-- The last query stands in the pages of its table, the first one not before them: here, on a device, and captured.
do
  local some = draw { 2, 4, 3, 8 }
  local captured = tessera.graph.module("starts", function(...) return op.paged_attention(...) end)
  for _, device in ipairs { "cpu", "sim:0" } do
    local function run(f, first)
      local from = tessera.tensor({ 4, first }, { dtype = "i64" }):to(device)
      return pcall(function() return f(some:to(device), k:to(device), k:to(device), tables:to(device), from):totable() end)
    end
    for _, f in ipairs { op.paged_attention, captured } do
      for _, first in ipairs { 0, 29 } do assert(run(f, first)) end
      for _, first in ipairs { 30, 31, 1000, -1 } do
        local ok, why = run(f, first)
        assert(not ok and why:find(("paged_attention: start %d: the queries of f32[2,4,3,8] do not lie"):format(first), 1, true), why)
        assert(why:find("they go from 0 to 29", 1, true), why)
      end
    end
  end
end
op.paged_attention(draw { 2, 4, 40, 8 }, k, k, tables, start) --! a row of the table has fewer positions than there are queries
op.paged_attention(q, k, k, tables, start:narrow(0, 0, 1)) --! start has a number for each text
op.paged_attention(q, k, draw { 2, 4, 8, 8 }, tables, start) --! pages of k and v differ
op.paged_attention(draw { 2, 3, 1, 8 }, k, k, tables, start) --! heads do not fit
op.paged_attention(q, k, k, tables:cast "f32", start) --! table is f32[2,2], and has to be whole numbers
op.paged_attention(q, k, k, tables, start, { window = 0 }) --! paged_attention: option 'window' must be >= 1, not 0
