-- Captured functions: operators become a graph, which is rewritten, differentiated and run
-- as one piece of bytecode.
--
--   local attention = graph.module("attention", function(q, k, v)
--     return op.matmul(op.softmax(op.matmul(q, k:T())), v)
--   end)
--   local y = attention(q, k, v)   -- captured at the first call
--   print(attention:ir("graph"))
--   local grad = graph.grad(function(w) return (w * w):sum() end)
--
-- A function is captured once for each combination of types, shapes and values that are no
-- tensors (a specialisation, graph/specialise.lua), also of values that it takes from outside
-- (outside.lua): a rate that is another, a model in eval mode, a parameter that was replaced. Its
-- Lua code may branch on shapes; what depends on data is written with op.where, op.cond,
-- op.while_loop, op.scan. Its results share bytes with its
-- arguments, with captured tensors and with each other where they would eagerly, and calls that
-- fail on what elements are do so although nobody reads what they give.

local core = require "tessera.core"
local captured = require "tessera.captured"
local facts = require "tessera.explain.facts"
local fail = core.fail
local Module = require "tessera.module"
local options = require "tessera.options"
local specialise = require "tessera.graph.specialise"
local unflatten = require("tessera.tree").unflatten

-- verbose: a line on stderr for each new specialisation, from the second on. eager: captured
-- functions and training steps run operator by operator instead, for debugging; under the
-- strict profile with the same bits. Derivatives are captured all the same, each as a function
-- of its own: gradients through several of them are added up in another order.
local graph = { verbose = core.is_terminal(2), eager = false }

local Function = {}
Function.__index = Function

-- Constants are those results that are no tensors.
local function run(special, list)
  if special.plain then return special.graph:run(list) end
  local out = { special.graph:run(list) }
  local values = {}
  for i = 1, special.n do values[i] = unflatten(special.spec[i], out) end
  return unpack(values, 1, special.n)
end

-- The arguments of the last call, as long as somebody else has them.
local WEAK = { __mode = "v" }
local function keep_last(self, n, ...)
  local last = self.last
  if not last or last.n ~= n then
    last = setmetatable({ n = n }, WEAK)
    self.last = last
  end
  if n == 1 then
    last[1] = ...
  elseif n == 2 then
    last[1], last[2] = ...
  else
    for i = 1, n do last[i] = select(i, ...) end
  end
end

function Function:__call(...)
  if core.capturing() or (graph.eager and not self.derivative) then return self.body(...) end
  -- Tensors of the types of the last call: no text is made of them.
  local special = self.current
  if self.plain and core.types_key(...) == self.plain and (not self.roots or specialise.still(self, special.look)) then
    local list = { ... }
    keep_last(self, #list, ...)
    return run(special, list)
  end
  keep_last(self, select("#", ...), ...)
  return run(specialise.of(self, select("#", ...), ...))
end

--- The arguments of the last call, a list with their number n, or nil where the collector has taken one of them.
---   local f = graph.module("f", op.tanh)
---   f(op.ones{3})
---   print(f:last_arguments() ~= nil)
function Function:last_arguments()
  local last, list = self.last, {}
  if not last then return nil end
  for i = 1, last.n do
    list[i] = last[i]
    if list[i] == nil then return nil end
  end
  list.n = last.n
  return list
end

-- {target = "sm_90a", kernel = 2} behind the arguments, if it is there: both, and how many arguments there are. A plain
-- table with one word like these is that option misspelt.
local WORDS_OF_IR = { "target", "kernel" }
local KERNEL = options.kind("the number or the name of a kernel", function(v) return type(v) == "string" or type(v) == "number" end)
local read_ir = options.of("f:ir", { target = options.text, kernel = KERNEL })
local function target_of(...)
  local n = select("#", ...)
  local last = n > 0 and select(n, ...)
  if type(last) ~= "table" or Module.is_module(last) or core.is_tensor(last) then return nil, nil, n end
  local word, more = next(last)
  local alike = type(word) == "string" and next(last, word) == nil and not core.is_tensor(more)
    and core.suggest(word, WORDS_OF_IR) ~= nil
  if last.target == nil and last.kernel == nil and not alike then return nil, nil, n end
  if core.is_tensor(last.target) or core.is_tensor(last.kernel) then return nil, nil, n end
  local given = read_ir(last)
  return given.target, given.kernel, n - 1
end

-- The specialisation whose level is shown, for the arguments or of the last call, the target, and the kernel.
local function shown(self, level, ...)
  local special = self.current
  local target, kernel, n = target_of(...)
  core.jit_level("function", tostring(level), target)
  local last = n > 0 and select(n, ...)
  if type(last) == "string" and captured.is_target(last) then
    fail(("%s:ir: the target is an option: f:ir(\"%s\", {target = \"%s\"})"):format(self.name, level, last))
  end
  if n > 0 then special = specialise.of(self, n, ...) end
  if not special and graph.eager then fail(self.name .. " is not captured while graph.eager is set") end
  if not special then fail(("%s has not run yet: call it, or give arguments"):format(self.name)) end
  return special, target, kernel
end

-- What runs a specialisation: itself, or its pieces on a mesh. Both have kernel_text, groups, choose, patch, unpatch, renew,
-- tune, pin, marks.
local function runs(self, special)
  special = special or self.current
  return require("tessera.dist.pieces").of(self.name, special) or special.graph
end
--- For the library: what runs it, for the sizes of its last call.
function Function:_runs() return runs(self) end

--- For the library: how many of its captures have failed. A call behind which there is one more has run nothing.
function Function:_failed_captures() return self.unmade end

--- The text of a level: "captured", before rewriting; "graph", with symbols for sizes that
--- have differed; "concrete", the graph for the sizes of the last call; "schedule", which
--- nodes are one kernel; "tile", "explicit", "llvm", "asm", the kernels; "bytecode", of the
--- tier that runs; "tiles", "why", "rewrites". With arguments, of the specialisation for them; without, of the last one that
--- ran. {target = "sm_90a"} behind them: the kernels that another machine would run, which need not be here: avx512,
--- avx2, base, sm_80, sm_86, sm_90a, sm_100, sm_120; of AMD gfx90a, gfx942, gfx950, gfx1100, gfx1200;
--- spirv, for any driver, and for Intel's GPUs pvc, dg2, tgllp, the last two without f64. {kernel = 2}: of the
--- kernel with this number in :tiles, or this name, alone; its schedule has all that can be edited behind `with`.
---   local f = graph.module("f", op.tanh)
---   f(op.ones{3})
---   print(f:ir "tile", f:ir("asm", {target = "sm_90a"}))
function Function:ir(level, ...)
  if type(level) == "table" then fail(self.name .. ":ir: a level comes first, f:ir \"tile\"; ? :ir lists them") end
  if facts.has(level) then return tostring(self:facts(level, ...)) end
  local special, target, kernel = shown(self, level == nil and "graph" or level, ...)
  level = level or "graph"
  local pieces = require "tessera.dist.pieces"
  local p = not pieces.is_whole(level) and pieces.of(self.name, special)
  if p then return p:text(tostring(level), target, kernel) end
  if kernel then return special.graph:kernel_text(tostring(level), tostring(kernel), false, target) end
  local symbolic = special.family and special.family.symbolic
  if level == "graph" and symbolic and not target then return symbolic:text() end
  return special.graph:text(level == "concrete" and "graph" or tostring(level), target)
end

--- What f:ir has as text, as a table: "why", "tiles", "tile", "explicit", "llvm", "asm"; docs/commands.md has its
--- fields.
---   local f = graph.module("f", op.tanh)
---   f(op.ones{3})
---   print(#f:facts("tile").kernels)
function Function:facts(level, ...)
  local special, target = shown(self, level, ...)
  local p = require("tessera.dist.pieces").of(self.name, special)
  if p then return p:facts(level, target) end
  return facts.of(special.graph:facts(level, target))
end

--- What was decided about it and why: which operators are one kernel, and why each pair of neighbouring kernels are two.
--- A table, which prints as ":why f". Arguments as in f:ir.
---   local f = graph.module("f", function(x) return op.softmax(x + 1) end)
---   f(op.ones{3, 4})
---   print(f:why().functions[1].groups[1].members[2].reason)
function Function:why(...) return self:facts("why", ...) end

--- What each of its kernels is: its space, its tiles, its code. A table, which prints as ":tiles f".
---   local f = graph.module("f", op.softmax)
---   f(op.ones{3, 4})
---   print(f:tiles().kernels[1].tile[1])
function Function:tiles(...) return self:facts("tiles", ...) end

--- Measures what could be chosen for its kernels, for the sizes of the last call, or of the
--- given arguments; tessera.autotune.tune gives the times.
---   local f = graph.module("f", op.tanh)
---   f:tune(op.ones{3})
function Function:tune(...)
  local special = self.current
  if select("#", ...) > 0 then special = specialise.of(self, select("#", ...), ...) end
  if not special then fail(("%s has not run yet: call it, or give arguments"):format(self.name)) end
  runs(self, special):tune()
end

--- What is chosen for the kernel of a group, by the number or name in f:ir "tiles", for the sizes of the last call, and where
--- it comes from: default by the model, tuned on this machine now, tuned earlier and kept on disk, chosen by the user.
--- {rows = 128, columns = 64, depth = .., stages = ..} chooses, and the kernel is made anew; what cannot be had as it
--- is wanted becomes the nearest that there is, with a remark. "default", nil or false: no more. No bit of a result
--- depends on it.
---   print(f:choose(0))
---   print(f:choose("matmul", {rows = 48, high = 6}))
---   f:choose(0, "default")
function Function:choose(group, ...) return require("tessera.tune.choose").choose(self, group, ...) end

--- What devices of meshes send each other in a run on these arguments, or on those of the last call: rows of {kind, operator,
--- axes, bytes, from, to, place} in their order, which print as a table. Nothing is computed, so tensors of dist.tensor that are
--- only planned with have such a list, too.
---   local f = graph.module("f", op.tanh)
---   print(f:collectives(op.ones{3}))      -- nothing is sent
function Function:collectives(...)
  local n, last = select("#", ...), nil
  if n == 0 then
    last = self:last_arguments()
    if not last then fail(("%s:collectives: it has not run yet, or its arguments are gone: give some"):format(self.name)) end
  end
  local special, list
  if last then special, list = specialise.of(self, last.n, unpack(last, 1, last.n)) else special, list = specialise.of(self, n, ...) end
  return require("tessera.dist.sent").planned(special.graph:collectives(list))
end

--- How it runs on a mesh, as text: the chunks of a pipeline, the turns that each place takes, how long places wait by what
--- operators cost, and bytes by device, what it begins with and what it has at most; nil of a function that is on no mesh. Of the
--- last call, or of one with these arguments, for which nothing is computed. "steps" behind them: all that devices run
--- and send, in its order.
---   print(step:plan(x, y))
function Function:plan(...)
  local n = select("#", ...)
  local level = n > 0 and select(n, ...)
  if type(level) == "string" then
    n = n - 1
    if level ~= "steps" then fail(("%s:plan: \"steps\" stands behind the arguments, or nothing, not '%s'"):format(self.name, core.shown(level, 40))) end
  end
  local special, list = self.current, nil
  if n > 0 then
    special, list = specialise.of(self, n, ...)
    special.graph:collectives(list)
  elseif not special then
    fail(("%s:plan: it has not run yet: give arguments, as of a call"):format(self.name))
  end
  local text = special and special.graph:plan(level == "steps")
  return text and (text:gsub("\n$", ""))
end

--- tessera.jit.pin and unpin (on = false), for the sizes of the last call, or of the given arguments. Whether kernels run.
---   local f = graph.module("f", op.tanh)
---   print(f:pin(true, op.ones{3}))
function Function:pin(on, ...)
  local special = self.current
  if select("#", ...) > 0 then special = specialise.of(self, select("#", ...), ...) end
  if not special then fail(("%s has not run yet: call it, or give arguments"):format(self.name)) end
  local live = runs(self, special):pin(on)
  special.pinned = on or nil
  return live
end

--- Kernels with profile marks take the place of its own, for the sizes of the last call; off: its
--- own again. Whether they have them: what is not compiled has none.
---   local f = graph.module("f", op.tanh)
---   f(op.ones{3})
---   print(f:marks(true))
function Function:marks(on) return self.current ~= nil and runs(self):marks(on) end

--- The rules that fired when it was captured, a line each, or that none did.
---   local f = graph.module("f", function(x) return x * 1 end)
---   f(op.ones{3})
---   print(f:rewrites())
function Function:rewrites()
  if not self.current then fail(("%s has not run yet: call it"):format(self.name)) end
  local text = self.current.graph:text("rewrites")
  return text ~= "" and text or "no rule fired\n"
end

--- One of its kernels, by its number or name in f:ir "tile", is run in the interpreter on what the function gives it, and
--- what is wrong is said; {prompt = true} behind the arguments stops at its lines: tessera.debug.kernel.
---   print(f:debug(0, x))
function Function:debug(kernel, ...) return require("tessera.debug.kernel").kernel(self, kernel, ...) end

--- A value in the midst of a kernel: of a tile of its first result, at a line of its text or of a name:
--- tessera.debug.peek.
---   print(f:peek(0, {0, 1}, 12, x))
function Function:peek(kernel, ...) return require("tessera.debug.kernel").peek(self, kernel, ...) end

--- An edited text of one of its kernels, as f:ir(level, {kernel = 2}) gives it at level "schedule" or "tile": checked,
--- built, run beside the usual kernel on f's last arguments, or {args = {x, y}}, compared bit by bit and timed. The
--- result prints; e:keep() keeps it for this process, e:keep "disk" for later ones too, e:drop() takes it back. kernel:
--- which one, where the text does not say it.
---   local text = f:ir("schedule", {kernel = 0}):gsub("rows %d+", "rows 96")
---   print(f:with("schedule", text))
function Function:with(level, text, given) return require("tessera.debug.edit").with(self, level, text, given) end

--- What was kept of a kernel is taken back, on disk too; whether there was something.
---   f:without(0)
function Function:without(kernel) return require("tessera.debug.edit").without(self, kernel) end

--- How two texts differ, line by line; names that were only renumbered are the same. Of two functions: f:diff(g, "tile").
--- Of a kernel, or without a number of all, as the passes make them and as they run: f:diff("tile", {kernel = 2}). Of two
--- targets: {target = {"sm_80", "sm_90a"}}. Of two specialisations: {args = {{x}, {y}}}. "" where there is no difference.
---   print(f:diff("tile", {target = {"avx2", "avx512"}}))
function Function:diff(...) return require("tessera.debug.diff").of(self, ...) end

--- Counts of the specialisation that ran last: nodes, instructions, bytes of planned memory; nil before the first call.
---   local f = graph.module("f", op.tanh)
---   f(op.ones{3})
---   for name, count in pairs(f:stats()) do print(name, count) end
function Function:stats() return self.current and self.current.graph:stats() end

captured.class(Function, "function")

function Function:__tostring()
  local n = 0
  for _ in pairs(self.cache) do n = n + 1 end
  return ("graph.module %s (%d specialisation%s)"):format(self.name, n, n == 1 and "" or "s")
end

local read_module = options.of("graph.module", { donate = options.list(options.whole { least = 1 }) }, { donate = {} })

--- A captured function. f takes and returns tensors, tables of tensors and nn modules; all
--- else among the arguments is part of the specialisation. {donate = {2}} gives the tensors of
--- argument 2 away: results may take over their bytes, so the caller must not use them again.
--   local f = graph.module("f", function(x) return op.gelu(x * 2 + 1) end)
--   print(f(op.ones{3}), f:ir "tile")
function graph.module(name, f, given)
  if type(name) ~= "string" then name, f, given = nil, name, f end
  core.need_function(f, "graph.module")
  local roots = { f }
  if type(f) ~= "function" then
    local callee = f
    f = function(...) return callee(...) end
  end
  if not name then
    local info = debug.getinfo(f, "S")
    name = ("line%d"):format(info.linedefined)
  end
  return core.keep_line(setmetatable({ name = name, body = f, params = specialise.parameter_names(f, 16), cache = {}, order = {},
    families = {}, history = {}, roots = roots, looks = {}, nlook = 0, unmade = 0, donate = read_module(given).donate }, Function))
end

-- For step:fits: what the device with the most has at most, which it is, and what it begins with.
local function plan_bytes(f, ...)
  local special, list = specialise.of(f, select("#", ...), ...)
  special.graph:collectives(list)
  return special.graph:plan_bytes()
end

-- ---- what is made of captured functions

local derivatives = require "tessera.graph.derivatives"(graph)
require "tessera.graph.files"(graph)
require "tessera.training"(graph, derivatives.derivative, derivatives.scalar, specialise.of, plan_bytes)

core.keep_line(Function, true)
return require("tessera.named")("tessera.graph", graph)
