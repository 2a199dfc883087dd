-- What a function is called, as far as that is known, and where it is written: "op.tanh", "math.sin",
-- "function scale (model.lua:12)".

local core = require "tessera.core"
local name = {}

local function key_of(t, f)
  for key, value in pairs(t) do
    if value == f and type(key) == "string" then return key end
  end
end

--- The name of an operator, without "op."; nil if it is none.
function name.operator(f) return key_of(core.op, f) end

--- The name of an operator, a global function, or a function of a global table.
function name.of(f)
  local own = name.operator(f)
  if own then return "op." .. own end
  own = key_of(_G, f)
  if own then return own end
  local tables = {}
  for key, t in pairs(_G) do
    if type(key) == "string" and type(t) == "table" and not core.is_tensor(t) and t ~= _G and t ~= package.loaded then
      tables[#tables + 1] = key
    end
  end
  table.sort(tables)
  for _, key in ipairs(tables) do
    own = key_of(_G[key], f)
    if own then return key .. "." .. own end
  end
end

--- The place of a function of Lua, " (model.lua:12)"; "" of C's.
function name.place(f)
  local info = debug.getinfo(f, "S")
  return info.what == "C" and "" or (" (%s:%d)"):format(info.short_src, info.linedefined)
end

--- The text that descriptions show.
function name.text(f)
  local own = name.of(f)
  if own and own:find "^op%." then return own end
  return "function" .. (own and " " .. own or "") .. name.place(f)
end

return name
