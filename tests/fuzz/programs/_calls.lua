-- Calls of every row of the operator table, new ones too: from the agreement cases, which every row
-- has,
-- with other sizes, dtypes and attributes.
package.path = "tests/agree/?.lua;" .. package.path
local core = require "tessera.core"
local cases = require "_cases"
local words = dofile "tests/fuzz/programs/_words.lua"
local M = {}

-- A case as {row, inputs = {{dtype, shape, low, high} or false}, o}, of few elements.
local function small(c)
  local list = {}
  for i, spec in ipairs(c.x) do
    local dtype, shape, low, high
    if type(spec) == "string" then
      local rest
      dtype, rest = spec:match "^(%S+) %d+(.*)$"
      shape, low, high = {}, nil, nil
      for n in rest:gmatch "%d+" do shape[#shape + 1] = tonumber(n) end
      if dtype:match "^[iu]%d" then low, high = 0, 1 end
    elseif spec then
      dtype, shape, low, high = spec[1], spec[2], spec[4], spec[5]
    end
    if cases.count(shape or {}) > 2000 or dtype == "mxfp4" then return nil end
    list[i] = spec and { dtype = dtype, shape = shape, low = low, high = high } or false
  end
  for _, v in pairs(c.o or {}) do
    if type(v) == "number" and v > 5000 and v < 1 / 0 then return nil end
  end
  return { row = c.row, inputs = list, o = c.o or {} }
end

local by -- cases by row, and the rows that have some
local function load_cases()
  if by then return end
  by, M.rows = {}, {}
  for c in cases.each() do
    local s = small(c)
    if s then
      by[c.row] = by[c.row] or {}
      table.insert(by[c.row], s)
    end
  end
  for _, row in ipairs(core.operators()) do
    if by[row.name] and not cases.skipped[row.name] then M.rows[#M.rows + 1] = row end
  end
end

--- A row that has cases.
function M.row(R)
  load_cases()
  local row = R:pick(M.rows)
  if row.class == "pointwise" and R:chance(0.6) then row = R:pick(M.rows) end -- there are many of them
  return row
end

local function literal(v)
  if type(v) == "table" then
    local t = {}
    for i, e in ipairs(v) do t[i] = literal(e) end
    return words.list(t)
  end
  if type(v) == "string" then return ("%q"):format(v) end
  if v ~= v then return "0 / 0" end
  if v == 1 / 0 or v == -1 / 0 then return v > 0 and "1 / 0" or "-1 / 0" end
  if type(v) == "number" then return v % 1 == 0 and ("%.0f"):format(v) or ("%.17g"):format(v) end
  return tostring(v)
end

local float = { f16 = true, bf16 = true, f32 = true, f64 = true, fp8_e4m3 = true, fp8_e5m2 = true }
local takes = { { 1, { "bool" } }, { 2, words.wholes }, { 4, words.wholes }, { 8, words.floats }, { 16,
  { "complex64", "complex128" } } }

-- Another dtype for what is a float there, or any that the row takes.
local function another(R, row, dtype, gradient)
  if gradient then return float[dtype] and "f64" or dtype end
  if not float[dtype] and not R:chance(0.3) then return dtype end
  local pool = {}
  for _, t in ipairs(takes) do
    if math.floor(row.types / t[1]) % 2 == 1 then
      for _, d in ipairs(t[2]) do pool[#pool + 1] = d end
    end
  end
  if float[dtype] and R:chance(0.7) or #pool == 0 then return R:pick(words.floats) end
  return R:pick(pool)
end

--- A call: {text = "op.name(%s, %s, {..})" with holes for the inputs, inputs = {{dtype, shape, low,
--- high}}}.
--- change: sizes, dtypes and attributes differ from the case. gradient: floats are f64.
function M.call(R, row, change, gradient)
  load_cases()
  local c = R:pick(by[row.name])
  local sizes, dtypes, inputs, holes = {}, {}, {}, {}
  local function size(d)
    if not change or R:chance(0.4) then return d end
    sizes[d] = sizes[d] or R:pick { d, d, d + 1, math.max(d - 1, 1), d * 2, R(9), 1,
      R:chance(0.25) and 0 or d }
    return sizes[d]
  end
  local keep, none = not change or R:chance(0.3), R:chance(0.15)
  for i, x in ipairs(c.inputs) do
    if not x then
      holes[i] = "nil"
    else
      local s = {}
      for k, d in ipairs(x.shape) do
        if keep then s[k] = d
        else
          sizes[d] = sizes[d] or (none and 0) or size(d)
          none = none and sizes[d] ~= 0
          s[k] = sizes[d]
        end
      end
      dtypes[x.dtype] = dtypes[x.dtype] or another(R, row, x.dtype, gradient)
      inputs[#inputs + 1] = { dtype = dtypes[x.dtype], shape = s, low = x.low, high = x.high,
        index = not float[x.dtype] }
      holes[i] = "%s"
    end
  end
  local parts, given = {}, {}
  for k, v in pairs(c.o) do given[k] = literal(v) end
  if change then
    for _, a in ipairs(words.attributes(row)) do
      if R:chance(0.3) then given[a.name] = words.one(R, a.name, a.kind,
        inputs[1] and { ndim = #inputs[1].shape, shape = inputs[1].shape }) end
    end
  end
  for _, a in ipairs(words.attributes(row)) do
    if given[a.name] then parts[#parts + 1] = a.name .. " = " .. given[a.name] end
  end
  if #parts > 0 then holes[#holes + 1] = ("{" .. table.concat(parts, ", ") .. "}"):gsub("%%",
    "%%%%") end
  return { text = ("op.%s(%s)"):format(row.name, table.concat(holes, ", ")), inputs = inputs,
    row = row }
end

--- Data for an input of a call.
function M.data(R, x, kind)
  if x.index or (x.low and not kind and R:chance(0.4)) then
    return ("T(%d, %s, %q, nil, %s, %s)"):format(R(999), words.list(x.shape), x.dtype,
      literal(x.low or 0), literal(x.high or 1))
  end
  return words.data(R, x.shape, x.dtype, kind)
end

return M
