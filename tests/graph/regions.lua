-- Control operators do the same eagerly and captured: what their functions may change in place,
-- which random numbers they draw, that results are tensors of their own, and loops without a round.
local tessera = require "tessera"
local core = require "tessera.core"
local op, graph, rng, jit = tessera.op, tessera.graph, tessera.rng, tessera.jit

local function text(v)
  if core.is_tensor(v) then return core.type_text(v) .. v:hash() end
  if type(v) ~= "table" then return (tostring(v):gsub("^[^\n]-:%d+: ", "")) end
  local parts = {}
  for i, x in ipairs(v) do parts[i] = text(x) end
  return "{" .. table.concat(parts, " ") .. "}"
end

-- f's outcome, its arguments and the generator behind it: eagerly, captured, and hot.
local function outcomes(f, ...)
  local given, out = { ... }, {}
  local captured = graph.module("f", f)
  for way = 1, 3 do
    local args = {}
    for i, x in ipairs(given) do args[i] = x:clone() end
    core.seed(17)
    if way == 3 then
      for _ = 1, 20 do pcall(captured, unpack(args)) end
      jit.wait()
      for i, x in ipairs(given) do args[i] = x:clone() end
      core.seed(17)
    end
    local r = { pcall(way == 1 and f or captured, unpack(args)) }
    if r[1] then r[#r + 1] = rng.normal { 3 } end
    r[#r + 1] = args
    out[way] = text(r)
  end
  return out
end
local function same(f, ...)
  local out = outcomes(f, ...)
  if out[1] == out[2] and out[1] == out[3] then return true end
  return table.concat(out, "\n")
end
local function refused(f, ...)
  local out = outcomes(f, ...)
  for way = 1, 3 do
    if not out[way]:find "its function changes a tensor from outside in place" or out[way]:sub(-#text { ... } - 1, -2) ~= text { ... } then
      return table.concat(out, "\n")
    end
  end
  return true
end

local x, s = op.normal({ 3, 4 }, { seed = 1 }), op.normal({ 4 }, { seed = 2 })
local z = op.zeros { 4 }
local yes = function(t) return t:sum():gt(-1e9) end

-- ---- changes
refused(function(u, c0) return op.scan(function(c, v) c:add_(v) return c, c * 2 end, c0, u) end, x, s) --> true
refused(function(u, c0) return op.scan(function(c, v) c:add_(v) return c, c * 2 end, c0 * 2, u) end, x, s) --> true
refused(function(u, c0) return op.scan(function(c, v) v:mul_(2) return c + v, v end, c0, u) end, x, s) --> true
refused(function(u, c0) return op.scan(function(c, v) c0:add_(v) return c + v, v end, c0 * 1, u) end, x, s) --> true
refused(function(u, c0) return op.scan(function(c, v) z[0] = 1 return c + v, v end, c0 * 1, u) end, x, s) --> true
refused(function(u, c0) return op.scan(function(c, v) c["0:2"] = 1 return c + v, v end, c0 * 1, u) end, x, s) --> true
refused(function(u) return op.map(function(v) v:add_(1) return v end, u) end, x) --> true
refused(function(u, t) return op.cond(yes(u), function() t:add_(1) return t end, function() return t * 2 end) end, x, s) --> true
refused(function(u, t) return op.cond(yes(u), function(v) v:copy_(1) return v end, function(v) return v * 2 end, t * 2) end, x, s) --> true
refused(function(t) return op.while_loop(function(v) return v:sum():lt(10) end, function(v) v:add_(1) return v end, t) end, s) --> true
refused(function(t) return op.fixed_point(function(v) t:add_(1) return v * 0.5 end, t * 1) end, s) --> true
refused(function(t) return op.recursive(function(self, v) v:mul_(2) return op.cond(yes(v), function() return v end, function() return self(v + 1) end) end)(t) end, s) --> true
refused(function(t) return graph.checkpoint(function(v) v:mul_(2) return v end)(t) end, s) --> true
refused(function(t) return graph.checkpoint(function(v) z:add_(v) return v end)(t) end, s) --> true
local writer = op.custom("writer", { forward = function(v) v:mul_(2) return v end })
refused(function(t) return writer(t) end, s) --> true
z --> [0. 0. 0. 0.]
--> f32[4]
-- What a function makes itself it may change; after an error the session is as before.
same(function(u, c0) return op.scan(function(c, v) local d = c * 1 d:add_(v) return d, d * 2 end, c0, u) end, x, s) --> true
z:add_(1):sum():item() --> 4
-- A captured function that changes what it captured is a change as well.
local count = op.zeros { 1 }
local counting = graph.module("counting", function(v) count:add_(1) return v * 2 end)
op.cond(yes(x), function(v) return counting(v) end, function(v) return v end, x) --! cond: its function changes a tensor from outside in place
count:item() --> 0

-- In loops whose calls are put off.
local function hot(change)
  local a, c = op.normal({ 4 }, { seed = 5 }), op.zeros { 4 }
  local said
  for i = 1, 3000 do
    a = (a * 0.9):tanh() + 0.1
    local b = a * 2
    if i % 1000 == 0 then
      local ok, why = pcall(op.cond, yes(a), function(v) change(a, b, v) return v * 2 end, function(v) return v end, b)
      said = (said or "") .. tostring(why):gsub("^[^\n]-:%d+: ", ""):gsub("\n.*", "") .. ";"
    end
  end
  return said
end
local thrice = ("cond: its function changes a tensor from outside in place;"):rep(3)
hot(function(a) a:add_(1) end) == thrice --> true
hot(function(_, b) b:add_(1) end) == thrice --> true
hot(function(_, _, v) v:add_(1) end) == thrice --> true
-- Whether its call was put off or not: what this round made may be changed, what the one before made may not.
do
  jit.traces(true)
  local function written(pick)
    local said
    for i = 1, 40 do
      local before
      local ok, why = pcall(op.scan, function(c, v)
        local a = c * 0.5 + v
        local b = a * 2
        if i == 40 and before then pick(a, b, before):add_(1) end
        before = b
        return a, b
      end, s, x)
      said = ok or why:find "its function changes a tensor from outside in place" ~= nil and "refused"
    end
    return said
  end
  written(function(a) return a end) --> true
  written(function(_, b) return b end) --> true
  written(function(_, b) return b["1:3"] end) --> true
  written(function(_, _, before) return before end) --> refused
  written(function(_, _, before) return before["1:3"] end) --> refused
  jit.traces(false)
end
-- A recursion's function cannot be called from outside, as in a captured function.
local own_call
op.recursive(function(self, v) own_call = self return v end)(s):hash() == s:hash() --> true
own_call(s) --! op.recursive: the inner call stands outside of its function

-- ---- results
same(function(u, t) local r = op.cond(yes(u), function(v) return v end, function(v) return v end, t) r:add_(1) return r, t end, x, s) --> true
same(function(u, t) local a, b, c = op.cond(yes(u), function(v) return v, v, u end, function(v) return v, v, u end, t) a:add_(1) return a, b, c, t, u end, x, s) --> true
same(function(t) local a = op.while_loop(function(v) return v:sum():gt(1e9) end, function(v) return v end, t) a:add_(1) return a, t end, s) --> true
same(function(u, t) local c, y = op.scan(function(_, v) return v, v end, t, u) c:add_(1) return c, y, u, t end, x, s) --> true

-- ---- random numbers
local n = function() return rng.normal { 4 } end
same(function(u) local a = n() return a, op.cond(yes(u), function() return n() + n() end, function() return rng.uniform { 4 } end), n() end, x) --> true
same(function(u) local a = n() return a, op.cond(yes(-u):logical_not(), function() return n() + n() end, function() return rng.uniform { 4 } end), n() end, x) --> true
same(function(u) return op.cond(yes(u), function() return n() + op.cond(yes(u), function() return n() end, function() return n() + n() end) * n() end, n), n() end, x) --> true
same(function(u, t) local c, y = op.scan(function(c, v) return c + op.dropout(v, 0.5) * n(), rng.uniform { 2 } end, t, u) return c, y, n() end, x, s) --> true
same(function(u, t) local c, y = op.scan(function(c, v) return c + op.dropout(v, 0.5) * n(), n() end, t, u, { reverse = true }) return c, y, n() end, x, s) --> true
same(function(u, t) return op.scan(function(c) local d, w = op.scan(function(a) return a + n(), a end, c, u) return d * n(), w end, t, u) end, x, s) --> true
same(function(u, t) return op.scan(function(c) return op.cond(c:sum():gt(0), n, function() return n() - n() end) * n(), n() end, t, u) end, x, s) --> true
same(function(u) return op.map(function(v) return op.dropout(v, 0.3) + n() end, u), n() end, x) --> true
same(function(t) return op.while_loop(function(v) return (v:sum() + rng.normal {}):lt(10) end, function(v) return v + rng.uniform { 4 } end, t), n() end, s) --> true
same(function(t) return op.while_loop(function(v) return (v:sum() + rng.normal {}):lt(-1e9) end, function(v) return v + rng.uniform { 4 } end, t), n() end, s) --> true
same(function(t) return op.fixed_point(function(v) return v * 0.5 + rng.uniform { 4 } end, t), n() end, s) --> true
local function two_sites(t, k)
  return op.recursive(function(self, v, m)
    local noise = n()
    return op.cond(m:le(0), function(a) return a * n() end, function(a, b)
      return self(a + n() * 3, b - 1) * n() + self(a, b - 2)
    end, v, m) + n() * noise
  end)(t, k), n()
end
same(two_sites, s, tessera.tensor(5)) --> true
local function in_a_scan(t, k)
  return op.recursive(function(self, v, m)
    return op.cond(m:le(0), function(a) return a * n() end, function(a, b)
      return (op.scan(function(c) return self(c, b - 1) + n() end, a, nil, { length = 2 }))
    end, v, m) + n()
  end)(t, k), n()
end
same(in_a_scan, s, tessera.tensor(2)) --> true
same(function(t) return graph.checkpoint(function(v) return op.dropout(v, 0.5) + n() end)(t), n() end, s) --> true
-- checkpoint draws what the function alone draws.
core.seed(3)
local plain = op.dropout(s, 0.5):hash()
core.seed(3)
graph.checkpoint(function(v) return op.dropout(v, 0.5) end)(s):hash() == plain --> true
-- Operators one after the other draw independently of each other.
core.seed(3)
local a = op.cond(yes(x), function() return n() + n() * 0, function() end end, n)
local b = op.cond(yes(x), n, n)
(a:eq(b)):any():item() --> false
graph.module("seeds", function(v) rng.seed(3) return v + n() end)(s) --! rng.seed: it cannot be set in a captured function

-- ---- no round
local none = x["0:0"]
same(function(u) return op.map(function(v) return v:sum() * op.ones { 5 } end, u), n() end, none) --> true
same(function(u, t) local c, y = op.scan(function(c, v) return c + v * n(), { c:cast "f64", v:gt(0) } end, t, u) return c, y[1], y[2], n() end, none, s) --> true
same(function(t) return op.scan(function(c) return c * 2, c:cast "f64" end, t, nil, { length = 0 }) end, s) --> true
op.map(function(v) return { v:sum(), v:cast "f64" } end, none)[2] --> [] f64[0,4]
local e, t = none:clone(), s:clone()
e.requires_grad, t.requires_grad = true, true
local c, y = op.scan(function(c, v) return c * v, c + v end, t, e)
local total = c:sum() + y:sum()
total:backward()
t.grad --> [1. 1. 1. 1.]
--> f32[4]
e.grad --> [] f32[0,4]

-- Memory of others is from outside as well, whichever view of it is changed.
local path = os.tmpname() .. ".safetensors"
tessera.save(path, { x = op.ones { 4, 4 } })
local loaded = tessera.load(path).x
op.cond(op.ones {}:gt(0), function() loaded["0"]:mul_(2) return op.ones {} end, function() return op.ones {} end) --! changes a tensor from outside in place
op.map(function(y) loaded:reshape { 16 }:add_(1) return y end, op.ones { 2 }) --! changes a tensor from outside in place
loaded:sum():item() --> 16
op.map(function(y) local own = tessera.load(path).x own["1"]:add_(y) return own:sum() end, op.ones { 2 }) --> [20. 20.]
--> f32[2]
os.remove(path)

-- As many rounds as there are.
for _, n in ipairs { 1024, 1025, 4100 } do
  local long = op.arange(n, { dtype = "f32" })
  same(function(x) return op.map(function(y) return y * 2 end, x) end, long) --> true
  same(function(x) return op.scan(function(c, y) return c + y, c * y end, op.zeros {}, x) end, long) --> true
end

-- Draws of an eager recursion are where it says in hot loops, too.
do
  jit.traces(true)
  local function step(self, a, n)
    a = a * 0.5
    a = a + rng.uniform(a.shape)
    return op.cond(n:lt(3), function(b, k) return self(b, k + 1) end, function(b) return b end, a, n)
  end
  local first, wrong
  for i = 1, 60 do
    rng.seed(101)
    local v = (op.recursive(step)(op.ones({ 1 }, { dtype = "f64" }), tessera.tensor(0)) * 1.5):item()
    first = first or v
    if v ~= first then wrong = wrong or i end
  end
  wrong --> nil
  jit.traces(false)
end
