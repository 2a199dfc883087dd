-- Random schemas, random texts of their grammars by masks alone, and Python's json and jsonschema (scripts/python.sh) as judges:
-- all are valid. LONG=1: many more; FUZZ_COUNT=schemas.
local tessera = require "tessera"
local tools = dofile "tests/hf/grammar/_tools.lua"
local Grammar = require "tessera.hf.grammar.grammar"
local json = tessera.core.open_json()

local count = tonumber(os.getenv "FUZZ_COUNT" or "") or os.getenv "LONG" and 20000 or 150
local own = io.popen("ls -d build/python/lib/python3*/site-packages/jsonschema 2>/dev/null"):read "*l"
local python = os.getenv "PYTHON" or own and "build/python/bin/python3"

local tok, over = tools.tokenizer()
local random = tools.random(tonumber(os.getenv "FUZZ_SEED" or "") or 7)
local function one_of(list) return list[random(#list) + 1] end
local function text(v) return json.encode(v) end

-- A schema as a text, so that names keep their order.
local schema
local KINDS = {}
local NAMES = { "a", "b", "name", "na", "x y", "ä", '"q"', "T1" }
function KINDS.null() return '{"type": "null"}' end
function KINDS.boolean() return '{"type": "boolean", "description": "d"}' end
function KINDS.string()
  return one_of { '{"type": "string"}', '{"type": "string", "minLength": 1, "maxLength": 3}', '{"type": "string", "pattern": "^[a-c\\"]+\\\\d{2}$"}',
    '{"type": "string", "pattern": "a.|[^b]{2}"}', '{"type": "string", "format": "date"}', '{"type": "string", "format": "date-time"}',
    '{"type": "string", "format": "uuid"}', '{"type": "string", "format": "ipv4"}', '{"format": "email"}', '{"format": "uri"}', '{"type": "string", "maxLength": 0}', '{"type": "string", "pattern": "\\\\w\\\\S\\\\D$"}' }
end
function KINDS.integer()
  local low = random(400) - 200
  return one_of { '{"type": "integer"}', ('{"type": "integer", "minimum": %d}'):format(low), ('{"type": "integer", "exclusiveMaximum": %d}'):format(low),
    ('{"type": "integer", "minimum": %d, "maximum": %d}'):format(low, low + random(1000)) }
end
function KINDS.number()
  local low = random(400) / 8 - 25
  return one_of { '{"type": "number"}', ('{"type": "number", "minimum": %g}'):format(low), ('{"exclusiveMaximum": %g, "type": "number"}'):format(low),
    ('{"type": "number", "exclusiveMinimum": %g, "maximum": %g}'):format(low, low + 2 + random(9)) }
end
function KINDS.enum() return one_of { '{"enum": [1, "a", null, 2.5, [1, {"x": true}]]}', '{"const": "c\\n"}', '{"type": "integer", "enum": [1, 2, "x"]}' } end
function KINDS.array(depth)
  local items, extra = schema(depth + 1), one_of { "", ', "minItems": 1', ', "minItems": 2, "maxItems": 3', ', "maxItems": 1', ', "maxItems": 0' }
  if random(4) == 0 then
    return ('{"type": "array", "prefixItems": [%s, %s], "items": %s%s}'):format(schema(depth + 1), schema(depth + 1), one_of { "false", items },
      one_of { "", ', "maxItems": 4' })
  end
  return ('{"type": "array", "items": %s%s}'):format(items, extra)
end
function KINDS.object(depth)
  local parts, required, seen = {}, {}, {}
  for _ = 1, random(4) do
    local name = one_of(NAMES)
    if not seen[name] then
      seen[name], parts[#parts + 1] = true, text(name) .. ": " .. schema(depth + 1)
      if random(2) == 0 then required[#required + 1] = text(name) end
    end
  end
  local more = one_of { "", "", ', "additionalProperties": false', ', "additionalProperties": true', ', "additionalProperties": ' .. schema(depth + 1) }
  return ('{"type": "object", "properties": {%s}, "required": [%s]%s}'):format(table.concat(parts, ", "), table.concat(required, ", "), more)
end
function KINDS.any_of(depth) return ('{"anyOf": [%s, %s]}'):format(schema(depth + 1), schema(depth + 1)) end
function KINDS.tagged(depth)
  return ([[{"oneOf": [{"type": "object", "properties": {"k": {"const": 1}, "v": %s}, "required": ["k"]},
    {"type": "object", "properties": {"k": {"enum": [2, 3]}, "w": %s}, "required": ["k", "w"], "additionalProperties": false}, {"type": "null"}]}]]):format(
    schema(depth + 1), schema(depth + 1)):gsub("\n%s*", " ")
end
function KINDS.types() return '{"type": ["integer", "string", "array", "null"], "minLength": 2, "minimum": 5, "items": {"type": "boolean"}}' end
function KINDS.ref() return '{"$ref": "#/$defs/t"}' end
function KINDS.any() return "true" end
local SMALL = { "null", "boolean", "string", "integer", "number", "enum", "types" }
local ALL = { "object", "object", "array", "any_of", "tagged", "ref", "any", unpack(SMALL) }
function schema(depth)
  return KINDS[depth > 3 and one_of(SMALL) or one_of(ALL)](depth)
end

local function whole()
  local body = schema(0)
  local tree = '{"type": "object", "properties": {"v": {"type": "integer"}, "kids": {"type": "array", "items": {"$ref": "#/$defs/t"}}}, "required": ["v"]}'
  return (body == "true" and "{" or body:sub(1, -2) .. ", ") .. ('"$defs": {"t": %s}}'):format(tree)
end

if not python then
  print "skipped: the package jsonschema is not in build/python"
else
  local path = os.tmpname()
  local file, made, cut = assert(io.open(path, "w")), 0, 0
  local function put(g, s)
    for _ = 1, 4 do
      local out = tools.text(g, tok, over, random, 400)
      if out then
        made = made + 1
        file:write(json.encode { schema = s, text = out }, "\n")
      else
        cut = cut + 1
      end
    end
  end
  for i = 1, count do
    local s = whole()
    local ok, g = pcall(Grammar.of, "json_schema", s)
    assert(ok, s .. "\n" .. tostring(g))
    put(g, s)
    if i % 10 == 0 then put(Grammar.of("json", true)) end
  end
  file:close()
  local pipe = io.popen(("%s tests/hf/grammar/_check.py < %s"):format(python, path))
  local said = pipe:read "*a"
  pipe:close()
  local checked = tonumber(said:match "checked (%d+)")
  if checked ~= made then -- the case beside what is said of it
    local n = tonumber(said:match "bad (%d+)" or "")
    for line in io.lines(path) do
      n = n and n - 1
      if n == 0 then said = said .. line end
    end
  end
  os.remove(path)
  assert(checked == made, said)
  assert(made > count * 2, ("%d texts of %d schemas, %d got too long"):format(made, count, cut))
end
