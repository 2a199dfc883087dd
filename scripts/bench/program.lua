-- The programs of `make bench ONLY=programs`, in programs/: each NAME.lua, as a user writes it, beside the NAME.py
-- that does the same in PyTorch from the same weights and data, which go through a file below build/bench.
--
--   tessera scripts/bench/program.lua NAME [steps] [captured]      -- one alone: prints what its calls return
--
-- A program is a table with data, a list of tensors, and one of
--   loss, model, optimizer (and batch: rows of the data for each step): training
--   run: a function of the data
--   start: start(captured) returns the call to measure
-- The model's state is what the peer starts from.

local ts = require "tessera"
local graph = ts.graph

local program = {}
local FOLDER = "build/bench/programs/"
local CHECKED = 3 -- calls whose results are compared with the peer's

-- The rows of the next step, over and over.
local function batches(data, batch)
  if not batch then return function() return unpack(data) end end
  local at, rows = -batch, data[1].shape[1]
  return function()
    local part = {}
    at = (at + batch) % rows
    for i, t in ipairs(data) do part[i] = t:narrow(0, at, batch) end
    return unpack(part)
  end
end

local function eager_training(p)
  return function(...)
    local loss = p.loss(p.model, ...)
    p.optimizer:zero_grad()
    loss:backward()
    p.optimizer:step()
    return loss:detach()
  end
end

-- What one call of the program does.
local function call_of(p, captured)
  if p.start then return p.start(captured) end
  local f = p.run
  if captured then
    f = f and graph.module("program", f) or graph.training_step(p.model, p.loss, p.optimizer)
  elseif not f then
    f = eager_training(p)
  end
  local next_batch = batches(p.data, p.batch)
  return function() return (f(next_batch())) end
end

local function save(name, p)
  local all = {}
  for i, t in ipairs(p.data) do all["data." .. i - 1] = t end
  for key, t in pairs(p.model and p.model:state_dict() or {}) do all["state." .. key] = t end
  os.execute("mkdir -p " .. FOLDER)
  ts.save(FOLDER .. name .. ".safetensors", all)
end

local function load_program(name)
  ts.rng.seed(1)
  return dofile(("scripts/bench/programs/%s.lua"):format(name))
end

local function size(y) return y:detach():abs():cast("f64"):mean():item() end

-- Returns the call, and the mean |result| of the first ones. kept: the peer will begin from the same state.
function program.set_up(name, captured, kept)
  local p = load_program(name)
  if kept then save(name, p) end
  local call, sum = call_of(p, captured), 0
  for _ = 1, CHECKED do sum = sum + size(call()) end
  return call, sum / CHECKED
end

if ... ~= "program" then
  local call = call_of(load_program(arg[1] or error("which program?", 0)), arg[3] == "captured")
  for step = 1, tonumber(arg[2]) or 10 do
    local y = call()
    print(step, y.numel == 1 and y:item() or size(y))
  end
end

return program
