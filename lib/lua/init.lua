-- The module tessera. Its parts are loaded when first asked for.

local core = require "tessera.core"
local named = require "tessera.named"

local tessera = { op = core.op, version = core.version, core = core }

-- tensor(values [, {dtype, device, requires_grad}]): a tensor of a number, a list, nested lists, or of another
-- tensor, which is copied. The dtype is the one asked for, else f32 of numbers, bool of truth values; lists of one
-- level have one length, or it is an error. Options may stand beside the numbers of a list.
--   x = tessera.tensor({{1, 2}, {3, 4}}, {dtype = "f64"})      -- f64[2,2]
--   w = tessera.tensor {1, 2, requires_grad = true}
tessera.tensor = core.tensor

-- is_tensor(x): whether x is a tensor, also a symbol of a function that is being captured.
--   tessera.is_tensor(op.ones{2})      -- true
tessera.is_tensor = core.is_tensor

-- threads([n]): how many threads the CPU's operators use, after setting it to n, from 0 (one for each processor)
-- to 256. Results have the same bits for any number.
--   tessera.threads(1)
tessera.threads = core.threads

-- memory(): bytes: {live, held, peak, cached}: of the program's tensors, of all that the allocator gave out, the most
-- that was, and what it keeps for reuse.
--   print(tessera.memory().live)
tessera.memory = core.memory

-- synchronize([device]): waits until what was asked of GPUs is done, of one or of all; needed for measuring times
-- alone, since reading a tensor waits for it.
--   tessera.synchronize()
tessera.synchronize = core.synchronize

-- Where new tensors are made: tessera.device() gives the name, tessera.device "cuda:0" sets it
-- and gives the one before, tessera.device("cuda:0", f, ...) sets it while f(...) runs. "auto",
-- the default: the CPU, and what gets hot moves to a GPU where that pays.
--   local y = tessera.device("sim:0", function() return op.ones{2} end)
function tessera.device(name, f, ...)
  if type(name) == "table" then
    core.fail "tessera.device: the name of one device is needed, not a table\n  hint: over a mesh op.ones({2}, {device = mesh}) makes copies, dist.shard(x, mesh, spec) pieces"
  end
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
  local default, lines, width = core.default_device(), {}, 8
  for _, d in ipairs(list) do width = math.max(width, #d.name) end
  for kind in pairs(list.missing) do width = math.max(width, #kind) end
  local row = "%-" .. width .. "s %s%s"
  for _, d in ipairs(list) do
    local here = d.name == default or (default == "auto" and d.name == "cpu:0")
    lines[#lines + 1] = row:format(d.name, d.text, here and "; new tensors are made here" or "")
  end
  local kinds = {}
  for kind in pairs(list.missing) do kinds[#kinds + 1] = kind end
  table.sort(kinds)
  for _, kind in ipairs(kinds) do lines[#lines + 1] = row:format(kind, list.missing[kind], "") end
  return table.concat(lines, "\n")
end
local Device = { __tostring = function(d) return ("%s  %s"):format(d.name, d.text) end }

-- The devices there are, a list of {name, text}, with why kinds are missing in `missing`; prints as a table.
--   print(tessera.devices())
function tessera.devices()
  local list = core.devices()
  for _, d in ipairs(list) do setmetatable(d, Device) end
  return setmetatable(list, Devices)
end

-- The values with constants of derivatives in place of tensors that were made since the mark, also in tables, which stay the
-- tables that they are; modules keep theirs.
local function constants(since, ...)
  local n, list, made, seen = select("#", ...), { ... }, {}, {}
  local is_module = require("tessera.module").is_module
  local waiting = { list }
  while waiting[1] do
    local t = table.remove(waiting)
    for key, v in next, t do
      if core.is_tensor(v) and core.tensor_young(v, since) then
        made[v] = made[v] or core.op.stop_gradient(v)
        rawset(t, key, made[v])
      elseif type(v) == "table" and not seen[v] and not is_module(v) then
        seen[v] = true
        waiting[#waiting + 1] = v
      end
    end
  end
  return unpack(list, 1, n)
end

-- no_grad(f, ...): f(...), without recording what it computes for backward(). Gives what f gives; through what of it f has
-- made no gradient flows, in a captured function as well.
--   local loss = tessera.no_grad(function() return op.mse(model(x), y) end)
function tessera.no_grad(f, ...)
  if core.capturing() then return constants(core.tensor_mark(), core.no_grad(f, ...)) end
  return core.no_grad(f, ...)
end

-- autocast(dtype, f, ...): f(...) with automatic casts to dtype, "bf16" or "f16": operators that are as good in 16 bits
-- (products, convolutions, attention, recurrent steps) get operands of it, operators that need their range or add many
-- numbers (exp, log, pow, sums, norms, softmax, losses) get f32, all others what they are given; `? op.matmul` says which.
-- Weights stay in f32, and their gradients are. f64 and complex numbers are not cast. false instead of a dtype: no casts
-- inside of a function with them. Gives what f gives. With "f16" losses are scaled (graph.training_step, scale).
--   local y = tessera.autocast("bf16", function() return model(x) end)
--   local step = graph.training_step(model, loss, opt, {autocast = "bf16"})
tessera.autocast = core.autocast

-- Random operators, also as op.normal and so on; rng.seed sets the generator.
local rng = {}

-- seed([n]): begins the generator of random operators without the options seed and stream again, with a whole
-- number.
--   rng.seed(1)
--   x = rng.normal{3}      -- the same three numbers each time
rng.seed = core.seed

-- state(): the generator's seed and how many streams it has given since, two numbers; state(seed, stream) sets
-- them, so that a run goes on where a saved one was.
--   local seed, stream = rng.state()
rng.state = core.rng_state
for _, name in ipairs(core.family("random")) do rng[name] = core.op[name] end
tessera.rng = named("tessera.rng", rng)

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
  graph = "tessera.graph", dist = "tessera.dist.mesh", checkpoint = "tessera.dist.checkpoint", numerics = "tessera.numerics", einops = "tessera.einops",
  image = "tessera.image", hf = "tessera.hf", jit = "tessera.jit",
  autotune = "tessera.autotune", profile = "tessera.profile", debug = "tessera.debug.kernel" }

-- arguments(usual [, sizes]): the options of a script from its command line, --steps 10 or --steps=10, over those of --size, which are
-- over the usual ones: {steps = 100, device = "cpu"}. A value is what its usual one is: a number; a whole one not below 0 where that is whole
-- and above 0; "97%" a number from 0 to 100; a text; one of a list, of which the first is usual,
-- {"f32", "bf16"}, or of {false, true} a word that stands alone, --resume; false is a text that need not be given, or a number where a
-- size has one; ">.png" one that is a file's name, which has to be one that can be written. sizes: options by the words of --size;
-- usual.size is the one that nobody has to name. --help shows the comment with which the script begins, and its options. What is wrong, a device that is
-- not there as well, is told before anything else is done.
--   local o = tessera.arguments({size = "small", steps = 100, device = "cpu"},
--     {small = {}, gpu = {steps = 1000, device = "cuda:0"}})
function tessera.arguments(usual, sizes)
  local about = debug.getinfo(2, "S") -- nil behind a tail call
  local o = require("tessera.arguments.script")(usual == nil and {} or usual, sizes == nil and {} or sizes, arg or {}, about and about.source or "")
  return o
end

-- load(path): what a file holds, by the name's ending: of .safetensors the tensors by name, or what tessera.save was
-- given, and the file's metadata; of .npy one tensor; of .npz the tensors by name; of .gguf the same and the
-- metadata: numbers, strings, lists, tensors. Big files are mapped, not read. What is damaged is an error that names the place.
--   tessera.save("point.safetensors", {model = model:state_dict(), epoch = 3})
--   local point = tessera.load "point.safetensors"
--   model:load_state_dict(point.model)
function tessera.load(path)
  local value, metadata = require("tessera.io").load(path)
  if type(value) == "table" and not getmetatable(value) then require("tessera.state")(value) end
  return value, metadata
end

-- save(path, value [, metadata]): writes by the name's ending: one tensor as .npy; as .safetensors a table of tensors by
-- name, or tables in tables, of tensors, numbers, strings and booleans: these are named by their paths, model.0.weight,
-- so that others read them too; metadata is a table of strings. The file appears whole or not at all.
--   tessera.save("model.safetensors", model:state_dict())
--   tessera.save("x.npy", x)
--   tessera.save("x.safetensors", {x = x, sizes = {1, 2}}, {by = "me"})
function tessera.save(path, value, metadata) return require("tessera.io").save(path, value, metadata) end

-- op.rearrange(x, pattern [, sizes]): axes named, split, merged and put in another order: "b (h d) s -> b h s d", where
-- sizes has those that do not follow from x, {h = 8}.
function core.op.rearrange(...) return require("tessera.einops").rearrange(...) end
core.methods.rearrange = core.op.rearrange

-- The modules of functions that are loaded when one is first named.
local module_of = {}
for kind, modules in pairs(require "tessera.named_functions") do
  for module, names in pairs(modules) do
    for name in names:gmatch "%S+" do
      assert(not module_of[name] and rawget(core.op, name) == nil, name)
      module_of[name] = "tessera." .. module
      if kind == "methods" then core.methods[name] = core.methods[name] or function(...) return core.op[name](...) end end
    end
  end
end

-- A misspelt operator is an error where it is written. rawget(op, name) asks.
setmetatable(core.op, {
  parts = module_of,
  __index = function(t, name)
    if module_of[name] then
      local f = core.keep_line(require(module_of[name])[name])
      rawset(t, name, f)
      return f
    end
    error(("there is no operator '%s'%s"):format(core.shown(tostring(name), 60), named.hint("tessera.op", name, t, module_of)), 2)
  end,
})

core.keep_line(tessera, true)
core.keep_line(rng, true)
core.keep_line(core.op, true)
core.keep_line(core.methods, true)

return setmetatable(tessera, {
  parts = parts,
  __index = function(t, key)
    local name = parts[key]
    if not name and rawget(core.op, key) then
      error(("tessera has no '%s'\n  hint: it is an operator: tessera.op.%s"):format(key, key), 2)
    end
    if not name then error(named.missing("tessera", key, t, parts), 2) end
    local part = require(name)
    rawset(t, key, core.keep_line(part, true))
    return part
  end,
})
