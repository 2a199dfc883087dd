-- A window that holds all keys is none, however large it is: positions of kernels have 32 bits. The bits are those without it, on
-- the CPU, captured, and on a device; and other targets have the kernel that they have without.
package.path = "tests/devices/?.lua;" .. package.path
local tessera = require "tessera"
local op, graph = tessera.op, tessera.graph
local device = require "_device"
local name = device.name
if not name then return print(device.skipped) end

local windows = { 2 ^ 30 - 1, 2 ^ 30, 2 ^ 31 - 1, 2 ^ 31, 2 ^ 32 + 1, 2 ^ 40, 2 ^ 52 }
local passed, failed = 0, 0
local function is(good, ...)
  passed, failed = passed + (good and 1 or 0), failed + (good and 0 or 1)
  if not good then print("FAILED", ...) end
end
local function draw(stream, shape, dtype) return op.normal(shape, { seed = 3, stream = stream }):cast(dtype) end
local function hashes(...)
  local out = {}
  for i = 1, select("#", ...) do out[i] = (select(i, ...)):to("cpu"):hash() end
  return table.concat(out, " ")
end

-- make(window): a function of q, k, v, which gives tensors.
local function forward(window) return function(q, k, v) return op.attention(q, k, v, { causal = true, window = window }) end end
local function not_causal(window) return function(q, k, v) return op.attention(q, k, v, { window = window }) end end
local function corner(window)
  return function(q, k, v) return op.attention(q, k, v, { causal = true, window = window, upper_left = true }) end
end
local function backward(window)
  return function(q, k, v) return op.attention_grad(q, k, v, nil, nil, q, q, { causal = true, window = window }) end
end

local function check(what, make, dtype, queries, keys, targets)
  local given = { draw(1, { 1, 4, queries, 64 }, dtype), draw(2, { 1, 2, keys, 64 }, dtype), draw(3, { 1, 2, keys, 64 }, dtype) }
  local there = {}
  for i, x in ipairs(given) do there[i] = x:to(name) end
  local plain = make(nil)
  local want, want_there = hashes(plain(unpack(given))), hashes(plain(unpack(there)))
  local without = graph.module("f", plain)
  without(unpack(given))
  for _, window in ipairs(windows) do
    local f = make(window)
    is(hashes(f(unpack(given))) == want, what, dtype, window, "on the CPU")
    is(hashes(f(unpack(there))) == want_there, what, dtype, window, "on the device")
    local captured = graph.module("f", f)
    is(hashes(captured(unpack(given))) == want, what, dtype, window, "captured")
    is(hashes(captured(unpack(there))) == want_there, what, dtype, window, "captured, on the device")
    if window >= 2 ^ 30 then
      captured(unpack(given))
      for _, target in ipairs(targets) do
        local text = captured:ir("tile", { target = target })
        is(text == without:ir("tile", { target = target }) and not text:find "no kernel", what, dtype, window, target)
      end
    end
  end
end

local all = { "sm_80", "sm_90a", "gfx942" }
check("forward", forward, "bf16", 128, 160, all)
check("forward", forward, "f32", 33, 70, all)
check("one query", forward, "bf16", 1, 160, {})
check("not causal", not_causal, "f32", 33, 70, all)
check("upper left", corner, "f32", 70, 33, {})
check("gradient", backward, "bf16", 128, 128, all)
check("gradient", backward, "f32", 64, 128, all)
check("gradient", backward, "f32", 33, 70, all)

-- One query a text by a mask of positions, whose window may be of any size.
local q, k = draw(1, { 2, 4, 1, 64 }, "bf16"), draw(2, { 2, 4, 160, 64 }, "bf16")
local last = tessera.tensor({ 100, 159 }, { dtype = "i64" }):reshape(2, 1, 1, 1)
local function masked(window)
  return graph.module("masked", function(q, k, last)
    local keys = op.arange(160):to(q.device)
    local seen = keys:le(last)
    if window then seen = seen:logical_and(keys:gt(last - window)) end
    return op.attention(q, k, k, seen)
  end)
end
local want = hashes(masked()(q:to(name), k:to(name), last:to(name)))
for _, window in ipairs(windows) do
  is(hashes(masked(window)(q:to(name), k:to(name), last:to(name))) == want, "masked", window)
end
print(("%d passed, %d failed"):format(passed, failed))
assert(failed == 0, failed .. " failed")
