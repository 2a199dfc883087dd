-- What stands behind `is`: each of (env, value, arguments, named ones).

local values = require "tessera.hf.jinja.values"
local operators = require "tessera.hf.jinja.operators"
local strings = require "tessera.hf.jinja.strings"

local tests = {}
local kind, number, defined, fail = values.kind, values.number, values.defined, values.fail

local function whole(v)
  defined(v)
  local n = number(v)
  if not n then fail("not all arguments converted during string formatting") end
  return n
end

function tests.defined(_, v) return kind(v) ~= "undefined" end
function tests.undefined(_, v) return kind(v) == "undefined" end
function tests.none(_, v) return v == values.NONE end
function tests.boolean(_, v) return type(v) == "boolean" end
tests["true"] = function(_, v) return v == true end
tests["false"] = function(_, v) return v == false end
function tests.integer(_, v) return type(v) == "number" end
function tests.float(_, v) return kind(v) == "float" end
function tests.number(_, v) return number(v) ~= nil end
function tests.string(_, v) return type(v) == "string" end
function tests.mapping(_, v) return kind(v) == "dict" end
local SIZED = { str = true, list = true, tuple = true, dict = true, range = true, undefined = true }
function tests.sequence(_, v) return SIZED[kind(v)] == true end
function tests.iterable(_, v) return values.SEQUENCE[kind(v)] == true or SIZED[kind(v)] == true or kind(v) == "loop" end
local CALLED = { ["function"] = true, method = true, macro = true, dict_class = true, undefined = true }
function tests.callable(_, v) return CALLED[kind(v)] == true or (kind(v) == "loop" and v.call ~= nil) end
function tests.odd(_, v) return whole(v) % 2 == 1 end
function tests.even(_, v) return whole(v) % 2 == 0 end
function tests.divisibleby(_, v, args)
  local by = whole(args[1])
  if by == 0 then fail "integer modulo by zero" end
  return whole(v) % by == 0
end

-- What a text is, of letters that have cases.
local function text_of(v) return operators.str(v) end
function tests.lower(_, v)
  local s = text_of(v)
  return strings.lower(s) == s and strings.upper(s) ~= s
end
function tests.upper(_, v)
  local s = text_of(v)
  return strings.upper(s) == s and strings.lower(s) ~= s
end
function tests.escaped() return false end
function tests.sameas(_, v, args)
  local w = args[1]
  return v == w or (kind(v) == "undefined" and kind(w) == "undefined" and v == w)
end
function tests.filter(_, v) return type(v) == "string" and require("tessera.hf.jinja.filters")[v] ~= nil end
function tests.test(_, v) return type(v) == "string" and tests[v] ~= nil end
tests["in"] = function(env, v, args) return operators.contains(env, v, args[1] == nil and fail "test_in() missing 1 required positional argument: 'seq'" or args[1]) end

for name, op in pairs { eq = "==", equalto = "==", ["=="] = "==", ne = "!=", ["!="] = "!=", lt = "<", lessthan = "<", ["<"] = "<",
  gt = ">", greaterthan = ">", [">"] = ">", le = "<=", ["<="] = "<=", ge = ">=", [">="] = ">=" } do
  tests[name] = function(env, v, args)
    if args.n ~= 1 then fail("%s expected 2 arguments, got %d", name, args.n + 1) end
    return operators.compare(env, op, v, args[1])
  end
end

return tests
