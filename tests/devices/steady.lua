-- A call that ran before finds its memory where it was: operators that need much of it beside their
-- tensors touch no page for the first time.
local ts = require "tessera"
local op, rng = ts.op, ts.rng

-- Pages that this process touched for the first time: field 10 of /proc/self/stat.
local function faults()
  local f = io.open "/proc/self/stat"
  local text = f:read "*a"
  f:close()
  return tonumber(text:match "%) %S+ %S+ %S+ %S+ %S+ %S+ %S+ (%d+)")
end

local maps = io.open "/proc/self/maps"
local sanitized = maps:read "*a":find("libasan", 1, true) -- whose blocks are never used again
maps:close()
if sanitized then return print "skipped: a sanitizer never uses a block again" end

local x, w = rng.normal { 4, 32, 56, 56 }, rng.normal { 32, 32, 3, 3 }
local a, b = rng.normal { 600, 700 }, rng.normal { 700, 800 }
local q = rng.normal { 2, 4, 512, 64 }
local z = rng.normal({ 64, 4096 }):cast "complex64"
local calls = {
  conv2d = function() return op.conv2d(x, w, { padding = { 1 } }) end,
  matmul = function() return op.matmul(a, b) end,
  ["matmul of int8"] = function() return op.matmul(a:cast "i8", b:cast "i8") end,
  attention = function() return op.attention(q, q, q, { causal = true }) end,
  fft = function() return op.fft(z) end,
  pool = function() return op.max_pool(x:cast "bf16", { window = { 3, 3 } }) end,
  ["norm along another axis"] = function() return op.softmax(a, { axis = 0 }) end,
  sum = function() return op.sum(a, { axis = 0 }) end,
}
for name, call in pairs(calls) do
  local function run(times)
    for _ = 1, times do
      call()
      collectgarbage() -- so that the next result takes the place of this one
    end
  end
  run(4)
  ts.jit.wait()
  run(2)
  local before = faults()
  run(8)
  local n = faults() - before
  assert(n < 100, ("%s: 8 calls touched %d new pages"):format(name, n))
end
