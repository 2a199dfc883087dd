-- JSON schemas as rules (nodes.lua) of texts that are valid by them. A schema may allow more than is made here (names in another order,
-- white space, numbers of more digits), and never less; what is not read is an error that lists all of it with its place.

local core = require "tessera.core"
local nodes = require "tessera.hf.grammar.nodes"
local objects = require "tessera.hf.grammar.json_objects"
local scalars = require "tessera.hf.grammar.json_scalars"
local tree = require "tessera.hf.grammar.json_tree"
local values = require "tessera.hf.grammar.json_values"

local DEEPEST = 100

local function set_of(words)
  local set = {}
  for word in words:gmatch "%S+" do set[word] = true end
  return set
end

-- What says something to people alone.
local SAID = set_of "title description default examples $schema $id $comment $anchor deprecated readOnly writeOnly $defs definitions discriminator"
-- What a value of a type has to keep to; of other types it says nothing.
local OF_TYPE = {
  object = set_of "properties required additionalProperties unevaluatedProperties patternProperties propertyNames minProperties maxProperties dependentRequired dependentSchemas dependencies",
  array = set_of "items prefixItems additionalItems unevaluatedItems minItems maxItems uniqueItems contains minContains maxContains",
  string = set_of "minLength maxLength pattern format contentEncoding contentMediaType contentSchema",
  number = set_of "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf",
}
OF_TYPE.integer, OF_TYPE.boolean, OF_TYPE.null = OF_TYPE.number, {}, {}
local TYPES = { "object", "array", "string", "number", "integer", "boolean", "null" }

local Maker = {}
Maker.__index = Maker

--- Notes what is not read, with its place.
function Maker:problem(where, what, ...)
  local text = ("%s at %s"):format(select("#", ...) > 0 and what:format(...) or what, core.shown(where, 120))
  if not self.noted[text] then self.noted[text], self.problems[#self.problems + 1] = true, text end
  return nodes.text "0"
end

function Maker:fresh(word)
  self.count = self.count + 1
  return ("%s-%d"):format(word, self.count)
end

-- ---- references

local function unescaped(s) return (s:gsub("%%(%x%x)", function(h) return string.char(tonumber(h, 16)) end):gsub("~1", "/"):gsub("~0", "~")) end

function Maker:find(pointer)
  local at = self.root
  for part in pointer:gmatch "/([^/]*)" do
    part = unescaped(part)
    if type(at) ~= "table" or at == tree.NULL then return nil end
    if at.list then at = at[(tonumber(part) or -1) + 1] else at = at.at[part] end
    if at == nil then return nil end
  end
  return at
end

--- What a schema refers to, through any number of references.
function Maker:target(s)
  for _ = 1, DEEPEST do
    local to = type(s) == "table" and s.at and s.at["$ref"]
    if type(to) ~= "string" or not to:find "^#" then return s end
    s = self:find(to:sub(2))
  end
  return s
end

function Maker:reference(to, where)
  if type(to) ~= "string" or not (to == "#" or to:find "^#/") then return self:problem(where, "'$ref' to %s", core.shown(tostring(to), 60)) end
  local name = "ref " .. to
  if not self.rules[name] then
    local s = self:find(to:sub(2))
    if s == nil then return self:problem(where, "'$ref' to %s, which is not there,", core.shown(to, 60)) end
    self.rules[name] = nodes.text "" -- it may come back to itself
    self.rules[name] = self:schema(s, to, 0)
  end
  return nodes.ref(name)
end

-- ---- alternatives

-- Values that a schema has, if they are listed: a set of their texts.
local function listed(s)
  if s.at.const ~= nil then return { [tree.text(s.at.const)] = true } end
  local e = s.at.enum
  if type(e) ~= "table" or not e.list then return nil end
  local set = {}
  for _, v in ipairs(e) do set[tree.text(v)] = true end
  return set
end

local function types_of(s)
  local t = s.at.type
  local set = {}
  if type(t) == "string" then set[t] = true elseif type(t) == "table" and t.list then
    for _, word in ipairs(t) do set[word] = true end
  else
    local all = s.at.const ~= nil and { list = true, s.at.const } or s.at.enum
    if type(all) ~= "table" or not all.list then return nil end
    for _, v in ipairs(all) do set[tree.type(v)] = true end
  end
  if set.number then set.integer = true end
  return set
end

local function share(a, b)
  for k in pairs(a) do
    if b[k] then return true end
  end
  return false
end

local function requires(s, name)
  for _, word in ipairs(type(s.at.required) == "table" and s.at.required or {}) do
    if word == name then return true end
  end
  return false
end

-- Whether no value is valid by both: types, listed values, or a name whose listed values differ.
function Maker:apart(a, b)
  a, b = self:target(a), self:target(b)
  if type(a) ~= "table" or type(b) ~= "table" or not a.at or not b.at then return false end
  local x, y = types_of(a), types_of(b)
  if x and y and not share(x, y) then return true end
  x, y = listed(a), listed(b)
  if x and y then return not share(x, y) end
  local p, q = a.at.properties, b.at.properties
  if not (p and q and p.at and q.at and a.at.type == "object" and b.at.type == "object") then return false end
  for _, name in ipairs(p.names) do
    local one, two = self:target(p.at[name]), self:target(q.at[name])
    if two and one.at and two.at and requires(a, name) and requires(b, name) then
      local u, v = listed(one), listed(two)
      if u and v and not share(u, v) then return true end
    end
  end
  return false
end

local function need_list(self, v, where)
  if type(v) == "table" and v.list and #v > 0 then return v end
  self:problem(where, "what is no list of schemas")
end

function Maker:any_of(list, where, depth)
  if not need_list(self, list, where) then return nodes.text "" end
  local all = {}
  for i, s in ipairs(list) do all[i] = self:schema(s, ("%s/%d"):format(where, i - 1), depth + 1) end
  return nodes.alt(all)
end

function Maker:one_of(list, where, depth)
  if not need_list(self, list, where) then return nodes.text "" end
  for i = 1, #list do
    for k = i + 1, #list do
      if not self:apart(list[i], list[k]) then
        return self:problem(where, "'oneOf' whose alternatives %d and %d may both hold", i - 1, k - 1)
      end
    end
  end
  return self:any_of(list, where, depth)
end

function Maker:all_of(list, where, depth)
  if not need_list(self, list, where) then return nodes.text "" end
  if #list > 1 then return self:problem(where, "'allOf' of several") end
  return self:schema(list[1], where .. "/0", depth + 1)
end

-- ---- a schema

-- Of words that stand alone, all others but those that say something to people.
function Maker:need_alone(s, word, where, also)
  for _, name in ipairs(s.names) do
    if name ~= word and not SAID[name] and not (also and also[name]) then self:problem(where, "'%s' beside '%s'", name, word) end
  end
end

local function holds_type(v, types)
  local own = tree.type(v)
  return not types or types[own] or own == "integer" and types.number
end

function Maker:listed(s, word, where)
  local all = word == "const" and { list = true, s.at.const } or s.at.enum
  self:need_alone(s, word, where, { type = true })
  if type(all) ~= "table" or not all.list then return self:problem(where, "'enum' that is no list") end
  local types, list = s.at.type ~= nil and types_of { at = { type = s.at.type } }, {}
  for _, v in ipairs(all) do
    if holds_type(v, types) then list[#list + 1] = nodes.text(tree.text(v)) end
  end
  if #list == 0 then return self:problem(where, "'%s' without a value of its type", word) end
  return nodes.alt(list)
end

-- The types that a schema speaks of: as it says, or those that its words are of.
function Maker:types(s, where)
  local t = s.at.type
  if type(t) == "string" then t = { t } end
  if t == nil then
    t = {}
    for _, name in ipairs { "object", "array", "string", "number" } do
      for _, word in ipairs(s.names) do
        if OF_TYPE[name][word] then
          t[#t + 1] = name
          break
        end
      end
    end
    return t
  end
  local known = {}
  for _, name in ipairs(TYPES) do known[name] = true end
  for _, name in ipairs(type(t) == "table" and t or {}) do
    if not known[name] then self:problem(where, "the type '%s'", core.shown(tostring(name), 40)) end
  end
  if type(t) ~= "table" or #t == 0 then self:problem(where, "'type' that is no name and no list of names") end
  return type(t) == "table" and t or {}
end

local ONE = {
  object = objects.object, array = objects.array, string = scalars.string, number = scalars.number, integer = scalars.integer,
  boolean = function() return nodes.alt { nodes.text "true", nodes.text "false" } end,
  null = function() return nodes.text "null" end,
}

--- A node for a schema at a place.
function Maker:schema(s, where, depth)
  if s == true then return nodes.ref "value" end
  if s == false then return self:problem(where, "false, which no value holds,") end
  if type(s) ~= "table" or not s.at then return self:problem(where, "what is no schema") end
  if depth > DEEPEST then return self:problem(where, "what stands more than %d deep", DEEPEST) end
  local at = s.at
  if at["$ref"] ~= nil then
    self:need_alone(s, "$ref", where)
    return self:reference(at["$ref"], where)
  end
  for word, make in pairs { anyOf = self.any_of, oneOf = self.one_of, allOf = self.all_of } do
    if at[word] ~= nil then
      self:need_alone(s, word, where)
      return make(self, at[word], where .. "/" .. word, depth)
    end
  end
  if at.const ~= nil then return self:listed(s, "const", where) end
  if at.enum ~= nil then return self:listed(s, "enum", where) end
  local types, list = self:types(s, where), {}
  for _, name in ipairs(s.names) do
    local of_some = false
    for _, own in pairs(OF_TYPE) do of_some = of_some or own[name] end
    if not of_some and not SAID[name] and name ~= "type" then self:problem(where, "'%s'", core.shown(name, 40)) end
  end
  if #types == 0 then return nodes.ref "value" end
  for _, name in ipairs(types) do
    if ONE[name] then list[#list + 1] = ONE[name](self, s, where, depth) end
  end
  return nodes.alt(list)
end

-- The core's errors have a few lines; a list of problems may have more, behind the place that those begin with.
local function fail_long(text)
  local _, why = pcall(core.fail, "@")
  error(tostring(why):match "^(.-)@" .. text, 0)
end

--- The rules of a schema, a text of JSON or a table, and the name of the first.
return function(given)
  if type(given) ~= "string" and (type(given) ~= "table" or core.is_tensor(given)) then
    core.fail(("json_schema: a schema is a table or a text of JSON, not a %s"):format(type(given)))
  end
  local self = setmetatable({ root = tree.of(given), rules = {}, problems = {}, noted = {}, count = 0 }, Maker)
  values.rules(self.rules)
  self.rules.root = self:schema(self.root, "#", 0)
  if self.problems[1] then
    fail_long("json_schema: this is not read:\n  " .. table.concat(self.problems, "\n  "))
  end
  return self.rules, "root"
end
