-- Sequences that are split over devices: attention exchanges rows for heads and back, with the bits of one device, values and
-- gradients, eager and captured.
local tessera = require "tessera"
local op, dist, rng, graph = tessera.op, tessera.dist, tessera.rng, tessera.graph

local DEVICE = os.getenv "DEV" or ""
local cpu = DEVICE ~= "" and (DEVICE:find ":" and DEVICE or DEVICE .. ":0") or "cpu:0"
local function same(a, b, what)
  a, b = a:gather():to "cpu", b:to "cpu"
  assert(a.dtype == b.dtype and a:hash() == b:hash(), what)
end

local function attend(q, k, v, o) return op.attention(q, k, v, o) end
local cases = 0
for _, c in ipairs {
  { shape = { 2 }, heads = 4, kv = 4 }, { shape = { 3 }, heads = 6, kv = 3 }, { shape = { 3 }, heads = 5, kv = 5 },
  { shape = { 2, 2 }, heads = 8, kv = 4 }, { shape = { 4 }, heads = 4, kv = 2 },
} do
  local n = c.shape[1] * (c.shape[2] or 1)
  local devices = {}
  for i = 1, n do devices[i] = cpu end
  if dist.world() > 1 then devices = dist.range(n) end -- tests/net runs it in several processes
  local mesh = dist.Mesh { axes = c.shape[2] and { "tp", "cp" } or { "cp" }, shape = c.shape, devices = devices }
  for _, dtype in ipairs { "f32", "bf16" } do
    for _, o in ipairs { { causal = true }, { causal = true, window = 20 }, {} } do
      rng.seed(7)
      local function draw(heads) return rng.normal({ 2, heads, 130, 16 }):cast(dtype):to(cpu) end
      local plain = { draw(c.heads), draw(c.kv), draw(c.kv) }
      local g = draw(c.heads)
      local spread = {}
      for i = 1, 3 do spread[i] = dist.shard(plain[i], mesh, { nil, c.shape[2] and "tp" or nil, "cp" }) end
      local text = ("%s %s causal %s window %s, %d heads"):format(table.concat(c.shape, "x"), dtype, o.causal, o.window, c.heads)
      local want = attend(plain[1], plain[2], plain[3], o)
      local y = attend(spread[1], spread[2], spread[3], o)
      same(y, want, text)
      local rows = tostring(dist.spec_of(y))
      local fits = c.kv >= n -- with fewer groups of heads than devices all of them do all
      assert(rows == (fits and tostring(dist.spec_of(spread[1])) or rows), text .. ": " .. rows)
      local f = graph.module("attend", function(q, k, v) return attend(q, k, v, o) end)
      same(f(spread[1], spread[2], spread[3]), want, text .. ", captured")
      for i = 1, 3 do plain[i].requires_grad, spread[i].requires_grad = true, true end
      attend(plain[1], plain[2], plain[3], o):backward(g)
      attend(spread[1], spread[2], spread[3], o):backward(dist.shard(g, mesh, { nil, c.shape[2] and "tp" or nil, "cp" }))
      for i = 1, 3 do same(spread[i].grad, plain[i].grad, text .. ", gradient " .. i) end
      cases = cases + 1
    end
  end
end
print(cases .. " cases") --> 30 cases

-- What is sent: rows for heads of q, k and v, and heads for rows of the result.
local mesh = dist.Mesh { axes = { "cp" }, devices = { cpu, cpu } }
local q = dist.shard(rng.normal { 1, 4, 64, 8 }, mesh, { nil, nil, "cp" })
local before = select(2, dist.sent(1))
op.attention(q, q, q, { causal = true })
local kinds = {}
for i, s in ipairs(dist.sent(4)) do kinds[i] = s.kind .. " " .. s.bytes end
print(table.concat(kinds, ", ")) --> all_to_all 4096, all_to_all 4096, all_to_all 4096, all_to_all 4096
