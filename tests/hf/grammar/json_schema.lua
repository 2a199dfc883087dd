-- JSON schemas: texts that a schema's grammar has, and what is not read, all of it at once.
local tessera = require "tessera"
local Grammar = require "tessera.hf.grammar.grammar"

-- Of texts, those that a schema has.
local function of(schema, ...)
  local g, list = Grammar.of("json_schema", schema), {}
  for _, s in ipairs { ... } do
    if g:matches(s) then list[#list + 1] = s end
  end
  return table.concat(list, " ")
end

-- ---- values
of("true", "1", '"a"', "[1, {}]", "nul") --> 1 "a" [1, {}]
of('{"type": "boolean"}', "true", "false", "null") --> true false
of('{"type": ["string", "null"]}', '"a"', "null", "1") --> "a" null
of('{"enum": [1, "a\\n\\"", null, [1, {"b": 2.5}]]}', "1", [["a\n\""]], "null", '[1, {"b": 2.5}]', "2") --> 1 "a\n\"" null [1, {"b": 2.5}]
of('{"type": "string", "enum": [1, "a"]}', "1", '"a"') --> "a"
of('{"const": 0.1}', "0.1", "1") --> 0.1

-- ---- texts
of('{"type": "string", "minLength": 1, "maxLength": 2}', '""', '"ä"', [["\u00e4\n"]], '"abc"') --> "ä" "\u00e4\n"
of('{"type": "string"}', [["\ud800"]], [["\udc00"]], [["\ud7ff"]], '"\n"', [["\x"]]) --> "\ud7ff"
of('{"type": "string", "pattern": "^[a-c]+\\\\d$"}', '"abc1"', '"abc"', '"xabc1"') --> "abc1"
of('{"pattern": "b"}', '"abc"', '"b"', '"ac"', '"\\"b"') --> "abc" "b" "\"b"
of([[{"pattern": "^[\"\\\\\\n\\x01]$"}]], [["\""]], [["\\"]], [["\n"]], [["\u0001"]], '"\1"') --> "\"" "\\" "\n" "\u0001"
of('{"format": "date"}', '"2024-02-28"', '"2024-02-30"', '"2024-13-01"', '"2024-04-31"') --> "2024-02-28"
of('{"format": "date-time"}', '"2024-02-28T23:59:59.5+01:00"', '"2024-02-28T24:00:00Z"') --> "2024-02-28T23:59:59.5+01:00"
of('{"format": "uuid"}', '"00000000-0000-4000-8000-000000000000"', '"0"') --> "00000000-0000-4000-8000-000000000000"
of('{"format": "ipv4"}', '"192.168.0.255"', '"256.0.0.1"', '"01.0.0.1"') --> "192.168.0.255"
of('{"format": "email"}', '"a.b+c@de-f.org"', '"a@b"', '".a@b.c"') --> "a.b+c@de-f.org"
of('{"format": "uri"}', '"https://a.b.org:80/x/?q=1#top"', '"a.b"', '"http://-a.b/"') --> "https://a.b.org:80/x/?q=1#top"

-- ---- numbers
of('{"type": "integer"}', "0", "-12", "01", "1.5", "-0") --> 0 -12 -0
of('{"type": "integer", "minimum": -13, "exclusiveMaximum": 105}', "-14", "-13", "-9", "0", "99", "104", "105", "-0") --> -13 -9 0 99 104
of('{"type": "integer", "minimum": 999}', "998", "999", "1000", "123456789012345") --> 999 1000 123456789012345
of('{"type": "number", "minimum": -1.5, "maximum": 2.5}', "-1.2", "-1", "-0.5", "-2", "0.99", "1.5", "2", "2.1", "2.7") --> -1 -0.5 0.99 1.5 2
of('{"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 2}', "0", "0.5", "1", "1.25", "2") --> 1 1.25
of('{"type": "number"}', "1.5e-10", "1e", "-0.0", "1E+5") --> 1.5e-10 -0.0 1E+5
for _, bound in ipairs { { 0, 0 }, { 7, 113 }, { -120, -7 }, { -3, 12 }, { 95, 1203 } } do
  local g = Grammar.of("json_schema", ('{"type": "integer", "minimum": %d, "maximum": %d}'):format(unpack(bound)))
  for n = -150, 1300 do assert(g:matches(tostring(n)) == (n >= bound[1] and n <= bound[2]), n) end
end

-- ---- lists
of('{"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3}', "[]", "[1]", "[1, 2,3]", "[ 1\n , 2 ]", "[1,2,3,4]") --> [1] [1, 2,3] [ 1
-->  , 2 ]
of('{"type": "array", "maxItems": 0}', "[]", "[ ]", "[1]") --> [] [ ]
of('{"prefixItems": [{"const": 1}, {"const": 2}], "items": false}', "[1]", "[1, 2]", "[1, 2, 3]") --> [1, 2]
of('{"items": [{"const": 1}], "additionalItems": {"const": 3}, "minItems": 2}', "[1]", "[1, 3]", "[1, 3, 3]") --> [1, 3] [1, 3, 3]

-- ---- objects
local person = [[{"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "boolean"}, "c": {"type": "null"}}, "required": ["b"]}]]
of(person, '{"a": 1, "b": true, "c": null}', '{"b":true}', '{"a":1}', '{"b": true, "a": 1}', '{"b": true, "c": null}', '{"b": true, "d": 1}') --> {"a": 1, "b": true, "c": null} {"b":true} {"b": true, "c": null}
of('{"type": "object", "properties": {"a": true, "b": true}}', "{}", '{"a": 1}', '{"b": 1}', '{"a": 1,"b":2}', '{,"b":2}') --> {} {"a": 1} {"b": 1} {"a": 1,"b":2}
of('{"type": "object"}', "{}", '{"x": [1], "y": {}}') --> {} {"x": [1], "y": {}}
local open = '{"properties": {"ab": true}, "additionalProperties": {"type": "integer"}}'
of(open, '{"ab": "x"}', '{"ab": "x", "abc": 1, "a": 2}', '{"ab": 1, "ab": 2}', '{"x": 1}', '{"x": "y"}', [[{"\u0061b": 1}]]) --> {"ab": "x"} {"ab": "x", "abc": 1, "a": 2} {"x": 1}
of('{"type": "object", "required": ["x"], "additionalProperties": {"type": "integer"}}', "{}", '{"x": 1}', '{"x": 1, "y": 2}') --> {"x": 1} {"x": 1, "y": 2}
of('{"properties": {"a\\"\\n": {"const": 1}}, "additionalProperties": false}', [[{"a\"\n": 1}]]) --> {"a\"\n": 1}

-- ---- references and alternatives
local tree = [[{"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {"v": {"type": "integer"},
  "kids": {"type": "array", "items": {"$ref": "#/$defs/node"}}}, "required": ["v", "kids"], "additionalProperties": false}}}]]
of(tree, '{"v": 1, "kids": [{"v": 2, "kids": []}]}', '{"v": 1, "kids": [1]}') --> {"v": 1, "kids": [{"v": 2, "kids": []}]}
of('{"anyOf": [{"type": "integer"}, {"const": "x"}], "title": "T", "default": 1}', "1", '"x"', '"y"') --> 1 "x"
local one = [[{"oneOf": [{"type": "object", "properties": {"kind": {"const": "a"}}, "required": ["kind"]},
  {"type": "object", "properties": {"kind": {"const": "b"}, "n": {"type": "integer"}}, "required": ["kind", "n"]}]}]]
of(one, '{"kind": "a"}', '{"kind": "b"}', '{"kind": "b", "n": 1}') --> {"kind": "a"} {"kind": "b", "n": 1}
of('{"allOf": [{"type": "null"}]}', "null", "1") --> null

-- ---- tables of Lua: names as they are required, then by the alphabet
local lua = { type = "object", properties = { z = { type = "integer" }, a = { const = tessera.hf.null }, b = { enum = { 1, 2 } } }, required = { "z" } }
of(lua, '{"z": 1, "a": null, "b": 2}', '{"a": null, "z": 1}') --> {"z": 1, "a": null, "b": 2}
of({}, "1", "{}") --> 1 {}

-- ---- what is not read
local _, why = pcall(Grammar.of, "json_schema", [[{"type": "object", "minProperties": 1, "properties": {
  "a": {"type": "string", "format": "hostname"}, "b": {"type": "array", "uniqueItems": true, "contains": {}}, "c": {"multipleOf": 5},
  "d": {"oneOf": [{"type": "integer"}, {"type": "number"}]}, "e": {"not": {}}, "f": {"$ref": "other.json"}, "g": {"$ref": "#/x"}, "h": {"type": "str"},
  "i": {"pattern": "(?=a)"}, "j": {"minLength": 2, "maxLength": 1}, "k": {"anyOf": [], "type": "null"}, "l": false}}]])
why = why:gsub("^[^\n]-:%d+: ", "")
why --> json_schema: this is not read:
-->   'minProperties' at #
-->   the format 'hostname' at #/properties/a
-->   'contains' at #/properties/b
-->   'uniqueItems' at #/properties/b
-->   'multipleOf' other than 1 at #/properties/c
-->   'oneOf' whose alternatives 0 and 1 may both hold at #/properties/d/oneOf
-->   'not' at #/properties/e
-->   '$ref' to other.json at #/properties/f
-->   '$ref' to #/x, which is not there, at #/properties/g
-->   the type 'str' at #/properties/h
-->   a pattern that is not read (pattern: at character 2 of '(?=a)': groups that look around, or set options, are not read) at #/properties/i/pattern
-->   'minLength' above 'maxLength' at #/properties/j
-->   'type' beside 'anyOf' at #/properties/k
-->   what is no list of schemas at #/properties/k/anyOf
-->   false, which no value holds, at #/properties/l
Grammar.of("json_schema", '{"$ref": "#"}') --! never end
Grammar.of("json_schema", '{"a"') --! no JSON
Grammar.of("json_schema", "3") --! what is no schema at #
local loop = { type = "object" }
loop.properties = { a = loop }
Grammar.of("json_schema", loop) --! does it hold itself?
