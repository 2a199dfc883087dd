-- The agreement cases: reads the manifests of tests/vectors, makes the inputs that they
-- describe, calls the row and compares with the expected results. Library of the tests.

local core = require "tessera.core"
local ffi = require "ffi"
local bit = require "bit"
local op = core.op
local M = {}

M.families = { "pointwise", "create", "random", "shape", "reduce", "linalg", "nn", "gradient", "loss",
  "spectral", "differential", "optim", "composed", "moe", "sparse", "scales" }

local is_float = { fp8_e4m3 = true, fp8_e5m2 = true, f16 = true, bf16 = true, f32 = true, f64 = true }
local is_complex = { complex64 = true, complex128 = true }

-- ---- inputs by formula, as tests/vectors/common.py computes them

local function multiply(a, b)
  local low, high = bit.band(a, 0xffff), bit.rshift(a, 16)
  return bit.tobit((low * b % 4294967296) + (high * b % 65536) * 65536)
end

local function hash32(i, seed)
  local x = bit.tobit((i * 0x9E3779B1 % 4294967296 + seed * 0x85EBCA77 % 4294967296) % 4294967296)
  x = bit.bxor(x, bit.rshift(x, 16))
  x = multiply(x, 0x85EBCA6B)
  x = bit.bxor(x, bit.rshift(x, 13))
  x = multiply(x, 0xC2B2AE35)
  return bit.bxor(x, bit.rshift(x, 16)) % 4294967296
end

local function unit(i, seed)
  return (hash32(i, seed) * 2097152 + bit.rshift(hash32(i, seed + 40503), 11)) * 2 ^ -53
end

function M.count(shape)
  local n = 1
  for _, d in ipairs(shape) do n = n * d end
  return n
end
local count = M.count

local in_blocks = {}
for _, d in ipairs(core.dtypes()) do in_blocks[d.name] = d.block > 1 end

--- Uniform numbers in [lo, hi), integers in lo..hi: core.tensor of that dtype and shape.
function M.generate(dtype, shape, seed, lo, hi)
  if in_blocks[dtype] then return M.generate("f32", shape, seed, lo, hi):cast(dtype) end
  local parts = is_complex[dtype] and 2 or 1
  local n = count(shape) * parts
  local buffer = ffi.new("double[?]", math.max(n, 1))
  local whole = not (is_float[dtype] or is_complex[dtype])
  if dtype == "bool" then lo, hi = 0, 1 end
  for i = 0, n - 1 do
    local u = unit(i, seed)
    buffer[i] = whole and math.floor(u * (hi - lo + 1)) + lo or lo + (hi - lo) * u
  end
  local bytes = ffi.string(buffer, n * 8)
  if parts == 2 then return core.from_bytes(bytes, "complex128", shape):cast(dtype) end
  local x = core.from_bytes(bytes, "f64", shape)
  if dtype == "f64" or whole then return x:cast(dtype) end
  return x:cast("f32"):cast(dtype)
end

-- ---- manifests

local stored = {}

-- A stored tensor by "dtype offset sizes": a piece of the flat tensor of its dtype.
local function stored_tensor(family, key)
  stored[family] = stored[family] or
    (require "tessera.io").load("tests/vectors/" .. family .. ".safetensors")
  local dtype, rest = key:match("^(%S+) (.*)$")
  local at, shape = nil, {}
  for n in rest:gmatch("%d+") do
    if at then shape[#shape + 1] = tonumber(n) else at = tonumber(n) end
  end
  return stored[family][dtype]:narrow(0, at, count(shape)):reshape(shape)
end

--- The cases of a family: tables {row, x, o, y, ulp, t, ..}, with family and number.
function M.manifest(family)
  local cases = dofile("tests/vectors/_" .. family .. ".lua")
  for i, c in ipairs(cases) do c.family, c.number = family, i end
  return cases
end

function M.name(c) return ("%s case %d (%s)"):format(c.row, c.number, c.family) end

--- Rows whose elements are whatever was in memory: nothing to compare.
M.skipped = { empty = true, empty_like = true }

--- An error without its place and its hint.
function M.words(e) return (tostring(e):gsub("^[^\n]-:%d+: ", ""):gsub("\n.*", ""):gsub(" %(in .*", "")) end

--- The input tensors of a case, false where an optional one is absent.
function M.inputs(c)
  local x = {}
  for i, spec in ipairs(c.x) do
    if type(spec) == "string" then
      x[i] = stored_tensor(c.family, spec)
    elseif spec then
      x[i] = M.generate(spec[1], spec[2], spec[3], spec[4], spec[5])
    else
      x[i] = false
    end
  end
  return x
end

--- Calls the row; returns the list of its outputs. Raises what it raises.
function M.call(c, x)
  local args, n = {}, #c.x
  for i = 1, n do args[i] = x[i] or nil end
  if c.o then
    local o = {}
    for k, v in pairs(c.o) do o[k] = v end
    n = n + 1
    args[n] = o
  end
  return { op[c.row](unpack(args, 1, n)) }
end

-- ---- comparison

local format = { f32 = { 24, -126 }, f64 = { 53, -1022 }, f16 = { 11, -14 }, bf16 = { 8, -126 },
  fp8_e4m3 = { 4, -6 }, fp8_e5m2 = { 3, -14 } }
local greatest = { f32 = 2 ^ 128, f64 = 1 / 0, f16 = 65536, bf16 = 2 ^ 128, fp8_e4m3 = 480, fp8_e5m2 = 65536 }

-- Where results of a type become infinite (or NaN): half an ulp beyond the greatest.
local overflows = { f32 = 2 ^ 128 - 2 ^ 103, f64 = 1 / 0, f16 = 65520, bf16 = 2 ^ 128 - 2 ^ 119,
  fp8_e4m3 = 464, fp8_e5m2 = 61440 }

local function ulp_of(v, t)
  local f = format[t]
  local _, e = math.frexp(v)
  return 2 ^ (math.max(e - 1, f[2]) - f[1] + 1)
end
M.ulp_of = ulp_of

local function doubles(x)
  local parts = is_complex[x.dtype] and 2 or 1
  local b = x:cast(parts == 2 and "complex128" or "f64"):bytes()
  local p = ffi.new("double[?]", math.max(#b / 8, 1))
  ffi.copy(p, b, #b)
  return p, #b / 8, parts
end
M.doubles = doubles

M.same_shape = require "tessera.same_shape"

local function shape_text(x) return x.dtype .. "[" .. table.concat(x.shape, ",") .. "]" end

local function equal(got, wanted)
  if got:bytes() == wanted:bytes() then return true end
  local a, n = doubles(got)
  local b = doubles(wanted)
  for i = 0, n - 1 do
    local nan = a[i] ~= a[i] and b[i] ~= b[i]
    if not nan and (a[i] ~= b[i] or 1 / a[i] ~= 1 / b[i]) then
      return false, ("element %d is %.17g, not %.17g"):format(i, a[i], b[i])
    end
  end
  if got.dtype == "i64" or wanted.dtype == "i64" then return false, "i64 elements differ" end
  return true
end

-- Error of one number in ulp, or nil with words.
local function error_of(got, wanted, low, t, scale)
  if wanted ~= wanted then
    if got ~= got then return 0 end
    return nil
  end
  local a = math.abs(wanted)
  if a >= overflows[t] then -- may round to the greatest number or beyond
    if t == "fp8_e4m3" then return got == (wanted > 0 and 448 or -448) and 0 or nil end
    if got == wanted or (got == wanted / 0 and a ~= 0) then return 0 end
    if wanted / 0 == got or a == 1 / 0 then return nil end
    if math.abs(got) < greatest[t] / 2 then return nil end
    return math.abs(got) < 1 / 0 and a < 1 / 0 and math.abs(got - wanted) / ulp_of(greatest[t] / 2, t) or 0
  end
  if got ~= got then return nil end
  if math.abs(got) == 1 / 0 then -- measured as if the type went on
    if a < greatest[t] / 2 then return nil end
    return (greatest[t] - a) / ulp_of(greatest[t] / 2, t)
  end
  local u = ulp_of(math.max(a, scale), t)
  return math.abs((got - wanted) / u - low)
end

-- The largest error of an output in ulp and where, or nil and words.
local function measure(c, got, wanted, low)
  local a, n, parts = doubles(got)
  local b = doubles(wanted)
  local l = low and doubles(low)
  local worst, at, t, scale = 0, 0, c.t, c.scale or 0
  for i = 0, n - 1, parts do
    local e
    if parts == 2 then
      local size = math.max(math.abs(b[i]), math.abs(b[i + 1]), scale)
      local re, im = a[i] - b[i], a[i + 1] - b[i + 1]
      e = math.sqrt(re * re + im * im) / ulp_of(size, t)
      if e ~= e then e = nil end
    else
      e = error_of(a[i], b[i], l and l[i] or 0, t, scale)
      local zero = b[i] == 0 and scale == 0 and c.zero ~= false
      if zero and (a[i] ~= 0 or 1 / a[i] ~= 1 / b[i]) then e = nil end
    end
    if not e then
      return nil, ("element %d is %.17g, not %.17g"):format(i, a[i], b[i])
    end
    if e > worst then worst, at = e, i end
  end
  return worst, ("element %d is %.17g, not %.17g"):format(at, a[at], b[at])
end

--- Compares one output: the error in ulp (0 if exact), or nil and what is wrong.
function M.compare(c, got, wanted, low)
  if not core.is_tensor(got) then return nil, "no such output" end
  if not M.same_shape(got.shape, wanted.shape) then
    return nil, ("%s, not of shape %s"):format(shape_text(got), shape_text(wanted))
  end
  if not c.ulp then
    if got.dtype ~= wanted.dtype then
      return nil, ("%s, not %s"):format(shape_text(got), shape_text(wanted))
    end
    local same, why = equal(got, wanted)
    return same and 0 or nil, why
  end
  local exact_type = not (is_float[wanted.dtype] or is_complex[wanted.dtype])
  if exact_type then -- an exact output beside rounded ones
    local same, why = got.dtype == wanted.dtype, "dtype " .. got.dtype
    if same then same, why = equal(got, wanted) end
    return same and 0 or nil, why
  end
  local t = c.t
  if is_complex[wanted.dtype] then t = t == "f32" and "complex64" or "complex128" end
  if got.dtype ~= t then return nil, ("dtype %s, not %s"):format(got.dtype, t) end
  local e, where = measure(c, got, wanted, low)
  if not e then return nil, where end
  if e > c.ulp then return nil, ("%.4g ulp, more than %.4g: %s"):format(e, c.ulp, where) end
  return e
end

--- Checks of results that are not unique, by the properties that define them.
M.properties = require "_properties"

--- Runs a case against its expected results: largest error in ulp, or nil and words.
function M.check(c)
  local x = M.inputs(c)
  local ok, out = pcall(M.call, c, x)
  if not ok then return nil, (tostring(out):gsub("\n.*", "")) end
  local worst = 0
  if #out ~= #c.y then return nil, ("%d outputs, not %d"):format(#out, #c.y) end
  for i, key in ipairs(c.y) do
    if key then
      local e, why = M.compare(c, out[i], stored_tensor(c.family, key), c.low and stored_tensor(c.family, c.low))
      if not e then return nil, ("output %d: %s"):format(i, why) end
      worst = math.max(worst, e)
    end
  end
  if c.check then
    local e, why = M.properties[c.check](c, x, out)
    if not e then return nil, why end
    worst = math.max(worst, e)
  end
  return worst
end

--- Every case of every family that exists, in order.
function M.each()
  local list = {}
  for _, family in ipairs(M.families) do
    for _, c in ipairs(M.manifest(family)) do list[#list + 1] = c end
  end
  local i = 0
  return function()
    i = i + 1
    return list[i]
  end
end

--- Counts a check of the test that runs, with its line of failure.
function M.expect(what, ok, why)
  if ok then why = "ok" end
  if __check then
    __check.value(0, what .. " ok", what .. " " .. (ok and "ok" or tostring(why)))
  elseif not ok then
    print(what .. ": " .. tostring(why))
  end
end

return M
