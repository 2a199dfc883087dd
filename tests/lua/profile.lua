-- tessera.profile: what a report says, apart from times.
local tessera = require "tessera"
local op, graph, jit, profile = tessera.op, tessera.graph, tessera.jit, tessera.profile

local w = op.linspace(-1, 1, 400):reshape{20, 20}
local f = graph.module("f", function(x)
  local y = op.softmax(x:matmul(w) * 0.5, {axis = 1})
  return op.while_loop(function(i) return i:lt(3) end, function(i, v) return i + 1, v:tanh() end,
    op.zeros({}, {dtype = "i64"}), y)
end)
local x = op.ones{10, 20}

-- At tier 0 each operator is a line; what a loop runs stands deeper, rounds together.
jit.off()
local text = profile.report(f, {args = {x}, runs = 3})
text:find "matmul" ~= nil, text:find "softmax" ~= nil --> true, true
text:find "\n[^\n]*   while_loop" ~= nil or text:find "  while_loop" ~= nil --> true
text:find "  tanh %(3 times%)" ~= nil --> true
text:find "thread 0  [a-z.]+" ~= nil --> true
text:find "lies between instructions" ~= nil --> true
jit.on()

-- A compiled kernel is one line, and its phases stand below.
if jit.status() then
  jit.eager(true)
  local g = graph.module("g", function(v) return op.relu(v * 2 + 1) - v end)
  local big = op.ones{400, 400}
  for _ = 1, 3 do g(big) end
  local name, csv = os.tmpname(), os.tmpname()
  local said = profile.report(g, {args = {big}, trace = name, csv = csv})
  assert(said:find "mul add relu sub", said)
  assert(said:find "phase 0  thread 0: ", said)
  local file = io.open(name):read "*a"
  assert(file:find '^{"traceEvents":%[\n{"name":"mul add relu sub[^\n]*"ph":"X"', file)
  assert(io.open(csv):read "*l" == "run,instruction,place,phase,thread,start_us,us,bytes")
  os.remove(name)
  os.remove(csv)
  jit.eager(false)
end

-- Results are those of a run; an error inside is the function's own, and profiles go on.
local core = require "tessera.core"
local out
local spans, usec, lost = core.spans(function() out = f(x) end)
#spans > 0, usec > 0, lost --> true, true, 0
core.spans(function() error("inside", 0) end) --! inside
core.spans(function() core.spans(function() end) end) --! a profile is being made already
#core.spans(function() end) --> 0
profile.report(print) --! profile.report takes a captured function
