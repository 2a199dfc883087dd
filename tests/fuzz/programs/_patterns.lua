-- Expressions that rewriting rules look for: the patterns of ir/rules/rules.def as calls, new ones too, and
-- layers
-- written out by hand.
local core = require "tessera.core"
local M = {}

-- "(add ?x (neg #a))" as a tree: {"add", "?x", {"neg", "#a"}}.
local function parse(text)
  local at = 1
  local function one()
    at = text:find("%S", at) or #text + 1
    if text:sub(at, at) ~= "(" then
      local word
      word, at = text:match("([^%s()]+)()", at)
      return word
    end
    at = at + 1
    local list = {}
    while text:match("^%s*()", at) <= #text and text:sub(text:match("^%s*()", at), text:match("^%s*()",
      at)) ~= ")" do list[#list + 1] = one() end
    at = text:match("^%s*()", at) + 1
    return list
  end
  return one()
end

local patterns
local function load_patterns()
  patterns = {}
  local known = {}
  for _, o in ipairs(core.operators()) do known[o.name] = true end
  local function all_known(t)
    if type(t) == "string" then return t ~= "..." and t ~= "*" end
    if not known[t[1]] then return false end
    for i = 2, #t do
      if not all_known(t[i]) then return false end
    end
    return true
  end
  for line in io.lines "ir/rules/rules.def" do
    local text = line:match "^%u+%(" and line:match '"(%b())"'
    if text then
      local tree = parse(text)
      if type(tree) == "table" and all_known(tree) then patterns[#patterns + 1] = tree end
    end
  end
  assert(#patterns > 40, "ir/rules/rules.def is written otherwise")
end

-- given: texts of ?x, #a, .. so far; value() and number() make more of them.
local function text_of(t, given, value, number)
  if type(t) == "table" then
    local parts = {}
    for i = 2, #t do parts[i - 1] = text_of(t[i], given, value, number) end
    return ("op.%s(%s)"):format(t[1], table.concat(parts, ", "))
  end
  if t:match "^[?%%]" then
    given[t] = given[t] or value()
    return given[t]
  end
  if t:match "^#" then
    given[t] = given[t] or number()
    return given[t]
  end
  return t
end

--- The pattern of some rule over values of the program.
function M.rule(R, value, number)
  if not patterns then load_patterns() end
  return text_of(R:pick(patterns), {}, value, number)
end

local layers = {
  "X:exp() / X:exp():sum{axis = -1, keepdims = true}",
  "(X - X:max{axis = -1, keepdims = true}):exp() / (X - X:max{axis = -1, keepdims = true}):exp():sum{axis = -1, keepdims = true}",
  "X - X:exp():sum{axis = -1, keepdims = true}:log()",
  "X:exp():sum{axis = -1}:log()",
  "(X - X:mean{axis = -1, keepdims = true}) / (X:var{axis = -1, keepdims = true} + 1e-5):sqrt()",
  "(X - X:mean{axis = -1, keepdims = true}) * (X:square():mean{axis = -1, keepdims = true} - X:mean{axis = -1, keepdims = true}:square() + 1e-5):rsqrt()",
  "X / (X:square():mean{axis = -1, keepdims = true} + 1e-5):sqrt() * Y",
  "op.matmul(op.softmax(op.matmul(X, Y:T()) * 0.5), Y)",
  "op.matmul(op.softmax(op.where(op.ones({X.shape[X.ndim - 1], X.shape[X.ndim - 1]}, {dtype = 'bool'}):tril(), op.matmul(X, X:T()), -1 / 0)), X)",
  "op.softmax(op.where(X:gt(Y), -1 / 0, X))",
  "X * 0.5 * (1 + (X * 0.7071067811865476):erf())",
  "X / (1 + (-X):exp())",
  "op.where(X:gt(0), (X:abs() + 0.5):log():exp(), Y)",
  "(X * Y):sum{axis = -1}", "-(op.log_softmax(X) * op.softmax(Y)):sum{axis = -1}:mean()",
  "op.concat({X, Y}, {axis = 0}):sum{axis = 0}", "(X * 2 + Y * 2) - (X - Y) * 2",
    "X:sum{axis = 0} / X.shape[1]",
  "op.irfft(op.rfft(X) * 0.5)", "op.ifft(op.fft(X) * op.fft(Y)):real()",
    "X:unsqueeze(0):expand{3, -1, -1} * Y",
}

--- A layer that is written out.
function M.layer(R, value)
  local x, y = value(), value()
  return (R:pick(layers):gsub("%f[%w]X%f[%W]", x):gsub("%f[%w]Y%f[%W]", y))
end

return M
