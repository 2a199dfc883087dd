-- Tables of tensors by name print as a line for each.

local core = require "tessera.core"
local State = {}

local function state_lines(t, indent, lines)
  local keys = {}
  for key in pairs(t) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  for _, key in ipairs(keys) do
    local value = t[key]
    local nested = type(value) == "table" and not getmetatable(value)
    lines[#lines + 1] = ("%s%s: %s"):format(indent, core.shown(tostring(key)), core.is_tensor(value) and core.type_text(value)
      or nested and "" or core.shown(tostring(value)))
    if nested then state_lines(value, indent .. "  ", lines) end
  end
  return lines
end

function State.__tostring(t) return table.concat(state_lines(t, "", {}), "\n") end

return function(t)
  setmetatable(t, State)
  return t
end
