-- One good call of every row, taken from the agreement cases. Library of the tests.
package.path = "tests/agree/?.lua;" .. package.path
local core = require "tessera.core"
local cases = require "_cases"
local M = {}

--- For every row in the table's order: its record and up to `most` cases of it.
function M.each(most)
  local by = {}
  for c in cases.each() do
    by[c.row] = by[c.row] or {}
    table.insert(by[c.row], c)
  end
  local list = {}
  for _, o in ipairs(core.operators()) do
    local all, some = by[o.name] or {}, {}
    local step = math.max(1, math.floor(#all / most))
    for i = 1, #all, step do
      if #some < most then some[#some + 1] = all[i] end
    end
    list[#list + 1] = { row = o, cases = some }
  end
  local i = 0
  return function()
    i = i + 1
    if list[i] then return list[i].row, list[i].cases end
  end
end

--- The message is one line for the user: no traceback, no C, no Lua of ours.
function M.clean(e)
  e = tostring(e)
  if e:find("attempt to", 1, true) or e:find("bad argument", 1, true) then return false end
  return #e > 5 and #e < 2000 and not e:find "%z"
end

return M
