-- Layouts to try a call's operands under: each axis of each operand by each axis of a mesh, alone and with all axes
-- of that size, and pairs of axes. Library of the tests.
local tessera = require "tessera"
local dist = tessera.dist
local M = {}

-- Specs of all operands: a list with, for each, {axis of the tensor from 1 = axis of the mesh or a list}, with `block`, or `over`:
-- summands that devices along it have; or false.
local function alone(x, i, spec)
  local s = {}
  for j = 1, #x do s[j] = j == i and spec end
  return s
end

-- As what operand i is split by, by size; axes of one size are split by the first.
local function alike(x, i, spec)
  local s = {}
  for j = 1, #x do
    if x[j] then
      s[j] = {}
      local used = {}
      for d, name in pairs(spec) do
        for e, n in ipairs(x[j].shape) do
          if n == x[i].shape[d] and not used[name] and not s[j][e] then s[j][e], used[name] = name, true end
        end
      end
    else
      s[j] = false
    end
  end
  return s
end

local function key_of(x, s)
  local text = {}
  for i = 1, #x do
    local t = {}
    for d = 1, x[i] and x[i].ndim or 0 do
      local n = s[i] and s[i][d]
      t[d] = type(n) == "table" and table.concat(n, "*") or n or "-"
    end
    text[i] = s[i] and table.concat(t, ",") .. (s[i].block and "/" .. s[i].block or "") .. (s[i].over and "+" .. s[i].over or "") or "."
  end
  return table.concat(text, " ")
end

--- x as summands along an axis of the mesh: one is x, the others -0, so that their sum is x to the bit.
function M.summands(x, mesh, axis)
  local none = x.dtype:find "^[iu]%d" and tessera.op.zeros_like(x) or -tessera.op.zeros_like(x)
  return dist.map(mesh, { {}, {} }, { { reduce = "sum", over = { axis } } }, function(t, z)
    return dist.place(axis) == 0 and t or z
  end)(x, none)
end

-- axes: the names of the mesh's. A list of {name, specs}, no layout twice. LONG=1: summands and pieces in turn as well.
local long = os.getenv "LONG"
function M.of(x, axes)
  local list, seen = {}, {}
  local function add(s)
    local key = key_of(x, s)
    if not seen[key] then
      seen[key] = true
      list[#list + 1] = { key, s }
    end
  end
  for i = 1, #x do
    if long and x[i] and x[i].dtype ~= "bool" then add(alone(x, i, { over = axes[1] })) end -- summands
    for d = 1, x[i] and x[i].ndim or 0 do
      if x[i].shape[d] > 1 then
        add(alone(x, i, { [d] = axes[#axes] }))
        if long then add(alone(x, i, { [d] = axes[#axes], block = 1 })) end
        add(alike(x, i, { [d] = axes[1] }))
        if axes[2] then
          add(alone(x, i, { [d] = { axes[1], axes[2] } }))
          local e = d % x[i].ndim + 1
          if e ~= d then
            add(alone(x, i, { [d] = axes[1], [e] = axes[2] }))
            add(alike(x, i, { [d] = axes[1], [e] = axes[2] }))
          end
        end
      end
    end
  end
  return list
end

return M
