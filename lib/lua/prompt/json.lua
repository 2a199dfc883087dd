-- Values as JSON on one line: what `:command --json` prints. Names of a table come in their order, so that the same values
-- are the same line; NaN and infinities are null, and what has no form in JSON is its text. A table that has a reason for
-- a value that is not there, x_reason without x, has null for it.

local core = require "tessera.core"

local function quote(s)
  if not s:find '[%c\\"\127-\255]' then return '"' .. s .. '"' end
  return core.json_string(s)
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

-- Names of fields, which are few: quoted, and of what they are the reason.
local quoted, reason_of = {}, {}
local function know(k)
  local name = tostring(k)
  quoted[k], reason_of[k] = quote(name) .. ":", type(k) == "string" and k:match "^(.+)_reason$" or false
end

local function object(t)
  local keys, out = {}, {}
  for k in pairs(t) do
    if not quoted[k] then know(k) end
    keys[#keys + 1] = k
    local absent = reason_of[k]
    if absent and t[absent] == nil then
      if not quoted[absent] then know(absent) end
      keys[#keys + 1] = absent
    end
  end
  table.sort(keys, function(a, b) return quoted[a] < quoted[b] end)
  for i, k in ipairs(keys) do out[i] = quoted[k] .. encode(t[k]) end
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
