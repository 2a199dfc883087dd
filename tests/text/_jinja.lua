-- What templates render beside what jinja2 renders (jinja_cases.py): a line of JSON a case.
local tessera = require "tessera"
local chat = require "tessera.hf.chat_template"
local read = require("tessera.hf.jinja.json").read
local values = require "tessera.hf.jinja.values"
local jinja = {}

local NOW = 1766600000

-- One case: nil, or what differs.
function jinja.case(line)
  local c = read(line).map
  local template, text
  local ok, why = pcall(function()
    template = chat.of_text(c.template)
    text = template:render_json(c.json, NOW)
  end)
  if c.kind == "error" then
    if not ok then return nil, tostring(why) end
    return ("%s\n  with %s\n  an error is wanted: %s\n  not %s"):format(c.template, c.json, c.out, text)
  end
  if ok and text == c.out then return nil end
  return ("%s\n  with %s\n  is %s\n  not %s"):format(#c.template > 3000 and c.name or c.template, c.json, ok and tessera.core.json_string(text) or "an error: " .. tostring(why),
    tessera.core.json_string(c.out))
end

jinja.values = values
return jinja
