-- What a kernel writes where a concat would have moved it: gradients of queries, keys and values
-- that were one product, with the bits of those that are three.
package.path = "tests/devices/?.lua;" .. package.path
local tessera = require "tessera"
local core, op, graph = tessera.core, tessera.op, tessera.graph
local device = require "_device"
local name = device.name
if not name then return print(device.skipped) end
if not device.unit then return print("skipped: the CPU makes gradients of attention of 16 bits") end
local long = device.kind ~= "sim"

core.seed(5)
local function attend(q, k, v) return op.attention(q, k, v, { causal = true }) end
for _, s in ipairs { { 1, 64, 2, 64 }, { 2, 40, 1, 64 }, long and { 3, 200, 4, 64 } or { 3, 32, 1, 64 } } do
  local b, t, h, d = unpack(s)
  local x = op.normal({ b, t, 3 * h * d }):cast("bf16"):to(name)
  local g = op.normal({ b, t, h * d }):cast("bf16"):to(name)
  local function heads(x) return x:reshape(b, t, 3, h, d):permute(2, 0, 3, 1, 4) end
  local function loss(q, k, v) return (attend(q, k, v):permute(0, 2, 1, 3):reshape(b, t, h * d) * g):sum() end
  local joined = graph.grad(function(x)
    local q, k, v = heads(x):split { size = 1 }
    return loss(q:squeeze(0), k:squeeze(0), v:squeeze(0))
  end)
  local apart = graph.grad(loss, { 1, 2, 3 })
  tessera.jit.eager(true)
  local got = joined(x)
  local q, k, v = unpack { heads(x):split { size = 1 } }
  local dq, dk, dv = apart(q:squeeze(0):contiguous(), k:squeeze(0):contiguous(), v:squeeze(0):contiguous())
  tessera.jit.eager(false)
  local want = op.stack({ dq, dk, dv }):permute(1, 3, 0, 2, 4):reshape(b, t, 3 * h * d)
  if got:hash() ~= want:hash() then error(table.concat(s, "x") .. ": another gradient") end
  if joined:ir("bytecode"):match "concat" then error(table.concat(s, "x") .. ": parts are moved\n" .. joined:ir "bytecode") end
  local placed -- :why says so, too
  for _, group in ipairs(joined:why().functions[1].groups) do
    for _, read in ipairs(group.reads) do placed = placed or read.reason == "in_place" and read.together and group.state end
  end
  if placed ~= "in place" then error(tostring(joined:why())) end
end

-- A part that somebody else reads as well lies by itself.
local x = op.normal({ 1, 64, 384 }):cast("bf16"):to(name)
local both = graph.module("both", function(x, g)
  local q, k, v = x:reshape(1, 64, 3, 2, 64):permute(2, 0, 3, 1, 4):split { size = 1 }
  local y = attend(q:squeeze(0), k:squeeze(0), v:squeeze(0))
  local dq, dk, dv = op.attention_grad(q:squeeze(0), k:squeeze(0), v:squeeze(0), nil, nil, y, g, { causal = true })
  return op.concat({ dq, dk, dv }, { axis = 1 }), dk * 2
end)
local g = op.normal({ 1, 2, 64, 64 }):cast("bf16"):to(name)
local want, twice = both(x, g)
tessera.jit.eager(true)
local got, again = both(x, g)
tessera.jit.eager(false)
got:hash() == want:hash() --> true
again:hash() == twice:hash() --> true
