-- Texts and numbers of JSON schemas: lengths, expressions, formats, bounds. maker is who reads the schema (json_schema.lua).

local nodes = require "tessera.hf.grammar.nodes"
local regex = require "tessera.hf.grammar.regex"
local sets = require "tessera.hf.grammar.sets"
local values = require "tessera.hf.grammar.json_values"

local scalars = {}

local DATE = "(?:[1-9]\\d{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|1\\d|2[0-8])))"
local TIME = "(?:(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,6})?(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d))"
local OCTET = "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
local LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
local HOST = LABEL .. "(?:\\." .. LABEL .. "){1,4}"
local FORMAT = {
  date = DATE, time = TIME, ["date-time"] = DATE .. "T" .. TIME,
  ipv4 = OCTET .. "(?:\\." .. OCTET .. "){3}",
  email = "[A-Za-z0-9_+-]{1,32}(?:\\.[A-Za-z0-9_+-]{1,16}){0,2}@" .. HOST,
  uri = "https?://" .. HOST .. "(?::[1-9]\\d{0,3})?(?:/[A-Za-z0-9_.~-]*)*(?:\\?[A-Za-z0-9_.~=&-]*)?(?:#[A-Za-z0-9_.~-]*)?",
  uuid = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
}
local MOST_LENGTH = 10000

local function size_of(maker, s, name, where)
  local v = s.at[name]
  if v == nil then return nil end
  if type(v) ~= "number" or v < 0 or v % 1 ~= 0 or v > MOST_LENGTH then
    maker:problem(where, "'%s' that is no whole number up to %d", name, MOST_LENGTH)
    return nil
  end
  return v
end

--- Such a number; nil: it is not there, or was noted as a problem.
scalars.size_of = size_of

local function quoted(node) return nodes.seq { nodes.text '"', values.inside(node), nodes.text '"' } end

-- A pattern is looked for anywhere, unless it says where a text begins and ends.
local function of_pattern(maker, pattern, where)
  local ok, node, begins, ends = pcall(regex, pattern, "pattern")
  if not ok and tostring(node):find "interrupted" then error(node, 0) end
  if not ok then return maker:problem(where, "a pattern that is not read (%s)", (tostring(node):gsub("^[^\n]-:%d+: ", ""):gsub("\n.*", ""))) end
  local any = nodes.rep(nodes.set(sets.all), 0)
  local list = {}
  if not begins then list[#list + 1] = any end
  list[#list + 1] = node
  if not ends then list[#list + 1] = any end
  return quoted(nodes.seq(list))
end

function scalars.string(maker, s, where)
  local least, most = size_of(maker, s, "minLength", where), size_of(maker, s, "maxLength", where)
  local pattern, format = s.at.pattern, s.at.format
  for _, name in ipairs { "contentEncoding", "contentMediaType", "contentSchema" } do
    if s.at[name] ~= nil then maker:problem(where, "'%s'", name) end
  end
  local words = {}
  for _, name in ipairs { "pattern", "format", least and "minLength" or "maxLength" } do
    if s.at[name] ~= nil then words[#words + 1] = name end
  end
  if #words > 1 then return maker:problem(where, "'%s' beside '%s'", words[2], words[1]) end
  if pattern ~= nil then return of_pattern(maker, pattern, where .. "/pattern") end
  if format ~= nil then
    if not FORMAT[format] then return maker:problem(where, "the format '%s'", require("tessera.core").shown(tostring(format), 40)) end
    return quoted((regex(FORMAT[format], "format")))
  end
  if least and most and least > most then return maker:problem(where, "'minLength' above 'maxLength'") end
  return values.string(least, most)
end

-- ---- numbers

local LIMIT = 10 ^ 15 - 1

-- {least, most, above, below} of a schema; above: the bound itself is out.
local function bounds_of(maker, s, where)
  local b = { least = -math.huge, most = math.huge }
  for name, key in pairs { minimum = "least", maximum = "most", exclusiveMinimum = "least", exclusiveMaximum = "most" } do
    local v = s.at[name]
    if v ~= nil and type(v) ~= "number" then
      maker:problem(where, "'%s' that is no number", name)
    elseif v ~= nil then
      local outer = key == "least" and v > b.least or key == "most" and v < b.most
      local out = name:find "exclusive" ~= nil
      if outer then b[key], b[key .. "_out"] = v, out elseif v == b[key] then b[key .. "_out"] = b[key .. "_out"] or out end
    end
  end
  return b
end

-- The whole numbers a bound leaves.
local function whole_bounds(b)
  local least, most = math.ceil(b.least), math.floor(b.most)
  if b.least_out and least == b.least then least = least + 1 end
  if b.most_out and most == b.most then most = most - 1 end
  return math.max(least, -LIMIT), math.min(most, LIMIT)
end

local function is_free(b) return b.least == -math.huge and b.most == math.huge end

-- Whole numbers from a to b with their sign; a minus in front of 0 is left out.
local function signed(a, b)
  local list = {}
  if b >= 0 then list[#list + 1] = values.range(math.max(a, 0), b) end
  if a < 0 then
    local minus = values.range(math.max(1, -b), -a)
    if minus then list[#list + 1] = nodes.seq { nodes.text "-", minus } end
  end
  return list
end

local function need_one(maker, s, where)
  local m = s.at.multipleOf
  if m ~= nil and m ~= 1 then maker:problem(where, "'multipleOf' other than 1") end
  return m
end

function scalars.integer(maker, s, where)
  need_one(maker, s, where)
  local b = bounds_of(maker, s, where)
  if is_free(b) then return values.integer() end
  local least, most = whole_bounds(b)
  if least > most then return maker:problem(where, "bounds between which there is no whole number") end
  return nodes.alt(signed(least, most))
end

-- A number with a point lies between two whole ones: the one nearer to 0 has to hold, and the other may be a bound that is out.
function scalars.number(maker, s, where)
  local b = bounds_of(maker, s, where)
  if need_one(maker, s, where) == 1 then return scalars.integer(maker, s, where) end
  if is_free(b) then return values.number() end
  local least, most = whole_bounds(b)
  if least > most then return maker:problem(where, "bounds between which there is no whole number") end
  local list = signed(least, most)
  local to, from = math.min(math.floor(b.most), LIMIT), math.max(math.ceil(b.least), -LIMIT)
  local plus = values.range(math.max(least, 0), to - 1)
  if plus then list[#list + 1] = nodes.seq { plus, values.fraction() } end
  local minus = values.range(math.max(0, -most), -from - 1)
  if minus then list[#list + 1] = nodes.seq { nodes.text "-", minus, values.fraction() } end
  return nodes.alt(list)
end

return scalars
