-- Steps of programs over the values so far: expressions, writes, draws. Each is tried by the writer;
-- what
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

-- ---- texts with holes
local hole = {}
function hole.x(_, x) return x end
function hole.y(W, x) return partner(W, x) end
function hole.a(W, x) -- an axis
  local n = W:of(x).ndim
  return W.R:between(-n, math.max(n - 1, 0))
end
function hole.n(W) return W.R(3) end
function hole.m(W) return W.R(3) - 1 end
function hole.i(W) return W.R:between(-3, 3) end
function hole.c(W) return number(W) end
function hole.d(W) return words.dtype(W.R) end
function hole.s(W, x) return words.list(W:of(x).shape) end
function hole.S(W, x) return words.list(W.R:shuffle { unpack(W:of(x).shape) }) end -- in another order
function hole.p(W, x) -- a permutation
  local axes = {}
  for i = 1, W:of(x).ndim do axes[i] = i - 1 end
  return words.list(W.R:shuffle(axes))
end
function hole.v(W, x) return words.slice(W.R, W:of(x).shape) end

--- The text with $x, $y and so on filled in.
local function fill(W, text, x)
  return (text:gsub("%$(%a)", function(name) return tostring(hole[name](W, x)) end))
end
local function one_of(list)
  return function(W, x) return fill(W, W.R:pick(list), x) end
end

-- ---- expressions
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
  return ("%s:%s(%s)"):format(x, o.name, words.options(W.R, o, W:of(x)) or "")
end
expression.negate = one_of { "-$x" }
function expression.binary(W, x)
  local o, y = W.R:pick(pointwise[2]), partner(W, x)
  if W.gradient and o.name == "pow" then o = W.R:pick(pointwise[2]) end
  if W.R:chance(0.2) then y = number(W) end
  -- The angle of what is infinitely far has a slope that is 0 / 0.
  if W.gradient and o.name == "atan2" and y:find "1/0" then y = "2" end
  if W.R:chance(0.1) then x, y = y, x end
  return ("op.%s(%s, %s)"):format(o.name, x, y)
end
function expression.ternary(W, x)
  local o = W.R:pick(pointwise[3])
  local y, z = partner(W, x), W.R:chance(0.3) and number(W) or partner(W, x)
  if o.name ~= "where" then return ("op.%s(%s, %s, %s)"):format(o.name, x, y, z) end
  local test = W.R:pick { "gt(0)", "ne(0.5)", "isnan()", "le(1)", "ne(0)" }
  return ("op.where(%s:%s, %s, %s)"):format(x, test, y, z)
end
function expression.reduce(W, x)
  local o = W.R:pick(reduce)
  return ("%s:%s(%s)"):format(x, o.name, words.options(W.R, o, W:of(x), 0.6) or "")
end
expression.slice = one_of { '$x["$v"]' }
expression.cast = one_of { '$x:cast("$d")' }
expression.fill = one_of { "op.full_like($x, $c)", "op.zeros_like($x)", "op.ones_like($x)",
  "-op.zeros_like($x)",
  'op.full($s, $c, {dtype = "$d"})', "op.arange($c)", 'op.full_like($x, $c, {dtype = "$d"})' }
expression.view = one_of { "$x:T()", "$x:transpose($a, $a)", "$x:reshape(-1)", "$x:permute($p)",
  "$x:flip()",
  "$x:flip($a)", "$x:unsqueeze($a)", "$x:squeeze()", "$x:unsqueeze(0):expand($n, unpack($x.shape))",
  "$x:unfold($a, $n, $n)", "$x:select($a, $i)", "$x:narrow($a, $m, $m)", "$x:reshape($S)",
    "$x:flatten($a, $a)",
  "$x:contiguous()", "$x:real()", "(op.chunk($x, $n, {axis = $a}))",
    "select(2, op.split($x, $n, {axis = $a}))" }
local moves = { "op.concat({$x, $y}, {axis = $a})", "op.stack({$x, $y}, {axis = $a})",
  "op.concat({$x, $x}, {axis = $a})", "$x:roll($i, $a)", "$x:pad{pads = {$m, $m}, value = $c}",
    "$x:tile{$n, $n}",
  "$x:repeat_interleave($n, $a)", "$x:masked_fill($y:gt(0), {value = $c})",
    "$x:masked_fill($y:eq(0), {value = $c})",
  "$x:index_select(op.arange($n), {axis = $a})", "($x:sort{axis = $a})", "($x:topk($n, {axis = $a}))",
    "$x:clone()",
  "op.barrier($x, $y)", "op.softmax($x, {axis = $a})", "op.layernorm($x)", "op.matmul($x, $x:T())",
  "op.matmul($x, $y)", "$x:cumsum{axis = $a}", "op.tril($x)", 'op.einsum("ii->", $x)',
    'op.einsum("ii->i", $x)',
  'op.einsum("ij->ji", $x)', 'op.einsum("ij->j", $x)', "op.attention($x, $x, $y)",
    "op.attention($x, $x, $x)" }
expression.move = one_of(moves)
expression.draw = one_of { "rng.uniform($s)", "rng.normal($s)", "rng.bernoulli($s, {p = 0.4})",
  "rng.randint($s, -2, 3)", "op.dropout($x, 0.3)", "rng.permutation($n)", "op.categorical($x)" }

-- Rows whose derivative differences say nothing of: no gradient flows, an input has to be a result of
-- others, or one half of a matrix is read for both.
local apart = { stop_gradient = true, gamma = true, beta = true, attention_grad = true, eigh = true, cholesky = true }
function M.differentiable(row) return row.adjoint ~= "none" and not apart[row.name] end

--- A row of the table, with values in place of some of its inputs.
function expression.row(W)
  local R = W.R
  local row = calls.row(R)
  if W.gradient and not M.differentiable(row) then return "nil" end
  local c = calls.call(R, row, R:chance(0.7), W.gradient)
  local given, first = {}, {}
  for i, x in ipairs(c.inputs) do
    local shape = words.list(x.shape)
    local function fits(t)
      return words.list(t.shape) == shape and not x.index and (not W.gradient or t.dtype == "f64")
    end
    given[i] = R:chance(0.35) and first[shape] or W:pick(fits) or calls.data(R, x,
      W.gradient and "unit" or nil)
    if not x.index and given[i]:match "^%w+$" then first[shape] = first[shape] or given[i] end
  end
  return "(" .. c.text:format(unpack(given)) .. ")"
end
--- What a rewriting rule looks for.
function expression.rule(W, x)
  return patterns.rule(W.R, function() return W.R:chance(0.6) and x or partner(W, x) end, function()
    return W.R:chance(0.5) and "(" .. number(W) .. ")" or fill(W, "op.full_like($x, $c)", x)
  end)
end
function expression.layer(W, x)
  return "(" .. patterns.layer(W.R, function() return W.R:chance(0.5) and x or partner(W, x) end) .. ")"
end

-- What is no operator at all: Lua's own messages must not tell how values are kept.
local misuse = one_of { "$x()", "$x < 1", "$x <= $x", "$x.foo", "$x:nosuch()", '$x .. "a"',
  "math.floor($x)",
  "table.concat{$x}", "pairs($x)", "ipairs($x)", '("%d"):format($x)', "math.max($x, 1)", "$x + {}",
    '$x * "a"',
  "$x[{}]", "$x[true]", "rawget($x, 1)", "setmetatable($x, {})", "op.nosuch($x)", "$x[99]", "$x + nil",
  "unpack($x)", "next($x)", "string.rep($x, 2)", "select($x, 1)", "tostring($x == $x)", "-$x % nil",
  "op.tanh($x, {nosuch = 1})", "tonumber($x)" }

local usual = { infix = 12, number = 10, unary = 9, negate = 2, binary = 7, ternary = 4, reduce = 7,
  slice = 7,
  cast = 5, fill = 4, view = 8, move = 9, draw = 3, row = 9, rule = 4, layer = 3 }

--- A new value by one of the expressions (weights: of their names); its name. Errors are kept as such,
--- now
--- and then.
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
function M.misuse(W) W:line('fails("%s", function() return (%s) end)', W:fresh "m", misuse(W,
  W:pick())) end
M.expression, M.fill = expression, fill

-- ---- writes
local write = {
  row = one_of { "$x:add_($y)", "$x:sub_($y)", "$x:mul_($c)", "$x:add_($c)", "$x:maximum_($y)",
    "$x:minimum_($c)",
    "$x:div_($c)", "$x:mul_($y)" },
  unary = one_of { "$x:neg_()", "$x:abs_()", "$x:relu_()", "$x:square_()", "$x:floor_()", "$x:sign_()",
    "$x:conj_()", "$x:tanh_()" },
  slice = one_of { '$x["$v"] = $c', '$x["$v"] = $y["$v"]', '$x["$v"] = $y' },
  index = one_of { "$x[$m] = $c", "$x[$m] = $y" },
  view = one_of { '$x["$v"]:add_($c)', '$x["$v"]:mul_($c)', '$x["$v"]:copy_($c)', '$x["$v"]:sub_($y)' },
  mask = one_of { "$x[$x:gt(0)] = $c", "$x[$y:lt(0)] = $c", "$x[$x:ne(0)] = $c",
    "$x[$x:isnan()] = $c" },
  copy = one_of { "$x:copy_($c)", "$x:copy_($y)" },
}
function write.part(W, x)
  local y = W:value(fill(W, '$x["$v"]', x), W:fresh "v")
  return fill(W, W.R:pick { "$x:add_($c)", "$x:mul_($y)", "$x:sub_($y)" }, y or x)
end
local writes = { row = 5, unary = 2, slice = 4, index = 2, view = 3, mask = 1, copy = 2, part = 3 }

--- A write to a value, or into a part of it.
function M.write(W)
  for _ = 1, 5 do
    local x = W:pick(function(t) return t.numel > 0 and t.dtype ~= "mxfp4" end)
    if not x then return end
    local text = write[W.R:weighed(writes)](W, x)
    if W:statement(text) then return true end
    if W.errors and W.R:chance(W.errors) then W:line('fails("%s", function() %s end)', W:fresh "e",
      text) end
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
