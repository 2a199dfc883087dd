-- Files: round trips, files that NumPy and safetensors wrote, and thousands of damaged
-- headers, which must load or fail cleanly.
package.path = "tests/agree/?.lua;" .. package.path
local tessera = require "tessera"
local core = tessera.core
local cases = require "_cases"
local op = core.op

local base = os.tmpname()
local npy, st = base .. ".npy", base .. ".safetensors"

local function write(path, bytes)
  local f = assert(io.open(path, "wb"))
  f:write(bytes)
  f:close()
end

local function read(path)
  local f = assert(io.open(path, "rb"))
  local s = f:read "*a"
  f:close()
  return s
end

-- ---- round trips
local all = {}
for _, d in ipairs(core.dtypes()) do
  if d.block == 1 then
    for name, x in pairs {
      plain = cases.generate(d.name, { 3, 5 }, 3, 0, 9), empty = op.zeros({ 0, 4 }, { dtype = d.name }),
      scalar = op.ones({}, { dtype = d.name }), turned = cases.generate(d.name, { 3, 5 }, 4, 0, 9):T(),
      stepped = cases.generate(d.name, { 9 }, 5, 0, 9)["::-2"],
    } do
      all[d.name .. "." .. name] = x
      if not d.npy:match "V" then
        tessera.save(npy, x)
        local y = tessera.load(npy)
        cases.expect("npy " .. d.name .. " " .. name, y.dtype == x.dtype and y:hash() == x:hash(), "another tensor")
      end
    end
  end
end
all.blocks = cases.generate("f32", { 2, 64 }, 1, -4, 4):cast "mxfp4"
tessera.save(st, all, { made = "by \"us\"\n", empty = "" })
do
  local back, meta = tessera.load(st)
  for name, x in pairs(all) do
    local y = back[name]
    cases.expect("safetensors " .. name, y and y.dtype == x.dtype and y:bytes() == x:bytes() and
      table.concat(y.shape, ",") == table.concat(x.shape, ","), "another tensor")
  end
  cases.expect("metadata", meta.made == "by \"us\"\n" and meta.empty == "", "metadata differ")
end

-- ---- files of others: tests/fuzz/make_files.py
local others = tessera.load "tests/fuzz/others.safetensors"
local n = 0
for name, x in pairs(others) do
  n = n + 1
  local wanted = op.arange(6):reshape(2, 3):cast(x.dtype)
  cases.expect("written by safetensors: " .. name, x:hash() == wanted:hash(), tostring(x))
end
n >= 8 --> true
for _, name in ipairs { "c_order", "fortran", "version2", "scalar", "empty", "bool", "complex", "half" } do
  local x = tessera.load("tests/fuzz/" .. name .. ".npy")
  local wanted = op.arange(6):reshape(2, 3):cast(x.dtype)
  if name == "scalar" then wanted = core.tensor(7, { dtype = "i64" }) end
  if name == "empty" then wanted = op.zeros({ 0, 3 }) end
  cases.expect("written by NumPy: " .. name, x.dtype == wanted.dtype and x:hash() == wanted:hash(), tostring(x))
end

-- ---- damage. A fixed generator: xorshift of 32 bits.
local state = 2463534242
local bit = require "bit"
local function random(m)
  state = bit.bxor(state, bit.lshift(state, 13))
  state = bit.bxor(state, bit.rshift(state, 17))
  state = bit.bxor(state, bit.lshift(state, 5))
  return state % m
end

local words = { "-1", "0", "1e300", "99999999999999999999", "4294967296", "9007199254740993", "[]", "{}", "null", "true", "\"x\"",
  "F32", "F64", "BOOL", "MXFP4", "[[", "]]", ":", ",", "\0", "(", ")", "'", "\"", "<f8", "<V2", "|O", "(1,", "True", "1.5", "-0", "NaN" }

local function damage(s, head)
  local times = 1 + random(4)
  for _ = 1, times do
    local at = 1 + random(math.min(#s, head))
    local kind = random(6)
    if kind == 0 then s = s:sub(1, at - 1) .. string.char(random(256)) .. s:sub(at + 1)
    elseif kind == 1 then s = s:sub(1, at - 1) .. s:sub(at + 1 + random(8))
    elseif kind == 2 then s = s:sub(1, at) .. words[1 + random(#words)] .. s:sub(at + 1)
    elseif kind == 3 then s = s:sub(1, at)
    elseif kind == 4 then
      -- a number in the header becomes another
      local from, to = s:find("%d+", at)
      if from then s = s:sub(1, from - 1) .. words[1 + random(6)] .. s:sub(to + 1) end
    else s = s:sub(1, at) .. s:sub(math.max(1, at - random(40)), at) .. s:sub(at + 1) end
    if #s == 0 then s = "x" end
  end
  return s
end

-- The length that stands in front fits again, so that the damage reaches the parser.
local function repaired(s)
  if #s < 9 then return s end
  local header = s:find("}}", 9, true)
  local len = header and header + 1 - 8 or #s - 8
  return require("tessera.little_endian").bytes(len, 8) .. s:sub(9)
end

local function try(path, bytes)
  write(path, bytes)
  local ok, value = pcall(tessera.load, path)
  if not ok then
    local text = tostring(value)
    if text:find("attempt to", 1, true) or text:find("bad argument", 1, true) or text:find("stack", 1, true) then
      return "unclean: " .. text
    end
    return nil
  end
  -- What loads can be read to its last byte.
  for _, x in pairs(core.is_tensor(value) and { value } or value) do x:bytes() end
end

local small = { a = core.tensor { { 1, 2 }, { 3, 4 } }, b = op.arange(5), c = op.ones({}, { dtype = "bf16" }) }
tessera.save(st, small, { k = "v" })
local good = read(st)
local bad
for _ = 1, 1000 do
  local s = damage(good, #good)
  if random(2) == 0 then s = repaired(s) end
  local why = try(st, s)
  bad = bad or why
end
bad --> nil
tessera.save(npy, core.tensor { { 1, 2 }, { 3, 4 } })
good = read(npy)
for _ = 1, 1000 do
  local why = try(npy, damage(good, 100))
  bad = bad or why
end
bad --> nil
local npz = base .. ".npz"
for _, name in ipairs { "stored", "packed" } do
  good = read("tests/fuzz/" .. name .. ".npz")
  for _ = 1, 1000 do
    local why = try(npz, damage(good, #good))
    bad = bad or why
  end
end
os.remove(npz)
bad --> nil

-- ---- particular lies
local function safetensors(json, data)
  local len = #json
  return string.char(len % 256, math.floor(len / 256), 0, 0, 0, 0, 0, 0) .. json .. (data or "")
end
for name, json in pairs {
  overlap = '{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}',
  short = '{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}', long = '{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,80]}}',
  backwards = '{"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}', negative = '{"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}}',
  huge = '{"a":{"dtype":"F32","shape":[4294967296,4294967296,4294967296],"data_offsets":[0,8]}}',
  wraps = '{"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}}',
  zero = '{"a":{"dtype":"F32","shape":[0,9223372036854775807],"data_offsets":[0,0]}}',
  fraction = '{"a":{"dtype":"F32","shape":[2],"data_offsets":[0.5,8.5]}}', deep = ("["):rep(2000),
  blocks = '{"a":{"dtype":"MXFP4","shape":[2,3],"data_offsets":[0,0]}}', list = "[]", number = "3", text = '"x"', none = "",
  entry = '{"a":3}', metadata = '{"__metadata__":3}', axes = '{"a":{"dtype":"F32","shape":[' .. ("1,"):rep(40) .. '2],"data_offsets":[0,8]}}',
} do
  local why = try(st, safetensors(json, ("x"):rep(12)))
  cases.expect("safetensors of " .. name, not why, why)
end
for name, bytes in pairs { nothing = "", length = "\255\255\255\255\255\255\255\255{}", cut = "\9\0\0\0\0\0\0\0{}", word = "\2\0\0" } do
  local why = try(st, bytes)
  cases.expect("safetensors of " .. name, not why, why)
end

os.remove(base)
os.remove(npy)
os.remove(st)
