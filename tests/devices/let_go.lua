-- Launches that come again and again are put off, and memory that they use stays until they are made. Where there is no more,
-- they are made at once, and what is free goes back: temporaries of a mesh's pieces, each larger than the last, of which all
-- together do not fit.
local ffi = require "ffi"
ffi.cdef "int setenv(const char *name, const char *value, int overwrite);"
ffi.C.setenv("TESSERA_SIM_BYTES", "13000000", 1)
local tessera = require "tessera"
local op, dist, graph, rng = tessera.op, tessera.dist, tessera.graph, tessera.rng
tessera.core.jit_later(false)

local mesh = dist.Mesh { axes = { "tp" }, devices = { "sim:0", "sim:1" } }
local w = {}
for i = 1, 8 do w[i] = dist.shard(rng.normal { 32, 512 * (4 + i) }, mesh, { "tp" }) end
local x = dist.shard(rng.normal { 64, 32 }, mesh, { nil, "tp" })
-- Each product is a sum of what both have, and the next one waits for it.
local f = graph.module("f", function(x, ...)
  for _, w in ipairs { ... } do x = x + op.matmul(x, w):abs():sum() * 1e-6 end
  return x
end)
local want
local function often(n)
  for _ = 1, n do
    local got = f(x, unpack(w)):gather():hash()
    want = want or got
    assert(got == want)
  end
end
often(8)
tessera.jit.wait() -- kernels are made beside what runs, and take less
often(16)
local function replays() return tessera.core.jit_device().replays end
local before = replays()
before > 0 --> true
-- While they are put off, and while they are not, as nothing matches what came before.
local full = { op.zeros({ 1250000 }, { device = "sim:0" }), op.zeros({ 1250000 }, { device = "sim:1" }) }
often(4)
replays() == before --> true
-- What was cut for want of memory is put off again when there is some.
full = nil
collectgarbage()
often(12)
replays() > before --> true
