-- What a tokenizer makes of texts beside what the package tokenizers makes of them (fuzz.py, vectors.py).
local tessera = require "tessera"
local compare = {}

local function shown(list) return #list .. ": " .. table.concat(list, " ", 1, math.min(#list, 60)) end

-- nil, or what differs: a line.
function compare.case(tok, c)
  local pair = type(c.pair) == "string" and c.pair or nil
  local e = tok:encode(c.text, { pair = pair, add_special_tokens = c.add, offsets = "chars", truncation = false, padding = false })
  local text = tessera.core.json_string(c.text)
  if table.concat(e.ids, " ") ~= table.concat(c.ids, " ") then
    return ("%s: ids are %s\n  not %s"):format(text, shown(e.ids), shown(c.ids))
  end
  for name, list in pairs { types = c.types or false, special = c.special or false } do
    for i, v in ipairs(e[name]) do
      if v ~= (list and list[i] or 0) then return ("%s: %s[%d] is %d"):format(text, name, i, v) end
    end
  end
  for i, o in ipairs(e.offsets) do
    if o[1] - 1 ~= c["from"][i] or o[2] ~= c["to"][i] then
      return ("%s: token %d is at %d..%d, not %d..%d"):format(text, i, o[1] - 1, o[2], c["from"][i], c["to"][i])
    end
  end
  local decoded = tok:decode(c.ids, { skip_special_tokens = c.skip })
  if decoded ~= c.decoded then
    return ("%s: decoded as %s\n  not %s"):format(text, tessera.core.json_string(decoded), tessera.core.json_string(c.decoded))
  end
end

return compare
