-- GGUF files (versions 2 and 3): metadata by name, tensors in f32, f16, bf16, f64, integers, and blocks. Numbers are
-- little-endian; a string is its length in 64 bits and its bytes; tensors stand at multiples of general.alignment
-- behind the list of them, their sizes with the fastest axis first.

local core = require "tessera.core"
local Mxfp4 = require "tessera.hf.mxfp4"
local gguf = {}

local shown = core.shown

-- Types of values of the metadata: bytes and our dtype, of unsigned integers a wider one.
local SCALAR = {
  [0] = { 1, "u8" }, { 1, "i8" }, { 2, "i32", true }, { 2, "i16" }, { 4, "i64", true }, { 4, "i32" }, { 4, "f32" },
  { 1, "u8" }, [10] = { 8, "i64", true }, [11] = { 8, "i64" }, [12] = { 8, "f64" },
}
local BOOL, STRING, ARRAY = 7, 8, 9

-- Types of tensors by number. What stands in quotes has no dtype here.
local TENSOR = {
  [0] = "f32", "f16", "q4_0", "q4_1", [6] = "q5_0", [7] = "q5_1", [8] = "q8_0", [12] = "q4_k", [13] = "q5_k", [14] = "q6_k",
  [20] = "iq4_nl", [24] = "i8", [25] = "i16", [26] = "i32", [27] = "i64", [28] = "f64", [30] = "bf16", [39] = "mxfp4",
}
local OTHER = {
  [9] = "Q8_1", [10] = "Q2_K", [11] = "Q3_K", [15] = "Q8_K", [16] = "IQ2_XXS", [17] = "IQ2_XS", [18] = "IQ3_XXS",
  [19] = "IQ1_S", [21] = "IQ3_S", [22] = "IQ2_S", [23] = "IQ4_XS", [29] = "IQ1_M", [34] = "TQ1_0", [35] = "TQ2_0",
}
local DEEPEST = 8 -- arrays in arrays
local LONGEST = 16 * 1024 * 1024 -- bytes of a text

local nbytes_of, block_of = {}, {}
for _, d in ipairs(core.dtypes()) do nbytes_of[d.name], block_of[d.name] = d.nbytes, d.block end

-- What is read from the header, piece by piece: text is a window of the file.
local Cursor = {}
Cursor.__index = Cursor
local WINDOW = 1024 * 1024

function Cursor:fail(what, ...) core.fail(("%s: %s"):format(shown(self.path), what:format(...))) end

function Cursor:need(n, what)
  if n > self.size - self.at then self:fail("%s at byte %.0f needs %.0f bytes, %.0f are left", what, self.at, n, self.size - self.at) end
end

-- n bytes, of which the first is number i of the window.
function Cursor:take(n, what)
  self:need(n, what)
  if self.at < self.from or self.at + n > self.from + #self.text then
    self.from, self.text = self.at, self.map:read(self.at, math.min(math.max(n, WINDOW), self.size - self.at))
  end
  local i = self.at - self.from + 1
  self.at = self.at + n
  return self.text, i
end

function Cursor:integer(nbytes, what)
  local text, i = self:take(nbytes, what)
  local v = 0
  for k = i + nbytes - 1, i, -1 do v = v * 256 + text:byte(k) end
  if v >= 2 ^ 53 then self:fail("%s at byte %.0f is too large", what, self.at - nbytes) end
  return v
end

function Cursor:string(what)
  local n = self:integer(8, what)
  if n > LONGEST then self:fail("%s at byte %.0f has %.0f bytes, a text has %.0f at most", what, self.at - 8, n, LONGEST) end
  local text, i = self:take(n, what)
  return text:sub(i, i + n - 1)
end

-- ---- metadata
local function scalar(c, kind, what)
  local nbytes, dtype, unsigned = unpack(SCALAR[kind])
  local text, i = c:take(nbytes, what)
  local bytes = text:sub(i, i + nbytes - 1)
  if kind == BOOL then
    local v = bytes:byte()
    if v > 1 then c:fail("%s is neither true nor false: %d", what, v) end
    return v == 1
  end
  if unsigned and nbytes == 8 then
    if bytes:byte(8) > 127 then c:fail("%s does not fit into 63 bits", what) end
    unsigned = false
  end
  if not unsigned then return core.from_bytes(bytes, dtype, {}):item() end
  local v = 0
  for k = nbytes, 1, -1 do v = v * 256 + bytes:byte(k) end
  return v
end

local value

-- Past a list of texts, of which there may be some hundred thousand.
local function pass_texts(c, n, what)
  for _ = 1, n do
    local length = c:integer(8, what)
    c:need(length, what)
    c.at = c.at + length
  end
  return nil
end

local function array(c, what, depth)
  if depth > DEEPEST then c:fail("%s: arrays stand more than %d deep", what, DEEPEST) end
  local kind, n = c:integer(4, what), c:integer(8, what)
  if kind == STRING or kind == ARRAY then
    c:need(n * (kind == STRING and 8 or 12), what) -- before a list of that length is made
    if kind == STRING and n > c.most then return pass_texts(c, n, what) end
    local list = {}
    for i = 1, n do list[i] = kind == STRING and c:string(what) or array(c, what, depth + 1) end
    return list
  end
  if not SCALAR[kind] then c:fail("%s is an array of the unknown type %.0f", what, kind) end
  local nbytes, dtype, unsigned = unpack(SCALAR[kind])
  c:need(n * nbytes, what)
  local at = c.at
  c.at = at + n * nbytes
  local t = c.map:tensor(dtype, { n }, at, nbytes, false, unsigned or false)
  return kind == BOOL and t:ne(0) or t
end

function value(c, what)
  local kind = c:integer(4, what)
  if kind == STRING then return c:string(what) end
  if kind == ARRAY then return array(c, what, 1) end
  if not SCALAR[kind] then c:fail("%s has the unknown type %.0f", what, kind) end
  return scalar(c, kind, what)
end

-- ---- tensors
local function entry(c, i)
  local name = c:string(("the name of tensor %d"):format(i))
  local what = ("tensor '%s'"):format(shown(name))
  local rank, shape, n = c:integer(4, what), {}, 1
  if rank > 8 then c:fail("%s has %.0f axes", what, rank) end
  for a = rank, 1, -1 do
    shape[a] = c:integer(8, what)
    n = n * shape[a]
  end
  if n >= 2 ^ 53 then c:fail("%s has a bad shape", what) end
  local kind = c:integer(4, what)
  local dtype = TENSOR[kind]
  local e = { name = name, what = what, shape = shape, kind = kind, at = c:integer(8, what) }
  if dtype and (shape[rank] or 1) % block_of[dtype] ~= 0 then
    c:fail("%s: rows of %s are of whole blocks of %d, not of %.0f", what, dtype, block_of[dtype], shape[rank] or 1)
  end
  e.nbytes = dtype and n / block_of[dtype] * nbytes_of[dtype]
  return e
end

local function tensor(c, e, base)
  local dtype = TENSOR[e.kind]
  if e.at + base > c.size then c:fail("%s lies outside the file", e.what) end
  local function made(...)
    local ok, t = pcall(c.map.tensor, c.map, ...)
    if not ok then c:fail("%s: %s", e.what, (tostring(t):gsub("^[^\n]-:%d+: ", ""))) end
    return t
  end
  if dtype ~= "mxfp4" then return made(dtype, e.shape, base + e.at) end
  local later = Mxfp4.later(made("u8", { e.nbytes }, base + e.at), e.shape)
  return c.later and later or later:whole()
end

local function check_places(c, list, alignment)
  table.sort(list, function(a, b)
    if a.at ~= b.at then return a.at < b.at end
    return a.nbytes < b.nbytes
  end)
  local at, before = 0, nil
  for _, e in ipairs(list) do
    if e.at % alignment ~= 0 then c:fail("%s stands at no multiple of %.0f", e.what, alignment) end
    if e.at < at then c:fail("%s overlaps %s", e.what, before.what) end
    at, before = e.at + e.nbytes, e
  end
end

--- Types of tensors by number.
gguf.types = TENSOR

--- The tensors of a mapped file by name, and its metadata by name: numbers (of 64 bits that no number of Lua's holds, cdata),
--- truth values, strings, lists of strings, tensors of numbers. Then how they stand: {names = of tensors, in order, count, from, to =
--- bytes of the metadata, places = by name where the type of a value stands}. o = {most, later}: lists of more than `most` texts are left out; with later, tensors in MXFP4
--- are what mxfp4.lua has of them.
function gguf.read(path, map, o)
  o = o or {}
  local c = setmetatable({ path = path, map = map, size = map:size(), at = 0, from = 0, text = "", most = o.most or math.huge, later = o.later }, Cursor)
  if c.size < 24 or map:read(0, 4) ~= "GGUF" then c:fail("not a GGUF file") end
  c.at = 4
  local version = c:integer(4, "the version")
  if version ~= 2 and version ~= 3 then c:fail("GGUF of version %.0f; 2 and 3 are read", version) end
  local ntensor, nmeta = c:integer(8, "the number of tensors"), c:integer(8, "the length of the metadata")
  c:need(ntensor * 24 + nmeta * 13, "the header")
  local meta, stands = {}, { names = {}, count = nmeta, from = c.at, places = {} }
  for i = 1, nmeta do
    local name = c:string(("the name of entry %d of the metadata"):format(i))
    if stands.places[name] then c:fail("'%s' stands twice in the metadata", shown(name)) end
    stands.places[name] = c.at
    meta[name] = value(c, ("'%s'"):format(shown(name)))
  end
  stands.to = c.at
  local alignment = meta["general.alignment"] or 32
  if type(alignment) ~= "number" or alignment < 1 or alignment % 8 ~= 0 then c:fail("general.alignment is no multiple of 8") end
  local list, unknown = {}, {}
  for i = 1, ntensor do
    list[i] = entry(c, i)
    stands.names[i] = list[i].name
    if not TENSOR[list[i].kind] then
      unknown[#unknown + 1] = ("%s is %s"):format(list[i].what, OTHER[list[i].kind] or ("of the unknown type %.0f"):format(list[i].kind))
    end
  end
  if unknown[1] then
    c:fail("%s%s\n  hint: these types of tensors are read: f32, f16, bf16, f64, i8 to i64, and blocks (? dtypes)",
      table.concat(unknown, ", ", 1, math.min(#unknown, 4)), #unknown > 4 and (", and %d more"):format(#unknown - 4) or "")
  end
  local base = math.ceil(c.at / alignment) * alignment
  check_places(c, list, alignment)
  local tensors = {}
  for _, e in ipairs(list) do
    if tensors[e.name] then c:fail("%s stands twice in it", e.what) end
    tensors[e.name] = tensor(c, e, base)
  end
  return tensors, meta, stands
end

return gguf
