-- What a captured function takes from outside besides its arguments: upvalues, globals, fields of
-- modules and tables. Such values are constants of the graph, so each is remembered with its place, and
-- looked at before a call: one that is another by now is a reason to capture again.
--
--   local now = outside.look { f }      -- before f is captured
--   now:settle(say)                     -- behind it: what f itself has changed is no reason
--   now:changed()                       -- nil, or "upvalue rate is 0.2, was 0.1", "number"
--
-- Looked at are numbers, strings, flags, tensors, functions and modules by what they are, and tables
-- through their fields, of which a name has to stand in one of the functions: a counter that a
-- program keeps beside is no reason. Fields of nn modules are looked at whatever they are called. Where a
-- function reads t.name and there is none, "none" is what is remembered; so are metatables, what they name,
-- and the tables behind __index. Not seen are names that are put together at run time and what pairs() finds under
-- other names, lists of more than LIST values, tables DEEP within each other, modules that the function itself loads
-- first, the bytes of a struct, and what libraries keep to themselves.

local core = require "tessera.core"
local Module = require "tessera.module"
local util = require "jit.util"

local LIST, DEEP, MOST = 256, 16, 20000 -- values of a list, tables within each other, places and tables of a function
local ABSENT, CHAIN = 128, 8 -- fields that are not there, tables behind each other by __index

local outside = {}
local Look = {}
Look.__index = Look

-- ---- what belongs to a library: its values are no program's, its tables are not walked
local function of_library(f)
  local source = debug.getinfo(f, "S").source
  return source == "=[C]" or source:find "^=tessera" ~= nil or source:find "^=%[builtin" ~= nil
end

-- Lua's own modules and Tessera's; a program's are walked, whether they are globals or not.
local own = {}
for name in ("_G bit coroutine debug ffi io jit math os package string table"):gmatch "%S+" do own[name] = true end
local function is_own(name) return own[name] or name:find "^jit%." ~= nil or name:find "^tessera%f[^%w_]" ~= nil end

local libraries = setmetatable({}, { __mode = "k" })
local function find_libraries()
  for name, value in pairs(package.loaded) do
    if type(value) == "table" and is_own(name) then libraries[value] = true end
  end
  local tessera = package.loaded.tessera
  for _, value in pairs(tessera or {}) do
    if type(value) == "table" and not core.is_tensor(value) then libraries[value] = true end
  end
end

-- A metatable of a library: of a list of sizes, an optimizer, a captured function.
local function is_librarys(meta)
  if libraries[meta] then return true end
  for _, f in next, meta do
    if type(f) == "function" and of_library(f) then return true end
  end
  local index = rawget(meta, "__index")
  return type(index) == "table" and libraries[index] == true
end

-- ---- names in a function: globals that it reads, all words, which may be names of fields, and the fields
-- that it reads, by the name of what they are read of
local function opcode(f, pc) return bit.band(util.funcbc(f, pc), 0xff) end
local unbound
local GGET, TGETS = opcode(loadstring "return anything", 1), opcode(loadstring "return a.b", 2)
local UGET, MOV = opcode(function() return unbound end, 1), opcode(loadstring "local a local b = a", 2)
local JUMP, MODES = 13 * 128, 15 * 128 -- of an instruction's mode: that its last operand is where it jumps to
local ANY = 0 -- the name of what has none: a local, an argument

local function jumped_to(proto, n)
  local to = {}
  for pc = 1, n do
    local ins, mode = util.funcbc(proto, pc)
    if ins and bit.band(mode, MODES) == JUMP then to[pc + bit.rshift(ins, 16) - 0x7fff] = true end
  end
  return to
end

-- What the instruction before pc has put into a register: the name of an upvalue, a global, a field, or ANY.
local function name_of(proto, pc, register, jumped)
  if pc < 2 or jumped[pc] then return ANY end
  local ins = util.funcbc(proto, pc - 1)
  local op, a, d = bit.band(ins, 0xff), bit.band(bit.rshift(ins, 8), 0xff), bit.rshift(ins, 16)
  if op == MOV and d == register and a ~= register then return name_of(proto, pc - 1, register, jumped) end -- o:m()
  if a ~= register then return ANY end
  if op == UGET then return util.funcuvname(proto, d) or ANY end
  if op == GGET then return util.funck(proto, -1 - d) end
  return op == TGETS and util.funck(proto, -1 - bit.band(d, 0xff)) or ANY
end

local function words_of(proto, globals, words, reads)
  local info = util.funcinfo(proto)
  local jumped = jumped_to(proto, info.bytecodes - 1)
  for pc = 1, info.bytecodes - 1 do
    local ins = util.funcbc(proto, pc)
    local op = ins and bit.band(ins, 0xff)
    if op == GGET then
      globals[util.funck(proto, -1 - bit.rshift(ins, 16))] = true
    elseif op == TGETS then
      local name = name_of(proto, pc, bit.rshift(ins, 24), jumped)
      reads[name] = reads[name] or {}
      reads[name][util.funck(proto, -1 - bit.band(bit.rshift(ins, 16), 0xff))] = true
    end
  end
  for i = 1, info.gcconsts or 0 do
    local k = util.funck(proto, -i)
    if type(k) == "string" then words[k] = true elseif type(k) == "proto" then words_of(k, globals, words, reads) end
  end
end

-- ---- the walk
local META, META_OF = {}, {} -- keys of places: the metatable itself; of what was asked: what stands in it

local function is_class(t) return rawget(t, "__index") == t and rawget(t, "class") ~= nil end

-- The function that a callable table of a library stands for: captured ones have a body.
local function body_of(t)
  local body = rawget(t, "body")
  return type(body) == "function" and rawget(t, "cache") ~= nil and body or nil
end

local function is_plain(value)
  local kind = type(value)
  return kind == "number" or kind == "string" or kind == "boolean" or kind == "nil" or kind == "cdata"
end

-- Collects places as {container, key, value, path}. Words of all functions are known before any table is
-- asked for them, so it runs twice, and the first time collects none.
local Walk = {}
Walk.__index = Walk

function Walk:place(container, key, value, path)
  if not self.places or #self.places >= MOST then return end
  self.places[#self.places + 1] = { container, key, value, path }
end

-- Whether that is asked for the first time of a container and a key.
function Walk:once(container, key)
  local keys = self.asked[container]
  if not keys then
    keys = {}
    self.asked[container] = keys
  end
  if keys[key] then return false end
  keys[key] = true
  return true
end

function Walk:func(f, path, depth)
  if self.seen[f] or depth > DEEP then return end
  self.seen[f] = true
  local library = of_library(f)
  if debug.getinfo(f, "S").what == "C" then return end
  for i = 1, math.huge do
    local name, value = debug.getupvalue(f, i)
    if not name then break end
    -- Of a library's closures only what the program gave them: functions and modules.
    if not library then
      if name ~= "(tail)" then self:value(f, i, value, "upvalue " .. name, depth, true) end -- repl/tail_code.h: callees
    elseif type(value) == "function" and not of_library(value) then
      self:func(value, path, depth + 1)
    elseif Module.is_module(value) then
      self:module(value, name, depth + 1)
    end
  end
  if library then return end
  local globals = {}
  words_of(f, globals, self.words, self.reads)
  local env = getfenv(f)
  for name in pairs(globals) do self:global(env, name, depth) end
  if globals.require then self:required(f, depth) end
end

-- A global, also of an environment that has others behind it.
function Walk:global(env, name, depth)
  for _ = 1, CHAIN do
    local value = rawget(env, name)
    local meta = value == nil and debug.getmetatable(env)
    local index = type(meta) == "table" and rawget(meta, "__index")
    self:value(env, name, value, "global " .. name, depth, true)
    if type(index) ~= "table" then return end
    env = index
  end
end

-- Modules that are loaded and whose name stands in a function that calls require.
function Walk:required(f, depth)
  for word in pairs(self.words) do
    local value = package.loaded[word]
    if (type(value) == "table" and not libraries[value]) or type(value) == "function" then
      self:value(package.loaded, word, value, "module " .. word, depth, true)
    end
  end
end

-- named: somebody named the place, or the container is a module.
function Walk:value(container, key, value, path, depth, named)
  local kind = type(value)
  if kind == "table" then
    local name = type(container) == "function" and debug.getupvalue(container, key) or key
    if value == _G then self:globals_of(value, name, depth) end
    if libraries[value] then return end
    local short = path:gsub("^%a+ ", "", 1)
    self:absent(value, name, short)
    if named then self:place(container, key, value, path) end
    self:table(value, short, depth + 1)
  elseif kind == "function" then
    if named then self:place(container, key, value, path) end
    self:func(value, path, depth + 1)
  elseif named and (is_plain(value) or core.is_tensor(value)) then
    self:place(container, key, value, path)
  end
end

-- Globals that a function reads as _G.name.
function Walk:globals_of(t, name, depth)
  for _, of in ipairs { name, ANY } do
    for word in pairs(self.reads[of] or {}) do
      if self:once(t, word) then self:value(t, word, rawget(t, word), "global _G." .. word, depth, true) end
    end
  end
end

-- Fields that a function reads of a table of this name and that are not there, nor in what is behind it by
-- __index. Those of a table that has no name are read of any table, but no module and no list.
function Walk:absent(t, name, path)
  if not self.places or body_of(t) then return end
  local module = Module.is_module(t)
  if not module and (#t > 0 or is_class(t)) then return end
  local meta = debug.getmetatable(t)
  if type(meta) == "table" and not module and is_librarys(meta) then return end
  for _, of in ipairs { name, not module and ANY or nil } do
    for word in pairs(self.reads[of] or {}) do
      local at, chain = t, 0
      while type(at) == "table" and not libraries[at] and chain < CHAIN and rawget(at, word) == nil do
        if not self:lacks(at, word, path) then break end
        meta = debug.getmetatable(at)
        at = not module and type(meta) == "table" and rawget(meta, "__index") or nil
        chain = chain + 1
      end
    end
  end
end

function Walk:lacks(t, word, path)
  if self.nabsent >= ABSENT then return false end
  if not self:once(t, word) then return true end
  self.nabsent = self.nabsent + 1
  self:place(t, word, nil, ("%s.%s"):format(path, word))
  if not Module.is_module(t) then self:identity(t, path) end
  return true
end

-- The metatable that a table has, or that it has none.
function Walk:identity(t, path)
  if self:once(t, META) then self:place(t, META, debug.getmetatable(t), "the metatable of " .. path) end
end

function Walk:table(t, path, depth, class)
  if self.seen[t] or depth > DEEP then return end
  local body = body_of(t)
  if body then return self:func(body, path, depth) end
  if Module.is_module(t) then return self:module(t, path, depth) end
  self.seen[t] = true
  self.ntable = self.ntable + 1
  if libraries[t] or is_class(t) or self.ntable > MOST then return end
  local n = #t
  for key, value in next, t do
    local listed = type(key) == "number" or type(key) == "boolean"
    local method = class and type(value) == "function" and not of_library(value) -- a library may call it
    if not listed or n <= LIST then
      local name = type(key) == "string" and key or ("[%s]"):format(type(key)) -- what others say of themselves may fail
      self:value(t, key, value, listed and ("%s[%s]"):format(path, tostring(key)) or path .. "." .. name, depth,
        listed or method or self.words[key] ~= nil)
    end
  end
  if n <= LIST and (n > 0 or next(t) == nil) then self:place(t, n + 1, nil, ("%s[%d]"):format(path, n + 1)) end
  local meta = debug.getmetatable(t)
  if type(meta) == "table" and not is_librarys(meta) then
    self:identity(t, path)
    self:meta(meta, path, depth + 1)
  end
end

-- What a metatable of the program's says of events, and the table behind __index.
function Walk:meta(meta, path, depth)
  local index = rawget(meta, "__index")
  if self:once(meta, META_OF) then
    if index == nil then self:place(meta, "__index", nil, ("the __index of %s"):format(path)) end
    for event, f in next, meta do
      local known = type(event) == "string" and event:find "^__" ~= nil
      if known and (event == "__index" or type(f) == "function") then
        self:place(meta, event, f, ("the %s of %s"):format(event, path))
        if type(f) == "function" then self:func(f, path, depth) end
      end
    end
  end
  if type(index) == "table" and not libraries[index] then self:table(index, path, depth, true) end
end

function Walk:methods(class, path, depth)
  if self.seen[class] or libraries[class] or depth > DEEP then return end
  self.seen[class] = true
  for name, f in next, class do
    if type(f) == "function" and not of_library(f) then
      self:place(class, name, f, path .. ":" .. tostring(name))
      self:func(f, path, depth + 1)
    elseif self.words[name] and is_plain(f) then
      self:place(class, name, f, path .. "." .. tostring(name))
    end
  end
  if type(rawget(class, "parent")) == "table" then self:methods(class.parent, path, depth + 1) end
end

function Walk:module(m, path, depth)
  if self.seen[m] then return end
  self.seen[m] = true
  for key, value in next, m do
    if type(key) == "string" or type(key) == "number" then
      self:value(m, key, value, path .. "." .. tostring(key), depth, true)
    end
  end
  local class = getmetatable(m)
  if type(class) == "table" then self:methods(class, path, depth + 1) end
end

-- ---- looks
-- Columns, which compiled code looks at: fields of tables, those that are not there, metatables, and what needs
-- more than a look: 0, which has two signs, NaN, which differs from itself, numbers and pointers of C, each of which
-- is another value each time.
local function columns() return { n = 0, at = {}, key = {}, value = {}, path = {} } end

local function new_look()
  return setmetatable({ nup = 0, upvalues = {}, named = {}, fields = columns(), none = columns(), metas = columns(),
    odd = columns() }, Look)
end

local function add(look, container, key, value, path)
  local odd = type(value) == "cdata" or value == 0 or value ~= value
  local c = key == META and look.metas or odd and look.odd or value == nil and look.none or look.fields
  c.n = c.n + 1
  c.at[c.n], c.key[c.n], c.value[c.n], c.path[c.n] = container, key, value, path
end

--- What the functions and modules of a list take from outside now.
function outside.look(roots)
  find_libraries()
  local w = setmetatable({ words = {}, reads = {} }, Walk)
  for pass = 1, 2 do
    w.seen, w.ntable, w.asked, w.nabsent = {}, 0, {}, 0
    w.places = pass == 2 and {} or nil
    for _, root in ipairs(roots) do
      if type(root) == "function" then w:func(root, "", 0) elseif type(root) == "table" then w:table(root, "model", 0) end
    end
  end
  local look = new_look()
  for _, p in ipairs(w.places) do
    if type(p[1]) ~= "function" or type(p[3]) == "cdata" then
      add(look, p[1], p[2], p[3], p[4])
    else -- upvalues, by threes
      local k = 3 * look.nup
      look.upvalues[k + 1], look.upvalues[k + 2], look.upvalues[k + 3] = p[1], p[2], p[3]
      look.nup = look.nup + 1
      look.named[look.nup] = p[4]
    end
  end
  return look
end

-- ---- the first place of columns whose value is another, or nil
local function fields_differ(c)
  local at, key, value = c.at, c.key, c.value
  for i = 1, c.n do
    if not rawequal(rawget(at[i], key[i]), value[i]) then return i end
  end
end

local function none_differ(c)
  local at, key = c.at, c.key
  for i = 1, c.n do
    if rawget(at[i], key[i]) ~= nil then return i end
  end
end

local getmetatable_of = debug.getmetatable
local function metas_differ(c)
  local at, value = c.at, c.value
  for i = 1, c.n do
    if not rawequal(getmetatable_of(at[i]), value[i]) then return i end
  end
end

local function same_number(a, b)
  if a == b then return a ~= 0 or 1 / a == 1 / b end
  return a ~= a and b ~= b
end

-- Numbers of C by their values, all else of C by where it is.
local function same_value(a, b)
  if type(a) ~= type(b) then return false end
  if type(b) == "number" then return same_number(a, b) end
  if rawequal(a, b) or type(b) ~= "cdata" then return rawequal(a, b) end
  local ffi = require "ffi"
  if tonumber(ffi.typeof(a)) ~= tonumber(ffi.typeof(b)) then return false end
  if ffi.istype("int64_t", b) or ffi.istype("uint64_t", b) then return a == b end
  local complex = ffi.istype("complex", b) or ffi.istype("complex float", b)
  return complex and same_number(a.re, b.re) and same_number(a.im, b.im)
end

local function now_at(container, key)
  if key == META then return getmetatable_of(container) end
  if type(container) == "function" then return (select(2, debug.getupvalue(container, key))) end
  return rawget(container, key)
end

local function odd_differ(c)
  for i = 1, c.n do
    if not same_value(now_at(c.at[i], c.key[i]), c.value[i]) then return i end
  end
end

local upvalue_differs = core.upvalue_differs

--- Whether all is as it was.
function Look:same()
  if self.nup > 0 and upvalue_differs(self.upvalues, self.nup) then return false end
  local fields, none, metas, odd = self.fields, self.none, self.metas, self.odd
  if fields.n > 0 and fields_differ(fields) or none.n > 0 and none_differ(none) then return false end
  return not (metas.n > 0 and metas_differ(metas) or odd.n > 0 and odd_differ(odd))
end

-- The columns and the place of what is another, or nil.
local function differs(look)
  local i = fields_differ(look.fields)
  if i then return look.fields, i end
  i = none_differ(look.none)
  if i then return look.none, i end
  i = metas_differ(look.metas)
  if i then return look.metas, i end
  i = odd_differ(look.odd)
  if i then return look.odd, i end
end

local function shown(value)
  if type(value) == "string" then return ("%q"):format(value) end
  if core.is_tensor(value) then return core.type_text(value) end
  if type(value) == "table" then return rawget(value, "class") or (getmetatable(value) or {}).class or "a table" end
  return type(value) == "function" and "a function" or tostring(value)
end

local function sentence(path, now, was)
  local a, b = shown(now), shown(was)
  if a == b then return ("%s is another %s"):format(path, a) end
  return ("%s is %s, was %s"):format(path, a, b)
end

-- What a value is to those who keep looks: a look holds the bytes of tensors and modules.
local function kind_of(value)
  return (core.is_tensor(value) or type(value) == "table") and "held" or type(value)
end

--- The first value that is another, in words, and its kind before: "held" of a tensor or a table, or as type()
--- says; nil: none is.
function Look:changed()
  local i, now = upvalue_differs(self.upvalues, self.nup)
  local was = i and self.upvalues[3 * i]
  if i then return sentence(self.named[i], now, was), kind_of(was) end
  local c, k = differs(self)
  if not c then return end
  return sentence(c.path[k], now_at(c.at[k], c.key[k]), c.value[k]), kind_of(c.value[k])
end

--- Behind a capture: places that the function itself has changed are looked at no more; gives them, without those
--- that were empty and have got a table or a function, which is how things are made or loaded when first needed.
function Look:settle()
  local changed = {}
  local function enter(path, now, was)
    local made = was == nil and (type(now) == "table" or type(now) == "function")
    if not made then changed[#changed + 1] = path end
  end
  local up = self.upvalues
  local i, now = upvalue_differs(up, self.nup)
  while i do
    enter(self.named[i], now, up[3 * i])
    for k = 1, 3 do up[3 * i - 3 + k] = up[3 * self.nup - 3 + k] end
    self.named[i] = self.named[self.nup]
    self.nup = self.nup - 1
    i, now = upvalue_differs(up, self.nup)
  end
  local c, k = differs(self)
  while c do
    enter(c.path[k], now_at(c.at[k], c.key[k]), c.value[k])
    for _, column in ipairs { c.at, c.key, c.value, c.path } do
      column[k] = column[c.n]
      column[c.n] = nil
    end
    c.n = c.n - 1
    c, k = differs(self)
  end
  table.sort(changed)
  return changed
end

-- ---- modules that are arguments: their tensors are inputs, all else of them is part of the specialisation
local ids, last_id = setmetatable({}, { __mode = "k" }), 0
local function id_of(value)
  if not ids[value] then
    last_id = last_id + 1
    ids[value] = last_id
  end
  return ids[value]
end

local function fields_text(t, parts, at, depth)
  local keys = {}
  for key, value in next, t do
    local scalar = is_plain(value) or type(value) == "function"
    local list = type(value) == "table" and depth < 4 and not Module.is_module(value) and not libraries[value]
    if type(key) ~= "table" and (scalar or list) then keys[#keys + 1] = key end
  end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  for _, key in ipairs(keys) do
    local value = t[key]
    at(t, key, value)
    if type(value) == "table" then
      parts[#parts + 1] = tostring(key) .. "={"
      fields_text(value, parts, at, depth + 1)
      parts[#parts + 1] = "}"
    elseif type(value) == "function" then
      parts[#parts + 1] = ("%s=function %d"):format(tostring(key), id_of(value))
    elseif key == "training" and depth == 0 then
      parts[#parts + 1] = value and "train" or "eval"
    else
      parts[#parts + 1] = ("%s=%s"):format(tostring(key), type(value) == "number" and ("%.17g"):format(value)
        or shown(value))
    end
  end
end

-- By module: its text, and the places and values that it is of. Those are held weakly, since a module that is
-- named by what stands under it as a key would never be collected.
local texts = setmetatable({}, { __mode = "k" })
local weak = { __mode = "v" }

local function holds(known)
  local at, key, value = known.at, known.key, known.value
  for i = 1, known.n do
    if at[i] == nil or value[i] == nil or not same_value(rawget(at[i], key[i]), value[i]) then return false end
  end
  return true
end

--- What a module and those below it are but for their tensors, as text: classes, train or eval, numbers, flags,
--- functions.
function outside.module_text(m)
  local known = texts[m]
  if known and holds(known) then return known.text end
  local parts = {}
  known = { n = 0, at = setmetatable({}, weak), key = {}, value = setmetatable({}, weak) }
  local function at(container, key, value)
    known.n = known.n + 1
    known.at[known.n], known.key[known.n], known.value[known.n] = container, key, value
  end
  m:apply(function(part)
    parts[#parts + 1] = part.class
    fields_text(part, parts, at, 0)
    for _, child in ipairs(part:children()) do at(part, child.key, child[2]) end
  end)
  known.text = table.concat(parts, " ")
  texts[m] = known
  return known.text
end

return outside
