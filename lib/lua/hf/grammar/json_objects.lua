-- Objects and lists of JSON schemas. Names come in the order of the schema, each at most once; what is not required may be left out;
-- other names, where a schema says that there may be some, come last. maker is who reads the schema (json_schema.lua).

local nodes = require "tessera.hf.grammar.nodes"
local scalars = require "tessera.hf.grammar.json_scalars"
local tree = require "tessera.hf.grammar.json_tree"
local values = require "tessera.hf.grammar.json_values"

local objects = {}
local text, seq, alt, rep, maybe = nodes.text, nodes.seq, nodes.alt, nodes.rep, nodes.maybe

local function none_of(maker, s, where, words)
  for word in words:gmatch "%S+" do
    if s.at[word] ~= nil then maker:problem(where, "'%s'", word) end
  end
end

local function is_object(v) return type(v) == "table" and v.at ~= nil end
local function is_list(v) return type(v) == "table" and (v.list or v.empty) end

-- Schemas of other names: nil: there are none.
local function others_of(maker, s, where)
  local a, u = s.at.additionalProperties, s.at.unevaluatedProperties
  if u ~= nil and u ~= false then maker:problem(where, "'unevaluatedProperties' other than false") end
  if a == false or u == false and a == nil then return nil end
  -- Where nothing is said there may be others; who lists names wants those.
  if a == nil then return s.at.properties == nil and true or nil end
  return a
end

-- {name, schema, required} in order.
local function members_of(maker, s, where)
  local properties, list, required = s.at.properties or { names = {}, at = {} }, {}, {}
  if not is_object(properties) then
    maker:problem(where, "'properties' that is no object")
    return {}
  end
  if s.at.required ~= nil and not is_list(s.at.required) then maker:problem(where, "'required' that is no list") end
  for _, name in ipairs(is_list(s.at.required) and s.at.required or {}) do
    if type(name) ~= "string" then maker:problem(where, "'required' with what is no name") else required[name] = true end
  end
  for _, name in ipairs(properties.names) do
    list[#list + 1] = { name = name, schema = properties.at[name], required = required[name], where = where .. "/properties/" .. name }
    required[name] = nil
  end
  local more = others_of(maker, s, where)
  for _, name in ipairs(is_list(s.at.required) and s.at.required or {}) do
    if required[name] then
      required[name] = nil
      if s.at.additionalProperties == false then maker:problem(where, "the required name '%s', which there may not be,", name) end
      list[#list + 1] = { name = name, schema = more == nil and true or more, required = true, where = where .. "/additionalProperties" }
    end
  end
  return list
end

local function comma() return seq { values.space(), text ",", values.space() } end

-- What may follow behind a member, from the i-th on: each with its comma.
local function following(list, i, others)
  local parts = {}
  for k = i, #list do
    local one = seq { comma(), list[k].node }
    parts[#parts + 1] = list[k].required and one or maybe(one)
  end
  if others then parts[#parts + 1] = rep(seq { comma(), others }, 0) end
  return seq(parts)
end

-- The members: the first that is there has no comma. A rule for what follows each of those that may be first keeps it small.
local function members(maker, list, others)
  local firsts, must = {}, false
  for i, m in ipairs(list) do
    local rest = following(list, i + 1, others)
    if i > 1 or not m.required then
      local name = maker:fresh "members"
      maker.rules[name] = rest
      rest = nodes.ref(name)
    end
    firsts[#firsts + 1] = seq { m.node, rest }
    must = must or m.required
    if m.required then break end
  end
  if others and not must then firsts[#firsts + 1] = seq { others, rep(seq { comma(), others }, 0) } end
  if #firsts == 0 then return seq {} end
  return must and alt(firsts) or maybe(alt(firsts))
end

function objects.object(maker, s, where, depth)
  none_of(maker, s, where, "patternProperties propertyNames minProperties maxProperties dependentRequired dependentSchemas dependencies")
  local list, names = members_of(maker, s, where), {}
  for i, m in ipairs(list) do
    m.node = seq { text(tree.text(m.name) .. ":"), values.space(), maker:schema(m.schema, m.where, depth + 1) }
    names[i] = m.name
  end
  local more, others = others_of(maker, s, where), nil
  if more ~= nil then
    local key = #names == 0 and values.string() or values.other_than(names)
    others = seq { key, text ":", values.space(), maker:schema(more, where .. "/additionalProperties", depth + 1) }
  end
  return seq { text "{", values.space(), members(maker, list, others), values.space(), text "}" }
end

-- Schemas of the first items, and of all others; false: there are no others.
local function items_of(maker, s, where)
  local first, rest = s.at.prefixItems, s.at.items
  if is_list(rest) and not (is_object(rest) and not rest.list) then first, rest = rest, s.at.additionalItems end
  if first ~= nil and not is_list(first) then
    maker:problem(where, "'prefixItems' that is no list")
    first = nil
  end
  if rest == nil then rest = true end
  return first or {}, rest
end

function objects.array(maker, s, where, depth)
  none_of(maker, s, where, "contains minContains maxContains unevaluatedItems")
  local least, most = scalars.size_of(maker, s, "minItems", where) or 0, scalars.size_of(maker, s, "maxItems", where)
  if s.at.uniqueItems and not (most and most <= 1) then maker:problem(where, "'uniqueItems'") end
  if most and least > most then return maker:problem(where, "'minItems' above 'maxItems'") end
  local first, rest = items_of(maker, s, where)
  local list = {}
  for i = 1, math.min(#first, most or #first) do list[i] = maker:schema(first[i], ("%s/prefixItems/%d"):format(where, i - 1), depth + 1) end
  if rest == false then
    if least > #list then return maker:problem(where, "'minItems' above the number of items") end
    most = #list
  end
  local item = (most == nil or most > #list) and maker:schema(rest, where .. "/items", depth + 1) or nil
  if #list == 0 then return values.list("[", "]", item, least, most) end
  local parts = { text "[", values.space(), list[1] }
  for i = 2, #list do parts[#parts + 1] = seq { comma(), list[i] } end
  if item then parts[#parts + 1] = rep(seq { comma(), item }, math.max(0, least - #list), most and most - #list) end
  parts[#parts + 1] = values.space()
  parts[#parts + 1] = text "]"
  return seq(parts)
end

return objects
