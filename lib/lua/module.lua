-- The base of all modules: named parameters, children in order, state dicts.
--
--   local MLP = nn.Module:extend("MLP")
--   function MLP:init(width, hidden)
--     self.up = nn.Linear(width, hidden)
--     self.down = nn.Linear(hidden, width)
--   end
--   function MLP:forward(x) return self.down(op.relu(self.up(x))) end
--   local mlp = MLP(16, 64)
--   local y = mlp(x)
--
-- A tensor assigned to a field is a parameter, unless it goes through
-- self:buffer(name, tensor). Names in state dicts are paths: "up.weight".

local core = require "tessera.core"
local function_name = require "tessera.function_name"
local options = require "tessera.options"
local same_shape = require "tessera.same_shape"

local read_load = options.of("load_state_dict", { strict = options.flag }, { strict = true })

local Module = { class = "Module" }

local ORDER, BUFFERS = {}, {} -- private keys: field names in order; set of buffers

-- Whether a value is a module, and not one of its classes.
--   nn.Module.is_module(nn.Linear(2, 2))      -- true
local function is_module(v)
  return type(v) == "table" and rawget(v, ORDER) ~= nil
end

-- Where a parameter stands: the module and the name of its field, of the first one that has it.
local module_of, key_of = setmetatable({}, { __mode = "kv" }), setmetatable({}, { __mode = "k" })

--- The module that holds, or held, a parameter, and the name of its field; nil if none is known.
---   local holder, name = nn.Module.place_of(model.weight)
function Module.place_of(tensor) return module_of[tensor], key_of[tensor] end

local function adopt(self, key, tensor)
  local holder = module_of[tensor]
  if not (holder and rawequal(rawget(holder, key_of[tensor]), tensor)) then
    module_of[tensor], key_of[tensor] = self, key
  end
end

-- Fields are entered in the order of their first assignment.
local function newindex(self, key, value)
  rawset(self, key, value)
  if core.is_tensor(value) or is_module(value) then
    local order = rawget(self, ORDER)
    order[#order + 1] = key
    if core.is_tensor(value) and not rawget(self, BUFFERS)[key] then
      value.requires_grad = true
      adopt(self, key, value)
    end
  end
end

local function construct(class, ...)
  local self = core.keep_line(setmetatable({ [ORDER] = {}, [BUFFERS] = {}, training = true }, class))
  self:init(...)
  return self
end

local class_meta = {
  __call = construct,
  __tostring = function(class) return ("class %s of modules: %s(...) makes one"):format(class.class, class.class) end,
  __index = function(class, key)
    local parent = rawget(class, "parent")
    return parent and parent[key]
  end,
  __newindex = core.keep_method,
}

local function equip(class)
  class.__index, class.__newindex, class.__tostring = class, newindex, Module.describe
  class.__call = function(module, ...) return module:forward(...) end
  return core.keep_line(setmetatable(class, class_meta), true)
end

-- A new class of modules: its init(...) makes parameters, its forward(...) is what module(...) computes.
--   local MLP = nn.Module:extend "MLP"
--   function MLP:forward(x) return op.relu(x) end
function Module:extend(name)
  return equip { class = name, parent = self }
end

-- What a module begins with: each class has its own, and gets what the class was called with. Tensors and modules that
-- become fields are its parameters and children; self:buffer(name, tensor) is a tensor that is not trained.
--   local MLP = nn.Module:extend "MLP"
--   function MLP:init(width) self.up = nn.Linear(width, 4 * width) end
--   function MLP:forward(x) return self.up(x):relu() end
--   local y = MLP(4)(op.ones{2, 4})      -- f32[2,16]
function Module:init() end

-- What module(...) computes; each class has its own. ? nn.Linear and so on say which shapes it takes and gives.
--   y = model(x)      -- is model:forward(x)
function Module:forward()
  error(("%s has no forward method"):format(self.class), 2)
end

-- A tensor that is saved and moved with the module but not trained; gives it.
--   local MLP = nn.Module:extend "MLP"
--   function MLP:init() self:buffer("mean", op.zeros{16}) end
function Module:buffer(name, tensor)
  rawget(self, BUFFERS)[name] = true
  self[name] = tensor
  return tensor
end

-- The name of a field in paths. Lists count from 0 there, as tensors do.
local function path_name(key)
  return type(key) == "number" and ("%d"):format(key - 1) or tostring(key)
end

local function visit(self, prefix, on_tensor, on_module)
  if on_module then on_module(prefix, self) end
  for _, key in ipairs(rawget(self, ORDER)) do
    local value, name = rawget(self, key), prefix .. path_name(key)
    if core.is_tensor(value) then
      if on_tensor then on_tensor(name, value, rawget(self, BUFFERS)[key] and "buffer" or "parameter", self, key) end
    elseif is_module(value) then
      visit(value, name .. ".", on_tensor, on_module)
    end
  end
end

local Pairs = {}
function Pairs.__call(list, _, name)
  list.at = name == nil and 1 or list.at + 1
  local pair = list[list.at]
  if pair then return pair[1], pair[2] end
  list.at = nil
end

-- { {name, tensor}, ... } in order of construction; names are paths, "up.weight". A tensor that two modules share (tied
-- weights) is listed once, by its first name. A tensor that was assigned in place of another one becomes a parameter
-- here. The list goes through its pairs in a loop, too.
--   for name, w in model:named_parameters() do print(name, w) end
--   for _, p in ipairs(model:named_parameters()) do print(p[1], p[2]) end
function Module:named_parameters()
  local list, seen = {}, {}
  visit(self, "", function(name, tensor, kind, module, key)
    if kind == "parameter" and not seen[tensor] then
      seen[tensor] = true
      if not module_of[tensor] and not core.capturing() then
        tensor.requires_grad = true
        adopt(module, key, tensor)
      end
      list[#list + 1] = { name, tensor }
    end
  end)
  return setmetatable(list, Pairs)
end

-- The list of tensors that are trained, in order of construction, each once: what optimisers take.
--   opt = optim.AdamW(model:parameters(), {lr = 1e-3})
function Module:parameters()
  local list = self:named_parameters()
  for i, pair in ipairs(list) do list[i] = pair[2] end
  return setmetatable(list, nil)
end

-- How many numbers are trained: the elements of all parameters, added up.
--   print(model:num_parameters())
function Module:num_parameters()
  local n = 0
  for _, p in ipairs(self:parameters()) do n = n + p.numel end
  return n
end

-- Forgets the gradients that backward() added up in the parameters; gives the module.
--   model:zero_grad()
--   model(op.ones{1, 4}):sum():backward()
function Module:zero_grad()
  for _, p in ipairs(self:parameters()) do p.grad = nil end
  return self
end

-- Parameters and buffers where they stand: { {name, tensor, module, key}, ... }; what two modules share stands twice.
--   for _, f in ipairs(model:tensors()) do print(f.name, f.tensor.dtype) end
function Module:tensors()
  local list = {}
  visit(self, "", function(name, tensor, _, module, key)
    list[#list + 1] = { name = name, tensor = tensor, module = module, key = key }
  end)
  return list
end

-- The modules among its fields with their names, in order: { {name, module}, ... }.
--   for _, c in ipairs(model:children()) do print(c[1], c[2]) end
function Module:children()
  local list = {}
  for _, key in ipairs(rawget(self, ORDER)) do
    local value = rawget(self, key)
    if is_module(value) then list[#list + 1] = { path_name(key), value, key = key } end
  end
  return list
end

-- Calls f(module, name) for this module, whose name is "", and for all below; gives the module.
--   model:apply(function(m, name) print(name, m.class) end)
function Module:apply(f)
  visit(self, "", nil, function(prefix, module) f(module, (prefix:gsub("%.$", ""))) end)
  return self
end

-- Parameters and buffers by path, a table that tessera.save takes. They are the tensors themselves.
--   tessera.save("model.safetensors", model:state_dict())
function Module:state_dict()
  local state = {}
  visit(self, "", function(name, tensor) state[name] = tensor end)
  require "tessera.state"(state)
  return state
end

local function list_some(names)
  table.sort(names)
  local text = table.concat(names, ", ", 1, math.min(#names, 5))
  return #names > 5 and ("%s and %d more"):format(text, #names - 5) or text
end

-- Copies values in by path, and gives {missing, unknown}. With {strict = false} names may be missing or unknown; shapes
-- must fit always. Nothing is changed when something does not fit.
--   model:load_state_dict(model:state_dict())      -- or tessera.load(..)
function Module:load_state_dict(state, given)
  options.argument("load_state_dict", "the state", options.table, state)
  local strict = read_load(given).strict
  local missing, unknown, mine = {}, {}, self:state_dict()
  for name, tensor in pairs(mine) do
    local value = state[name]
    if value == nil then
      missing[#missing + 1] = name
    elseif not core.is_tensor(value) then
      core.fail(("load_state_dict: %s is a %s in the state, not a tensor"):format(name, type(value)))
    elseif not same_shape(tensor.shape, value.shape) then
      error(("load_state_dict: %s has shape [%s] here and [%s] in the state"):format(name,
        table.concat(tensor.shape, ","), table.concat(value.shape, ",")), 2)
    end
  end
  local ignored = {} -- entries of others that a layer knows and does not need
  visit(self, "", nil, function(prefix, module)
    for name in pairs(module._ignored or {}) do ignored[prefix .. name] = true end
  end)
  for name in pairs(state) do
    if mine[name] == nil and not ignored[name] then unknown[#unknown + 1] = name end
  end
  if strict and (#missing > 0 or #unknown > 0) then
    error(("load_state_dict: %s%s%s"):format(
      #missing > 0 and "missing " .. list_some(missing) or "",
      #missing > 0 and #unknown > 0 and "; " or "",
      #unknown > 0 and "unknown " .. list_some(unknown) or ""), 2)
  end
  local to, from = {}, {}
  for name, tensor in pairs(mine) do
    if state[name] then to[#to + 1], from[#from + 1] = tensor, state[name] end
  end
  for i, value in ipairs(from) do from[i] = value:detach() end -- it is no step of what is differentiated
  core.assign_all(to, from)
  return { missing = missing, unknown = unknown }
end

-- Tensors become what f(tensor, name) gives, where that is another one; or an error, and all stay as they are. One that stands
-- in two places stays one.
local function replace(self, f)
  local fields, by_tensor = {}, {}
  for _, field in ipairs(self:tensors()) do
    local value = field.tensor
    local moved = by_tensor[value] or core.no_grad(f, value, field.name) -- parameters are leaves
    by_tensor[value] = moved
    if moved ~= value then
      moved.requires_grad = value.requires_grad
      fields[#fields + 1] = { field.module, field.key, moved }
    end
  end
  core.held(function()
    for _, field in ipairs(fields) do
      rawset(field[1], field[2], field[3])
      if not rawget(field[1], BUFFERS)[field[2]] then adopt(field[1], field[2], field[3]) end
    end
  end)
  return self
end

-- All parameters and buffers of floats converted to a dtype, or moved to a device or a mesh; gives the module. Or an error, and
-- all stay as they are.
--   model:to "f64"      -- and model:to "cuda:0"
function Module:to(where)
  return replace(self, function(value)
    if not (value.dtype:match("^[bf]") or value.dtype:match("^complex")) then return value end
    local moved = value:to(where)
    local same = moved.dtype == value.dtype and moved.device == value.device -- then an optimiser's tensor stays
    return same and value or moved
  end)
end

--- For dist.shard_module: replaces tensors by what f(tensor, name) gives.
Module.replace = replace

-- A module with what copy_of(tensor) gives in place of each tensor. copies: by tensor or module, those that are there.
local function copied(self, copy_of, copies)
  local function copy(v)
    if not core.is_tensor(v) and not is_module(v) then return v end
    if copies[v] then return copies[v] end
    if core.is_tensor(v) then
      copies[v] = copy_of(v)
      copies[v].requires_grad = v.requires_grad
      return copies[v]
    end
    local m = core.keep_line(setmetatable({}, getmetatable(v)))
    copies[v] = m
    for key, value in pairs(v) do rawset(m, key, copy(value)) end
    local order, buffers = {}, {}
    for i, key in ipairs(rawget(v, ORDER)) do order[i] = key end
    for key in pairs(rawget(v, BUFFERS)) do buffers[key] = true end
    rawset(m, ORDER, order)
    rawset(m, BUFFERS, buffers)
    for _, key in ipairs(order) do
      if core.is_tensor(rawget(m, key)) and not buffers[key] then adopt(m, key, rawget(m, key)) end
    end
    return m
  end
  return copy(self)
end

--- For step:fits: a model that is only planned with.
Module.copied = copied

-- A module of its own, with copies of all tensors: those that are shared here are shared there. What
-- else its fields hold is the same.
--   local other = model:clone()
function Module:clone()
  return copied(self, function(t) return t:detach():clone() end, {})
end

-- Training from now on, or not with false, in this module and all below: Dropout and BatchNorm ask. Gives the module.
--   model:train()
function Module:train(on)
  on = on == nil or on
  core.held(visit, self, "", nil, function(_, module) rawset(module, "training", on) end)
  return self
end

-- The opposite of train: Dropout gives x, BatchNorm uses its running statistics. Gives the module.
--   y = model:eval()(x)
function Module:eval() return self:train(false) end


-- Words of the class's own for the description that print shows, as "inputs = 16, outputs = 64" of the library's layers.
--   local MLP = nn.Module:extend "MLP"
--   function MLP:extra() return "wide" end
function Module:extra() return rawget(self, "_told") or "" end

-- The text that print(model) shows: the class, its words, and its children, indented.
--   print(model)
function Module:describe(indent)
  indent = type(indent) == "string" and indent or ""
  local lines = { ("%s(%s)"):format(self.class, self:extra()) }
  local function add(name, part, count)
    local text = is_module(part) and part:describe(indent .. "  ") or
      type(part) == "function" and function_name.text(part) or tostring(part)
    lines[#lines + 1] = ("%s  %s: %s%s"):format(indent, name, (count or 1) > 1 and ("%d x "):format(count) or "", text)
  end
  for _, key in ipairs(rawget(self, ORDER)) do
    if type(key) ~= "number" and is_module(rawget(self, key)) then add(key, rawget(self, key)) end
  end
  local i = 1
  while i <= #self do -- of lists, functions as well
    local part, last = rawget(self, i), i
    if is_module(part) then
      local text = part:describe()
      while last < #self and is_module(rawget(self, last + 1)) and rawget(self, last + 1):describe() == text do last = last + 1 end
    end
    if core.callable(part) then add(last > i and path_name(i) .. " to " .. path_name(last) or path_name(i), part, last - i + 1) end
    i = last + 1
  end
  return table.concat(lines, "\n")
end

Module.is_module = is_module
return equip(Module) -- nn.Module() is a module, too: it holds what is put into it
