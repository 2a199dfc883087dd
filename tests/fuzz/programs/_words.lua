-- The texts of what operators take: numbers, shapes, slices, data, attributes by the operator table.
local M = {}

M.floats = { "f32", "f64", "f16", "bf16" }
M.wholes = { "i32", "i64", "u8", "i8", "i16" }
local weights = { f32 = 40, f64 = 14, f16 = 7, bf16 = 7, i32 = 6, i64 = 6, u8 = 5, i8 = 4, i16 = 2,
  bool = 5, complex64 = 3, complex128 = 1,
  fp8_e4m3 = 1, fp8_e5m2 = 1 }

function M.dtype(R) return R:weighed(weights) end

local numbers = { "0", "-0.0", "1", "-1", "2", "0.5", "-2.5", "0.1", "3", "1/0", "-1/0", "0/0", "1e-45",
  "-1e-310", "70000", "1.0005", "300",
  "-1e30", "2^31", "16777217", "256", "2^-130", "2^100", "-128", "1 + 2^-40", "65504", "4", "-0.25" }
local tame = { "0.5", "2", "-1.25", "0.1", "3", "1", "-1", "0.9", "0.25" }
local turning = { "i", "i / 3", "-i", "i % 2", "(i % 5) * 0.25", "i % 3 - 1" }

--- A number; turning: one that depends on the loop's i now and then.
function M.number(R, loop, wild)
  if loop and R:chance(0.35) then return R:pick(turning) end
  return R:pick((wild or R:chance(0.3)) and numbers or tame)
end

function M.list(t) return "{" .. table.concat(t, ", ") .. "}" end

--- Sizes: few, so that values meet. Now and then an empty axis, or a long one.
function M.shape(R, rank, sizes)
  local s = {}
  for i = 1, rank or R:pick { 0, 1, 1, 2, 2, 2, 3, 3, 4 } do s[i] = R:pick(sizes) end
  return s
end
function M.sizes(R)
  local base = { R:between(1, 4), R:between(2, 6), R:between(2, 9) }
  base[4] = base[2]
  if R:chance(0.15) then base[5] = R:pick { 16, 17, 31, 33, 64, 130 } end
  if R:chance(0.12) then base[#base + 1] = 0 end
  return base
end

local kinds = { unit = 5, special = 3, ties = 2, pos = 1, wide = 1 }

--- T(..) of this shape; kind and layout by chance; apart: no element stands for several.
function M.data(R, shape, dtype, kind, apart)
  kind = kind or R:weighed(kinds)
  local function plain(s) return ("T(%d, %s, %q%s)"):format(R(999), M.list(s), dtype,
    kind ~= "unit" and (", %q"):format(kind) or "") end
  local n = #shape
  if n == 0 or R:chance(0.6) then return plain(shape) end
  local other, at = { unpack(shape) }, R(n)
  local layout = R(apart and 3 or 5)
  if layout == 1 and n >= 2 then
    other[n], other[n - 1] = other[n - 1], other[n]
    return plain(other) .. ":T()"
  elseif layout == 2 then
    return plain(shape) .. ":flip()"
  elseif layout == 3 then
    other[at] = shape[at] * 2
    return ('%s["%s"]'):format(plain(other), (":, "):rep(at - 1) .. R:pick { "::2", "1::2" })
  elseif layout == 4 then
    other[at] = 1
    return ("%s:expand%s"):format(plain(other), M.list(shape))
  end
  other[at] = shape[at] + 2
  return ("%s:narrow(%d, 1, %d)"):format(plain(other), at - 1, shape[at])
end

--- The text of a slice of this shape, as "1:, ::-2, 3".
function M.slice(R, shape)
  local parts = {}
  for i, d in ipairs(shape) do
    parts[i] = R:pick { ":", "::2", "::-1", "1:", ":-1", "1::2", "::3", "-2:", "::-2", ":3", "-3::2",
      d > 0 and tostring(R(d) - 1) or ":", "1:-1", ("%d:%d"):format(R(d + 2) - 2, R(d + 2) - 1),
      "5:1:-1" }
    if i < #shape and R:chance(0.2) then break end
  end
  return table.concat(parts, ", ")
end

-- ---- attributes by the table
local function axes(R, rank)
  local t = {}
  for i = 0, rank - 1 do
    if R:chance(0.5) then t[#t + 1] = R:chance(0.3) and i - rank or i end
  end
  return M.list(t)
end

local function one(R, attribute, kind, x)
  local rank = x and x.ndim or 2
  if attribute:match "^ax[ei]s" then
    if kind == "ints" and R:chance(0.5) then return axes(R, rank) end
    return tostring(R:between(-rank, math.max(rank - 1, 0)))
  end
  if kind == "int" then return tostring(R:pick { 0, 1, 1, 2, 2, 3, 4, -1 }) end
  if kind == "f" then return M.number(R, false, R:chance(0.4)) end
  if kind == "bool" then return R:chance(0.5) and "true" or "false" end
  if kind == "dtype" then return ("%q"):format(M.dtype(R)) end
  if kind == "ints" or kind == "floats" then
    if R:chance(0.3) then return tostring(R:pick { 1, 2, 3 }) end
    if x and R:chance(0.4) then return M.list(R:shuffle { unpack(x.shape) }) end
    local t = {}
    for i = 1, R:chance(0.6) and rank or R(3) do t[i] = R:pick { 0, 1, 1, 2, 3 } end
    return M.list(t)
  end
  if kind == "str" then return R:pick { '"ij->ji"', '"ii->i"', '"i,i->"', '"ij,kj->ik"', '"relu"',
    '"...->..."', '"ii->"', '"i->"' } end
  local words = {}
  for w in kind:gmatch "[%w_]+" do words[#words + 1] = w end
  return ("%q"):format(R:pick(words))
end

--- The attributes of a row: a list of {name, kind, required}.
function M.attributes(row)
  local list = {}
  for word in row.attrs:gmatch "%S+" do
    local name, kind, rest = word:match "^([%w_]+):([%w_|]+)(.*)$"
    list[#list + 1] = { name = name, kind = kind, required = rest == "" }
  end
  return list
end

--- "{axis = 1, keepdims = true}" for an input x, or nil; more: how likely an optional one is.
function M.options(R, row, x, more)
  local parts = {}
  for _, a in ipairs(M.attributes(row)) do
    if a.required or R:chance(more or 0.4) then parts[#parts + 1] = a.name .. " = " .. one(R, a.name,
      a.kind, x) end
  end
  return #parts > 0 and "{" .. table.concat(parts, ", ") .. "}" or nil
end
M.one = one

return M
