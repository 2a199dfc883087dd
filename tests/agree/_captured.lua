-- Cases of tests/vectors as captured functions. Library of this folder, of tests/jit and tests/devices.
local core = require "tessera.core"
local op = core.op
local graph = require "tessera.graph"
local cases = require "_cases"
local M = {}

--- The inputs that are there, on a device if it is given; false stands for an absent one.
function M.present(x, device)
  local list = {}
  for _, t in ipairs(x) do
    if t then list[#list + 1] = device and t:to(device) or t end
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

local floats = { f16 = true, bf16 = true, f32 = true, f64 = true }

--- The same between pointwise neighbours, so that groups form.
function M.neighbours(c, x)
  local function before(t) return floats[t.dtype] and op.maximum(t * 1.0625, t) or t end
  local function after(y) return core.is_tensor(y) and floats[y.dtype] and op.abs(y * 0.75) - y or y end
  return M.captured(c, x, before, after)
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
