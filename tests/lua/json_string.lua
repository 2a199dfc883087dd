-- Strings of JSON: what its readers take, and what is no UTF-8.
local core = require "tessera.core"
core.json_string 'a"b\\c' --> "a\"b\\c"
core.json_string "\n\r\t\1\127\0x" --> "\n\r\t\u0001\u007f\u0000x"
core.json_string "\195\164\240\159\152\128" == '"\195\164\240\159\152\128"' --> true
core.json_string "\195" == '"\239\191\189"' --> true
core.json_string "a\228b" == '"a\239\191\189b"' --> true
core.json_string "\237\160\128" == '"' .. ("\239\191\189"):rep(3) .. '"' --> true
for c = 0, 255 do
  local s = string.char(c, 97, c)
  local back = core.open_json().decode("[" .. core.json_string(s) .. "]")
  assert(back and (c > 127 or back[1] == s), c)
end
require "tessera.prompt.json" { a = "\228", b = 1 } == '{"a":"\239\191\189","b":1}' --> true
