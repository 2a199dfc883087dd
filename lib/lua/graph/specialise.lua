-- Specialisations of captured functions: a function is captured once for each combination of types, shapes and
-- values that are no tensors, also of values that it takes from outside (outside.lua). What a call with
-- some arguments runs is found here, or made: specialise.of. Functions are objects of graph.lua.

local core = require "tessera.core"
local captured = require "tessera.captured"
local Module = require "tessera.module"
local outside = require "tessera.outside"
local tree = require "tessera.tree"
local flatten, unflatten, describe, set_modules = tree.flatten, tree.unflatten, tree.describe, tree.set_modules

local specialise = {}

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

--- Names of a function's parameters, of n at most.
function specialise.parameter_names(f, n)
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

-- ---- families
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
  elseif require("tessera.graph").verbose then
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
    self.unmade = self.unmade + 1 -- until it is there: captures that failed are those that still count
    special = captured.with_parameters(self.name, self.derives or self.body, n, function()
      return capture(self.name, self.body, specs, list, names, n)
    end)
    self.unmade = self.unmade - 1
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

--- Whether what it takes from outside is what it was for this look of it.
function specialise.still(self, look) return self.looks[1] == look and look:same() end

--- What a call with these n arguments runs, made where it is not there yet, and their tensors. It is the current one from then on.
function specialise.of(self, n, ...)
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

return specialise
