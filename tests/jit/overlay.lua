-- A kernel whose results lie over its operands, as these die in it, reads an operand before a result is written there: also where a
-- draw cuts it into passes, each of which reads and writes.
local tessera = require "tessera"
local op, rng, graph, jit = tessera.op, tessera.rng, tessera.graph, tessera.jit
if not jit.status() then return print "skipped: nothing is compiled here: kernels" end
jit.later(false)

local function body(a, b, w, u, r)
  local function of(t) return op.cumsum(t, { axis = 0 }) end -- no part of a kernel, so that operands and results lie in the slab
  a, b, w, u = of(a), of(b), of(w), of(u)
  local s = a + b
  local d = op.dropout(s, { p = 0.1 })
  local x, y, z = d * w, d * u, d * r
  return of(x), of(y), of(z), of(s)
end
local args = {}
for i = 1, 4 do args[i] = op.normal({ 96, 16 }, { seed = i }) end

args[5] = op.normal({ 96, 1 }, { seed = 5 })

local f = graph.module("f", body)
local function run()
  rng.seed(3)
  local out = { f(unpack(args)) }
  for i, t in ipairs(out) do out[i] = t:hash() end
  return table.concat(out, " ")
end
jit.off()
local want = run()
jit.on()
run()
jit.pin(f)
run() == want --> true
f:ir "schedule":match "add dropout mul mul mul" --> add dropout mul mul mul
