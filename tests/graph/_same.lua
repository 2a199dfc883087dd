-- For tests of control operators: eager = captured bits, gradients beside those of a function
-- without control operators.
local core = require "tessera.core"
local graph, op = require "tessera.graph", core.op

local stream = 0
local function R(shape, low)
  stream = stream + 1
  return op.uniform(shape, { low = low or -1, high = 1, dtype = "f64", seed = 11, stream = stream })
end

local function bits(...)
  local list = {}
  for i = 1, select("#", ...) do
    local v = (select(i, ...))
    if core.is_tensor(v) then
      list[i] = core.type_text(v) .. v:hash()
    elseif type(v) == "table" then
      local keys, parts = {}, {}
      for k in pairs(v) do keys[#keys + 1] = k end
      table.sort(keys, function(p, q) return tostring(p) < tostring(q) end)
      for j, k in ipairs(keys) do parts[j] = tostring(k) .. "=" .. bits(v[k]) end
      list[i] = "{" .. table.concat(parts, " ") .. "}"
    else
      list[i] = tostring(v)
    end
  end
  return table.concat(list, " ")
end

-- f(args...) has the same bits eagerly and captured, at the first run and the second.
local function same(f, ...)
  local g = graph.module("same", f)
  core.seed(3)
  local eager = bits(f(...))
  for run = 1, 2 do
    core.seed(3)
    local got = bits(g(...))
    if got ~= eager then return ("run %d: %s, not %s\n%s"):format(run, got, eager, g:ir()) end
  end
  local text = g:ir("concrete")
  local again, err = core.graph_parse(text)
  if again ~= text then return ("the text reads back as %s, not as %s"):format(again or err, text) end
  return true
end

-- The largest difference of two gradients beside their size.
local function off(a, b) return (a - b):abs():max():item() / math.max(1, b:abs():max():item()) end

-- The gradient of the captured f equals that of plain, which has no control operators, by
-- all arguments; and so does that of the gradient's weighted sum.
local function gradients(f, plain, ...)
  local n, wrt = select("#", ...), {}
  for i = 1, n do wrt[i] = i end
  local got, want = { graph.grad(f, wrt)(...) }, { graph.grad(plain, wrt)(...) }
  for i = 1, n do
    if not (off(got[i], want[i]) < 1e-12) then return ("gradient %d is off by %g"):format(i, off(got[i], want[i])) end
  end
  local u = {}
  for i = 1, n do u[i] = R((select(i, ...)).shape) end
  local function slope(h)
    local d = graph.grad(h, wrt)
    return function(...)
      local sum
      for i, g in ipairs { d.body(...) } do
        local part = (g * u[i]):sum()
        sum = sum and sum + part or part
      end
      return sum
    end
  end
  got, want = { graph.grad(slope(f), wrt)(...) }, { graph.grad(slope(plain), wrt)(...) }
  for i = 1, n do
    if not (off(got[i], want[i]) < 1e-11) then return ("second gradient %d is off by %g"):format(i, off(got[i], want[i])) end
  end
  local v = {}
  for i = 1, n do v[i] = u[i] end
  local args = { ... }
  for i = 1, n do args[n + i] = v[i] end
  local y1, d1 = graph.jvp(f)(unpack(args))
  local y2, d2 = graph.jvp(plain)(unpack(args))
  if not (off(y1, y2) < 1e-13 and off(d1, d2) < 1e-12) then return ("jvp is off by %g"):format(off(d1, d2)) end
  return true
end

return { R = R, same = same, off = off, gradients = gradients }
