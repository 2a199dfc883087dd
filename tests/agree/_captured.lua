-- Cases of tests/vectors as captured functions. Library of this folder and of tests/jit.
local core = require "tessera.core"
local graph = require "tessera.graph"
local cases = require "_cases"
local M = {}

--- The inputs that are there; false stands for an absent one.
function M.present(x)
  local list = {}
  for _, t in ipairs(x) do
    if t then list[#list + 1] = t end
  end
  return list
end

--- The case as a captured function of those inputs that are there. before and after, if given, are
--- applied to each input and each result.
function M.captured(c, x, before, after)
  return graph.module("case", function(...)
    local given, k, full = { ... }, 0, {}
    for i = 1, #x do
      full[i] = false
      if x[i] then
        k = k + 1
        full[i] = before and before(given[k]) or given[k]
      end
    end
    local out = cases.call(c, full)
    for i, y in ipairs(after and out or {}) do out[i] = after(y) end
    return unpack(out)
  end)
end

--- Types and bits of results.
function M.text_of(out)
  local h = {}
  for i = 1, #out do
    local y = out[i]
    h[i] = core.is_tensor(y) and core.type_text(y) .. y:hash() or tostring(y)
  end
  return table.concat(h, " ")
end

return M
