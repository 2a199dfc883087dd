-- Values as JSON on one line: what `:command --json` prints. Names of a table come in their order, so that the same values
-- are the same line; NaN and infinities are null, and what has no form in JSON is its text.

local core = require "tessera.core"

local names = { ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t", ["\\"] = "\\\\", ['"'] = '\\"' }

local function quote(s)
  s = s:gsub('[%c\\"\127]', function(c) return names[c] or ("\\u%04x"):format(c:byte()) end)
  return '"' .. core.shown(s, #s + 1):gsub("\\x(%x%x)", "\\u00%1") .. '"'
end

local function number(n)
  if n ~= n or n == math.huge or n == -math.huge then return "null" end
  if n == math.floor(n) and math.abs(n) < 2 ^ 53 then return ("%.0f"):format(n) end
  local text = ("%.15g"):format(n)
  return tonumber(text) == n and text or ("%.17g"):format(n)
end

local encode

local function list(t)
  local out = {}
  for i, v in ipairs(t) do out[i] = encode(v) end
  return "[" .. table.concat(out, ",") .. "]"
end

local function object(t)
  local keys, out = {}, {}
  for k in pairs(t) do keys[#keys + 1] = tostring(k) end
  table.sort(keys)
  for i, k in ipairs(keys) do out[i] = quote(k) .. ":" .. encode(t[k]) end
  return "{" .. table.concat(out, ",") .. "}"
end

--- One value; tables with t[1], or of the class `list`, are lists.
function encode(v)
  if type(v) == "string" then return quote(v) end
  if type(v) == "number" then return number(v) end
  if type(v) == "boolean" then return tostring(v) end
  if v == nil then return "null" end
  if core.is_tensor(v) or type(v) ~= "table" then return quote(tostring(v)) end
  return (v[1] ~= nil or next(v) == nil) and list(v) or object(v)
end

return encode
