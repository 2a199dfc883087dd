-- What a program calls fails captured as it does eagerly, although nobody reads the result: with the
-- same message, by the VM, by kernels and in the text that is read again.
local tessera = require "tessera"
local core = require "tessera.core"
local op, graph, jit = tessera.op, tessera.graph, tessera.jit

local function words(e) return (tostring(e):gsub("\n.*", ""):gsub("^.-:%d+: ", ""):gsub(" %(in .*", "")) end
local function outcome(f, ...)
  local ok, e = pcall(f, ...)
  return ok and "fine" or words(e)
end

-- f fails for bad and is fine for good: true, or what differs. unread: its text cannot be read.
local function same(f, good, bad, unread)
  local g = graph.module("g", f)
  for run = 1, 3 do
    for _, args in ipairs { good, bad } do
      local eager, captured = outcome(f, unpack(args)), outcome(g, unpack(args))
      if eager ~= captured then return ("run %d: %s, captured: %s"):format(run, eager, captured) end
      if (eager == "fine") ~= (args == good) then return "eager: " .. eager end
    end
    if run == 2 and g.current then jit.pin(g) end
  end
  if g.current and not unread then
    local path = os.tmpname() .. ".tgraph"
    graph.export(g, path)
    local loaded = graph.load(path)
    os.remove(path)
    local eager, read = outcome(f, unpack(bad)), outcome(loaded, unpack(bad))
    if eager ~= read then return eager .. ", read: " .. read end
  end
  return true
end

local x = op.arange(12):cast "f32":reshape(4, 3) + 1
local function index(...) return tessera.tensor({ ... }, { dtype = "i64" }) end
local function rows(f) return same(f, { x, index(0, 3) }, { x, index(0, 9) }) end
rows(function(a, i) local t = op.embedding(a, i) return a * 2 end) --> true
rows(function(a, i) local t = a:index_select(i, { axis = 0 }):sum():exp() return a * 2 end) --> true
rows(function(a, i) local t = op.take(a, i * 2) * 0 return a + 1 end) --> true
rows(function(a, i) local t = op.gather(a, i:unsqueeze(1), { axis = 0 }) return a:T() end) --> true
rows(function(a, i) local t = a:scatter(i:unsqueeze(1), op.ones { 2, 1 }, { axis = 0 }) return a end) --> true
rows(function(a, i) local t = a:index_add(i, op.ones { 2, 3 }, { axis = 0 }) return a, a * 1 end) --> true
rows(function(a, i) local t = op.one_hot(i, 5) return a * 2 end) --> true
rows(function(a, i) local t = op.cross_entropy(op.ones { 2, 4 }, i) return a * 2 end) --> true
rows(function(a, i) local t = op.cond(a:sum():gt(0), function() return op.embedding(a, i) end, function() return a["0:2"] end) return a * 2 end) --> true
local spd = op.eye(3) * 2
local function matrices(f) return same(f, { spd }, { op.zeros { 3, 3 } }) end
matrices(function(a) local t = op.cholesky(a) return a + 1 end) --> true
matrices(function(a) local t = op.inv(a) return a + 1 end) --> true
matrices(function(a) local t = op.solve(a, op.ones { 3, 1 }) return a + 1 end) --> true
local lua = op.custom("lua", { forward = function(a) if a:sum():item() < 1 then error("too small", 0) end return a end })
same(function(a) local t = lua(a) return a + 1 end, { spd }, { op.zeros { 3, 3 } }, true) --> true
local never = { tol = 0, max = 3 }
matrices(function(a) local t = op.fixed_point(function(b) return b + op.eye(3) * 2 - a end, op.eye(3), never) return a end) --> true

-- Not twice: what is read anyway, and what is differentiated, whose derivative finds the same fault.
local f = graph.module("f", function(a, i) return op.embedding(a, i) end)
f(x, index(1, 2))
f:stats().instructions --> 1
local g = graph.grad(function(a, i) return op.embedding(a, i):sum() end)
g(x, index(1, 2))
select(2, g:ir():gsub("embedding", "")) --> 0
g(x, index(1, 9)) --! index 9 is out of range

-- Numbers beside integers are looked at when they are written, before rules see them.
local u = tessera.tensor({ 1, 2 }, { dtype = "u8" })
for _, h in ipairs {
  function(a) return a * -1 end, function(a) local t = a * -1 return a end, function(a) return (a + 300) * 0 end,
  function(a) return -1 - a end, function(a) return a:maximum(300), a end, function(a) return op.where(a:gt(1), a, -1) end,
  function(a) return a:eq(-1) end,
} do
  outcome(graph.module("h", h), u) == outcome(h, u) and outcome(h, u):match "does not fit into u8$" --> does not fit into u8
end
-- That is of the types: also where there is nothing to compute, and in a branch that would not run.
local empty = op.zeros({ 0 }, { dtype = "u8" })
outcome(graph.module("h", function(a) return a * -1 end), empty) --> mul: -1 does not fit into u8
outcome(function(a) return a * -1 end, empty) --> mul: -1 does not fit into u8
outcome(graph.module("h", function(a) return op.cond(a:sum():gt(99), function() return a + 300 end, function() return a end) end), u) --> add: 300 does not fit into u8

-- What is assigned fits, or is refused with the same words.
for _, h in ipairs {
  function() return op.zeros({}, { dtype = "u8" }):copy_(op.ones({ 1 }, { dtype = "f64" })) end,
  function() local t = op.zeros { 2, 3 } t["0"] = op.ones { 2, 2 } return t end,
  function() return op.zeros({ 2, 3 }):copy_(op.ones { 4, 2, 3 }) end,
} do
  outcome(graph.module("h", h)) == outcome(h) and outcome(h):match "does not fit into" --> does not fit into
end
