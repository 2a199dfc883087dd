-- Attention and its gradients on a device through kernels with roles: views as a GPT makes them
-- of one product, heads in groups, positions that are hidden, ragged sizes; eagerly, in functions
-- and by the tape. Its chain is not the CPU's on any device. The device is simulated, or that of
-- `make check DEV=cuda`.
package.path = "tests/devices/?.lua;" .. package.path
local tessera = require "tessera"
local core, op, graph, rng = tessera.core, tessera.op, tessera.graph, tessera.rng
local device = require "_device"
local name = device.name
if not name then return print(device.skipped) end

local passed, failed = 0, 0
local function close(what, got, want)
  local x, y = op.cast(got:to "cpu", "f32"), op.cast(want, "f32")
  local off, most = op.max(op.abs(x - y)):item(), op.max(op.abs(y)):item()
  local good = got.device == name and off <= 2 ^ -6 * most
  passed, failed = passed + (good and 1 or 0), failed + (good and 0 or 1)
  if not good then print(("FAILED %s: off by %g of %g"):format(what, off, most)) end
end

local function on_device(what, f)
  local before = core.jit_device().fallback
  local out = { f() }
  local more = core.jit_device().fallback - before
  if more > 0 and device.unit then failed = failed + 1 print("FAILED " .. what .. " ran on the CPU") end
  return unpack(out)
end

-- q k v of one product [B,S,(heads + 2 key heads) D], as views [B,heads,S,D].
local function split(x, heads, keys, width)
  local b, s = x.shape[1], x.shape[2]
  local function part(first, n)
    return x:narrow(2, first * width, n * width):reshape({ b, s, n, width }):permute { 0, 2, 1, 3 }
  end
  return part(0, heads), part(heads, keys), part(heads + keys, keys)
end

-- Lengths of sequences; packed sequences, of which rows see their own; numbers for each head.
local function mask_of(kind, heads, s, d)
  if kind == "lengths" then
    return op.lt(op.arange(s):reshape(1, 1, 1, s), tessera.tensor { s - 3, s / 2 }:reshape(2, 1, 1, 1))
  elseif kind == "pairs" then
    local of = op.floordiv(op.arange(s), 7)
    return op.eq(of:reshape(s, 1), of:reshape(1, s))
  end
  local x = rng.normal { 1, heads, s, s }
  return op.cast(op.where(op.gt(x, 1), -1 / 0, x), d)
end

local names = { "dq", "dk", "dv", "dsink" }
core.seed(7)
local big = device.kind ~= "sim"
for _, d in ipairs { "bf16", "f16" } do
  for _, width in ipairs(d == "bf16" and { 64, 128 } or { 64 }) do
    local masked = { -- a kind of mask with each, but on a device with all
      { heads = 2, keys = 1, causal = true, mask = "lengths" },
      { heads = 2, keys = 1, mask = "pairs" },
      { heads = 2, keys = 2, causal = true, window = 20, sink = true, mask = "added" },
    }
    local cases = {
      { heads = 2, keys = 2 }, { heads = 2, keys = 1, causal = true },
      { heads = 1, keys = 1, causal = true, window = 20 },
      { heads = 2, keys = 1, causal = true, sink = true },
    }
    for i, c in ipairs(masked) do
      if big or i == (d == "f16" and 3 or width / 64) then cases[#cases + 1] = c end
    end
    for _, c in ipairs(cases) do
      local o = { causal = c.causal, window = c.window }
      local s = big and 300 or 40
      local x = op.cast(rng.normal { 2, s, (c.heads + 2 * c.keys) * width }, d)
      local g = op.cast(rng.normal { 2, s, c.heads, width }, d):permute { 0, 2, 1, 3 }
      local there, gt = x:to(name), g:to(name)
      local q, k, v = split(x, c.heads, c.keys, width)
      local sink = c.sink and rng.normal { c.heads } or nil
      local mask = c.mask and mask_of(c.mask, c.heads, s, d)
      local y = op.attention(q, k, v, mask, sink, o)
      local want = { op.attention_grad(q, k, v, mask, sink, y, g, o) }
      local what = ("%s %d, %d heads %s"):format(d, width, c.heads, c.mask or "")
      local tq, tk, tv = split(there, c.heads, c.keys, width)
      local there_sink, there_mask = sink and sink:to(name), mask and mask:to(name)
      local function forward(q, k, v, s, m) return op.attention(q, k, v, m, s, o) end
      local ty = on_device(what, function() return forward(tq, tk, tv, there_sink, there_mask) end)
      close(what, ty, y)
      local function back(q, k, v, y, g, s, m)
        return op.attention_grad(q, k, v, m or there_mask, s or there_sink, y, g, o)
      end
      local got = { on_device(what .. " grad", function() return back(tq, tk, tv, ty, gt) end) }
      for i = 1, #want do close(("%s %s"):format(what, names[i]), got[i], want[i]) end
      local again = { back(tq, tk, tv, ty, gt) }
      for i = 1, #want do
        if again[i]:to("cpu"):hash() ~= got[i]:to("cpu"):hash() then
          failed = failed + 1
          print("FAILED other bits: " .. what)
        end
      end
      local f = graph.module("grad", function(x, g, m, s)
        local q, k, v = split(x, c.heads, c.keys, width)
        if not c.mask then s, m = m, nil end
        local y = forward(q, k, v, s, m)
        return y * 0.5, back(q, k, v, y, g, s, m)
      end)
      for run = 1, big and 6 or 2 do
        local r = { f(there, gt, there_mask or there_sink, there_mask and there_sink) }
        if run % 4 == 2 then
          for i = 1, #want do close(what .. " in a function", r[1 + i], want[i]) end
          close(what .. " in a function", r[1], y * 0.5)
        end
      end
    end
  end
end

-- A query of sequences of different lengths, which begin anywhere.
for _, d in ipairs { "bf16", "f16" } do
  local t, width = 300, d == "f16" and 128 or 64
  local function heads(n, rows) return op.cast(rng.normal { 2, n, rows, width }, d) end
  local q, k, v, sink = heads(4, 1), heads(2, t), heads(2, t), rng.normal { 4 }
  local first = tessera.tensor { 7, 260 }:reshape(2, 1, 1, 1)
  local mask = op.ge(op.arange(t):reshape(1, 1, 1, t), first)
  local y = on_device("a query " .. d, function()
    return op.attention(q:to(name), k:to(name), v:to(name), mask:to(name), sink:to(name))
  end)
  close("a query with a mask " .. d, y, op.attention(q, k, v, mask, sink))
end
print(("%d passed, %d failed"):format(passed, failed))
assert(failed == 0, failed .. " failed")
