-- What optimisers load: all of a state or nothing of it, what is missing as before the first step; and
-- what a step takes.
local tessera = require "tessera"
local core, op, nn, optim = tessera.core, tessera.op, tessera.nn, tessera.optim

local function trained(name, steps)
  local model = nn.Linear(2, 3)
  local p = { model.weight, model.bias }
  p[1]:copy_(op.arange(6):reshape(3, 2) * 0.25)
  p[2]:copy_(op.arange(3) * -0.5)
  local opt = optim[name](p, name == "SGD" and { momentum = 0.9 } or nil)
  local function step(k) opt:step { p[1] * 0.5 + k, p[2] * 0.5 - k } end
  for k = 1, steps do step(k) end
  return opt, p, step
end

-- All of a state as text.
local function told(v)
  if core.is_tensor(v) then return v:hash() end
  if type(v) ~= "table" then return tostring(v) end
  local out = {}
  for key, part in pairs(v) do out[#out + 1] = tostring(key) .. "=" .. told(part) end
  table.sort(out)
  return "{" .. table.concat(out, " ") .. "}"
end
local function text(opt) return told(opt:state_dict()) end

for _, name in ipairs { "SGD", "Adam", "AdamW", "Lion", "Adafactor", "RMSprop", "Adagrad", "NAdam", "RAdam", "Adamax", "Adadelta", "ASGD", "Rprop", "AdamAtan2" } do
  -- The state of a new one is that of before the first step, wherever it is loaded.
  local new, p, step = trained(name, 0)
  local old, q, again = trained(name, 3)
  old:load_state_dict(new:state_dict())
  q[1]:copy_(p[1]:detach())
  q[2]:copy_(p[2]:detach())
  step(1)
  again(1)
  assert(text(old) == text(new) and q[1]:hash() == p[1]:hash(), name .. ": a state that is empty")

  -- What is no state leaves all as it is.
  local before = text(old)
  local function refused(change, why)
    local state = trained(name, 2):state_dict()
    change(state)
    local ok, said = pcall(old.load_state_dict, old, state)
    assert(not ok and tostring(said):find(why), name .. ": " .. tostring(said))
    assert(text(old) == before, name .. " was changed by " .. why)
  end
  local first = old.state_names[1]
  refused(function(s) s.state[1][first] = 3 end, "'" .. first .. "' of parameter 1 must be a tensor, not 3")
  refused(function(s) s.state[1][first] = op.ones { 2, 3, 1 } end, "'" .. first .. "' of parameter 1 has shape %[2,3,1%] in the state")
  refused(function(s) s.state[1][first] = s.state[1][first]:cast "complex64" end, "is complex64%[.*%], and has to be floats")
  refused(function(s) s.state[1].other = op.ones { 3, 2 } end, "parameter 1 has 'other' in the state, which " .. name .. " has not")
  refused(function(s) s.state[3] = s.state[1] end, "there is no parameter 3, of 2")
  refused(function(s) s.state[1] = 7 end, "the state of parameter 1 must be a table, not 7")
  refused(function(s) s.steps = "three" end, "steps")
  refused(function(s) s.steps = -1 end, "steps")
  refused(function(s) s.optimizer = "Other" end, "Other")

  -- A gradient that has another shape is not spread, and nothing is rounded or left out.
  for _, g in ipairs { op.ones { 2 }, op.ones {}, op.ones { 1, 3, 2 } } do
    local opt, p = trained(name, 1)
    local was = p[1]:hash()
    assert(not pcall(opt.step, opt, { g, false }) and p[1]:hash() == was, name .. " takes a gradient " .. core.type_text(g))
  end
  for _, dtype in ipairs { "i64", "bool", "complex64" } do
    local p = op.ones({ 2 }, { dtype = dtype })
    local ok, why = pcall(function() optim[name]({ p }):step { op.ones { 2 } } end)
    assert(not ok and p:hash() == op.ones({ 2 }, { dtype = dtype }):hash() and not tostring(why):find "attempt", ("%s of %s: %s"):format(name, dtype, tostring(why)))
  end
end

optim.RMSprop { op.ones { 2 } }:step { 3 } --! RMSprop: a gradient is a number, not a tensor
optim.RMSprop { op.ones { 2 } }:step { op.ones { 3 } } --! RMSprop: the gradient f32[3] does not fit the parameter f32[2]
optim.Rprop { op.ones { 2 } }:step { op.ones({ 2 }, { dtype = "complex64" }) } --! Rprop: the gradient complex64[2] does not fit the parameter f32[2]
optim.Adadelta { op.ones({ 2 }, { dtype = "i64" }) }:step { op.ones { 2 } } --! Adadelta: a parameter is i64[2], and only floats move

-- L-BFGS
optim.LBFGS { op.ones({ 2 }, { dtype = "i64" }) } --! LBFGS: a parameter is i64[2], and only floats move
local p = op.ones { 2, 3 }
local lbfgs = optim.LBFGS({ p }, { iterations = 1 })
local function closure() return { p * 2 }, (p * p):sum() end
lbfgs:step(3) --! LBFGS:step
lbfgs:step(function() return { op.ones { 2, 3 } } end) --! LBFGS:step: the closure returns the loss
lbfgs:step(function() return { op.ones {} }, 1 end) --! LBFGS: the gradient f32[] does not fit the parameter f32[2,3]
p:hash() == op.ones({ 2, 3 }):hash() --> true
lbfgs:step(closure)
local state, before = lbfgs:state_dict(), text(lbfgs)
state.moves[1] = op.ones({ 5 }, { dtype = "f64" })
lbfgs:load_state_dict(state) --! LBFGS:load_state_dict: moves are vectors of 6 elements, not f64[5]
state.moves[1], state.bends = op.ones({ 6 }, { dtype = "f64" }), {}
lbfgs:load_state_dict(state) --! LBFGS:load_state_dict: bends are vectors of 6 elements, not nothing
lbfgs:load_state_dict(3) --! LBFGS:load_state_dict: the state must be a table, not 3
text(lbfgs) == before --> true

-- Averages
local ema, swa = optim.EMA { p }, optim.SWA { p }
ema:load_state_dict { ["0"] = op.ones { 3 } } --! EMA:load_state_dict: '0' is f32[3], and has to be f32[2,3]
ema:load_state_dict { ["0"] = 3 } --! EMA:load_state_dict: '0' is a number, not a tensor
swa:load_state_dict { ["0"] = p, count = op.ones { 2 } } --! SWA:load_state_dict: 'count' is f32[2], and has to be f64[]
