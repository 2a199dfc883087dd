-- rope on devices reads heads where they lie, and has the CPU's bits.
local tessera = require "tessera"
package.path = "tests/devices/?.lua;" .. package.path
local on = require "_families"
local op, rng, graph = tessera.op, tessera.rng, tessera.graph
if not on then return end
local device = on.name
tessera.jit.later(false)

local function same(f, ...)
  local there = {}
  for i, x in ipairs { ... } do there[i] = x:to(device) end
  return f(...):hash() == f(unpack(there)):to("cpu"):hash()
end

-- Queries, keys and values side by side: [batch, positions, 3, heads, numbers].
local x = rng.normal { 3, 5, 3, 2, 8 }
local function heads(x) return x:permute(2, 0, 3, 1, 4) end
same(function(x) return heads(x):rope {} end, x) --> true
same(function(x) return heads(x):select(0, 1):rope { offset = 7, theta = 500 } end, x) --> true
same(function(x) return heads(x):narrow(0, 1, 2):rope { interleaved = true } end, x) --> true
same(function(x) return heads(x):narrow(0, 0, 2):rope { dims = 4 } end, x) --> true
same(function(x) return heads(x):select(0, 2):rope { scaling = "yarn", factor = 4, original_context = 64 } end, x:cast "bf16") --> true
same(function(x, p) return heads(x):select(0, 1):rope(p) end, x, op.arange(5) * 3) --> true
same(function(x) return x:transpose(3, 4):rope {} end, x) --> true
-- Of many positions tables are made by the device.
same(function(x) return x:transpose(0, 1):rope {} end, rng.normal { 300, 2, 64 }) --> true

-- Few positions that are counted from a number: one launch, and nothing is copied.
local f = graph.module("turned", function(x) return heads(x):select(0, 1):rope {} end)
f(x)
local text = f:ir("tile", { target = "sm_90a" })
select(2, text:gsub("tile @", "")) --> 1
text:match "strides %[%d+,%d+,%d+,%d+%]" --> strides [240,8,48,1]
