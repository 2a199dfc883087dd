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
-- tensors (a specialisation), also of values that it takes from outside (outside.lua): a rate that is
-- another, a model in eval mode, a parameter that was replaced. Its Lua code may branch on shapes; what depends on data is
-- written with op.where, op.cond, op.while_loop, op.scan. Its results share bytes with its
-- arguments, with captured tensors and with each other where they would eagerly, and calls that
-- fail on what elements are do so although nobody reads what they give.

local core = require "tessera.core"
local captured = require "tessera.captured"
local facts = require "tessera.explain.facts"
local fail = core.fail
local Module = require "tessera.module"
local options = require "tessera.options"
local outside = require "tessera.outside"
local tree = require "tessera.tree"
local flatten, unflatten, describe, set_modules = tree.flatten, tree.unflatten, tree.describe, tree.set_modules

-- verbose: a line on stderr for each new specialisation, from the second on. eager: captured
-- functions and training steps run operator by operator instead, for debugging; under the
-- strict profile with the same bits. Derivatives are captured all the same, each as a function
-- of its own: gradients through several of them are added up in another order.
local graph = { verbose = core.is_terminal(2), eager = false }

-- ---- capture

-- Names of the tensors that f will capture, as far as its upvalues tell them.
local function name_captured(f)
  for i = 1, math.huge do
    local name, value = debug.getupvalue(f, i)
    if not name then return end
    if core.is_tensor(value) then core.capture_name(value, name) end
    if Module.is_module(value) then
      for _, field in ipairs(value:tensors()) do core.capture_name(field.tensor, name .. "." .. field.name) end
    end
  end
end

local function parameter_names(f, n)
  local names = {}
  for i = 1, n do names[i] = debug.getlocal(f, i) or ("arg" .. i) end
  return names
end

-- The modules among the arguments hold symbols meanwhile, and their tensors again behind it,
-- whatever happens.
local function capture(name, f, specs, list, names, n)
  local function leave()
    for i = 1, n do set_modules(specs[i], list) end
  end
  return core.guarded(leave, function()
    core.capture_begin(name)
    local symbols, args = {}, {}
    for i, t in ipairs(list) do symbols[i] = core.capture_param(t, names[i]) end
    for i = 1, n do
      args[i] = unflatten(specs[i], symbols)
      set_modules(specs[i], symbols)
    end
    name_captured(f)
    local function pack(...) return { n = select("#", ...), ... } end
    local out = pack(f(unpack(args, 1, n)))
    local leaves, where, spec = {}, {}, {}
    for i = 1, out.n do spec[i] = flatten(out[i], leaves, where, "result" .. i) end
    return { spec = spec, n = out.n, graph = core.capture_end(leaves) }
  end)
end

-- ---- modules

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

-- ---- specialisations
--
-- A family has the same types, ranks and values; its members differ in sizes. From the second
-- member on the sizes that differ are symbols of one graph. A further member is captured once
-- more to confirm that graph; after that it is made of the graph without running any Lua,
-- unless the function asks for sizes and so may branch on them. What the symbols do not fit, as
-- half of an odd size, is captured for itself, and stands apart of a graph that is confirmed.

local HISTORY = 64 -- lines of what became of it
local LIMIT = 32 -- members of one function that are kept; the one unused for longest goes

-- Where a function was written: "model.lua:12".
local function place(self)
  local info = debug.getinfo(self.body, "S")
  return info.what == "Lua" and ("%s:%d"):format(info.short_src, info.linedefined) or ""
end

-- tessera -jv tells it, else the terminal does, and of a note the prompt. The newest lines are in f.history.
local function say(self, what, text, note)
  local history = self.history
  history[#history + 1] = what .. ": " .. text
  if #history > HISTORY then table.remove(history, 1) end
  if core.jit_tell(what, self.name, place(self), text) or what == "evicted" then return end
  if note then
    local where = place(self)
    io.stderr:write(where, where ~= "" and ": " or "", "note: ", note, "\n")
  elseif graph.verbose then
    io.stderr:write(("graph: %s: %s: %s\n"):format(self.name, what, text))
  end
end

local function names_of_difference(self, keys, other)
  if keys.autocast ~= other.keys.autocast then
    return ("automatic casts are %s, in the closest one %s"):format(keys.autocast and "to " .. keys.autocast or "off",
      other.keys.autocast and "to " .. other.keys.autocast or "off")
  end
  for i = 1, math.max(#keys, #other.keys) do
    if keys[i] ~= other.keys[i] then
      local numbers = tonumber(keys[i]) and tonumber(other.keys[i])
      return ("%s is %s, in the closest one %s%s"):format(self.params[i] or ("argument " .. i), keys[i] or "absent",
        other.keys[i] or "absent", numbers and " (a number; a tensor would be an input)" or "")
    end
  end
  return "the same arguments"
end

-- The member that agrees in most arguments.
local function closest(self, keys)
  local best, most = nil, -1
  for _, special in pairs(self.cache) do
    local same = 0
    for i = 1, #keys do if keys[i] == special.keys[i] then same = same + 1 end end
    if keys.autocast ~= special.keys.autocast then same = same - 0.5 end
    if same > most or (same == most and special.key == self.latest) then best, most = special, same end
  end
  return best
end

-- A further specialisation was captured, since one argument is another: what came of it.
local function explain(self, family, keys, apart, look, ms)
  if look and look.why then
    say(self, "captured", ("%s%s, in %.2f ms"):format(look.why, look.number and " (a number; a tensor among the arguments would be an input)"
      or "", ms))
    look.why = nil
    return
  end
  local other = closest(self, keys)
  if not other then return end
  local came = ""
  if apart then
    came = "; " .. apart
  elseif family.sample and family.symbolic then
    came = "; sizes that differ are symbols now"
  elseif family.sample then
    came = "; no symbolic sizes, since " .. (family.why or "the graphs differ")
  end
  say(self, "captured", ("%s%s, in %.2f ms"):format(names_of_difference(self, keys, other), came, ms))
end

-- Of those before the newest the one that ran longest ago, unless it is pinned. What is known of a
-- family goes with its last member.
local function evict(self)
  for i = 1, #self.order - 1 do
    local key = self.order[i]
    local special = self.cache[key]
    if not special.pinned then
      table.remove(self.order, i)
      self.cache[key] = nil
      local family = special.family
      family.members = family.members - 1
      if family.members == 0 then self.families[family.key] = nil end
      say(self, "evicted", ("(%s), which ran longest ago of %d"):format(table.concat(special.keys, ", "), LIMIT + 1))
      return
    end
  end
end

local function remember(self, key, special)
  self.cache[key] = special
  self.order[#self.order + 1] = key
  special.family.members = special.family.members + 1
  if #self.order > LIMIT then evict(self) end
end

local function touch(self, key)
  local order = self.order
  if order[#order] == key then return end
  for i = #order, 1, -1 do
    if order[i] == key then
      table.remove(order, i)
      break
    end
  end
  order[#order + 1] = key
end

-- A member made of the family's symbolic graph, or nil.
local function from_symbols(family, list)
  if not family.symbolic or not family.confirmed or family.reads then return nil end
  local values = family.symbolic:solve(list)
  local made = values and family.symbolic:at(values)
  return made and { graph = made, spec = family.sample.spec, n = family.sample.n }
end

-- Two cases may agree on a wrong expression; a third shows it, and the two newest are
-- compared instead, a few times.
local MOST_TRIES = 4

-- What a member that was captured means for the graph with symbols; why it stands apart of it.
local function join(family, special, list)
  if not family.sample then return end
  local values = family.symbolic and family.symbolic:solve(list)
  if family.symbolic and not values then return "no case of the symbolic sizes" end
  local made, why = nil, nil
  if values then made, why = family.symbolic:at(values) end
  if made and made:same(special.graph) then
    family.confirmed = true
    return
  end
  if values and not made and family.confirmed then return why end
  family.tries = (family.tries or 0) + 1
  family.symbolic, family.confirmed = nil, nil
  if family.tries <= MOST_TRIES then
    family.symbolic, family.why = core.generalise(family.sample.graph, special.graph)
  end
  family.sample = special
end

local function donate(g, spec)
  if spec.kind == "tensor" then g:donate(spec.at) end
  for _, part in ipairs(spec.kind == "table" and spec or {}) do donate(g, part) end
end

-- The prompt, or -jv, tells a function's first time.
local function at_prompt()
  return package.preload["tessera.console"] and require("tessera.console").initial() ~= nil
end

-- What the function writes outside itself happens once, which a program hardly means.
local function tell_own(self, own)
  local text = ("changes %s itself: that happens once, when it is captured; make %s"):format(table.concat(own, ", "),
    own[2] and "them arguments" or "it an argument")
  say(self, "captured", "it " .. text, at_prompt() and not self.told_own and (self.name .. " " .. text))
  self.told_own = true
end

-- Whether the results are what its graph gives.
local function all_tensors(special)
  for i = 1, special.n do
    local spec = special.spec[i]
    if spec.kind ~= "tensor" or spec.at ~= i then return false end
  end
  return true
end

local function new_member(self, n, specs, list, names, keys, look)
  local ranks = {}
  for i = 1, n do ranks[i] = tree.describe_ranks(specs[i], list) end
  local fkey = table.concat(ranks, ", ") .. (look and " #" .. look.id or "") .. (keys.autocast or "")
  local family = self.families[fkey] or { key = fkey, members = 0 }
  local began = core.jit_now()
  local special = from_symbols(family, list)
  if special then
    core.jit_tell("sized", self.name, place(self), ("(%s), of the graph with symbols, in %.2f ms"):format(
      table.concat(keys, ", "), core.jit_now() - began))
  else
    special = captured.with_parameters(self.name, self.derives or self.body, n, function()
      return capture(self.name, self.body, specs, list, names, n)
    end)
    local own = look and look:settle() or {}
    if own[1] then tell_own(self, own) end
    family.reads = family.reads or special.graph:reads_sizes()
    local known = family.symbolic
    local apart = join(family, special, list)
    if apart or not (known and family.symbolic) then explain(self, family, keys, apart, look, core.jit_now() - began) end
    family.sample = family.sample or special
  end
  self.families[fkey] = family
  special.family, special.keys = family, keys
  special.plain = all_tensors(special)
  for _, i in ipairs(self.donate) do
    if specs[i] then donate(special.graph, specs[i]) end
  end
  if self.how then special.graph:how(self.how) end
  return special
end

-- What the tensors of the arguments are called.
local function names_of(self, n, ...)
  local names = {}
  for i = 1, n do flatten((select(i, ...)), {}, names, self.params[i] or ("arg" .. i)) end
  return names
end

-- What it takes from outside now. Those of before are kept for when their values come back, as a model's
-- that is evaluated now and then, but not where a tensor or a module is another: they would hold it.
local LOOKS = 8

local function forget_look(self, look)
  for i = #self.order, 1, -1 do
    local key = self.order[i]
    local special = self.cache[key]
    if special.look == look and not special.pinned then
      table.remove(self.order, i)
      self.cache[key] = nil
      local family = special.family
      family.members = family.members - 1
      if family.members == 0 then self.families[family.key] = nil end
    end
  end
end

local function look_of(self)
  local looks = self.looks
  if looks[1] and looks[1]:same() then return looks[1] end
  for i = 2, #looks do
    if looks[i]:same() then
      table.insert(looks, 1, table.remove(looks, i))
      return looks[1]
    end
  end
  local last = looks[1]
  local why, kind = nil, nil
  if last then why, kind = last:changed() end
  if kind == "held" then forget_look(self, table.remove(looks, 1)) end
  if #looks == LOOKS then forget_look(self, table.remove(looks)) end
  self.nlook = self.nlook + 1
  local look = outside.look(self.roots)
  look.id, look.why, look.number = self.nlook, why, kind == "number"
  table.insert(looks, 1, look)
  return look
end

local function still(self, look) return self.looks[1] == look and look:same() end

local function specialise(self, n, ...)
  local list, specs, keys = {}, {}, {}
  for i = 1, n do
    specs[i] = flatten((select(i, ...)), list)
    keys[i] = describe(specs[i], list)
  end
  local look = self.roots and look_of(self)
  keys.autocast = core.autocast_dtype()
  local leaves = core.mesh_leaves()
  local key = table.concat(keys, ", ") .. (look and " #" .. look.id or "") .. (keys.autocast or "") ..
    (leaves > 1 and " leaves " .. leaves or "")
  local special = self.cache[key]
  if special then
    touch(self, key)
  else
    special = new_member(self, n, specs, list, names_of(self, n, ...), keys, look)
    special.key, special.look = key, look
    remember(self, key, special)
  end
  self.latest = key
  self.current = special
  self.plain = core.types_key(...)
  return special, list
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
  if self.plain and core.types_key(...) == self.plain and (not self.roots or still(self, special.look)) then
    local list = { ... }
    keep_last(self, #list, ...)
    return run(special, list)
  end
  keep_last(self, select("#", ...), ...)
  return run(specialise(self, select("#", ...), ...))
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
  if n > 0 then special = specialise(self, n, ...) end
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

--- The text of a level: "captured", before rewriting; "graph", with symbols for sizes that
--- have differed; "concrete", the graph for the sizes of the last call; "schedule", which
--- nodes are one kernel; "tile", "explicit", "llvm", "asm", the kernels; "bytecode", of the
--- tier that runs; "tiles", "why", "rewrites". With arguments, of the specialisation for them; without, of the last one that
--- ran. {target = "sm_90a"} behind them: the kernels that another machine would run, which need not be here: avx512,
--- avx2, base, sm_80, sm_86, sm_90a, sm_100, sm_120; gfx942, gfx1100, for which there is no device. {kernel = 2}: of the
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
  if select("#", ...) > 0 then special = specialise(self, select("#", ...), ...) end
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
  if last then special, list = specialise(self, last.n, unpack(last, 1, last.n)) else special, list = specialise(self, n, ...) end
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
    special, list = specialise(self, n, ...)
    special.graph:collectives(list)
  end
  local text = special and special.graph:plan(level == "steps")
  return text and (text:gsub("\n$", ""))
end

--- tessera.jit.pin and unpin (on = false), for the sizes of the last call, or of the given arguments. Whether kernels run.
---   local f = graph.module("f", op.tanh)
---   print(f:pin(true, op.ones{3}))
function Function:pin(on, ...)
  local special = self.current
  if select("#", ...) > 0 then special = specialise(self, select("#", ...), ...) end
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

--- The rules that fired when it was captured, a line each.
---   local f = graph.module("f", function(x) return x * 1 end)
---   f(op.ones{3})
---   print(f:rewrites())
function Function:rewrites()
  if not self.current then fail(("%s has not run yet: call it"):format(self.name)) end
  return self.current.graph:text("rewrites")
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
  return core.keep_line(setmetatable({ name = name, body = f, params = parameter_names(f, 16), cache = {}, order = {},
    families = {}, history = {}, roots = roots, looks = {}, nlook = 0, donate = read_module(given).donate }, Function))
end

-- ---- derivatives

local function positions(wrt)
  if wrt == nil then return { 1 } end
  return type(wrt) == "table" and wrt or { wrt }
end

-- Integers and truth values do not move, so nothing is differentiated by them.
local function check_moves(what, x, i)
  if not core.is_tensor(x) or not (x.dtype:match "^[iu]%d" or x.dtype == "bool") then return end
  fail(("%s: argument %d is %s; only floats and complex numbers have derivatives\n  hint: cast it first, x:cast(\"f32\")")
    :format(what, i, core.type_text(x)))
end

-- The leaves of the arguments at the given positions. what: the function that the program named
-- them to, or nil if it means all of them.
local function chosen(wrt, args, n, what)
  local list, names, specs = {}, {}, {}
  for k, i in ipairs(wrt) do
    if i > n then fail(("graph.grad: there is no argument %d"):format(i)) end
    if what then check_moves(what, args[i], i) end
    specs[k] = flatten(args[i], list, names, "x")
  end
  return list, specs
end

local function filled(list, xs)
  for i, x in ipairs(xs) do
    if not list[i] then list[i] = core.op.zeros_like(x) end
  end
  return list
end

local function as_results(specs, list)
  local out = {}
  for k = 1, #specs do
    local spec = specs[k]
    if spec.kind == "module" then
      local t = {}
      for i, field in ipairs(spec) do t[field.name] = list[spec.at + i] end
      out[k] = t
    else
      out[k] = unflatten(spec, list)
    end
  end
  return unpack(out, 1, #specs)
end

local function scalar(y, what)
  if core.is_tensor(y) and y.numel == 1 then return y end
  fail(("%s: the function must return one number as a tensor, not %s"):format(what,
    core.is_tensor(y) and core.type_text(y) or type(y)))
end

local function gradient_of(f, wrt, with_value)
  wrt = positions(wrt)
  return function(...)
    local args, n = { ... }, select("#", ...)
    local xs, specs = chosen(wrt, args, n, "graph.grad")
    local y = scalar((f(...)), "graph.grad")
    local dx = filled(core.gradient({ y }, { false }, xs), xs)
    if with_value then return y, as_results(specs, dx) end
    return as_results(specs, dx)
  end
end

local function body_of(f, what)
  core.need_function(f, "graph." .. what)
  return getmetatable(f) == Function and f.body or f
end
-- A derivative's arguments have the names of the function's own.
local function named_like(f, derivative)
  derivative.derives = getmetatable(f) == Function and f.body or f
  if getmetatable(f) == Function then derivative.params = f.params end
  if type(f) == "function" then derivative.params = parameter_names(f, 16) end
  return derivative
end
local function name_of(f, prefix) return prefix .. (getmetatable(f) == Function and "_" .. f.name or "") end

-- from: whose values from outside count, not those of what the library makes of it. how: it runs on a mesh, see
-- tessera.dist.pipeline.
local function derivative(name, body, from, how)
  local f = graph.module(name, body)
  f.derivative, f.roots, f.how = true, from, how
  return f
end

--- The gradient of a function that returns one number, by its arguments wrt (1 by default;
--- a list of positions). Returns one value for each.
--   local slope = graph.grad(function(w) return (w * w):sum() end)
--   print(slope(op.ones{3}))      -- {2, 2, 2}
function graph.grad(f, wrt)
  return named_like(f, derivative(name_of(f, "grad"), gradient_of(body_of(f, "grad"), wrt, false),
    { body_of(f, "grad") }))
end

--- As grad, with the function's value in front.
--   local both = graph.value_and_grad(function(w) return (w * w):sum() end)
--   local y, dw = both(op.ones{3})      -- 3, and {2, 2, 2}
function graph.value_and_grad(f, wrt)
  return named_like(f, derivative(name_of(f, "value_and_grad"), gradient_of(body_of(f, "value_and_grad"), wrt, true),
    { body_of(f, "value_and_grad") }))
end

--- vjp(f)(args..., u): u times the Jacobian, one result for each argument.
--   local dx = graph.vjp(function(x) return op.sin(x) end)(x, op.ones_like(x))
function graph.vjp(f)
  local body = body_of(f, "vjp")
  return derivative(name_of(f, "vjp"), function(...)
    local n = select("#", ...)
    local args = { ... }
    local u = args[n]
    args[n] = nil
    local all = {}
    for i = 1, n - 1 do all[i] = i end
    local xs, specs = chosen(all, args, n - 1)
    local y = body(unpack(args, 1, n - 1))
    return as_results(specs, filled(core.gradient({ y }, { u }, xs), xs))
  end, { body })
end

--- jvp(f)(args..., v...): the value and its derivative when the arguments move along v. An
--- argument whose v is false stays where it is; a number stands for all elements of v.
--   local moved = graph.jvp(function(x) return op.sin(x) end)
--   local y, dy = moved(x, op.ones_like(x))
function graph.jvp(f)
  local body = body_of(f, "jvp")
  return derivative(name_of(f, "jvp"), function(...)
    local n = select("#", ...)
    if n % 2 ~= 0 then fail("graph.jvp: as many directions as arguments are needed") end
    local args = { ... }
    local xs, vs, names = {}, {}, {}
    for i = 1, n / 2 do
      if args[n / 2 + i] then
        local v = args[n / 2 + i]
        check_moves("graph.jvp", args[i], i)
        flatten(args[i], xs, names, "x")
        if type(v) ~= "number" then flatten(v, vs, names, "v") end
        while #vs < #xs and type(v) == "number" do vs[#vs + 1] = core.op.full_like(xs[#vs + 1], v) end
      end
    end
    local y = body(unpack(args, 1, n / 2))
    return y, filled(core.jvp(xs, vs, { y }), { y })[1]
  end, { body })
end

--- hvp(f)(x, v): the Hessian of a function with one number as result, times v.
--   local hv = graph.hvp(function(x) return (x ^ 3):sum() end)
--   print(hv(x, op.ones_like(x)))
function graph.hvp(f)
  local slope = gradient_of(body_of(f, "hvp"), 1, false)
  return derivative(name_of(f, "hvp"), function(x, v)
    local g = slope(x)
    return filled(core.jvp({ x }, { v }, { g }), { g })[1]
  end, { body_of(f, "hvp") })
end

--- f whose inner values are computed again for the derivative instead of being kept.
--   local y = graph.checkpoint(function(x) return op.gelu(x) end)(x)
function graph.checkpoint(f) return require("tessera.control").checkpoint(body_of(f, "checkpoint")) end

-- ---- files

local FORMS = { dot = "dot", json = "json", tgraph = "graph" }

--- Writes a function's graph: of its last call as "x.dot" for Graphviz and "x.json"; as
--- "x.tgraph", which graph.load reads, with symbols for sizes that have differed. Captured
--- tensors become further parameters.
--   local f = graph.module("f", op.tanh)
--   f(op.ones{3})
--   graph.export(f, "f.tgraph")
function graph.export(f, path)
  local form = FORMS[tostring(path):match "%.(%w+)$" or ""]
  if not form then fail(("graph.export: '%s' does not end in .dot, .json or .tgraph"):format(tostring(path))) end
  if type(f) ~= "table" or not f.ir then
    fail(("graph.export: a captured function is needed, as graph.module makes it, not a %s"):format(type(f)))
  end
  core.write_file(path, { f:ir(form) })
  return path
end

local Loaded = {}
Loaded.__index = Loaded

function Loaded:__call(...)
  local n, given = #self.types, select("#", ...)
  if given ~= n then fail(("%s: %d tensors are needed, not %d"):format(self.name, n, given)) end
  return self.graph:run({ ... })
end
function Loaded:ir(level) return self.graph:text(level == "concrete" and "graph" or tostring(level or "graph")) end
function Loaded:rewrites() return self.graph:text("rewrites") end
function Loaded:stats() return self.graph:stats() end
function Loaded:__tostring()
  return ("graph %s(%s)"):format(self.name, table.concat(self.types, ", "))
end

--- A graph from a .tgraph file, or from its text, as a function: its parameters in order, those that were
--- captured last. sizes gives values to symbols, {B = 8}.
--   local text = "graph @f(%x: f32[3]) -> %y {\n%y = tanh %x : f32[3]\n}"
--   local f = graph.load(text)      -- or graph.load "f.tgraph"
--   print(f(op.ones{3}))
function graph.load(path, sizes)
  if type(path) ~= "string" then fail("graph.load: a path or the text of a graph is needed, not a " .. type(path)) end
  local name = core.shown(path)
  local text = path
  if path:find "^%s*graph%s+@" or path:find "^%s*//" or path:find "\n" then
    name = "text"
  else
    text = core.read_file(path, "graph.load")
  end
  local g, types, called = core.graph_load(text, sizes)
  if not g then fail(("graph.load: %s: %s"):format(name, types)) end
  return core.keep_line(setmetatable({ graph = g, types = types, name = called }, Loaded))
end

-- ---- training

require "tessera.training"(graph, derivative, scalar, specialise)

--- f with another derivative: adjoint(arguments..., results..., gradients...) returns a
--- gradient for each argument. Other tensors that f uses get none.
--   local clip = graph.custom_adjoint(function(x) return x * 1 end,
--     function(x, y, dy) return dy:clamp(-1, 1) end)
function graph.custom_adjoint(f, adjoint) return require("tessera.foreign").custom_adjoint(f, adjoint) end

core.keep_line(Function, true)
core.keep_line(Loaded, true)
return require("tessera.named")("tessera.graph", graph)
