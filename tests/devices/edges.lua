-- Tiles that end within a thread's vector: attention of f32 with small and odd heads, alone and
-- in functions. A second time with the code of a GPU, emulated, where reading behind a block's
-- shared memory ends the program as it does on a GPU.
package.path = "tests/devices/?.lua;" .. package.path
local tessera = require "tessera"
local op, graph, rng = tessera.op, tessera.graph, tessera.rng
local device = require "_device"
local name = device.name
if not name then return print(device.skipped) end
local emulated = os.getenv "TESSERA_SIM" == "emulate"
tessera.numerics.profile "strict"

for _, d in ipairs { 1, 3, 5, 33 } do
  for _, n in ipairs(emulated and { 17 } or { 1, 3, 8, 17, 40 }) do
    for _, causal in ipairs { false, true } do
      local x = rng.normal { 1, n, d }
      local function f(q) return op.attention(q, q, q * 2, { causal = causal }):rsqrt() + q end
      local g = graph.module("edges", f)
      local want, there = f(x):hash(), x:to(name)
      local what = ("attention of %d x %d"):format(n, d)
      assert(f(there):hash() == want, what)
      assert(g(there):hash() == want and g(there):hash() == want, what .. ", captured")
    end
  end
end
if device.kind == "sim" and not emulated then
  local p = io.popen(("TESSERA_SIM=emulate %s scripts/run_test.lua tests/devices/edges.lua 2>&1 && echo fine"):format(arg[-1] or "bin/tessera"))
  local said = p:read "*a"
  p:close()
  assert(said:find "fine", said)
end
