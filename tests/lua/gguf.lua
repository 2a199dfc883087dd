-- Files of GGUF beside what the Python package gguf wrote and reads (tests/vectors/gguf_file.py), and damaged ones.
local tessera = require "tessera"
local op = tessera.op
local tensors, meta = tessera.load "tests/vectors/small.gguf"
local known = tessera.load "tests/vectors/small.safetensors"

local n = 0
for name, want in pairs(known) do
  local x = tensors[name]
  assert(table.concat(x.shape, ",") == table.concat(want.shape, ","), name)
  local y = x:cast "f32"
  assert(op.all(op.eq(y, want):logical_or(op.isnan(y):logical_and(op.isnan(want)))):item(), name)
  n = n + 1
end
n --> 11
tensors.q4_k.dtype --> q4_k
tensors.mxfp4.dtype --> mxfp4
tensors.half.dtype --> f16
meta["general.architecture"] --> llama
meta["n.u8"] --> 200
meta["n.i8"] --> -100
meta["n.u16"] --> 60000
meta["n.i16"] --> -30000
meta["n.u32"] --> 4000000000
meta["n.i32"] --> -2000000000
meta["n.f32"] --> 1.5
meta["n.bool"] --> true
meta["n.text"] == "h\195\164user\n" --> true
meta["n.u64"] == 2 ^ 40 --> true
tostring(meta["n.i64"]) --> -4611686018427387905LL
meta["n.f64"] --> 0.1
table.concat(meta["tokenizer.ggml.tokens"], "|") == "<s>||a b|\195\169" --> true
meta.scores:totable() --> {0.5, -1.25, 3}
meta.types:totable() --> {1, 2, 3, 4}
meta.flags:totable() --> {true, false, true}

-- ---- damage
local path = os.tmpname() .. ".gguf"
local file = assert(io.open("tests/vectors/small.gguf", "rb"))
local bytes = file:read "*a"
file:close()
local function loaded(text)
  local f = assert(io.open(path, "wb"))
  f:write(text)
  f:close()
  return tessera.load(path)
end
local function with(at, text) return bytes:sub(1, at) .. text .. bytes:sub(at + #text + 1) end

loaded "" --! not a GGUF file
loaded(with(0, "GGUX")) --! not a GGUF file
loaded(with(4, "\9")) --! GGUF of version 9; 2 and 3 are read
loaded(with(8, "\255\255\255\255\255\255\1")) --! the header at byte 24 needs
loaded(with(16, ("\255"):rep(8))) --! the length of the metadata at byte 16 is too large
loaded(bytes:sub(1, 100)) --! needs
loaded(bytes:sub(1, -200)) --! outside
local at = bytes:find("n.u8", 1, true)
loaded(with(at + 3, "\77")) --! 'n.u8' has the unknown type 77
at = bytes:find("n.u16", 1, true)
loaded(with(at - 1, "n.u32")) --! 'n.u32' stands twice in the metadata
at = bytes:find("q6_k", 200, true)
loaded(with(at + 3 + 4 + 16, "\10")) --! tensor 'q6_k' is Q2_K
loaded(with(at + 3 + 4 + 16, "\99")) --! tensor 'q6_k' is of the unknown type 99
loaded(with(at + 3 + 4 + 16 + 4, "\1")) --! tensor 'q6_k' stands at no multiple of 32
loaded(with(at + 3 + 4 + 16 + 4, ("\0"):rep(8))) --! overlaps

-- Each byte, and each length: an error with a message, or tensors.
local bad = 0
for i = 0, 1300, 7 do
  local ok, why = pcall(loaded, with(i, string.char((bytes:byte(i + 1) + 1 + i) % 256)))
  if not ok and not tostring(why):find("gguf: ", 1, true) then bad = bad + 1 end
  ok, why = pcall(loaded, bytes:sub(1, i))
  if ok or not tostring(why):find("gguf: ", 1, true) then bad = bad + 1 end
end
bad --> 0
os.remove(path)
tessera.save("x.gguf", { x = known.plain }) --! the name must end in .safetensors or .npy
