-- GGUF files that are written: byte for byte what the Python package gguf writes (vectors/make_written.py), and by the reference rules of
-- blocks what it makes of numbers (tests/vectors/blocks.py).
local tessera = require "tessera"
local op, hf = tessera.op, tessera.hf
local path = os.tmpname() .. ".gguf"
local function bytes(name)
  local f = assert(io.open(name, "rb"))
  local all = f:read "*a"
  f:close()
  return all
end

local x = (op.mod(op.arange(256) * 37, 101) - 50):cast "f32":reshape { 4, 64 } / 8
x = op.where(op.arange(4):unsqueeze(1):eq(2):logical_and(op.arange(64):ge(32)), 0, x)
local meta = { ["general.architecture"] = "llama", ["general.name"] = "h\195\164user", is = true, ["list.numbers"] = { 1, 2, -3 },
  ["list.parts"] = { 0.5, -1.25 }, ["list.texts"] = { "a", "", "\195\169" }, ["number.part"] = 0.5, ["number.whole"] = 4000000000 }
local known = tessera.load "tests/hf/vectors/written.gguf"
local made = { plain = x[":, :5"] }
for name, t in pairs(known) do
  if name ~= "plain" then
    hf.save_gguf(path, { w = x }, nil, { dtype = t.dtype })
    made[name] = tessera.load(path).w
  end
end
hf.save_gguf(path, made, meta)
bytes(path) == bytes "tests/hf/vectors/written.gguf" --> true

-- All formats: what is left of numbers is what the package leaves, or less than a cast leaves.
local blocks = tessera.load "tests/vectors/blocks.safetensors"
local numbers = blocks.numbers
local function left(y) return ((y:cast "f32" - numbers) ^ 2):cast("f64"):sum():item() end
for _, dtype in ipairs { "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "iq4_nl", "q4_k", "q5_k", "q6_k" } do
  hf.save_gguf(path, { w = numbers }, nil, { dtype = dtype })
  local y = tessera.load(path).w
  local theirs = blocks[dtype .. ".left"]
  assert(y.dtype == dtype and (theirs and op.all(op.eq(y:cast "f32", theirs)):item() or not theirs and left(y) < left(numbers:cast(dtype))), dtype)
end

-- Vectors and what is kept stay; rows of no whole blocks of 256 take those of 32.
local v = op.arange(64):cast "f32"
hf.save_gguf(path, { v = v, w = x, ["head.weight"] = x }, meta, { dtype = "q4_k", keep = { "^head" } })
local y, again = tessera.load(path)
y.v.dtype .. " " .. y.w.dtype .. " " .. y["head.weight"].dtype --> f32 q5_0 f32
again["number.whole"] --> 4000000000
again["list.parts"]:totable() --> {0.5, -1.25}

-- A file again: metadata stays.
local other = os.tmpname() .. ".gguf"
hf.save_gguf(path, { w = x, v = v }, { ["general.file_type"] = 0, ["a.b"] = { "x", "y" } })
hf.requantize(path, other, { dtype = "q8_0" })
local z, its = tessera.load(other)
z.w.dtype .. " " .. z.v.dtype --> q8_0 f32
its["general.file_type"] --> 7
table.concat(its["a.b"], " ") --> x y
hf.requantize(other, other, { dtype = "f16" })
tessera.load(other).w.dtype --> f16

-- Tensors go piece by piece, of numbers and of blocks, with matrices of experts: bits are those of rows by themselves.
local wide = (op.mod(op.arange(4200 * 1024) * 37, 1013) - 500):cast "f32":reshape { 4200, 1024 } / 64
hf.save_gguf(path, { w = wide, e = wide:reshape { 3, 1400, 1024 } }, nil, { dtype = "q5_0" })
hf.requantize(path, other, { dtype = "iq4_nl" })
local big = tessera.load(other)
hf.save_gguf(path, { w = wide:cast "f32"["4196:"] }, nil, { dtype = "q5_0" })
hf.requantize(path, path, { dtype = "iq4_nl" })
local end_ = tessera.load(path).w:cast "f32"
op.all(op.eq(big.w:cast "f32"["4196:"], end_)):item() --> true
op.all(op.eq(big.e:cast "f32":reshape { 4200, 1024 }["4196:"], end_)):item() --> true
op.all(op.eq(big.e:cast "f32":reshape { 4200, 1024 }, big.w:cast "f32")):item() --> true

-- Parts of a file may be functions; where one fails, the old file is there.
local core = tessera.core
local calls = 0
local function part() calls = calls + 1 return calls == 1 and "b" or op.ones({ 2 }, { dtype = "u8" }) end
core.write_file(other, { "a", part, part, "c" })
bytes(other) == "ab\1\1c" --> true
core.write_file(other, { "a", function() error("no part", 0) end }) --! no part
bytes(other) == "ab\1\1c" --> true
hf.save_gguf(other, { w = x, z = x * (1 / 0) }, nil, { dtype = "q8_0" }) --! 'z' has numbers that are not finite
bytes(other) == "ab\1\1c" --> true
hf.save_gguf(path, { w = x, v = v })

-- What is wrong, and nothing is written.
hf.save_gguf("x.safetensors", {}) --! a file that ends in .gguf is needed, not 'x.safetensors'
hf.save_gguf(path, { w = op.zeros { 2, 30 } }, nil, { dtype = "q8_0" }) --! 'w' has rows of 30, which are no whole blocks of q8_0
hf.save_gguf(path, { w = x * (1 / 0) }, nil, { dtype = "q8_0" }) --! 'w' has numbers that are not finite
hf.save_gguf(path, { w = x }, nil, { dtype = "q8" }) --! option 'dtype' must be one of 'bf16', 'f16', 'f32', 'iq4_nl'
hf.save_gguf(path, { w = x }, nil, { type = "q8_0" }) --! 'type'
hf.save_gguf(path, { w = op.zeros({ 2 }, { dtype = "bool" }) }) --! which GGUF does not hold
hf.save_gguf(path, { w = 1 }) --! 'w' is a number, not a tensor
hf.save_gguf(path, { w = x }, { a = {} }) --! 'a' is an empty list
hf.save_gguf(path, { w = x }, { a = { 1, "b" } }) --! 'a' is a list of several types
hf.save_gguf(path, { w = x }, { a = print }) --! 'a' is a function
hf.requantize(path, other) --! dtype is not given
hf.requantize(path .. "x", other, { dtype = "q8_0" }) --! the name of a file that ends in .gguf
tessera.load(path).w.dtype --> f32
os.remove(path)
os.remove(other)
