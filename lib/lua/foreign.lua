-- Operators from outside: C functions called through libffi, Lua functions, and functions
-- whose derivative is given. They run at once, become nodes of captured functions, are
-- differentiated by their adjoints.
--
--   local j1 = op.foreign("m", "j1", "f64 (each f64 x)")
--   local j0 = op.foreign("m", "j0", "f64 (each f64 x)", {
--     adjoint = function(x, y, dy) return -j1(x) * dy end })
--   local sorted = op.custom("sorted", { forward = function(x) return x:sort() end })
--   local clip = graph.custom_adjoint(function(x) return x end,
--     function(x, y, dy) return dy:clamp(-1, 1) end)

local core = require "tessera.core"
local Module = require "tessera.module"
local tree = require "tessera.tree"
local op = core.op
local foreign = {}

-- ---- equal calls in a captured function are one node: what is no tensor, as a number
local last_identity = 0

local function identity_of(def, key)
  local id = def.keys[key]
  if id then return id end
  if def.nkeys == 1000 then def.keys, def.nkeys = {}, 0 end
  last_identity = last_identity + 1
  def.keys[key], def.nkeys = last_identity, def.nkeys + 1
  return last_identity
end

local function define(name, def)
  def.name, def.keys, def.nkeys = name, {}, 0
  return def
end

-- Arguments as text, tensors aside; the second result is false if there are only tensors.
local function describe(spec)
  if spec.kind == "tensor" then return "_", false end
  if spec.kind == "value" then
    local v = spec.value
    local form = type(v) == "string" and "%q" or type(v) == "number" and "%.17g"
    return form and form:format(v) or tostring(v), true
  end
  local parts, values = {}, false
  for i, key in ipairs(spec.keys) do
    local text, value = describe(spec[i])
    parts[i] = (type(key) == "string" and key .. " = " or "") .. text
    values = values or value
  end
  return "{" .. table.concat(parts, ", ") .. "}", values
end

local function describe_all(specs)
  local parts, values = {}, false
  for i, spec in ipairs(specs) do
    local text, value = describe(spec)
    parts[i], values = text, values or value
  end
  return table.concat(parts, ", "), values
end

local function flatten_all(name, args, n)
  local list, specs = {}, {}
  for i = 1, n do
    if Module.is_module(args[i]) then
      error(("%s: argument %d is a module: pass its tensors"):format(name, i), 4)
    end
    specs[i] = tree.flatten(args[i], list)
  end
  return list, specs
end

local function unflatten_all(specs, list, into)
  for i, spec in ipairs(specs) do into[i] = tree.unflatten(spec, list) end
  return into, #specs
end

-- ---- adjoints: f(arguments..., results..., gradients...) -> a gradient for each argument
local function spread(spec, value, list, name)
  if spec.kind == "tensor" then
    if type(value) == "number" then value = op.full_like(list.inputs[spec.at], value) end
    list[spec.at] = value or false
  elseif spec.kind == "table" and value then
    if type(value) ~= "table" or core.is_tensor(value) then
      error(("the gradient of a table of tensors is a table, not a %s"):format(
        core.is_tensor(value) and "tensor" or type(value)), 0)
    end
    for i, key in ipairs(spec.keys) do spread(spec[i], value[key], list, name) end
  end
end

-- Whether one of the tensors in an argument is marked.
local function holds(spec, marked)
  if spec.kind == "tensor" then return marked[spec.at] end
  for _, inner in ipairs(spec) do
    if holds(inner, marked) then return true end
  end
  return false
end

-- No gradient is given as nil or false; one that is not given at all was forgotten.
local function need_all(specs, n, wanted)
  local last = #specs
  while last > n and not holds(specs[last], wanted) do last = last - 1 end
  if last <= n then return end
  error(("the adjoint returns %s, not %d: a gradient for each argument, nil where there is none"):format(
    n == 0 and "nothing" or n == 1 and "1 value" or n .. " values", last), 0)
end

local function given(...) return { ... }, select("#", ...) end

local function adjoint_of(def, specs, more, moren)
  if not def.adjoint then return nil end
  return function(inputs, outputs, gradients, wanted)
    local args, n = unflatten_all(specs, inputs, {})
    for i, y in ipairs(outputs) do args[n + i] = y end
    n = n + #outputs
    for i, dy in ipairs(gradients) do args[n + i] = dy or op.zeros_like(outputs[i]) end
    n = n + #gradients
    for i = 1, moren do args[n + i] = more[i] end
    local result, nresult = given(def.adjoint(unpack(args, 1, n + moren)))
    need_all(specs, nresult, wanted)
    local list = { inputs = inputs }
    for i = 1, #inputs do list[i] = false end
    for i, spec in ipairs(specs) do spread(spec, result[i], list, def.name) end
    return list
  end
end

local function need_function(f, name, what, optional)
  if core.callable(f) or (optional and f == nil) then return end
  error(("%s: %s is a function, not a %s"):format(name, what, type(f)), 4)
end

local function no_option(name, key)
  error(("%s: there is no option '%s'"):format(name, tostring(key)), 5)
end

local function known_fields(options, fields, name)
  for key in pairs(options) do
    if not fields[key] then no_option(name, key) end
  end
end

-- ---- C functions
-- The numbers of a call, by parameter, and the key that they make.
local function numbers(def, given)
  local values, parts, seen = {}, {}, {}
  for i, p in ipairs(def.params) do
    values[i] = 0
    if p.kind == "option" then
      local v = given[p.name]
      if type(v) == "boolean" then v = v and 1 or 0 end
      if v == nil then v = p.preset end
      if type(v) ~= "number" then
        local missing = v == nil and ("is missing: give {%s = ...}"):format(p.name)
        error(("%s: '%s' %s"):format(def.name, p.name, missing or "is a " .. type(v) .. ", not a number"), 4)
      end
      values[i], seen[p.name] = v, true
      parts[#parts + 1] = ("%s = %.17g"):format(p.name, v)
    end
  end
  for key in pairs(given) do
    if not seen[key] then no_option(def.name, key) end
  end
  return values, table.concat(parts, ", ")
end

-- The shapes that the definition gives, or nil.
local function shapes_of(def, inputs, n, options)
  local shape = def.shape
  if core.callable(shape) then
    local args = {}
    for i = 1, n do args[i] = inputs[i] end
    args[n + 1] = options
    shape = { shape(unpack(args, 1, n + 1)) }
    if type(shape[1]) == "table" and type(shape[1][1]) == "table" then shape = shape[1] end
  elseif shape and type(shape[1]) ~= "table" then
    shape = { shape }
  end
  return shape
end

local function call_foreign(def, ...)
  local n, inputs, options = select("#", ...), { ... }, {}
  local last = inputs[n]
  if n == #def.inputs + 1 and type(last) == "table" and not core.is_tensor(last) then
    options, n = last, n - 1
    inputs[n + 1] = nil
  end
  for i = 1, n do
    if type(inputs[i]) == "number" and def.inputs[i] then
      inputs[i] = core.tensor(inputs[i], { dtype = def.inputs[i].dtype })
    elseif not core.is_tensor(inputs[i]) then
      error(("%s: argument %d is a %s, not a tensor"):format(def.name, i, type(inputs[i])), 3)
    end
  end
  local values, key = numbers(def, options)
  local types = def.f:infer(inputs, shapes_of(def, inputs, n, options))
  local specs = {}
  for i = 1, n do specs[i] = { kind = "tensor", at = i } end
  local name = key == "" and def.name or ("%s {%s}"):format(def.name, key)
  local adjoint = adjoint_of(def, specs, { options }, 1)
  local f = core.custom(name, identity_of(def, key), { adjoint = adjoint }, def.f, values)
  return core.custom_call(f, inputs, types)
end

--- A function of a C library as an operator: op.foreign("m", "j0", "f64 (each f64 x)").
--- The library is a short name ("m", "z"), a file name, a path, or nil for what the program
--- has. The signature is C's prototype with what each parameter gets:
---
---   const T *x         the next input, a tensor of dtype T, row-major
---   T *y               the next result, row-major, zero before the call
---   each T x           an element of the next input; inputs broadcast, and the
---                      function is called for each element of the result
---   T a  or  T a = 1.5 a number that the call's options give: f(x, {a = 2})
---   T n = x.numel      also x.nbytes, x.ndim, x.shape[0]
---
--- T is a dtype, u16, u32, u64, or C's name of one: float, int32_t, unsigned long, size_t.
--- In front stands what is returned: void, T, or status T, where all but 0 is a failure.
--- Options: shape, of the results behind pointers: a list of sizes, or a function of the
--- inputs and the call's options that returns one for each (else that of the first input);
--- adjoint, a function (inputs..., results..., gradients..., options) that returns a gradient
--- for each input.
function foreign.foreign(library, symbol, signature, options)
  options = options or {}
  if type(symbol) ~= "string" or type(signature) ~= "string" then
    error("op.foreign: library, symbol and signature are strings", 2)
  end
  local function check()
    known_fields(options, { shape = true, adjoint = true }, "op.foreign")
    need_function(options.adjoint, symbol, "adjoint", true)
  end
  check()
  local f = core.foreign_open(library, symbol, signature)
  local def = define(symbol, { f = f, inputs = {}, adjoint = options.adjoint, shape = options.shape })
  def.params = f:params()
  for _, p in ipairs(def.params) do
    if p.kind == "in" or p.kind == "each" then def.inputs[#def.inputs + 1] = p end
  end
  return core.keep_line(function(...) return call_foreign(def, ...) end)
end

-- ---- Lua functions
-- A type as {dtype, shape}: from a tensor, a text "f32[2,3]", a table.
local function type_of(t, like, name)
  if core.is_tensor(t) then return { dtype = t.dtype, shape = t.shape } end
  if type(t) == "string" then
    local dtype, sizes = t:match "^([%w_]+)%[%s*(.-)%s*%]$"
    local shape, fine = {}, dtype ~= nil
    for size in (sizes and sizes ~= "" and sizes .. "," or ""):gmatch "(.-)," do
      local digits = size:match "^%s*(%d+)%s*$"
      fine = fine and digits ~= nil and (digits == "0" or digits:sub(1, 1) ~= "0")
      shape[#shape + 1] = tonumber(digits)
    end
    if not fine then error(('%s: \'%s\' is no type such as "f32[2,3]"'):format(name, t), 0) end
    return { dtype = dtype, shape = shape }
  end
  if type(t) ~= "table" then
    error(("%s: a result's type is a table, a text or a tensor, not a %s"):format(name, type(t)), 0)
  end
  return { dtype = t.dtype or like and like.dtype, shape = t.shape or like and like.shape }
end

local function infer_custom(def, args, n, list)
  local like, infer = list[1], def.infer
  local made
  if core.callable(infer) then made = { infer(unpack(args, 1, n)) }
  elseif infer ~= nil then
    local one = type(infer) ~= "table" or infer.dtype or infer.shape
    made = one and { infer } or infer
  else
    local shape, dtype = def.shape, def.dtype
    if core.callable(shape) then shape = shape(unpack(args, 1, n)) end
    if core.callable(dtype) then dtype = dtype(unpack(args, 1, n)) end
    if not like and not (shape and dtype) then
      error(def.name .. ": without tensors among its arguments, shape and dtype are needed", 0)
    end
    made = { { dtype = dtype, shape = shape } }
  end
  local types = {}
  for i, t in ipairs(made) do types[i] = type_of(t, like, def.name) end
  return types
end

local function forward_of(def, specs)
  return function(inputs)
    local args, n = unflatten_all(specs, inputs, {})
    return { def.forward(unpack(args, 1, n)) }
  end
end

local function call_custom(def, ...)
  local args, n = { ... }, select("#", ...)
  local list, specs = flatten_all(def.name, args, n)
  local types = infer_custom(def, args, n, list)
  local key, values = describe_all(specs)
  local name = values and ("%s(%s)"):format(def.name, key) or def.name
  local f = core.custom(name, identity_of(def, key), { forward = forward_of(def, specs),
    adjoint = adjoint_of(def, specs, {}, 0) })
  return core.custom_call(f, list, types)
end

--- A Lua function as an operator: op.custom("name", {forward = f, ...}). forward gets real
--- tensors, also in a captured function, each time when the run reaches it, and returns
--- tensors; arguments may be tables of tensors, and what is no tensor is part of the
--- operator. What the results are is known before they are there: infer, a function of the
--- arguments that returns for each result a tensor, a text "f32[2,3]" or {dtype =, shape =},
--- or such values themselves; or for one result shape and dtype, values or functions; else
--- it is as the first tensor. adjoint(arguments..., results..., gradients...) returns a
--- gradient for each argument, nil where there is none, and builds with operators, so that
--- it can be captured and differentiated.
function foreign.custom(name, options)
  if type(name) ~= "string" or type(options) ~= "table" then
    error("op.custom: a name and a table {forward = f} are needed", 2)
  end
  local function check()
    local fields = { forward = true, adjoint = true, infer = true, shape = true, dtype = true }
    known_fields(options, fields, "op.custom")
    need_function(options.forward, name, "forward")
    need_function(options.adjoint, name, "adjoint", true)
  end
  check()
  local def = {}
  for field, value in pairs(options) do def[field] = value end
  define(name, def)
  return core.keep_line(function(...) return call_custom(def, ...) end)
end

-- ---- functions with a derivative of their own
-- f(args...) and the structure of its results; the tensors among them go to list.
local function results_of(f, specs, inputs, list)
  local args, n = unflatten_all(specs, inputs, {})
  local results = { n = 0 }
  local function keep(...) results = { n = select("#", ...), ... } end
  keep(f(unpack(args, 1, n)))
  local out = {}
  for i = 1, results.n do out[i] = tree.flatten(results[i], list) end
  return out
end

local function as_region(f, specs, list, handle, name)
  local out, body = core.guarded(false, function()
    local symbols, made = {}, {}
    core.region_begin(name)
    for i, t in ipairs(list) do symbols[i] = core.region_param(t) end
    local out = results_of(f, specs, symbols, made)
    return out, core.region_end(made)
  end)
  return out, { core.custom_region(handle, list, body) }
end

local function at_once(f, specs, list, handle)
  local made, mark = {}, core.tensor_mark()
  local out
  require("tessera").no_grad(function() out = results_of(f, specs, list, made) end)
  return out, { core.custom_record(handle, list, made, mark) }
end

--- f with another derivative: graph.custom_adjoint(f, adjoint). adjoint(arguments...,
--- results..., gradients...) returns a gradient for each argument; the results are the
--- tensors that f returns, one after the other. Other tensors that f uses get none.
function foreign.custom_adjoint(f, adjoint)
  need_function(f, "graph.custom_adjoint", "the first argument")
  need_function(adjoint, "graph.custom_adjoint", "the second argument")
  local name = type(f) == "function" and ("line%d"):format(debug.getinfo(f, "S").linedefined) or f.name or "function"
  local def = define(name, { adjoint = adjoint })
  return core.keep_line(function(...)
    local args, n = { ... }, select("#", ...)
    local list, specs = flatten_all(name, args, n)
    local identity = identity_of(def, (describe_all(specs)))
    local handle = core.custom(name, identity, { adjoint = adjoint_of(def, specs, {}, 0) })
    local run = core.capturing() and as_region or at_once
    local out, made = run(f, specs, list, handle, name)
    local results = unflatten_all(out, made, {})
    return unpack(results, 1, #out)
  end)
end

-- For tessera.kernel, whose operators are made in the same way.
foreign.define, foreign.identity_of, foreign.adjoint_of = define, identity_of, adjoint_of

return foreign
