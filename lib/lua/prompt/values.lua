-- The values of a session: what inputs gave, and the variables that they made.
--
--   Out[3]   -- the value of input 3, as errors number inputs: the last hundred
--   _1, _2   -- the last value and the one before it, up to _9; _ is _1
--   who()    -- the variables: name, type, shape, bytes, device

local core = require "tessera.core"
local console = require "tessera.console"

local values = {}

-- What is kept would otherwise be given back: so many values, and so many bytes of tensors.
local MOST, MOST_BYTES, LAST = 100, 2 ^ 28, 9

values.Out, values.last = {}, {}
local kept = {} -- the numbers of Out, oldest first

local function bytes_of(v) return core.is_tensor(v) and v.nbytes or 0 end

local function drop_oldest() values.Out[table.remove(kept, 1)] = nil end

--- keep(n, v): v is the value of input n.
function values.keep(n, v)
  if v == nil then return end
  local last, bytes = values.last, 0
  for i = LAST, 2, -1 do last[i] = last[i - 1] end
  last[1] = v
  values.Out[n], kept[#kept + 1] = v, n
  for _, number in ipairs(kept) do bytes = bytes + bytes_of(values.Out[number]) end
  while #kept > MOST or bytes > MOST_BYTES and #kept > 1 do
    bytes = bytes - bytes_of(values.Out[kept[1]])
    drop_oldest()
  end
  if bytes > MOST_BYTES then -- the newest alone: the others are not worth as much
    for i = 2, LAST do last[i] = nil end
  end
end

--- Forgets all of them.
function values.forget()
  while kept[1] do drop_oldest() end
  for i = 1, LAST do values.last[i] = nil end
end

-- Names that the prompt itself makes.
local ours = { _ = true, Out = true, who = true, help = true, tessera = true }

local function row_of(name, v)
  local row = { name = name, type = type(v) }
  local captured = require "tessera.captured"
  if core.is_tensor(v) then
    row.type, row.shape, row.bytes, row.device = v.dtype, v.shape, v.nbytes, v.device
  elseif captured.is_function(v) then
    row.type = "captured function"
  elseif captured.is_kernel(v) then
    row.type = "kernel"
  elseif type(v) == "table" and type(v.class) == "string" then
    local fine, parameters = pcall(function() return v:parameters() end)
    row.type, row.bytes = v.class, 0
    for _, p in ipairs(fine and type(parameters) == "table" and parameters or {}) do
      row.bytes = row.bytes + bytes_of(p)
      row.device = row.device or core.is_tensor(p) and p.device or nil
    end
  elseif type(v) == "string" then
    row.bytes = #v
  end
  return row
end

local Who = {}

local function shape_text(shape)
  local list = {}
  for i, n in ipairs(shape or {}) do list[i] = ("%.0f"):format(n) end
  return shape and "[" .. table.concat(list, ",") .. "]" or ""
end

function Who.__tostring(rows)
  if not rows[1] then return "no variables" end
  local lines = { { "name", "type", "shape", "bytes", "device" } }
  for i, r in ipairs(rows) do
    lines[i + 1] = { r.name, r.type, shape_text(r.shape), r.bytes and ("%.0f"):format(r.bytes) or "", r.device or "" }
  end
  local width = {}
  for _, l in ipairs(lines) do
    for c, text in ipairs(l) do width[c] = math.max(width[c] or 0, #text) end
  end
  for i, l in ipairs(lines) do
    for c, text in ipairs(l) do
      local blanks = (" "):rep(width[c] - #text)
      l[c] = c == 4 and blanks .. text or text .. blanks
    end
    lines[i] = table.concat(l, "  "):gsub("%s+$", "")
  end
  return table.concat(lines, "\n")
end

--- who(): the variables made at the prompt: a list of {name, type, shape, bytes, device}, which prints as a table. bytes of
--- a module are those of its parameters.
---   print(#who())
function values.who()
  local initial, names, rows = console.initial() or {}, {}, {}
  local modules = {}
  for _, name in ipairs(console.globals()) do modules[name] = true end
  for name, v in pairs(_G) do
    local own = type(name) == "string" and not ours[name] and not initial[name]
    if own and not (modules[name] and package.loaded["tessera." .. name] == v) and not (modules[name] and
      rawget(require "tessera", name) == v) then names[#names + 1] = name end
  end
  table.sort(names)
  for i, name in ipairs(names) do rows[i] = row_of(name, _G[name]) end
  return setmetatable(rows, Who)
end

return values
