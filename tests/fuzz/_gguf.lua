-- GGUF files as trees: read from bytes, changed where it hurts, written again. What a file says of itself (counts, lengths, kinds, places)
-- is kept, or lied about. A number of a tree may be a text: its bytes as they come.
local fuzz = dofile "tests/fuzz/_text.lua"
local M = {}

local random, pick = fuzz.random, fuzz.pick
--- Another generator, so that one seed governs all.
function M.by(other) random, pick = other.random, other.pick end

local WIDTH = { [0] = 1, 1, 2, 2, 4, 4, 4, 1, [10] = 8, [11] = 8, [12] = 8 }
local STRING, ARRAY, U32 = 8, 9, 4

local little = require "tessera.little_endian"
local function u(n, v) return type(v) == "string" and v or little.bytes(v, n) end
M.u = u

-- ---- reading
local function reader(s)
  local at = 1
  local r = {}
  function r.bytes(n)
    at = at + n
    return s:sub(at - n, at - 1)
  end
  function r.number(n)
    local v = 0
    for i = at + n - 1, at, -1 do v = v * 256 + s:byte(i) end
    at = at + n
    return v
  end
  function r.text() return r.bytes(r.number(8)) end
  function r.place() return at end
  return r
end

local function read_value(r, kind, most)
  if kind == STRING then return { kind = kind, text = r.text() } end
  if kind ~= ARRAY then return { kind = kind, raw = r.bytes(WIDTH[kind]) } end
  local v = { kind = kind, of = r.number(4), items = {} }
  for i = 1, r.number(8) do
    local item = read_value(r, v.of, most)
    if i <= most then v.items[i] = item end
  end
  return v
end

--- The tree of a file; of lists at most so many items, with data or without (then no tensors either).
function M.read(s, most, data)
  local r = reader(s)
  r.bytes(4)
  local t = { magic = "GGUF", version = r.number(4), tensors = {}, meta = {}, data = "" }
  local ntensor, nmeta = r.number(8), r.number(8)
  for i = 1, nmeta do
    local name = r.text()
    local v = read_value(r, r.number(4), most)
    v.name, t.meta[i] = name, v
  end
  if not data then return t end
  for i = 1, ntensor do
    local e = { name = r.text(), dims = {} }
    for k = 1, r.number(4) do e.dims[k] = r.number(8) end
    e.kind, e.at = r.number(4), r.number(8)
    t.tensors[i] = e
  end
  t.data = s:sub(math.ceil((r.place() - 1) / 32) * 32 + 1)
  table.sort(t.meta, function(a, b) return a.name < b.name end)
  table.sort(t.tensors, function(a, b) return a.name < b.name end)
  return t
end

-- ---- writing
local function text(s, length) return u(8, length or #s) .. s end

local function add_value(out, v)
  if v.text then
    out[#out + 1] = text(v.text, v.length)
  elseif v.items then
    out[#out + 1] = u(4, v.of) .. u(8, v.length or #v.items)
    for _, item in ipairs(v.items) do add_value(out, item) end
  else
    out[#out + 1] = v.raw
  end
end

function M.write(t)
  local out = { t.magic, u(4, t.version), u(8, t.ntensor or #t.tensors), u(8, t.nmeta or #t.meta) }
  for _, v in ipairs(t.meta) do
    out[#out + 1] = text(v.name, v.name_length) .. u(4, v.as or v.kind)
    add_value(out, v)
  end
  for _, e in ipairs(t.tensors) do
    out[#out + 1] = text(e.name, e.name_length) .. u(4, e.rank or #e.dims)
    for _, d in ipairs(e.dims) do out[#out + 1] = u(8, d) end
    out[#out + 1] = u(4, e.kind) .. u(8, e.at)
  end
  local head = table.concat(out)
  return head .. ("\0"):rep(-#head % 32) .. t.data
end

local function copy(v)
  if type(v) ~= "table" then return v end
  local out = {}
  for k, x in pairs(v) do out[k] = copy(x) end
  return out
end

-- ---- changes
local NUMBERS = { 0, 1, 2, 3, 4, 7, 8, 24, 31, 32, 33, 63, 64, 255, 256, 4096, 65536, 2 ^ 24, 2 ^ 31 - 1, 2 ^ 31, 2 ^ 32 - 1, 2 ^ 32, 2 ^ 40,
  2 ^ 52, 2 ^ 53 - 1, ("\255"):rep(8), "\0\0\0\0\0\0\0\128", ("\255"):rep(7) .. "\127", "\240" .. ("\255"):rep(7), "\0\0\0\0\0\0\0\32", "\0\0\0\0\0\0\0\16" }
local WORDS = { "", "\0", "a", "\255\254", "\237\160\128", "tokenizer.ggml.tokens", "tokenizer.ggml.merges", "general.alignment", "general.architecture", "{{", "{% for",
  "\226\150\129", ("x"):rep(300), ("a "):rep(2000), "ab", " ", "<s>", "<0x41>", "blk.999999999.attn_q.weight", "blk.0.attn_q.weight", "llama", "gpt2", "bert", "t5", "\n" }
local FLOATS = { "\0\0\192\127", "\0\0\128\127", "\0\0\128\255", "\255\255\127\127", "\1\0\0\0", "\0\0\0\128" }

local function number(size) -- near what a file of this size may hold, or far from it
  local k = random(8)
  if k == 0 then return size end
  if k == 1 then return math.max(0, size - 40 + random(80)) end
  return pick(NUMBERS)
end
local function narrow(n, v) return u(8, v):sub(1, n) end

local function some(list) return list[1] and list[1 + random(#list)] end

local function nested(depth, tail)
  local v = tail
  for _ = 1, depth do v = { kind = ARRAY, of = v.kind, items = { v } } end
  return v
end

local CHANGES = {}
local function change(f) CHANGES[#CHANGES + 1] = f end

-- of values
local function entry(f)
  change(function(t, size)
    local v = some(t.meta)
    if v then f(v, size, t) end
  end)
end
entry(function(v, size) v.as = random(2) == 0 and random(15) or narrow(4, number(size)) end)
entry(function(v, size) v.name_length = number(size) end)
entry(function(v, _, t) v.name = random(2) == 0 and pick(WORDS) or some(t.meta).name end)
entry(function(v, size, t)
  if v.raw then v.raw = #v.raw == 4 and random(3) == 0 and pick(FLOATS) or narrow(#v.raw, number(size))
  elseif v.text then v.text = random(3) == 0 and (some(t.meta).text or "") or pick(WORDS) end
end)
entry(function(v, size)
  if v.text or v.items then v.length = number(size) end
end)
entry(function(v, _, t) -- a value of another entry
  local other, name = copy(some(t.meta)), v.name
  for k in pairs(v) do v[k] = nil end
  for k, x in pairs(other) do v[k] = x end
  v.name = name
end)
entry(function(v)
  local inner = nested(1 + random(4) * random(6), { kind = pick { 0, 4, 8, 9 }, raw = "\1\0\0\0", items = {}, of = 9 })
  local name = v.name
  for k in pairs(v) do v[k] = nil end
  for k, x in pairs(inner) do v[k] = x end
  v.name = name
end)
entry(function(v)
  local name = v.name
  for k in pairs(v) do v[k] = nil end
  v.name, v.kind = name, ARRAY
  v.of, v.items = ARRAY, nested(2000, { kind = ARRAY, of = 4, items = {} }).items
end)

-- of lists: items and their kind
local function list(f)
  change(function(t, size)
    local lists = {}
    for _, v in ipairs(t.meta) do
      if v.items then lists[#lists + 1] = v end
    end
    local v = some(lists)
    if v then f(v, size) end
  end)
end
list(function(v, size)
  local item = some(v.items)
  if not item then return end
  if item.text then item.text = random(2) == 0 and pick(WORDS) or some(v.items).text or ""
  elseif item.raw then item.raw = #item.raw == 4 and random(2) == 0 and pick(FLOATS) or narrow(#item.raw, number(size)) end
end)
list(function(v) v.items[#v.items] = nil end)
list(function(v) v.items = {} end)
list(function(v) v.items[#v.items + 1] = copy(some(v.items)) end)
list(function(v, size)
  local item = some(v.items)
  if item and item.text then item.length = number(size) end
end)
list(function(v, size) v.of = random(2) == 0 and random(14) or narrow(4, number(size)) end)
list(function(v) -- as strings, whatever it held
  v.of = STRING
  for i in ipairs(v.items) do v.items[i] = { kind = STRING, text = pick(WORDS) } end
end)

-- of tensors
local function tensor(f)
  change(function(t, size)
    local e = some(t.tensors)
    if e then f(e, size, t) end
  end)
end
tensor(function(e, size) e.dims[1 + random(math.max(1, #e.dims))] = number(size) end)
tensor(function(e, size)
  for i in ipairs(e.dims) do e.dims[i] = number(size) end
end)
tensor(function(e, size) e.rank = random(2) == 0 and random(10) or narrow(4, number(size)) end)
tensor(function(e, size) e.kind = random(4) ~= 0 and random(42) or narrow(4, number(size)) end)
tensor(function(e, size) e.at = number(size) end)
tensor(function(e, _, t) e.at = some(t.tensors).at end)
tensor(function(e, _, t) e.name = random(2) == 0 and pick(WORDS) or some(t.tensors).name end)
tensor(function(e, size) e.name_length = number(size) end)
tensor(function(e, _, t) -- a shape of another one
  e.dims = copy(some(t.tensors).dims)
end)
tensor(function(e) e.dims[1], e.dims[#e.dims] = e.dims[#e.dims], e.dims[1] end)

-- of the file
change(function(t, size) t[pick { "nmeta", "ntensor" }] = number(size) end)
change(function(t) t.version = pick { 0, 1, 2, 4, "\0\0\0\3", "\255\255\255\255" } end)
change(function(t) t.meta[#t.meta + 1] = { name = "general.alignment", kind = U32, raw = u(4, pick { 0, 1, 3, 8, 16, 64, 2 ^ 20, 2 ^ 31, 2 ^ 32 - 8 }) } end)
change(function(t, size) t.meta[#t.meta + 1] = { name = "general.alignment", kind = 10, raw = u(8, number(size)) } end)
local function removed(of)
  change(function(t) if t[of][1] then table.remove(t[of], 1 + random(#t[of])) end end)
  change(function(t) -- twice, or in another place
    local e = some(t[of])
    if e then table.insert(t[of], 1 + random(#t[of]), random(2) == 0 and copy(e) or e) end
  end)
end
removed "meta"
removed "tensors"
change(function(t) t.data = t.data:sub(1, random(#t.data + 1)) end)
change(function(t) -- numbers of all kinds among the data
  for _ = 1, 1 + random(20) do
    local at = random(math.max(1, #t.data - 4))
    t.data = t.data:sub(1, at) .. pick(FLOATS) .. t.data:sub(at + 5)
  end
end)

--- Bytes of the tree after one to four changes.
function M.changed(tree)
  local t = copy(tree)
  local size = 200 + #t.data
  for _ = 1, pick { 1, 1, 1, 2, 2, 3, 4 } do pick(CHANGES)(t, size) end
  local s = M.write(t)
  if random(16) == 0 then s = s:sub(1, random(#s + 1)) end
  if random(16) == 0 then
    local at = 1 + random(#s + 1)
    s = s:sub(1, at - 1) .. u(8, number(#s)) .. s:sub(at + 8)
  end
  return s
end

return M
