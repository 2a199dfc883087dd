-- Norms of one long row are made by many blocks: bits of the CPU, also where squares leave the type.
local tessera = require "tessera"
local op, graph = tessera.op, tessera.graph
package.path = "tests/devices/?.lua;" .. package.path
local name = require("_device").name or "sim:0"

for _, dtype in ipairs { "f32", "bf16", "f64" } do
  for _, n in ipairs { 8 * 4096, 100001, 1048576 + 3 } do
    for _, scale in ipairs { 1, 0, 1e25, 1e-30 } do
      local x = (op.normal({ n }, { seed = 1, stream = n }) * scale):cast(dtype)
      local want, before = x:norm(), tessera.jit.device().fallback
      local what = ("%d numbers of %s times %g"):format(n, dtype, scale)
      assert(x:to(name):norm():to("cpu"):hash() == want:hash(), what)
      assert(tessera.jit.device().fallback == before, what .. ": the CPU ran it")
    end
  end
end
local x = op.normal({ 300, 7, 50 }, { seed = 3 })
local f, want = graph.module("length", function(t) return t:norm(), t:norm { ord = 1 } end), x:norm():hash()
for _ = 1, 2 do
  local have = f(x:to(name))
  tessera.jit.wait()
  assert(have:to("cpu"):hash() == want)
end
