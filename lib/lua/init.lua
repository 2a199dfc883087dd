-- The module tessera. Its parts are loaded when first asked for.

local core = require "tessera.core"

local tessera = {
  op = core.op,
  tensor = core.tensor,
  is_tensor = core.is_tensor,
  version = core.version,
  threads = core.threads,
  memory = core.memory,
  synchronize = core.synchronize,
  core = core,
}

-- Where new tensors are made: tessera.device() gives the name, tessera.device "cuda:0" sets it
-- and gives the one before, tessera.device("cuda:0", f, ...) sets it while f(...) runs. "auto",
-- the default: the CPU, and what gets hot moves to a GPU where that pays.
function tessera.device(name, f, ...)
  if f == nil then return core.default_device(name) end
  core.need_function(f, "tessera.device")
  local before = core.default_device()
  return core.guarded(function() core.default_device(before) end, function(...)
    core.default_device(name)
    return f(...)
  end, ...)
end

-- The devices there are: a list of {name, text}, with the reasons for kinds that are missing by
-- their names in `missing`. Prints as a table.
local Devices = {}
function Devices.__tostring(list)
  local default, lines = core.default_device(), {}
  for _, d in ipairs(list) do
    local here = d.name == default or (default == "auto" and d.name == "cpu:0")
    lines[#lines + 1] = ("%-8s %s%s"):format(d.name, d.text, here and "; new tensors are made here" or "")
  end
  for kind, why in pairs(list.missing) do lines[#lines + 1] = ("%-8s %s"):format(kind, why) end
  return table.concat(lines, "\n")
end
function tessera.devices() return setmetatable(core.devices(), Devices) end

-- tessera.no_grad(f, ...): f(...) without recording what it computes for backward().
tessera.no_grad = core.no_grad

-- Random operators, also as op.normal and so on; rng.seed sets the generator.
local rng = { seed = core.seed, state = core.rng_state }
for _, name in ipairs(core.family("random")) do rng[name] = core.op[name] end
tessera.rng = rng

-- op.pipeline{x, f, g, ...}: g(f(x)); a first function makes the whole a function.
function core.op.pipeline(stages)
  if type(stages) ~= "table" or core.is_tensor(stages) or #stages == 0 then
    core.fail("op.pipeline: a list is needed, of a value and functions or of functions, not " ..
      (stages == nil and "nothing" or core.is_tensor(stages) and "a tensor" or type(stages) == "table" and "an empty one" or
        "a " .. type(stages)) .. "\n  hint: op.pipeline{x, f, g} is g(f(x))")
  end
  for i = 2, #stages do
    local f = stages[i]
    if not core.callable(f) then
      core.fail(("op.pipeline: stage %d is a %s, not a function"):format(i, core.is_tensor(f) and "tensor" or type(f)))
    end
  end
  local function run(x, from)
    for i = from, #stages do x = stages[i](x) end
    return x
  end
  if core.callable(stages[1]) then
    return core.keep_line(function(x) return run(x, 1) end)
  end
  return run(stages[1], 2)
end

local parts = { nn = "tessera.nn", optim = "tessera.optim", data = "tessera.data",
  graph = "tessera.graph", numerics = "tessera.numerics", einops = "tessera.einops",
  image = "tessera.image", jit = "tessera.jit",
  autotune = "tessera.autotune", profile = "tessera.profile" }

-- load(path): a tensor from a .npy file; a table of tensors by name from .npz; from .safetensors such a
-- table, or what tessera.save was given, and its metadata, a table of strings.
--
--   tessera.save("point.safetensors", {model = model:state_dict(), epoch = 3})
--   point = tessera.load("point.safetensors")
--   model:load_state_dict(point.model)
function tessera.load(path) return require("tessera.io").load(path) end

-- save(path, value [, metadata]): a tensor to a .npy file; to a .safetensors file a table of tensors by
-- name, or tables in tables, of tensors, numbers, strings and booleans: these are named by their paths,
-- model.0.weight, so that others read them too. metadata: strings by name. The file appears whole or not
-- at all.
--
--   tessera.save("x.npy", op.arange(3))
--   tessera.save("x.safetensors", {x = op.arange(3), sizes = {1, 2}}, {by = "me"})
function tessera.save(path, value, metadata) return require("tessera.io").save(path, value, metadata) end

function core.op.rearrange(...) return require("tessera.einops").rearrange(...) end
core.methods.rearrange = core.op.rearrange

-- Control operators, and those from outside, are loaded when one is first named.
local control_names = { cond = "control", while_loop = "control", scan = "control", map = "control",
  fixed_point = "control", recursive = "control", foreign = "foreign", custom = "foreign",
  kernel = "kernel", ctc_loss = "losses" }

-- A misspelt operator is an error where it is written. rawget(op, name) asks.
setmetatable(core.op, {
  __index = function(t, name)
    if control_names[name] then
      require("tessera." .. control_names[name])
      return rawget(t, name)
    end
    local guess = type(name) == "string" and core.suggest(name)
    error(("there is no operator '%s'%s"):format(tostring(name),
      guess and ("\n  hint: did you mean '%s'?"):format(guess) or ""), 2)
  end,
})

core.keep_line(tessera, true)
core.keep_line(rng, true)
core.keep_line(core.op, true)
core.keep_line(core.methods, true)

return setmetatable(tessera, {
  __index = function(t, key)
    local name = parts[key]
    if not name and rawget(core.op, key) then
      error(("tessera has no '%s'\n  hint: it is an operator: tessera.op.%s"):format(key, key), 2)
    end
    if not name then return nil end
    local part = require(name)
    rawset(t, key, core.keep_line(part, true))
    return part
  end,
})
