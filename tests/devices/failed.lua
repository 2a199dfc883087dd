-- Each allocation on the way to a device's kernel may fail: an error, and the next call has its kernel and its
-- bits. FAIL_STEP=1: every point; else every twenty-ninth, from another first one for each operator.
package.path = "tests/devices/?.lua;" .. package.path
local tessera = require "tessera"
local core, op, rng = tessera.core, tessera.op, tessera.rng
local device = require "_device"
local name = device.name
if name ~= "sim:0" then return print "skipped: only where kernels are made in a moment" end
tessera.jit.later(false)
local step = tonumber(os.getenv "FAIL_STEP") or 29
core.arena_single(true)

local function there(t) return t:to(name) end
local x, w = there(rng.normal { 4, 40 }), there(rng.normal { 4, 20 })
local long = there(rng.normal { 2, 5000 })
local index = there((rng.uniform({ 30 }) * 4):cast "i64")
local image, kernel = there(rng.normal { 1, 2, 8, 8 }), there(rng.normal { 3, 2, 3, 3 })
local z = op.complex(x, x)
local halves = there(rng.normal({ 1, 2, 32, 16 }, { dtype = "f16" }))
local keys = there(rng.normal({ 1, 2, 128, 16 }, { dtype = "f16" }))
local calls = {
  { "sort", function() return (op.sort(x)) end }, { "sort of long rows", function() return (op.sort(long, { axis = 0 })) end },
  { "topk", function() return (op.topk(x, { k = 3 })) end }, { "quantile", function() return op.quantile(x, { q = 0.3, axis = 1 }) end },
  { "histogram", function() return (op.histogram(x, { bins = 7, low = -2, high = 2 })) end },
  { "histogram of what there is", function() return (op.histogram(x, { bins = 5 })) end },
  { "fft", function() return op.fft(z) end }, { "fft of a prime", function() return op.fft(there(rng.normal({ 67 }, { seed = 3, stream = 0 }))) end },
  { "rfft", function() return op.rfft(x) end }, { "irfft", function() return op.irfft(z) end }, { "dct", function() return op.dct(x) end },
  { "conv2d", function() return op.conv2d(image, kernel, { padding = { 1, 1 } }) end },
  { "scatter_add", function() return op.scatter_add(x[0], index, x[1][":30"], { axis = 0 }) end },
  { "index_add", function() return op.index_add(x, index, there(op.ones { 30, 40 }), { axis = 0 }) end },
  { "gather", function() return op.gather(x[0], index, { axis = 0 }) end },
  { "pad", function() return op.pad(x, { pads = { 1, 2 } }) end }, { "cumsum", function() return op.cumsum(x, { axis = 0 }) end },
  { "uniform", function() return op.uniform({ 50 }, { seed = 1, stream = 2 }):to(name) end },
  { "dropout", function() return op.dropout(x, { p = 0.5, seed = 1, stream = 2 }) end },
  { "complex", function() return z * z end }, { "rope", function() return op.rope(x) end },
  { "sums", function() return op.sum(x:cast "i32", { axis = 0 }) end }, { "transpose", function() return long:T():contiguous() end },
  { "attention_grad", function()
    return (op.attention_grad(halves, keys, keys, nil, nil, halves, halves))
  end },
}
local ran = 0
for i, c in ipairs(calls) do
  local what, f = c[1], c[2]
  local want = f():hash()
  for n = 1 + i % step, 3000, step do
    tessera.jit.flush()
    core.fail_after(n)
    local fine, why = pcall(function() return f():hash() end)
    local left = core.fail_after(0)
    if fine then
      assert(why == want, what .. ": other bits after a failure at " .. n)
    else
      assert(tostring(why):find "memory", what .. ": " .. tostring(why))
    end
    local before = core.jit_device().fallback
    assert(f():hash() == want, what .. ": other bits behind a failure at " .. n)
    assert(core.jit_device().fallback == before, what .. ": the CPU runs it behind a failure at " .. n)
    ran = ran + 1
    if fine and left and left > 0 then break end
  end
end
assert(ran > 100, ran)
print(ran .. " points")
