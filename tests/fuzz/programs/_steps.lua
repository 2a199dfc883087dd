-- Steps of programs over the values so far: expressions, writes, draws. Each is tried by the writer; what
-- does not run there is left out, or kept as an error that every way has to give.
local core = require "tessera.core"
local words = dofile "tests/fuzz/programs/_words.lua"
local calls = dofile "tests/fuzz/programs/_calls.lua"
local patterns = dofile "tests/fuzz/programs/_patterns.lua"
local M = { words = words, calls = calls }

local pointwise = { {}, {}, {} } -- rows by the number of inputs
local reduce = {}
for _, o in ipairs(core.operators()) do
  local _, n = o.inputs:gsub("%S+", "")
  if o.class == "pointwise" then table.insert(pointwise[n], o) end
  if (o.class == "reduce" or o.class == "scan") and n == 1 then reduce[#reduce + 1] = o end
end

local function number(W) return words.number(W.R, W.loop, W.wild) end
local function arguments(...)
  local t = {}
  for i = 1, select("#", ...) do t[#t + 1] = (select(i, ...)) end -- nothing behind what is nil
  return table.concat(t, ", ")
end
local function shares(a, b) -- whether shapes broadcast
  for i = 1, math.min(a.ndim, b.ndim) do
    local p, q = a.shape[a.ndim + 1 - i], b.shape[b.ndim + 1 - i]
    if p ~= q and p ~= 1 and q ~= 1 then return false end
  end
  return true
end
local function partner(W, x)
  if W.R:chance(0.15) then return x end
  local a = W:of(x)
  return W:pick(function(b) return shares(a, b) end) or x
end

local expression = {}

function expression.infix(W, x)
  local signs = { "+", "-", "*", "/", "+", "-", "*", "%", "^" }
  if W.gradient then signs[9] = "*" end -- by an exponent the power of what is negative has none
  return ("%s %s %s"):format(x, W.R:pick(signs), partner(W, x))
end
function expression.number(W, x)
  local o, c = W.R:pick { "+", "-", "*", "/", "*", "-", "+", "^", "%" }, number(W)
  if W.R:chance(0.25) then return ("(%s) %s %s"):format(c, o, x) end
  return ("%s %s (%s)"):format(x, o, c)
end
function expression.unary(W, x)
  local o = W.R:pick(pointwise[1])
  return ("%s:%s(%s)"):format(x, o.name, arguments(words.options(W.R, o, W:of(x))))
end
function expression.negate(W, x) return "-" .. x end
function expression.binary(W, x)
  local o, y = W.R:pick(pointwise[2]), partner(W, x)
  if W.gradient and o.name == "pow" then o = W.R:pick(pointwise[2]) end
  if W.R:chance(0.2) then y = number(W) end
  if W.R:chance(0.1) then x, y = y, x end
  return ("op.%s(%s, %s)"):format(o.name, x, y)
end
function expression.ternary(W, x)
  local o = W.R:pick(pointwise[3])
  local y, z = partner(W, x), W.R:chance(0.3) and number(W) or partner(W, x)
  if o.name == "where" then return ("op.where(%s:%s(%s), %s, %s)"):format(x, W.R:pick { "gt", "ne", "isnan", "le" }, W.R:pick { "0", "1", "" }, y, z) end
  return ("op.%s(%s, %s, %s)"):format(o.name, x, y, z)
end
function expression.reduce(W, x)
  local o = W.R:pick(reduce)
  return ("%s:%s(%s)"):format(x, o.name, arguments(words.options(W.R, o, W:of(x), 0.6)))
end
function expression.slice(W, x) return ('%s["%s"]'):format(x, words.slice(W.R, W:of(x).shape)) end
function expression.cast(W, x)
  return ('%s:cast("%s")'):format(x, words.dtype(W.R))
end
function expression.fill(W, x)
  return W.R:pick { ("op.full_like(%s, %s)"):format(x, number(W)), ("op.zeros_like(%s)"):format(x), ("op.ones_like(%s)"):format(x), ("-op.zeros_like(%s)"):format(x),
    ('op.full(%s, %s, {dtype = "%s"})'):format(words.list(W:of(x).shape), number(W), words.dtype(W.R)), ("op.arange(%s)"):format(number(W)) }
end
function expression.view(W, x)
  local R, t = W.R, W:of(x)
  local n = t.ndim
  local a, b = R:between(-n, math.max(n - 1, 0)), R:between(-n, math.max(n - 1, 0))
  local some = {}
  for i = 1, n do some[i] = i - 1 end
  return R:pick { ("%s:T()"):format(x), ("%s:transpose(%d, %d)"):format(x, a, b), ("%s:reshape(-1)"):format(x), ("%s:permute(%s)"):format(x, words.list(R:shuffle(some))),
    ("%s:flip()"):format(x), ("%s:flip(%d)"):format(x, a), ("%s:unsqueeze(%d)"):format(x, a), ("%s:squeeze()"):format(x), ("%s:expand{%s}"):format(x, table.concat({ R(3), unpack(t.shape) }, ", ")),
    ("%s:unfold(%d, %d, %d)"):format(x, a, R(3), R(3)), ("%s:select(%d, %d)"):format(x, a, R:between(-2, 1)), ("%s:narrow(%d, %d, %d)"):format(x, a, R(3) - 1, R(3) - 1),
    ("%s:reshape(%s)"):format(x, words.list(R:shuffle { unpack(t.shape) })), ("%s:flatten(%d, %d)"):format(x, a, b), ("%s:contiguous()"):format(x), ("%s:real()"):format(x),
    ("(op.chunk(%s, %d, {axis = %d}))"):format(x, R(3), a), ("select(2, op.split(%s, %d, {axis = %d}))"):format(x, R(3), a) }
end
function expression.move(W, x)
  local R = W.R
  local n = W:of(x).ndim
  local a = R:between(-n, math.max(n - 1, 0))
  local y = R:chance(0.5) and x or partner(W, x)
  local pass = W.gradient and "clone" or "stop_gradient"
  return R:pick { ("op.concat({%s, %s}, {axis = %d})"):format(x, y, a), ("op.stack({%s, %s}, {axis = %d})"):format(x, y, a), ("%s:roll(%d, %d)"):format(x, R:between(-3, 3), a),
    ("%s:pad{pads = {%d, %d}, value = %s}"):format(x, R(3) - 1, R(3) - 1, number(W)), ("%s:tile{%d, %d}"):format(x, R(3), R(2)), ("%s:repeat_interleave(%d, %d)"):format(x, R(3), a),
    ("%s:masked_fill(%s:%s(0), {value = %s})"):format(x, y, R:pick { "gt", "lt", "eq" }, number(W)), ("%s:index_select(op.arange(%d), {axis = %d})"):format(x, R(3) - 1, a),
    ("(%s:sort{axis = %d})"):format(x, a), ("(%s:topk(%d, {axis = %d}))"):format(x, R(3), a), ("%s:clone()"):format(x), ("op.%s(%s)"):format(pass, x), ("op.barrier(%s, %s)"):format(x, y),
    ("op.softmax(%s, {axis = %d})"):format(x, a), ("op.layernorm(%s)"):format(x), ("op.matmul(%s, %s:T())"):format(x, x), ("op.matmul(%s, %s)"):format(x, y), ("%s:cumsum{axis = %d}"):format(x, a),
    ("op.tril(%s)"):format(x), ("op.einsum(\"%s\", %s)"):format(R:pick { "ii->", "ii->i", "ij->ji", "i->", "ij->j" }, x), ("op.attention(%s, %s, %s)"):format(x, x, y) }
end
function expression.draw(W, x)
  local s = words.list(W:of(x).shape)
  return W.R:pick { ("rng.uniform(%s)"):format(s), ("rng.normal(%s)"):format(s), ("rng.bernoulli(%s, {p = 0.4})"):format(s), ("rng.randint(%s, -2, 3)"):format(s), ("op.dropout(%s, 0.3)"):format(x),
    ("rng.permutation(%d)"):format(W.R(5)), ("op.categorical(%s)"):format(x) }
end
--- A row of the table, with values in place of some of its inputs.
function expression.row(W)
  local R = W.R
  local row = calls.row(R)
  if W.gradient and (row.name == "stop_gradient" or row.name == "attention_grad" or row.adjoint == "none") then return "nil" end
  local c = calls.call(R, row, R:chance(0.7), W.gradient)
  local given, first = {}, {}
  for i, x in ipairs(c.inputs) do
    local shape = words.list(x.shape)
    local function fits(t)
      return #t.shape == #x.shape and words.list(t.shape) == shape and not x.index and (not W.gradient or t.dtype == "f64")
    end
    given[i] = (first[shape] and R:chance(0.35) and first[shape]) or W:pick(fits) or calls.data(R, x, W.gradient and "unit" or nil)
    if not x.index and given[i]:match "^%w+$" then first[shape] = first[shape] or given[i] end
  end
  return "(" .. c.text:format(unpack(given)) .. ")"
end

function expression.rule(W, x)
  return patterns.rule(W.R, function() return W.R:chance(0.6) and x or partner(W, x) end, function()
    return W.R:chance(0.5) and "(" .. number(W) .. ")" or ("op.full_like(%s, %s)"):format(x, number(W))
  end)
end
function expression.layer(W, x) return "(" .. patterns.layer(W.R, function() return W.R:chance(0.5) and x or partner(W, x) end) .. ")" end
-- What is no operator at all: Lua's own messages must not tell how values are kept.
function expression.misuse(W, x)
  return W.R:pick { x .. "()", x .. " < 1", x .. " <= " .. x, x .. ".foo", x .. ":nosuch()", x .. ' .. "a"', "math.floor(" .. x .. ")", "table.concat{" .. x .. "}", "pairs(" .. x .. ")", "ipairs(" .. x .. ")",
    '("%d"):format(' .. x .. ")", "math.max(" .. x .. ", 1)", x .. " + {}", x .. ' * "a"', x .. "[{}]", x .. "[true]", "rawget(" .. x .. ", 1)", "setmetatable(" .. x .. ", {})", "op.nosuch(" .. x .. ")", x .. "[99]", x .. " + nil",
    "unpack(" .. x .. ")", "next(" .. x .. ")", "string.rep(" .. x .. ", 2)", "select(" .. x .. ", 1)", "tostring(" .. x .. " == " .. x .. ")", "-" .. x .. " % nil", "op.tanh(" .. x .. ", {nosuch = 1})", "tonumber(" .. x .. ")" }
end

local usual = { infix = 12, number = 10, unary = 9, negate = 2, binary = 7, ternary = 4, reduce = 7, slice = 7, cast = 5, fill = 4, view = 8, move = 9, draw = 3, row = 9, rule = 4, layer = 3 }

--- A new value by one of the expressions (weights: of their names); its name. Errors are kept as such, now and then.
function M.value(W, weights)
  for _ = 1, 6 do
    local x = W:pick()
    local text = expression[W.R:weighed(weights or usual)](W, x)
    local name, why = W:value(text)
    if name then return name end
    if why ~= "too large" and not W.gradient and W.errors and W.R:chance(W.errors) then
      W:line('fails("%s", function() return (%s) end)', W:fresh "e", text)
    end
  end
end
--- A line that fails, or not, for reasons that are not an operator's.
function M.misuse(W) W:line('fails("%s", function() return (%s) end)', W:fresh "m", expression.misuse(W, W:pick())) end
M.expression, M.usual = expression, usual

-- ---- writes
local function target(W) return W:pick(function(t) return t.numel > 0 and t.dtype ~= "mxfp4" end) end

local write = {}
function write.row(W, x)
  local o = W.R:pick { "add", "sub", "mul", "add", "mul", "maximum", "minimum", "div" }
  return ("%s:%s_(%s)"):format(x, o, W.R:chance(0.4) and number(W) or partner(W, x))
end
function write.unary(W, x) return ("%s:%s_()"):format(x, W.R:pick { "neg", "abs", "relu", "square", "floor", "sign", "conj", "tanh" }) end
function write.slice(W, x)
  local s = words.slice(W.R, W:of(x).shape)
  if W.R:chance(0.5) then return ('%s["%s"] = %s'):format(x, s, number(W)) end
  return ('%s["%s"] = %s["%s"]'):format(x, s, partner(W, x), words.slice(W.R, W:of(x).shape))
end
function write.index(W, x) return ("%s[%s] = %s"):format(x, W.R(2) - 1, number(W)) end
function write.view(W, x)
  return ('%s["%s"]:%s_(%s)'):format(x, words.slice(W.R, W:of(x).shape), W.R:pick { "add", "mul", "copy", "sub" }, number(W))
end
function write.mask(W, x) return ("%s[%s:%s(0)] = %s"):format(x, x, W.R:pick { "gt", "lt", "ne" }, number(W)) end
function write.copy(W, x) return ("%s:copy_(%s)"):format(x, W.R:chance(0.3) and number(W) or partner(W, x)) end
function write.part(W, x)
  local y = W:value(('%s["%s"]'):format(x, words.slice(W.R, W:of(x).shape)), W:fresh "v")
  return ("%s:%s_(%s)"):format(y or x, W.R:pick { "add", "mul", "sub" }, W.R:chance(0.5) and number(W) or partner(W, y or x))
end
local writes = { row = 5, unary = 2, slice = 4, index = 2, view = 3, mask = 1, copy = 2, part = 3 }

--- A write to a value, or into a part of it.
function M.write(W)
  for _ = 1, 5 do
    local x = target(W)
    if not x then return end
    local text = write[W.R:weighed(writes)](W, x)
    local fine = W:statement(text)
    if fine then return true end
    if W.errors and W.R:chance(W.errors) and loadstring(text) then
      W:line('fails("%s", function() %s end)', W:fresh "e", text)
    end
  end
end

--- Values of random types to begin with: names.
function M.inputs(W, names, sizes, dtype, kind)
  local main = words.shape(W.R, W.R:pick { 1, 2, 2, 2, 3 }, sizes)
  for _, name in ipairs(names) do
    local shape = { unpack(main) }
    if W.R:chance(0.3) and #shape > 0 then shape[W.R(#shape)] = 1 end
    if W.R:chance(0.2) then table.remove(shape, 1) end
    if W.R:chance(0.1) then shape = words.shape(W.R, nil, sizes) end
    W:value(words.data(W.R, shape, dtype or words.dtype(W.R), kind), name)
  end
end

return M
