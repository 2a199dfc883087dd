-- What functions of the library take by name, and by place: kinds of values with a text that
-- completes "must be ..", and a check that says what is wrong, where, and what would be right, as
-- operators do of their options.
--
--   local RATE = options.number { least = 0 }
--   local read = options.of("SGD", { lr = RATE, nesterov = options.flag }, { lr = 0.01, nesterov = false })
--   local o = read(given)             -- SGD: option 'lr' must be a number >= 0, not 'x'
--   o.nesterov                        -- false, where it was not given: the value that help shows
--   options.argument("Linear", "inputs", options.whole { least = 0 }, inputs)

local core = require "tessera.core"
local options = {}

-- ---- kinds

-- hint(v) may say what is right instead of a wrong value, or nil.
local function kind(text, holds, hint) return { text = text, holds = holds, hint = hint } end
options.kind = kind

-- What is left of a kind when the option may not be missing.
function options.needed(k) return { text = k.text, holds = k.holds, hint = k.hint, needed = true } end

options.any = kind("something", function(v) return v ~= nil end)
options.flag = kind("a boolean", function(v) return type(v) == "boolean" end)
options.text = kind("a string", function(v) return type(v) == "string" end)
options.tensor = kind("a tensor", core.is_tensor)
options.operand = kind("a tensor or a number", function(v) return core.is_tensor(v) or type(v) == "number" end)
options.callable = kind("a function", core.callable)
options.table = kind("a table", function(v) return type(v) == "table" end)

-- "number >= 0", "number in [0, 1)". range: least, above, most, below.
local function in_range(noun, range)
  local low = range.least and "[" .. range.least or range.above and "(" .. range.above
  local high = range.most and range.most .. "]" or range.below and range.below .. ")"
  if low and high then return ("%s in %s, %s"):format(noun, low, high) end
  if low then return ("%s %s %s"):format(noun, range.least and ">=" or ">", low:sub(2)) end
  if high then return ("%s %s %s"):format(noun, range.most and "<=" or "<", high:sub(1, -2)) end
  return noun
end

local function numbers(noun, range, also)
  range = range or {}
  local least, most = range.least or range.above or -math.huge, range.most or range.below or math.huge
  return kind("a " .. in_range(noun, range), function(v)
    return type(v) == "number" and math.abs(v) < math.huge and v >= least and v <= most and v ~= range.above and
      v ~= range.below and (not also or also(v))
  end)
end

--- A finite number.
function options.number(range) return numbers("number", range) end
function options.whole(range) return numbers("whole number", range, function(v) return v % 1 == 0 and math.abs(v) <= 2 ^ 53 end) end

function options.one_of(...)
  local words, known = { ... }, {}
  for i, w in ipairs(words) do
    known[w] = true
    words[i] = "'" .. w .. "'"
  end
  local k = kind("one of " .. table.concat(words, ", "), function(v) return known[v] == true end)
  k.words = { ... }
  return k
end

options.operator = kind("the name of an operator", function(v) return type(v) == "string" and rawget(core.op, v) ~= nil end)

local dtypes
local function known_dtypes()
  if not dtypes then
    dtypes = {}
    for i, d in ipairs(core.dtypes()) do dtypes[d.name], dtypes[i] = true, d.name end
  end
  return dtypes
end
options.dtype = kind("the name of a dtype", function(v) return type(v) == "string" and known_dtypes()[v] == true end, function(v)
  local known, t = pcall(core.op.zeros, { 0 }, { dtype = v }) -- by the name that another library has for it
  if known and type(v) == "string" then return ("it is '%s' here"):format(t.dtype) end
  local guess = type(v) == "string" and core.suggest(v, known_dtypes())
  return guess and ("did you mean '%s'?"):format(guess) or type(v) == "string" and "? dtypes lists them" or nil
end)

local function plural(k)
  local text, n = k.text:gsub("^an? ", ""):gsub("number", "numbers", 1)
  return n > 0 and text or text .. "s"
end

--- A list of values of a kind; n of them, or at least `least`.
function options.list(k, n, least)
  local many = n and ("a list of %d %s"):format(n, plural(k)) or "a list of " .. plural(k)
  return kind(many, function(v)
    if type(v) ~= "table" or (n and #v ~= n) or #v < (least or 0) then return false end
    for i = 1, #v do
      if not k.holds(v[i]) then return false end
    end
    return true
  end)
end

--- One value, or a list with one for each axis.
function options.each(k, n)
  local many = options.list(k, n, 1)
  return kind(("%s, or %s"):format(k.text, n and "a list of " .. n or "a list"), function(v) return k.holds(v) or many.holds(v) end)
end

-- ---- the check

local function shown(v)
  if type(v) == "string" then return "'" .. core.shown(v, 60) .. "'" end
  if type(v) == "number" then return ("%.14g"):format(v) end
  if type(v) == "boolean" then return tostring(v) end
  if type(v) == "table" and next(v) == nil and not getmetatable(v) then return "an empty table" end
  return v == nil and "nothing" or core.is_tensor(v) and "a tensor" or "a " .. type(v)
end

--- What is right instead of a value that a kind does not hold, or nil.
function options.better(k, v)
  local guess = k.words and type(v) == "string" and core.suggest(v, k.words)
  return k.hint and k.hint(v) or guess and ("did you mean '%s'?"):format(guess) or nil
end

local function wrong(what, name, k, v, default)
  local better = options.better(k, v)
  core.fail(("%s: %s must be %s, not %s%s"):format(what, name, k.text, shown(v),
    better and "\n  hint: " .. better or default ~= nil and ("\n  hint: %s if it is not given"):format(type(default) == "table" and "{" .. table.concat(default, ", ") .. "}" or
      tostring(default)) or ""))
end

local function names_of(kinds)
  local words = {}
  for word in pairs(kinds) do words[#words + 1] = word end
  table.sort(words)
  return words
end

--- What is here for an option of another library, by its row in repl/lua/elsewhere.def: the first of the words
-- that the function has, as spelt(word) or as it is, or the sentence.
function options.elsewhere(name, kinds, spelt)
  local row = type(name) == "string" and core.elsewhere("option", name)
  for part in (row or ""):gmatch "[^|]+" do
    if part:find " " then return part end
    if kinds[part] then return ("it is '%s' here"):format(spelt and spelt(part) or part) end
  end
end

-- The option that stands in an example: one that has to be given, or the first.
local function example_of(kinds)
  local words = names_of(kinds)
  for _, word in ipairs(words) do
    if kinds[word].needed or kinds[word].leads then return word end
  end
  return words[1]
end

local function unknown(what, name, kinds)
  local words = names_of(kinds)
  if type(name) == "number" and words[1] then
    core.fail(("%s: value %s has no name\n  hint: options stand by name, as {%s = ...}"):format(what, core.shown(tostring(name), 60), example_of(kinds)))
  end
  local known = options.elsewhere(name, kinds)
  local guess = not known and type(name) == "string" and core.suggest(name, words)
  local list = #words == 0 and "it has no options" or "options are " .. table.concat(words, ", ")
  core.fail(("%s: unknown option '%s'\n  hint: %s"):format(what, core.shown(tostring(name), 60),
    known or guess and ("did you mean '%s'?"):format(guess) or list))
end

-- Of several wrong ones an unknown one, which may be a misspelt one that is missing; of several such
-- the first by the alphabet.
local function first_wrong(kinds, given)
  local unknown, first
  for name, v in pairs(given) do
    local k = kinds[name]
    if not k and (unknown == nil or tostring(name) < tostring(unknown)) then unknown = name end
    if k and not k.holds(v) and (first == nil or name < first) then first = name end
  end
  for name, k in pairs(kinds) do
    if k.needed and given[name] == nil and (first == nil or name < first) then first = name end
  end
  if unknown ~= nil then return unknown end
  return first
end

local known, methods, later = {}, {}, {}

-- "generate" of "m:generate".
local function method_of(name) return name:match "^[%w_.]+:([%w_]+)$" end

--- Options of these names are told by a module that is loaded when somebody asks for them, as functions are when they are first called.
function options.later(module, ...)
  for _, name in ipairs { ... } do later[method_of(name) or name] = module end
end

--- What options.of was told of a name: "nn.Linear" as well as "Linear", "model:generate" as "m:generate".
function options.known(name)
  local short = name:match "[%w_]+%.[%w_]+$" or name
  local module = later[method_of(name) or short]
  if module then
    later[method_of(name) or short] = nil
    require(module)
  end
  local own = known[name] or methods[method_of(name)] or known[short] or known[name:match "[%w_]+$"]
  if own then return own.kinds, own.defaults end
end

--- A function that checks a table of options and gives it back, {} for none: what a part has of its own,
--- beside others that it does not name. defaults are told to who gives a wrong value.
function options.some(what, kinds, defaults)
  known[what] = known[what] or { kinds = kinds, defaults = defaults }
  local method = method_of(what)
  if method then -- of two classes it is neither's
    if methods[method] == nil then methods[method] = known[what] end
    if methods[method] ~= known[what] then methods[method] = false end
  end
  return function(given)
    if given == nil then given = {} end
    if type(given) ~= "table" or core.is_tensor(given) then
      core.fail(("%s: options are a table, as {%s = ...}, not %s"):format(what, example_of(kinds), shown(given)))
    end
    local name = first_wrong(kinds, given)
    if name == nil then return given end
    if not kinds[name] then unknown(what, name, kinds) end
    wrong(what, ("option '%s'"):format(name), kinds[name], given[name], defaults and defaults[name])
  end
end

-- Lists of defaults are given away, and may be changed there.
local function copied(v) return type(v) == "table" and { unpack(v) } or v end

--- A function that checks a table of options and gives all of them: those given, and the defaults of the
--- others.
function options.of(what, kinds, defaults)
  local check = options.some(what, kinds, defaults)
  return function(given)
    local o = {}
    given = check(given)
    for name, v in pairs(given) do o[name] = v end
    if getmetatable(given) then -- what it gives counts, too
      for name in pairs(kinds) do
        if o[name] == nil then o[name] = given[name] end
      end
    end
    for name, v in pairs(defaults or o) do
      if o[name] == nil then o[name] = copied(v) end
    end
    return o
  end
end

-- ---- told

local function value_text(v)
  if type(v) == "table" and not core.is_tensor(v) then
    local words = {}
    for i, part in ipairs(v) do words[i] = value_text(part) end
    return "{" .. table.concat(words, ", ") .. "}"
  end
  if core.is_tensor(v) then return core.type_text(v) end
  return type(v) == "number" and ("%.14g"):format(v) or type(v) == "string" and '"' .. v .. '"' or tostring(v)
end

-- Names of options: by place, then by the alphabet.
local function in_order(own)
  local list, seen = {}, {}
  for i, name in ipairs(own.places or {}) do list[i], seen[name] = name, true end
  for _, name in ipairs(names_of(own.kinds)) do
    if not seen[name] then list[#list + 1] = name end
  end
  return list
end

--- What a module prints of itself: what has to be given, names and values in turn, then the options whose values
--- are not the defaults, and bias: "inputs = 4, outputs = 5, bias = true". All options where nothing has to be given.
function options.told(what, o, ...)
  local own, words = known[what], {}
  for i = 1, select("#", ...), 2 do
    local name, v = select(i, ...)
    words[#words + 1] = ("%s = %s"):format(name, value_text(v))
  end
  for _, name in ipairs(in_order(own)) do
    local v, default = o[name], own.defaults and own.defaults[name]
    local plain = select("#", ...) > 0 and name ~= "bias" and value_text(v) == value_text(default)
    if v ~= nil and name ~= "inplace" and not plain then words[#words + 1] = ("%s = %s"):format(name, value_text(v)) end
  end
  return table.concat(words, ", ")
end

-- Options, and no list that is a value.
local function is_options(v) return type(v) == "table" and not core.is_tensor(v) and v[1] == nil end

--- As options.of, for options that may stand by place too, in the order of `places`, behind what has
--- to be given: Conv2d(3, 8, 3, 1, {padding = 1}). A nil leaves a place out.
function options.placed(what, kinds, defaults, places)
  local read = options.of(what, kinds, defaults)
  known[what].places = known[what].places or places
  places = places or {}
  return function(...)
    local n, first = select("#", ...), ...
    if n == 0 or (n == 1 and (first == nil or is_options(first))) then return read(first) end
    local o = {}
    for i = 1, n do
      local v, name = (select(i, ...)), places[i]
      if i == n and is_options(v) then
        for word, value in pairs(v) do
          if o[word] ~= nil then core.fail(("%s: option '%s' stands twice"):format(what, word)) end
          o[word] = value
        end
      elseif v ~= nil then
        if not name then
          core.fail(("%s: too many arguments; %s"):format(what,
            places[1] and "by place are " .. table.concat(places, ", ") or "it takes no options"))
        end
        o[name] = v
      end
    end
    return read(o)
  end
end

-- ---- where a function is described

local described = setmetatable({}, { __mode = "k" })

--- f, made by the function that calls this: its description is the comment above the line that called
--- that one, as of a layer that define_conv("Conv2d", 2) makes.
function options.described(f)
  local info = debug.getinfo(3, "Sl")
  described[f] = info and { source = info.source, line = info.currentline }
  return f
end

--- {source, line} below the comment on such a function; nil of others.
function options.place_of(f) return described[f] end

--- A list of tensors, such as a model's parameters; noun is the word for one. holes: some may be
--- false.
function options.tensors(what, noun, list, hint, holes)
  if type(list) ~= "table" or list.is_module then
    core.fail(("%s: a list of %ss is needed, not %s%s"):format(what, noun, type(list) == "table" and "a module" or shown(list),
      hint and "\n  hint: " .. hint or ""))
  end
  for i, t in ipairs(list) do
    if not core.is_tensor(t) and not (holes and t == false) then
      core.fail(("%s: %s %d is %s, not a tensor"):format(what, noun, i, shown(t)))
    end
  end
  return list
end

-- nn.Linear{in_features = 3, out_features = 2}, as named arguments are written elsewhere.
local function need_no_names(what, name, v)
  local first = type(v) == "table" and not core.is_tensor(v) and not v.is_module and v[1] == nil and next(v)
  if type(first) ~= "string" then return end
  core.fail(("%s: %s is not given\n  hint: what has to be given stands by place, options in a table behind it: ? %s"):format(what, name, what))
end

--- An argument by place.
function options.argument(what, name, k, v)
  if not k.holds(v) then
    need_no_names(what, name, v)
    wrong(what, name, k, v)
  end
  return v
end

return options
