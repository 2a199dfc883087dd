-- Functions that every template has.

local values = require "tessera.hf.jinja.values"
local print_ = require "tessera.hf.jinja.print"
local read = require "tessera.hf.jinja.arguments"

local fail, number = values.fail, values.number
local globals = {}
local own = {}

local MOST = 100000 -- items of a range, as Jinja's sandbox has it

local function whole(v)
  values.defined(v)
  local n, float = number(v)
  if not n or float then fail("'%s' object cannot be interpreted as an integer", values.type_name(v)) end
  return n
end

own.range = values.func("range", function(env, args, named)
  if #named > 0 then fail "range() takes no keyword arguments" end
  if args.n < 1 or args.n > 3 then fail("range expected %s, got %d", args.n < 1 and "at least 1 argument" or "at most 3 arguments", args.n) end
  local start, stop, step = 0, whole(args[1]), 1
  if args.n > 1 then start, stop = stop, whole(args[2]) end
  if args.n > 2 then step = whole(args[3]) end
  if step == 0 then fail "range() arg 3 must not be zero" end
  local n = math.max(0, math.ceil((stop - start) / step))
  if n > MOST then fail("Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).", MOST) end
  env:spend(n)
  local out = { start = start, stop = stop, step = step, n = n }
  for i = 1, n do out[i] = start + (i - 1) * step end
  return values.list(out, "range")
end)

-- A dictionary of what dict() takes: another one, or pairs, and names.
local function dictionary(env, args, named)
  local d = values.dict()
  if args.n > 1 then fail("dict expected at most 1 argument, got %d", args.n) end
  if args.n == 1 then
    local from = values.defined(args[1])
    if type(from) == "table" and from.kind == "namespace" then from = from.dict end
    if type(from) == "table" and from.kind == "dict" then
      env:spend(from.n)
      for i = 1, from.n do values.set(d, from.keys[i], values.get(from, from.keys[i])) end
    else
      local list = values.items(from, env)
      for i = 1, list.n do
        local pair = values.items(list[i], env)
        if pair.n ~= 2 then fail("dictionary update sequence element #%d has length %d; 2 is required", i - 1, pair.n) end
        values.set(d, pair[1], pair[2])
      end
    end
  end
  for _, p in ipairs(named) do values.set(d, p[1], p[2]) end
  return d
end

own.dict = { kind = "dict_class", call = dictionary }

function globals.check_attribute(name)
  if type(name) == "string" and name:sub(1, 1) == "_" then fail("namespace attribute '%s' begins with '_'", name) end
end

own.namespace = { kind = "function", name = "namespace", call = function(env, args, named)
  local d = dictionary(env, args, named)
  for i = 1, d.n do globals.check_attribute(d.keys[i]) end
  return { kind = "namespace", dict = d }
end }

own.raise_exception = values.func("raise_exception", function(_, args, named)
  local message = read("raise_exception", args, named, { "message" }, 1)
  error({ jinja = true, raised = true, message = print_.str(message) }, 0)
end)

own.strftime_now = values.func("strftime_now", function(env, args, named)
  local form = read("strftime_now", args, named, { "format" }, 1)
  if type(form) ~= "string" then fail("strftime() argument 1 must be str, not %s", values.type_name(form)) end
  return require("tessera.hf.jinja.format").time(env, form)
end)

own.cycler = values.func("cycler", function(_, args)
  if args.n == 0 then fail "at least one item has to be provided" end
  args.kind, args.at = "cycler", 1
  return args
end)

own.joiner = values.func("joiner", function(_, args, named)
  local sep, used = read("joiner", args, named, { "sep" }), false
  if sep == nil then sep = ", " end
  return values.func("joiner", function()
    if used then return sep end
    used = true
    return ""
  end)
end)

own.lipsum = values.func("lipsum", function() fail "lipsum() gives random text, which is not made here" end)

return setmetatable(globals, { __index = own })
