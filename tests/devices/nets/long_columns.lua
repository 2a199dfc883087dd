-- Sums down long columns, several in a kernel, and what is done with them at its end: bits of the CPU, with a kernel for each group.
local tessera = require "tessera"
local op, graph = tessera.op, tessera.graph
package.path = "tests/devices/?.lua;" .. package.path
local name = require("_device").name or "sim:0"

local function statistics(x, m, w)
  local wide = x:cast "f32"
  local d = wide - m
  return wide:sum { axis = { 0 } } / (w + 1), (d * d):sum { axis = { 0 } } * w, (wide * 0.5):mean { axis = { 0 } }
end
local function variance(x)
  local wide = x:cast "f32"
  local d = wide - wide:mean { axis = { 0 } }
  return (d * d):mean { axis = { 0 } }
end
local function written(x, m)
  local g = op.where(x:gt(0), x, 0)
  local wide = g:cast "f32"
  return g, wide:sum { axis = { 0 } }, (wide * (x:cast "f32" - m)):sum { axis = { 0 } }
end
local function total(x) return x:cast("f32"):sum { axis = { 0 } } end

-- Whole leaves and parts of one, more leaves than are added up at once, columns that are no whole warp.
for _, shape in ipairs { { 8192, 64 }, { 6272, 512 }, { 5000, 96 }, { 270000, 24 }, { 65 * 4096, 40 }, { 4097, 64 } } do
  local x = op.normal(shape, { seed = 1, stream = shape[1] }):cast "bf16"
  local m, w = op.normal({ shape[2] }, { seed = 2 }), op.uniform({ shape[2] }, { seed = 3 })
  for which, f in ipairs { statistics, variance, written, total } do
    local what = ("function %d of %d x %d"):format(which, shape[1], shape[2])
    local g, want = graph.module("columns", f), { f(x, m, w) }
    local on, before = { x:to(name), m:to(name), w:to(name) }, tessera.jit.device().fallback
    for _ = 1, 2 do
      local have = { g(unpack(on)) }
      tessera.jit.wait()
      for i = 1, #want do assert(have[i]:to("cpu"):hash() == want[i]:hash(), what .. ", result " .. i) end
    end
    assert(tessera.jit.device().fallback == before, what .. ": the CPU ran some")
    assert(not tostring(g:ir("tile", { target = "sm_90a" })):find "no kernel", what .. ": a group has no kernel")
  end
end
