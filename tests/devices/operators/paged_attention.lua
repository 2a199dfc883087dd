-- Attention over pages on a device: one query a text of 16 bits by the kernel that fetches pages where they lie, if that is on, with the
-- bits of keys side by side of each text alone; all else in steps. Pages hold NaN where nobody looks, and lie in no order.
package.path = "tests/devices/?.lua;" .. package.path
local tessera = require "tessera"
local core, op = tessera.core, tessera.op
local device = require "_device"
local name = device.name
if not name then return print(device.skipped) end

local seed, passed, failed = 0, 0, 0
local function draw(shape, dtype)
  seed = seed + 1
  return op.normal(shape, { seed = 5, stream = seed }):cast(dtype or "f32")
end
local function there(x) return x and x:to(name) end
local pages_of = dofile "tests/vm/_pages.lua"

local function check(o)
  local k, v, start, want, n = {}, {}, {}, {}, o.queries or 1
  local q, sink = draw({ #o.lengths, o.heads, n, o.d }, o.dtype), o.sink and draw { o.heads } or nil
  for b, t in ipairs(o.lengths) do
    k[b], v[b], start[b] = draw({ o.kv, t, o.d }, o.dtype), draw({ o.kv, t, o.d }, o.dtype), t - n
    want[b] = op.attention(there(q:narrow(0, b - 1, 1)), there(k[b]:unsqueeze(0)), there(v[b]:unsqueeze(0)), nil, there(sink),
      { causal = true, window = o.window }):to "cpu"
  end
  local keys, tables = pages_of(k, o.size)
  local values = pages_of(v, o.size)
  if o.wraps then tables[1][1] = tables[1][1] - keys.shape[2] end
  local before = core.jit_device().fallback
  local y = op.paged_attention(there(q), there(keys), there(values), there(tessera.tensor(tables, { dtype = "i64" })),
    there(tessera.tensor(start, { dtype = o.index or "i64" })), there(sink), { window = o.window })
  want = op.concat(want, { axis = 0 })
  local same = op.all(op.eq(y:to "cpu", want)):item()
  if not same and not o.exact then same = op.max(op.abs(y:to "cpu":cast "f32" - want:cast "f32")):item() <= 2 ^ -6 end
  local good = same and y.device == name and core.jit_device().fallback == before
  passed, failed = passed + (good and 1 or 0), failed + (good and 0 or 1)
  if not good then print(("FAILED page %d, heads of %d, %d queries, window %s"):format(o.size, o.d, n, tostring(o.window))) end
end

assert(tessera.jit.pages() and tessera.jit.pages(true))
for _, size in ipairs { 16, 32, 128, 256 } do
  for _, d in ipairs { 64, 128 } do
    check { heads = 4, kv = 1, d = d, lengths = { 1, 130, 400, 17 }, size = size, dtype = "bf16", exact = true, wraps = true }
    check { heads = 4, kv = 2, d = d, lengths = { 1, 640 }, size = size, dtype = "f16", window = 150, sink = true, exact = true }
  end
end
check { heads = 4, kv = 2, d = 64, lengths = { 700, 130 }, size = 32, dtype = "bf16", window = 40, exact = true, index = "i32" }
-- What the kernel does not take.
check { heads = 4, kv = 2, d = 64, lengths = { 1, 130, 300 }, size = 48, dtype = "bf16", window = 150, sink = true }
check { heads = 4, kv = 2, d = 64, lengths = { 40, 300 }, queries = 33, size = 32, dtype = "bf16" }
check { heads = 4, kv = 2, d = 24, lengths = { 40, 30 }, queries = 3, size = 8, dtype = "f32" }
tessera.jit.pages(false)
for _, size in ipairs { 16, 256 } do
  check { heads = 4, kv = 1, d = 64, lengths = { 1, 130, 400, 17 }, size = size, dtype = "bf16", exact = true, wraps = true }
  check { heads = 4, kv = 2, d = 128, lengths = { 1, 640 }, size = size, dtype = "f16", window = 150, sink = true, exact = true }
end

-- Queries at the ends of their tables, and behind and before them, which is an error, also of starts that only the device has.
local function ends_of_the_table(window)
  local q, k, v = draw({ 5, 2, 1, 64 }, "bf16"), draw({ 1, 3, 32, 64 }, "bf16"), draw({ 1, 3, 32, 64 }, "bf16")
  local pages = tessera.tensor({ { 2, 1 }, { 2, 1 }, { 1, 0 }, { 1, 2 }, { 0, 1 } }, { dtype = "i64" })
  local start = tessera.tensor({ 63, 0, 32, 31, 62 }, { dtype = "i64" })
  local want = op.paged_attention(q, k, v, pages, start, { window = window }):cast "f32"
  for _, on in ipairs { true, false } do
    tessera.jit.pages(on)
    local y = op.paged_attention(there(q), there(k), there(v), there(pages), there(start), { window = window })
    local good = op.max(op.abs(y:to "cpu":cast "f32" - want)):item() <= 2 ^ -6
    passed, failed = passed + (good and 1 or 0), failed + (good and 0 or 1)
    if not good then print(("FAILED at ends of the table, in place %s, window %s"):format(tostring(on), tostring(window))) end
    for _, far in ipairs { 64, 100, -3 } do
      for _, made in ipairs { false, true } do
        local other = tessera.tensor({ 63, 0, made and far - 1 or far, 31, 62 }, { dtype = "i64" })
        other = made and there(other) + there(tessera.tensor({ 0, 0, 1, 0, 0 }, { dtype = "i64" })) or there(other)
        local ok, why = pcall(function() return op.paged_attention(there(q), there(k), there(v), there(pages), other, { window = window }):totable() end)
        good = not ok and tostring(why):find(("start %d: the queries of bf16[5,2,1,64] do not lie"):format(far), 1, true)
        passed, failed = passed + (good and 1 or 0), failed + (good and 0 or 1)
        if not good then print(("FAILED start %d, in place %s: %s"):format(far, tostring(on), tostring(why))) end
      end
    end
  end
end
ends_of_the_table()
ends_of_the_table(50)

-- Which of both it is, from when on, and why.
local f = tessera.graph.module("paged", function(q, k, t, start) return op.paged_attention(q, k, k, t, start) end)
local function told(size, d)
  f(op.zeros({ 2, 4, 1, d }):cast "bf16", op.zeros({ 2, 5, size, d }):cast "bf16", op.zeros({ 2, 3 }):cast "i64", op.zeros(2):cast "i64")
  return f:ir("why", { target = "sm_90a" }):match "pages are [^\n]*"
end
local function is(good, what)
  passed, failed = passed + (good and 1 or 0), failed + (good and 0 or 1)
  if not good then print("FAILED " .. what) end
end
tessera.jit.pages(false)
is(told(32, 64):find("together: tessera.jit.pages is off", 1, true), "why it is off")
tessera.jit.pages(true)
is(told(32, 64):find("read in place", 1, true), "why it is on")
is(told(40, 64):find("together: pages are not of 16, 32, 64", 1, true), "why, with pages of 40")
is(told(32, 96):find("together: heads are not of 64 or 128", 1, true), "why, with heads of 96")

local q, k = there(draw({ 2, 4, 1, 64 }, "bf16")), there(draw({ 2, 5, 32, 64 }, "bf16"))
local function call(pages)
  return op.paged_attention(q, k, k, there(tessera.tensor(pages, { dtype = "i64" })), there(tessera.tensor({ 40, 20 }, { dtype = "i64" })))
end
for _, on in ipairs { true, false } do
  tessera.jit.pages(on)
  if name == "sim:0" then
    local text = tessera.jit.ir("tile", call, { { 1, 2 }, { 3, 0 } })
    is((text:find("blank", 1, true) ~= nil) == on, "what runs")
  end
  local ok, why = pcall(function() return call({ { 1, 2 }, { 5, 0 } }):totable() end)
  is(not ok and tostring(why):find("index 5 is out of range for axis 1 of bf16[2,5,32,64]", 1, true), "a page that is not there: " .. tostring(why))
end
print(("%d passed, %d failed"):format(passed, failed))
assert(failed == 0, failed .. " failed")
