-- Attention by warps that copy and multiply, for GPUs without a copy engine: against the CPU, and
-- bit for bit against the kernel with roles, whose chain is the same one. The device is simulated,
-- or that of `make check DEV=cuda`, where code for the oldest GPU runs as well.
package.path = "tests/devices/?.lua;" .. package.path
local tessera = require "tessera"
local core, op, rng = tessera.core, tessera.op, tessera.rng
local device = require "_device"
local name = device.name
if not name then return print(device.skipped) end
local ffi = require "ffi"
ffi.cdef "int setenv(const char *, const char *, int);"
local function oldest(on) ffi.C.setenv("TESSERA_GPU", on and "sm_80" or "", 1) end

core.seed(5)
local big = device.kind ~= "sim"
local failed, other = 0, 0
local function wrong(...) failed = failed + 1 print("FAILED", ...) end

local function masked(kind, heads, s, t, d)
  if kind == "keys" then return op.lt(op.arange(t), t - 5) end
  local x = rng.normal { heads, s, t }
  return op.cast(op.where(op.gt(x, 1), -1 / 0, x), d)
end

for i, c in ipairs {
  { "bf16", 64, heads = 2, keys = 1, s = 40, t = 150, causal = true },
  { "f16", 64, heads = 2, keys = 2, s = 70, t = 40, sink = true },
  { "bf16", 64, heads = 2, keys = 1, s = 70, t = 140, causal = true, window = 20, mask = "keys" },
  { "bf16", 128, heads = 1, keys = 1, s = 40, t = 150, mask = "added", sink = true },
  { "f16", 128, heads = 4, keys = 2, s = 30, t = 30, causal = true },
} do
  local d, width, s, t = c[1], c[2], big and 10 * c.s or c.s, big and 10 * c.t or c.t
  local function heads(n, rows) -- views of [rows, n, width]
    return op.cast(rng.normal { rows, n, width }, d):permute { 1, 0, 2 }
  end
  local q, k, v = heads(c.heads, s), heads(c.keys, t), heads(c.keys, t)
  local mask, sink = c.mask and masked(c.mask, c.heads, s, t, d), c.sink and rng.normal { c.heads }
  local o = { causal = c.causal, window = c.window }
  local there = { q:to(name), k:to(name), v:to(name), mask and mask:to(name) or nil, sink and sink:to(name) or nil }
  local before = core.jit_device().fallback
  oldest(true)
  local y = op.attention(there[1], there[2], there[3], there[4], there[5], o)
  if device.unit and core.jit_device().fallback > before then wrong(i, "ran on the CPU") end
  oldest(false)
  for j = 1, 3 do there[j] = there[j]:unsqueeze(0) end -- another rank is another kernel
  local z = op.attention(there[1], there[2], there[3], there[4], there[5], o):squeeze(0)
  if z:hash() ~= y:hash() then other = other + 1 end
  local want = op.cast(op.attention(q, k, v, mask, sink, o), "f32")
  local off = op.max(op.abs(op.cast(y:to "cpu", "f32") - want)):item()
  if off > 2 ^ -6 * op.max(op.abs(want)):item() then wrong(i, "off by", off) end
end

-- Gradients of other heads are made in f32 there, by the definition of the CPU; those of heads of
-- 64 and 128 by warps too: attention_oldest.lua.
for _, d in ipairs { "bf16", "f16" } do
  local function heads(n, rows) return op.cast(rng.normal { 2, n, rows, 32 }, d) end
  local q, k, v, g = heads(2, 64), heads(1, 128), heads(1, 128), heads(2, 64)
  local y = op.attention(q, k, v, { causal = true })
  local function back(on)
    local x = {}
    for i, t in ipairs { q, k, v, y, g } do x[i] = t:to(on) end
    return { op.attention_grad(x[1], x[2], x[3], nil, nil, x[4], x[5], { causal = true }) }
  end
  local before = core.jit_device().fallback
  oldest(true)
  local got = back(name)
  if device.unit and core.jit_device().fallback > before then wrong(d, "gradients ran on the CPU") end
  oldest(false)
  for i, want in ipairs(back "cpu") do
    if got[i]:hash() ~= want:hash() then wrong(d, "other bits of gradient", i) end
  end
end
-- What a unit does within a step of its own is the processor's.
if not big and other > 0 then wrong(other, "have other bits than the kernel with roles") end
print(failed == 0 and "all passed" or failed .. " failed")
assert(failed == 0, failed .. " failed")
