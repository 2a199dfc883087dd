-- A schema as it was given, JSON or a table of Lua, as one tree: objects are {names = in order, at = by name}, lists {list = true, ..}.

local core = require "tessera.core"

local tree = {}
local DEEPEST = 200

tree.NULL = setmetatable({}, { __tostring = function() return "null" end })

local function of_json(v, values)
  local kind = values.kind(v)
  if kind == "none" then return tree.NULL end
  if kind == "float" then return v.v end
  if kind == "list" or kind == "tuple" then
    local list = { list = true }
    for i = 1, v.n do list[i] = of_json(v[i], values) end
    return list
  end
  if kind ~= "dict" then return v end
  local o = { names = {}, at = {} }
  for i = 1, v.n do
    local name = v.keys[i]
    o.names[i], o.at[name] = name, of_json(values.get(v, name), values)
  end
  return o
end

-- Names of a Lua table have no order: those that are required come as they are required, the others by the alphabet.
local function names_of(t, first)
  local names, seen = {}, {}
  for _, name in ipairs(type(first) == "table" and first or {}) do
    if type(name) == "string" and t[name] ~= nil and not seen[name] then seen[name], names[#names + 1] = true, name end
  end
  local others = {}
  for name in pairs(t) do
    if not seen[name] then others[#others + 1] = name end
  end
  table.sort(others)
  for _, name in ipairs(others) do names[#names + 1] = name end
  return names
end

local function of_lua(v, where, depth, first)
  local kind = type(v)
  if v == tree.NULL or v == require("tessera.hf").null then return tree.NULL end
  if kind == "string" or kind == "number" or kind == "boolean" then return v end
  if kind ~= "table" or core.is_tensor(v) then core.fail(("json_schema: %s is a %s"):format(where, core.is_tensor(v) and "tensor" or kind)) end
  if depth > DEEPEST then core.fail(("json_schema: %s stands more than %d deep; does it hold itself?"):format(core.shown(where, 60), DEEPEST)) end
  if #v > 0 then
    local list = { list = true }
    for i, item in ipairs(v) do list[i] = of_lua(item, ("%s/%d"):format(where, i - 1), depth + 1) end
    for k in pairs(v) do
      if type(k) ~= "number" then core.fail(("json_schema: %s is neither a list nor a table with names: it has items and '%s'"):format(where, core.shown(tostring(k), 40))) end
    end
    return list
  end
  for k in pairs(v) do
    if type(k) ~= "string" then core.fail(("json_schema: %s has the key %s; keys are texts"):format(where, tostring(k))) end
  end
  local o = { names = names_of(v, first), at = {}, empty = next(v) == nil }
  for _, name in ipairs(o.names) do
    o.at[name] = of_lua(v[name], where .. "/" .. name, depth + 1, name == "properties" and v.required or nil)
  end
  return o
end

--- Of a text of JSON, whose names keep their order, or a table.
function tree.of(given)
  if type(given) ~= "string" then return of_lua(given, "#", 0) end
  local values = require "tessera.hf.jinja.values"
  local ok, v = pcall(require("tessera.hf.jinja.json").read, given, "json_schema")
  if not ok then
    if type(v) == "table" and v.message then core.fail(v.message) end
    error(v, 0)
  end
  return of_json(v, values)
end

--- A value as a text of JSON.
function tree.text(v)
  if v == tree.NULL then return "null" end
  if type(v) == "string" then
    return require("tessera.hf.jinja.json").write(require("tessera.hf.jinja.values").UNBOUNDED, v, {})
  end
  if type(v) == "number" then
    if v % 1 == 0 and math.abs(v) < 1e15 then return ("%.0f"):format(v) end
    for digits = 15, 17 do
      local s = ("%." .. digits .. "g"):format(v)
      if tonumber(s) == v then return s end
    end
  end
  if type(v) == "boolean" then return tostring(v) end
  local parts = {}
  if v.list then
    for i, item in ipairs(v) do parts[i] = tree.text(item) end
    return "[" .. table.concat(parts, ", ") .. "]"
  end
  for i, name in ipairs(v.names) do parts[i] = tree.text(name) .. ": " .. tree.text(v.at[name]) end
  return "{" .. table.concat(parts, ", ") .. "}"
end

--- The type of a value as schemas name it.
function tree.type(v)
  if v == tree.NULL then return "null" end
  if type(v) == "string" or type(v) == "boolean" then return type(v) end
  if type(v) == "number" then return v % 1 == 0 and "integer" or "number" end
  return v.list and "array" or "object"
end

return tree
