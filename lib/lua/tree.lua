-- Structures of tensors: tables, modules and single tensors as flat lists, and back.

local core = require "tessera.core"
local Module = require "tessera.module"
local outside = require "tessera.outside"
local tree = {}

local function sorted_keys(t)
  local numbers, names = {}, {}
  for k in pairs(t) do
    if type(k) == "number" then numbers[#numbers + 1] = k
    elseif type(k) == "string" then names[#names + 1] = k end
  end
  table.sort(numbers)
  table.sort(names)
  for i = 1, #names do numbers[#numbers + 1] = names[i] end
  return numbers
end

local DEPTH = 100

--- Appends the tensors of value to list and, if there are names, their paths to those; returns what
--- is left, a spec for unflatten. convert(v, i) may give a tensor for a leaf that is none. depth: of
--- value in others, none.
function tree.flatten(value, list, names, path, convert, depth)
  local made = convert and not core.is_tensor(value) and convert(value, #list + 1)
  if made then value = made end
  if core.is_tensor(value) then
    list[#list + 1] = value
    if names then names[#names + 1] = path end
    return { kind = "tensor", at = #list }
  end
  if Module.is_module(value) then
    local spec = { kind = "module", module = value, at = #list }
    for _, field in ipairs(value:tensors()) do
      list[#list + 1] = field.tensor
      if names then names[#names + 1] = path .. "." .. field.name end
      spec[#spec + 1] = field
    end
    return spec
  end
  if type(value) ~= "table" then return { kind = "value", value = value } end
  depth = (depth or 0) + 1
  if depth > DEPTH then core.fail(("more than %d tables of tensors stand in each other, or one holds itself"):format(DEPTH)) end
  local spec = { kind = "table", keys = sorted_keys(value) }
  for i, key in ipairs(spec.keys) do
    spec[i] = tree.flatten(value[key], list, names, names and path .. "." .. tostring(key), convert, depth)
  end
  return spec
end

function tree.unflatten(spec, list)
  if spec.kind == "tensor" then return list[spec.at] end
  if spec.kind == "value" then return spec.value end
  if spec.kind == "module" then return spec.module end
  local t = {}
  for i, key in ipairs(spec.keys) do t[key] = tree.unflatten(spec[i], list) end
  return t
end

--- What does not change between calls of one specialisation, as text: tensors by type.
function tree.describe(spec, list)
  if spec.kind == "tensor" then return core.type_text(list[spec.at]) end
  if spec.kind == "table" then
    local parts = {}
    for i, key in ipairs(spec.keys) do parts[i] = tostring(key) .. "=" .. tree.describe(spec[i], list) end
    return "{" .. table.concat(parts, ",") .. "}"
  end
  if spec.kind == "module" then
    local parts = { outside.module_text(spec.module) }
    for i = 1, #spec do parts[#parts + 1] = core.type_text(list[spec.at + i]) end
    return table.concat(parts, " ")
  end
  local v = spec.value
  return type(v) == "string" and ("%q"):format(v) or tostring(v)
end

--- The same with ranks in place of shapes.
function tree.describe_ranks(spec, list)
  return (tree.describe(spec, list):gsub("%[([%d,]*)%]", function(dims)
    return "[" .. dims:gsub("%d+", "*") .. "]"
  end))
end

--- Tensors of the list in the fields of the modules among spec, for the time of a capture.
function tree.set_modules(spec, list)
  if spec.kind == "module" then
    for i, field in ipairs(spec) do rawset(field.module, field.key, list[spec.at + i]) end
  elseif spec.kind == "table" then
    for i = 1, #spec do tree.set_modules(spec[i], list) end
  end
end

return tree
