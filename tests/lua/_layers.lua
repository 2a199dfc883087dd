-- Layers beside PyTorch's results, which make_layers.py, make_rest.py and make_more.py stored: values and gradients in f64; the captured
-- function with the bits of the eager layer, in f64 and, in f32, on the simulated device, too.
--
--   local layers = dofile "tests/lua/_layers.lua"
--   layers.check("lstm", nn.LSTM(3, 4))                    -- model(inputs...)
--   layers.check("name", model, function(m, x, ...) .. end)

local tessera = require "tessera"
local op, graph = tessera.op, tessera.graph
local M = {}

local stored = tessera.load "tests/lua/layers.safetensors"
for _, more in ipairs { "rest", "more" } do
  for name, t in pairs(tessera.load("tests/lua/" .. more .. ".safetensors")) do stored[name] = t end
end

--- What the file has of a case: "in", "state", "out" or "grad", by name; numbers count from 1.
function M.of(case, kind)
  local list, head = {}, case .. "/" .. kind .. "/"
  for name, t in pairs(stored) do
    if name:sub(1, #head) == head then
      local key = name:sub(#head + 1)
      list[tonumber(key) and tonumber(key) + 1 or key] = t
    end
  end
  return list
end

--- One tensor of the file.
function M.stored(name) return assert(stored[name], name) end

local function leaves(list, v, ...)
  if tessera.is_tensor(v) then
    list[#list + 1] = v
  elseif type(v) == "table" then
    leaves(list, unpack(v))
  end
  if select("#", ...) > 0 then return leaves(list, ...) end
  return list
end

local function slope(y) return (op.arange(y.numel):cast(y.dtype) * 0.7):cos():reshape(y.shape):to(y.device) end
local function total(outs)
  local sum = 0
  for _, y in ipairs(outs) do sum = sum + (y * slope(y)):sum() end
  return sum
end

local function near(what, got, want, tol)
  assert(table.concat(got.shape, ",") == table.concat(want.shape, ","),
    ("%s: shape [%s], not [%s]"):format(what, table.concat(got.shape, ","), table.concat(want.shape, ",")))
  if got.numel == 0 then return end
  local far = (got:cast "f64" - want:cast "f64"):abs():max():item()
  assert(far <= tol * math.max(1, want:cast "f64":abs():max():item()), ("%s: %g away"):format(what, far))
end
M.near = near

-- Eight steps of an optimiser that make({p, q}) makes, by gradients that depend on the parameters, beside what the
-- case kept of some of them.
function M.steps(name, make)
  local start = M.of(name, "start")
  local p, q = start.p:clone(), start.q:clone()
  local opt = make(p, q)
  for k = 0, 7 do
    opt:step { slope(p) * (k + 1) - p, slope(q) * 0.3 + q * (k % 3) }
    local want = M.of(name, "after" .. k)
    if want.p then
      near(name .. ", p " .. k, p, want.p, 1e-12)
      near(name .. ", q " .. k, q, want.q, 1e-12)
    end
  end
end

local function hashes(list)
  local text = {}
  for i, t in ipairs(list) do text[i] = t.dtype .. t:hash() end
  return table.concat(text, " ")
end

local function converted(inputs, to)
  local list = {}
  for i, x in ipairs(inputs) do list[i] = (x.dtype:match "^f" or to:match ":") and x:to(to) or x end
  return list
end

-- Results, then the gradients of the float inputs and the parameters, eagerly.
local function eager(model, call, inputs)
  local xs, list = {}, {}
  for i, x in ipairs(inputs) do
    xs[i] = x:clone()
    xs[i].requires_grad = x.dtype:match "^f" ~= nil
  end
  if model then model:zero_grad() end
  local outs = leaves({}, call(model, unpack(xs)))
  total(outs):backward()
  local grads = {}
  for i, x in ipairs(xs) do grads["in." .. i - 1] = x.grad end
  for _, pair in ipairs(model and model:named_parameters() or {}) do grads[pair[1]] = pair[2].grad end
  for i, y in ipairs(outs) do list[i] = y:detach() end
  return list, grads
end

local function same_when_captured(case, model, call, inputs)
  local want = hashes((eager(model, call, inputs)))
  local f = graph.module(case, function(m, ...) return leaves({}, call(m, ...)) end)
  assert(hashes(f(model or false, unpack(inputs))) == want, case .. ": another answer when captured")
  return want
end

-- what: {f32 = false} where the layer is for f64 alone, {sim = false} where the device lacks it.
function M.check(case, model, call, what)
  what = what or {}
  call = call or function(m, ...) return m(...) end
  local inputs = M.of(case, "in")
  if model then
    model:to "f64"
    model:load_state_dict(M.of(case, "state"))
  end
  local state = {}
  for name, t in pairs(model and model:state_dict() or {}) do state[name] = t:clone() end
  local function fresh(to)
    if not model then return end
    model:to "f64"
    model:load_state_dict(state)
    model:to(to)
  end
  local outs, grads = eager(model, call, inputs)
  local want = M.of(case, "out")
  assert(#outs == #want, ("%s: %d results, not %d"):format(case, #outs, #want))
  for i, y in ipairs(outs) do near(("%s: result %d"):format(case, i), y, want[i], 1e-12) end
  for name, d in pairs(M.of(case, "grad")) do
    if grads[name] or d:abs():max():item() > 0 then -- none is zeros
      assert(grads[name], ("%s: no gradient of %s"):format(case, name))
      near(("%s: gradient of %s"):format(case, name), grads[name], d, 1e-11)
    end
  end
  fresh "f64"
  same_when_captured(case, model, call, inputs)
  if what.sim == false then return end
  fresh "f32"
  inputs = converted(inputs, "f32")
  local here = same_when_captured(case, model, call, inputs)
  fresh "f32"
  if model then model:to "sim:0" end
  local there = converted(inputs, "sim:0")
  local bits = same_when_captured(case .. "_there", model, call, there)
  if model then model:to "cpu" end
  assert(bits == here, case .. ": another answer on the device")
end

return M
