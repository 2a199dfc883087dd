-- What goes into control operators and comes back: types, forms, numbers, options. Eagerly and in a
-- captured function the same values, or the same words.
local tessera = require "tessera"
local core, graph, op = tessera.core, tessera.graph, tessera.op

local a, i0, zero = tessera.tensor { 1, 2, 3 }, tessera.tensor(0, { dtype = "i64" }), tessera.tensor(0)
local yes, no = tessera.tensor(true), tessera.tensor(false)

local function shown(v)
  if core.is_tensor(v) then return core.type_text(v) .. " " .. v:hash() end
  if type(v) ~= "table" then return tostring(v) end
  local parts = {}
  for k, x in pairs(v) do parts[#parts + 1] = k .. "=" .. shown(x) end
  table.sort(parts)
  return "{" .. table.concat(parts, ",") .. "}"
end

local function said(f, ...)
  local r = { pcall(f, ...) }
  for i = 2, #r do r[i] = r[1] and shown(r[i]) or tostring(r[i]):gsub("^[^\n]-:%d+: ", "") end
  return r[1], table.concat(r, " ", 2)
end

-- What it says both ways; "fine" where it gives the same.
local function both(f, ...)
  local fine, text = said(f, ...)
  local _, captured = said(graph.module("f", f), ...)
  if text ~= captured then return ("eagerly %s\ncaptured %s"):format(text, captured) end
  return fine and "fine" or text
end

local function id(...) return ... end
local function twice(x) return x * 2 end
local function small(x) return x:sum():lt(30) end

-- ---- conditions
both(function(x) return op.cond(x:sum(), id, twice, x) end, a) --> cond: the condition must be one bool, not f32[]
-->   hint: compare, as in x:gt(0), or reduce with :any() or :all()
both(function(x) return op.cond(x:gt(0), id, twice, x) end, a):match "^[^\n]*" --> cond: the condition must be one bool, not bool[3]
both(function(x) return op.cond(x["0:1"]:gt(0), id, twice, x) end, a) --> fine
both(function(x) return op.cond(true, id, twice, x) end, a) --> fine
both(function(x) return op.cond(false, id, twice, x) end, a) --> fine
both(function(x) return op.cond(1, id, twice, x) end, a):match "^[^\n]*" --> cond: the condition must be one bool, not a number of Lua
both(function(x) return op.cond(nil, id, twice, x) end, a):match "^[^\n]*" --> cond: the condition must be one bool, not a nil of Lua
both(function(x) return op.while_loop(function(v) return v:sum() end, twice, x) end, a):match "^[^\n]*" --> while_loop: the condition must be one bool, not f32[]
both(function(x) return op.while_loop(function() return false end, twice, x) end, a):match "^[^\n]*" --> while_loop: the condition must be one bool, not a boolean of Lua
both(function(x) return op.while_loop(function() end, twice, x) end, a) --> while_loop: the condition returns 0 values, not 1
both(function(x) return op.while_loop(function(v) return small(v), v end, twice, x) end, a) --> while_loop: the condition returns 2 values, not 1

-- ---- what comes back
both(function(x) return op.while_loop(small, twice, x) end, a) --> fine
both(function(x) return op.while_loop(small, function(v) return (v * 2):cast "f64" end, x) end, a) --> while_loop: the body's result 1 is f64[3], it should be f32[3]
-->   hint: cast it or reshape it inside the function
both(function(x) return op.while_loop(small, function(v) return v:sum() end, x, { max = 1 }) end, a):match "^[^\n]*" --> while_loop: the body's result 1 is f32[], it should be f32[3]
both(function(x) return op.while_loop(small, function(v) return v * 2, v end, x) end, a) --> while_loop: the body returns 2 values, not 1
both(function(x) return op.while_loop(small, function(v, w) return v * w end, x, x) end, a) --> while_loop: the body returns 1 values, not 2
both(function(x) return op.while_loop(function(s) return s.i:lt(3) end, function(s) return { i = s.i + 1, x = s.x * 2 } end, { i = i0, x = x }) end, a) --> fine
both(function(x) return op.while_loop(function(s) return s.i:lt(3) end, function(s) return { i = s.i + 1, y = s.x } end, { i = i0, x = x }) end, a) --> while_loop: the body returns values of another form than it gets
both(function(x) return op.scan(function(c, v) return c + v, c * v end, zero, x) end, a) --> fine
both(function(x) return op.scan(function(c, v) return c + v, c * v end, i0, x) end, a):match "^[^\n]*" --> scan: the carry 1 is f32[], it should be i64[]
both(function(x) return op.scan(function(c, v) return (c + v):reshape { 1 }, v end, zero, x) end, a):match "^[^\n]*" --> scan: the carry 1 is f32[1], it should be f32[]
both(function(x) return op.scan(function() end, zero, x) end, a) --> scan: the function returns 0 values, not 1
both(function(x) return op.scan(function(c, v) return { d = c.c }, v end, { c = zero }, x) end, a) --> scan: the function returns values of another form than it gets
both(function(x) return op.fixed_point(function(v) return (v * 0.5):cast "f64" end, x) end, a):match "^[^\n]*" --> fixed_point: the result 1 is f64[3], it should be f32[3]
both(function(x) return op.fixed_point(function(v) return v * 0.5, v end, x) end, a) --> fixed_point: the function returns 2 values, not 1
-- Only eagerly a round can differ from the one before.
local round = 0
op.map(function(v) round = round + 1 return round == 2 and v:cast "f64" or v end, a) --! scan: the result 1 is f64[], it should be f32[]
op.map(function(v) return v:item() > 1 and { v } or v end, a) --! scan: the function's results have another form than in the first round

-- ---- numbers are tensors
both(function(x) return op.while_loop(function(i) return i:lt(3) end, function(i, v) return i + 1, v * 2 end, 0, x) end, a) --> fine
both(function(x) return op.while_loop(function(i) return i:lt(3) end, function(_, v) return 3, v * 2 end, i0, x) end, a) --> fine
both(function(x) return op.while_loop(function(i) return i:lt(3) end, function(_, v) return 3.5, v end, i0, x) end, a):match "^[^\n]*" --> tensor: 3.5 does not fit into i64
both(function(x) return op.scan(function(c, v) return c + 1, v end, 0, x) end, a) --> fine
both(function(x) return op.scan(function(c, v) return { n = c.n + 1 }, { v, 2 } end, { n = 0 }, x) end, a) --> fine
both(function(x) return op.map(function() return 1.5 end, x) end, a) --> fine
op.map(function() return 1.5 end, a) --> [1.5000 1.5000 1.5000]
--> f32[3]
op.map(function(v) return v:item() > 1 and 1.5 or 1 end, a) --! scan: the result 1 is f32[], it should be i64[]
both(function() return op.fixed_point(function(v) return v * 0.5 end, 1.5) end) --> fine
both(function(p) return op.cond(p, function() return 3 end, function() return a:sum() end) + a end, no) --> fine

-- ---- options
both(function(x) return op.while_loop(small, twice, x, { max = "x" }) end, a):match "^[^\n]*" --> while_loop: option 'max' must be a whole number >= 0, not 'x'
both(function(x) return op.while_loop(small, twice, x, { max = 1.5 }) end, a):match "^[^\n]*" --> while_loop: option 'max' must be a whole number >= 0, not 1.5
both(function(x) return op.scan(function(c, v) return c, v end, zero, x, { revers = true }) end, a) --> scan: unknown option 'revers'
-->   hint: did you mean 'reverse'?
both(function() return op.scan(function(c) return c * 2 end, zero, nil, { length = 1.5 }) end) --> scan: option 'length' must be a whole number >= 0, not 1.5
both(function(x) return op.fixed_point(twice, x, { tol = "x" }) end, a):match "^[^\n]*" --> fixed_point: option 'tol' must be a number >= 0, not 'x'
both(function(x) return op.fixed_point(twice, { x }) end, a) --> fixed_point: the start must be a tensor, not a table
op.recursive(id, { max = 0 }) --! recursive: option 'max' must be a whole number >= 1, not 0
