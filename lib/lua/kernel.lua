-- Kernels of Tile IR written in Lua: op.kernel. A kernel is built as text by calls that look like
-- arithmetic, and from then on is what the compiler's own kernels are: checked, compiled for the
-- processor's vectors, kept on disk, shown at every level.
--
--   local norm = op.kernel("norm", { x = "f32[M,N]", w = "f32[N]" }, { y = "f32[M,N]" },
--     function(t, x, w, y)
--       for r in t:rows(x) do
--         local a = x[r]
--         y[r] = a * ((a * a):mean() + 1e-6):rsqrt() * w:load()
--       end
--     end)
--   norm(x, w)           -- as any operator: at once, or in a captured function
--   norm:ir "explicit"   -- also "tile", "llvm", "asm"
--
-- The Lua function runs once, on symbols. ir/tile/tile.h says what a kernel is, docs/kernels.md how
-- one is written.

local core = require "tessera.core"
local build = require "tessera.kernel.build"
local captured = require "tessera.captured"
local foreign = require "tessera.foreign"
local named = require "tessera.named"
local options = require "tessera.options"
local op = core.op

local kernels = {}
local Kernel = {}

-- ---- calls
-- What captured functions have and a kernel has not is an error that says what is here for it.
local kernel = named.told("kernel", {})
Kernel.__index = kernel
function Kernel.__tostring(k)
  local how, _, device = k.handle:status()
  return ("kernel %s, %s%s"):format(k.name, how, device and " for " .. device or "")
end

-- Sizes that a call gives, by index, and their text.
local function given_sizes(k, options)
  local list, parts, known = {}, {}, {}
  for i, name in ipairs(k.sizes) do
    local v = options[name]
    if v ~= nil and (type(v) ~= "number" or v < 0 or v ~= math.floor(v)) then
      error(("%s: the size %s is a whole number, not %s"):format(k.name, name, tostring(v)), 3)
    end
    list[i], known[name] = v or false, true
    if v then parts[#parts + 1] = ("%s = %d"):format(name, v) end
  end
  for name in pairs(options) do
    if not known[name] then error(("%s: the kernel has no size '%s'"):format(k.name, tostring(name)), 3) end
  end
  return list, table.concat(parts, ", ")
end

-- Tensors, and sizes behind them.
local function arguments(k, ...)
  local n, inputs, options = select("#", ...), { ... }, {}
  local last = inputs[n]
  if n == k.ninputs + 1 and type(last) == "table" and not core.is_tensor(last) then
    options, n = last, n - 1
    inputs[n + 1] = nil
  end
  local device
  for i = 1, n do device = device or (core.is_tensor(inputs[i]) and inputs[i].device or nil) end
  for i = 1, n do
    if type(inputs[i]) == "number" and k.params[i] then
      inputs[i] = core.tensor(inputs[i], { dtype = k.params[i].dtype, device = device })
    elseif not core.is_tensor(inputs[i]) then
      error(("%s: argument %d is a %s, not a tensor"):format(k.name, i, type(inputs[i])), 3)
    end
  end
  return inputs, n, options
end

function Kernel.__call(k, ...)
  if kernels.looked_at and not core.capturing() then kernels.looked_at(k, ...) end
  local inputs, n, options = arguments(k, ...)
  local specs = {}
  for i = 1, n do specs[i] = { kind = "tensor", at = i } end
  local sizes, key = given_sizes(k, options)
  local types = k.handle:infer(inputs, sizes)
  local adjoint = foreign.adjoint_of(k.def, specs, { options }, 1)
  local name = key == "" and k.name or ("%s {%s}"):format(k.name, key)
  local f = core.custom(name, foreign.identity_of(k.def, key), { adjoint = adjoint }, k.handle, sizes)
  return core.custom_call(f, inputs, types)
end

local read_ir = options.of("kernel:ir", { target = options.text })

--- The kernel as text: "tile" as it was written, or as the device of its last call has it,
--- "explicit" in the processor's vectors, "llvm", "asm", or "tiles", a line with its name.
--- {target = "sm_90a"}: as another target would have it, on any machine.
---   local k = op.kernel("double", {x = "f32[M,N]"}, {y = "f32[M,N]"}, function(t, x, y)
---     for r in t:rows(x) do y[r] = x[r] * 2 end
---   end)
---   print(k:ir(), k:ir("asm", {target = "sm_90a"}))
function kernel.ir(k, level, given)
  if level == nil then level = "tile" end
  options.argument(k.name .. ":ir", "level", options.text, level)
  return k.handle:text(level, read_ir(given).target)
end

--- Measures what could be chosen for it on these arguments, and runs the best from then on;
--- tessera.autotune.tune gives the times.
---   local k = op.kernel("double", {x = "f32[M,N]"}, {y = "f32[M,N]"}, function(t, x, y)
---     for r in t:rows(x) do y[r] = x[r] * 2 end
---   end)
---   k:tune(op.ones{8, 8})
function kernel.tune(k, ...)
  local inputs, _, options = arguments(k, ...)
  k.handle:tune(inputs, (given_sizes(k, options)))
end

--- Runs it on these arguments in the interpreter and says what is wrong; {prompt = true} behind them stops at its
--- lines: tessera.debug.kernel.
---   print(k:debug(x, w))
function kernel.debug(k, ...) return require("tessera.debug.kernel").kernel(k, ...) end

--- A value in its midst: of a tile of its first result, at a line of its text or of a name: tessera.debug.peek.
---   print(k:peek({0}, 6, x, w))
function kernel.peek(k, ...) return require("tessera.debug.kernel").peek(k, ...) end

--- How the last call ran: "compiled", "from disk" or "interpreted", why it is interpreted or nil, and the
--- device if it was not the CPU.
---   local k = op.kernel("double", {x = "f32[M,N]"}, {y = "f32[M,N]"}, function(t, x, y)
---     for r in t:rows(x) do y[r] = x[r] * 2 end
---   end)
---   print(k(op.ones{2, 3}), k:status())
function kernel.status(k) return k.handle:status() end

captured.class(Kernel, "kernel", kernel)

--- A kernel of Tile IR as an operator: op.kernel(text [, options]), or built by a Lua function:
--- op.kernel(name, {x = "f32[M,N]"}, {y = "f32[M]"}, function(t, x, y) .. end [, options]).
--- Letters are sizes, solved from the arguments; those that no argument has are given by the
--- call: k(x, {K = 5}). Options: interpret, run by the interpreter, which finds positions outside
--- of memory; adjoint, a function (inputs.., results.., gradients.., sizes) that returns a
--- gradient for each input.
function kernels.kernel(name, inputs, outputs, f, options)
  local text = name
  if type(name) ~= "string" then error("op.kernel: the first argument is a name or a text", 2) end
  if type(outputs) == "table" then
    if type(inputs) ~= "table" or type(f) ~= "function" then
      error("op.kernel: name, inputs, results and a function are needed", 2)
    end
    text = build(name, inputs, outputs, f)
    text = core.tile_parse(text, "places") or text -- numbered as k:ir "tile" has it
  else
    options = inputs
  end
  options = options or {}
  for key in pairs(options) do
    if key ~= "interpret" and key ~= "adjoint" then
      error(("op.kernel: there is no option '%s'"):format(tostring(key)), 2)
    end
  end
  if options.adjoint ~= nil and not core.callable(options.adjoint) then
    error(("op.kernel: adjoint is a function, not a %s"):format(type(options.adjoint)), 2)
  end
  local ok, handle, title = pcall(core.kernel, text, options.interpret or false)
  if not ok then
    error((handle:gsub("^[^\n]-: (@.-), at ([^\n]-:%d+)\n", "%2: %1\n")), 0) -- it has its place
  end
  local sizes, params, ninputs = handle:describe()
  return core.keep_line(setmetatable({ name = title, text = text, handle = handle, sizes = sizes, params = params,
    ninputs = ninputs, def = foreign.define(title, { adjoint = options.adjoint }) }, Kernel))
end

core.keep_line(kernel, true)
return kernels
