-- Gradients of attention of few keys, with masks and windows, on a device against the CPU, bit by bit. ALL=1: more types and sizes.
package.path = "tests/devices/?.lua;" .. package.path
local on = require "_families"
if not on then return end
local tessera = require "tessera"
local op = tessera.op
local check, random = on.check, on.random

local all = os.getenv "ALL"
local types = all and { "f32", "f64", "bf16", "f16" } or { "f32", "f64" }
local options = {
  {}, { causal = true }, { causal = true, window = 3 }, { window = 40 }, { causal = true, upper_left = true },
  { mask = "seen" }, { mask = "added", causal = true }, { sink = true }, { sink = true, causal = true, window = 5, mask = "added" },
  { scores = true, causal = true }, { scores = true, window = 9, causal = true, sink = true },
}
local sizes = { -- batch, heads, heads of keys, queries, keys, numbers of a head
  { 1, 2, 2, 3, 1, 16 }, { 2, 4, 2, 5, 5, 16 }, { 1, 2, 1, 64, 40, 24 }, { 1, 1, 1, 33, 130, 20 },
  { 1, 2, 2, 40, 200, 24 }, { 1, 2, 2, 64, 128, 32 },
}
for _, d in ipairs(types) do
  for k = 1, all and #sizes or 4 do
    local b, h, hk, s, t, e = unpack(sizes[k])
    local q, g = random({ b, h, s, e }, d) / 8, random({ b, h, s, e + 4 }, d)
    local key, v = random({ b, hk, t, e }, d) / 8, random({ b, hk, t, e + 4 }, d)
    for i, o in ipairs(options) do
      if all or d == "f32" or i % 3 == k % 3 then
        local mask = o.mask == "seen" and op.gt(random { b, 1, s, t }, 0) or o.mask and random({ 1, h, 1, t }, d) or nil
        local sink = o.sink and random({ h }, i == 8 and d or "f32") or nil
        local given = { causal = o.causal, window = o.window, upper_left = o.upper_left, scores = o.scores }
        local y = op.attention(q, key, v, mask, sink, { causal = o.causal, window = o.window, upper_left = o.upper_left })
        check(("%s %s, options %d"):format(d, table.concat(sizes[k], "x"), i),
          function(q, k, v, y, g, m, s)
            if o.sink and not o.mask then m, s = nil, m end
            return op.attention_grad(q, k, v, m, s, y, g, given)
          end, q, key, v, y, g, mask or sink, mask and sink)
      end
    end
  end
end

-- What is hidden from a row does it no harm, be it no number.
do
  local q, k, g = random { 1, 1, 40, 8 } / 8, random { 1, 1, 70, 8 } / 8, random { 1, 1, 40, 8 }
  local v = op.concat({ random { 1, 1, 69, 8 }, op.full({ 1, 1, 1, 8 }, 0 / 0) }, { axis = 2 })
  local o = { causal = true }
  local y = op.attention(q, k, v, nil, nil, o)
  check("a NaN that few rows see", function(q, k, v, y, g) return op.attention_grad(q, k, v, nil, nil, y, g, o) end, q, k, v, y, g)
end

-- Rows that see nothing, by a mask or behind the last window, give nothing, be their g no number.
for _, d in ipairs { "f32", "f64" } do
  local q, k, v = random({ 1, 1, 40, 8 }, d) / 8, random({ 1, 1, 3, 8 }, d) / 8, random({ 1, 1, 3, 8 }, d)
  local g = op.concat({ random({ 1, 1, 39, 8 }, d), op.full({ 1, 1, 1, 8 }, 1 / 0):cast(d) }, { axis = 2 })
  local mask = op.concat({ op.ones { 1, 1, 20, 3 }, op.zeros { 1, 1, 20, 3 } }, { axis = 2 }):cast "bool"
  local options = { { scores = true }, { causal = true, window = 5, upper_left = true, scores = true } }
  for i, o in ipairs(options) do
    local m = i == 1 and mask or nil
    local y = op.attention(q, k, v, m, nil, { causal = o.causal, window = o.window, upper_left = o.upper_left })
    check("rows that see nothing " .. i, function(q, k, v, y, g, m) return op.attention_grad(q, k, v, m, nil, y, g, o) end, q, k, v, y, g, m)
  end
end
