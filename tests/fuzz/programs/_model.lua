-- Programs whose results are known: views, writes, integers that wrap, rounding, signs of zero, fills
-- and
-- assignments are computed here as well, in plain Lua, and stand in the program as literals. So faults
-- show that all ways share.
local numbers = dofile "tests/fuzz/programs/_numbers.lua"
local words = dofile "tests/fuzz/programs/_words.lua"
local dtypes = { "f32", "f64", "f16", "bf16", "i32", "i64", "i16", "i8", "u8", "bool" }
local UNKNOWN = {}

-- A value: dtype, shape, store (a list that views share), at (the places of its elements).
local function fresh(dtype, shape, list)
  local at = {}
  for i = 1, #list do
    at[i] = i
    if list[i] == nil then error(UNKNOWN) end
  end
  return { dtype = dtype, shape = shape, store = list, at = at, whole = true }
end
local function count(shape)
  local n = 1
  for _, d in ipairs(shape) do n = n * d end
  return n
end
local function view(x, shape, at) return { dtype = x.dtype, shape = shape, store = x.store, at = at,
  base = x } end
local function get(x, i) return x.store[x.at[i]] end
local function apart(x)
  local seen = {}
  for _, p in ipairs(x.at) do
    if seen[p] then return false end
    seen[p] = true
  end
  return true
end

-- f of the elements of values of one shape.
local function each(dtype, f, x, y, z)
  local list = {}
  for i = 1, #x.at do
    local v = f(get(x, i), y and get(y, i), z and get(z, i))
    if v == nil then error(UNKNOWN) end
    if dtype ~= "bool" then v = numbers.round(v, dtype) end
    if v == 0 and not numbers.is_float(dtype) then v = 0 end
    if v == nil then error(UNKNOWN) end
    list[i] = v
  end
  return fresh(dtype, x.shape, list)
end

-- A number that every dtype of this kind holds, as text and value.
local function operand(R, dtype)
  local v
  if numbers.is_float(dtype) then v = R:pick { 0, -0.0, 1, -1, 0.5, 2, -2, 1 / 0, -1 / 0, 0 / 0, 4,
    -0.25 }
  else v = R:pick(dtype == "u8" and { 0, 1, 2, 3, 7 } or { 0, 1, 2, 3, -1, -2, 7 }) end
  return numbers.text(v), v
end
-- One that it may have to round.
local function filling(R, dtype)
  if dtype == "bool" then
    local v = R:chance(0.5)
    return v and "1" or "0", v
  end
  if not numbers.is_float(dtype) then
    local v = R:pick { 0, 1, 3, 100, numbers.most(dtype), numbers.least(dtype), 16777217, -1 }
    if dtype == "i64" and v == numbers.most(dtype) then v = 2 ^ 53 - 1 end
    if v < numbers.least(dtype) or v > numbers.most(dtype) then v = 5 end
    return numbers.text(v), v
  end
  local v = R:pick { 0, -0.0, 0.1, 1.0005, 16777217, 1 / 3, -1 / 0, 0 / 0, 1e-45, 5e-324, 2049, 257,
    -2.7 }
  return numbers.text(v), numbers.round(v, dtype)
end

local function signed(x, y) -- the sign of a zero, of x * y and the like, is Lua's own
  return x * y
end

local step = {}

function step.arithmetic(R, x, y)
  if x.dtype == "bool" then return end
  local o = R:pick(numbers.is_float(x.dtype) and { "+", "-", "*", "/" } or { "+", "-", "*" })
  local f = ({ ["+"] = function(a, b) return a + b end, ["-"] = function(a, b) return a - b end,
    ["*"] = signed, ["/"] = function(a, b) return a / b end })[o]
  if x.dtype == "i64" then -- what doubles do not hold for sure
    local exact = f
    f = function(a, b)
      local v = exact(a, b)
      return math.max(math.abs(a), math.abs(b), math.abs(v)) <= 2 ^ 53 and v or nil
    end
  end
  if R:chance(0.5) then
    local text, c = operand(R, x.dtype)
    if R:chance(0.3) then return ("(%s) %s %s"):format(text, o, x.name), each(x.dtype,
      function(a) return f(c, a) end, x) end
    return ("%s %s (%s)"):format(x.name, o, text), each(x.dtype, function(a) return f(a, c) end, x)
  end
  return ("%s %s %s"):format(x.name, o, y.name), each(x.dtype, f, x, y)
end
function step.order(R, x, y)
  local o = R:pick { "maximum", "minimum" }
  local function f(a, b)
    if type(a) == "boolean" then
      if o == "maximum" then return a or b end
      return a and b
    end
    if a ~= a or b ~= b then return 0 / 0 end
    if numbers.less(a, b) == (o == "maximum") then return b end
    return a
  end
  return ("op.%s(%s, %s)"):format(o, x.name, y.name), each(x.dtype, f, x, y)
end
function step.unary(R, x)
  if x.dtype == "bool" then return x.name .. ":logical_not()", each("bool",
    function(a) return not a end, x) end
  local float = numbers.is_float(x.dtype)
  if x.dtype == "i64" and R:chance(0.7) then return end
  local list = { neg = function(a) if not float and a == 0 then return 0 end return -a end,
    abs = math.abs, square = function(a) return (x.dtype ~= "i64" or math.abs(a) < 2 ^ 26) and a * a
    or nil end, relu = function(a) if a ~= a then return a end return a > 0 and a or 0 end,
    floor = math.floor, ceil = math.ceil, clone = function(a) return a end }
  local o = R:pick { "neg", "abs", "square", "relu", "floor", "ceil", "clone", "neg", "abs" }
  local text = o == "neg" and R:chance(0.5) and "-" .. x.name or ("%s:%s()"):format(x.name, o)
  return text, each(x.dtype, list[o], x)
end
function step.test(R, x, y)
  if x.dtype == "bool" then return end
  local o = R:pick { "eq", "ne", "lt", "le", "gt", "ge" }
  local f = ({ eq = function(a, b) return a == b end, ne = function(a, b) return a ~= b end,
    lt = function(a, b) return a < b end, le = function(a, b) return a <= b end,
    gt = function(a, b) return a > b end, ge = function(a, b) return a >= b end })[o]
  return ("%s:%s(%s)"):format(x.name, o, y.name), each("bool", f, x, y)
end
function step.where(R, x, y, pick)
  local c = pick(function(v) return v.dtype == "bool"
    and words.list(v.shape) == words.list(x.shape) end)
  if not c then return end
  return ("op.where(%s, %s, %s)"):format(c.name, x.name, y.name), each(x.dtype, function(b, a,
    d) if b then return a end return d end, c, x, y)
end
function step.cast(R, x)
  local to = R:pick(dtypes)
  return ('%s:cast("%s")'):format(x.name, to), each(to, function(a)
    local v = numbers.cast(a, x.dtype, to)
    if v == nil then error(UNKNOWN) end
    return v
  end, x)
end
function step.fill(R, x)
  local text, v = filling(R, x.dtype)
  local what = R(4)
  if what == 1 then return ("op.full_like(%s, %s)"):format(x.name, text), each(x.dtype,
    function() return v end, x) end
  if what == 2 then return ('op.full(%s, %s, {dtype = "%s"})'):format(words.list(x.shape), text,
    x.dtype), each(x.dtype, function() return v end, x) end
  local zero, one = 0, 1
  if x.dtype == "bool" then zero, one = false, true end
  if what == 3 then return ("op.zeros_like(%s)"):format(x.name), each(x.dtype,
    function() return zero end, x) end
  return ("op.ones_like(%s)"):format(x.name), each(x.dtype, function() return one end, x)
end

-- ---- views
local function along(x, axis, places) -- the view at these places of an axis, from 1
  local inner, outer, n, at = 1, 1, x.shape[axis], {}
  for i = axis + 1, #x.shape do inner = inner * x.shape[i] end
  for i = 1, axis - 1 do outer = outer * x.shape[i] end
  for a = 0, outer - 1 do
    for _, p in ipairs(places) do
      for b = 1, inner do at[#at + 1] = x.at[a * n * inner + (p - 1) * inner + b] end
    end
  end
  local shape = { unpack(x.shape) }
  shape[axis] = #places
  return view(x, shape, at)
end

local function sliced(R, x)
  local axis = R(#x.shape)
  local n, first, last, by = x.shape[axis], R:between(0, 3), nil, R:pick { 1, 2, 3, -1, -2 }
  last = R:between(0, n)
  local places, text = {}, nil
  if by > 0 then
    for p = math.min(first, n), last - 1, by do places[#places + 1] = p + 1 end
    text = ("%d:%d:%d"):format(first, last, by)
  else
    for p = n - 1, 0, by do places[#places + 1] = p + 1 end
    text = ("::%d"):format(by)
  end
  return ('%s["%s"]'):format(x.name, (":, "):rep(axis - 1) .. text), along(x, axis, places)
end

function step.slice(R, x)
  if #x.shape > 0 then return sliced(R, x) end
end
function step.turn(R, x)
  if #x.shape ~= 2 then return end
  local m, n, at = x.shape[1], x.shape[2], {}
  for j = 1, n do
    for i = 1, m do at[#at + 1] = x.at[(i - 1) * n + j] end
  end
  return x.name .. ":T()", view(x, { n, m }, at)
end
function step.shape(R, x)
  if not x.whole then return end
  local t = { unpack(x.shape) }
  return R:pick { x.name .. ":reshape(-1)", x.name .. ":flatten()" }, view(x, { count(t) },
    { unpack(x.at) })
end
function step.flip(R, x)
  if #x.shape == 0 then return end
  local axis, places = R(#x.shape), {}
  for p = x.shape[axis], 1, -1 do places[#places + 1] = p end
  return ("%s:flip(%d)"):format(x.name, axis - 1), along(x, axis, places)
end
function step.select(R, x)
  if #x.shape == 0 or x.shape[1] == 0 then return end
  local p = R(x.shape[1])
  local v = along(x, 1, { p })
  table.remove(v.shape, 1)
  return ("%s[%d]"):format(x.name, p - 1), v
end
function step.expand(R, x)
  local n, at = R(3), {}
  for _ = 1, n do
    for _, p in ipairs(x.at) do at[#at + 1] = p end
  end
  return ("%s:expand%s"):format(x.name, words.list { n, unpack(x.shape) }), view(x, { n,
    unpack(x.shape) }, at)
end

-- ---- copies
local function copied(x)
  local list = {}
  for i = 1, #x.at do list[i] = get(x, i) end
  return fresh(x.dtype, x.shape, list)
end
function step.tile(R, x)
  if #x.shape == 0 then return end
  local axis, k = R(#x.shape), R(3)
  local places, reps = {}, {}
  for _ = 1, k do
    for p = 1, x.shape[axis] do places[#places + 1] = p end
  end
  for i = 1, #x.shape do reps[i] = i == axis and k or 1 end
  return ("%s:tile%s"):format(x.name, words.list(reps)), copied(along(x, axis, places))
end
function step.roll(R, x)
  if #x.shape == 0 or count(x.shape) == 0 then return end
  local axis, k, places = R(#x.shape), R:between(-3, 3), {}
  local n = x.shape[axis]
  for p = 0, n - 1 do places[#places + 1] = (p - k) % n + 1 end
  return ("%s:roll(%d, %d)"):format(x.name, k, axis - 1), copied(along(x, axis, places))
end
function step.concat(R, x, y)
  if #x.shape == 0 then return end
  local axis = 1
  local a, b = copied(x), copied(y)
  for _, v in ipairs(b.store) do
    a.store[#a.store + 1] = v
  end
  local shape = { unpack(x.shape) }
  shape[axis] = 2 * shape[axis]
  return ("op.concat({%s, %s}, {axis = 0})"):format(x.name, y.name), fresh(x.dtype, shape, a.store)
end
function step.reduce(R, x)
  local n = #x.at
  if x.dtype == "bool" then
    local any, all, sum = false, true, 0
    for i = 1, n do
      any, all, sum = any or get(x, i), all and get(x, i), sum + (get(x, i) and 1 or 0)
    end
    local o = R:pick { "any", "all", "sum", "count_nonzero" }
    return ("%s:%s()"):format(x.name, o), fresh(({ any = "bool", all = "bool", sum = "i64",
      count_nonzero = "i64" })[o], {}, { ({ any = any, all = all, sum = sum,
      count_nonzero = sum })[o] })
  end
  if R:chance(0.5) and n > 0 then
    local o, best, place = R:pick { "max", "min", "argmax", "argmin" }, get(x, 1), 0
    for i = 2, n do
      local v = get(x, i)
      local over = numbers.less(best, v)
      if o:find "min" then over = numbers.less(v, best) end
      if best == best and (v ~= v or over) then
        if v ~= v or v ~= best or not o:find "arg" then best, place = v, i - 1 end
      end
    end
    if o:find "arg" then
      for i = 1, n do
        if get(x, i) == 0 then return end -- whether -0 comes before +0 there is not said
      end
      return ("%s:%s()"):format(x.name, o), fresh("i64", {}, { place })
    end
    return ("%s:%s()"):format(x.name, o), fresh(x.dtype, {}, { best })
  end
  if numbers.is_float(x.dtype) and n > 0 then return end
  local sum, product = 0, 1
  for i = 1, n do
    sum, product = sum + get(x, i), product * get(x, i)
    if math.abs(sum) > 2 ^ 53 or math.abs(product) > 2 ^ 53 then error(UNKNOWN) end
  end
  local dtype = numbers.is_float(x.dtype) and x.dtype or "i64"
  -- 0 is no -0 where the dtype has none.
  if R:chance(0.5) then return x.name .. ":sum()", fresh(dtype, {}, { sum + 0 }) end
  return x.name .. ":prod()", fresh(dtype, {}, { product + 0 })
end

-- ---- writes: the statement, and the store is changed
local function assigned(x, v, where)
  for i = 1, #x.at do
    if not where or where(i) then x.store[x.at[i]] = v end
  end
end
local function write(R, x, y)
  if not apart(x) then
    return R:pick { "overlaps(function() %s:add_(1) end)", "overlaps(function() %s:copy_(0) end)",
      "overlaps(function() %s:add_(%s) end)" }:gsub("%%s", x.name), nil
  end
  local what = R(6)
  local text, v = filling(R, x.dtype)
  if what == 1 and #x.shape > 0 and x.shape[1] > 0 then
    local p = R(x.shape[1])
    assigned(along(x, 1, { p }), v)
    return ("%s[%d] = %s"):format(x.name, p - 1, text)
  elseif what == 2 and #x.shape > 0 then
    local place, part = sliced(R, x)
    assigned(part, v)
    return ("%s = %s"):format(place, text)
  elseif what == 3 then
    assigned(x, v)
    return ("%s:copy_(%s)"):format(x.name, text)
  elseif what == 4 and x.dtype ~= "bool" then
    local new = each(x.dtype, function(a, b)
      local v = a + b
      return (x.dtype ~= "i64" or math.max(math.abs(a), math.abs(b),
        math.abs(v)) <= 2 ^ 53) and v or nil
    end, x, y)
    for i = 1, #x.at do x.store[x.at[i]] = new.store[i] end
    return ("%s:add_(%s)"):format(x.name, y.name)
  elseif what == 5 and x.dtype ~= "bool" then
    local list = {}
    for i = 1, #x.at do list[i] = get(x, i) > 0 end
    assigned(x, v, function(i) return list[i] end)
    return ("%s[%s:gt(0)] = %s"):format(x.name, x.name, text)
  elseif what == 6 then
    local list = copied(y).store
    for i = 1, #x.at do x.store[x.at[i]] = list[i] end
    return ("%s:copy_(%s)"):format(x.name, y.name)
  end
end

local weights = { arithmetic = 6, order = 2, unary = 5, test = 2, where = 2, cast = 3, fill = 4,
  slice = 4, turn = 2, shape = 2, flip = 2, select = 2, expand = 1, tile = 1, roll = 1, concat = 1,
  reduce = 3 }

local function pool(dtype)
  if dtype == "bool" then return { true, false } end
  if numbers.is_float(dtype) then
    local list = { 0, -0.0, 1, -1, 0.5, -2.5, 1 / 0, -1 / 0, 0 / 0, 3, 0.1, 100, 1e-5, 65504 }
    for i, v in ipairs(list) do list[i] = numbers.round(v, dtype) end
    return list
  end
  local list = { 0, 1, 2, 3, 7, 100, numbers.least(dtype), numbers.most(dtype) }
  if dtype == "i64" then list[#list] = 2 ^ 40 end
  if dtype ~= "u8" then list[#list + 1] = -1 end
  return list
end

local function literal(x)
  local list = {}
  for i = 1, #x.at do list[i] = numbers.text(get(x, i)) end
  return ("{%q, %s, {%s}}"):format(x.dtype, words.list(x.shape), table.concat(list, ", "))
end

return function(W)
  local R = W.R
  W:line 'profile "strict"'
  local values, lines, inputs = {}, {}, {}
  local main, dtype = words.shape(R, R:pick { 1, 1, 2, 2 }, { 1, 2, 3, 4, R:chance(0.1) and 0 or 5 }),
    R:pick(dtypes)
  for i = 1, R:pick { 1, 2, 2, 3 } do
    local d, list = R:chance(0.7) and dtype or R:pick(dtypes), {}
    local from = pool(d)
    for k = 1, count(main) do list[k] = R:pick(from) end
    local x = fresh(d, main, list)
    x.name, values[i] = "x" .. i, x
    inputs[i] = #list == 0 and ("op.zeros(%s, {dtype = %q})"):format(words.list(main), d)
      or ("tessera.tensor({%s}, {dtype = %q}):reshape(%s)"):format(literal(x):match "{([^{}]*)}}$", d,
        words.list(main))
  end
  local function pick(ok)
    local list = {}
    for _, v in ipairs(values) do
      if not ok or ok(v) then list[#list + 1] = v end
    end
    return #list > 0 and (R:chance(0.5) and list[#list] or R:pick(list)) or nil
  end
  for _ = 1, R:between(2, 12) do
    local x = pick()
    local y = pick(function(v) return v.dtype == x.dtype
      and words.list(v.shape) == words.list(x.shape) end)
    if R:chance(0.2) then
      local saved = { unpack(x.store) }
      local fine, text = pcall(write, R, x, y)
      if fine and text then lines[#lines + 1] = text
      elseif not fine then
        if text ~= UNKNOWN then error(text, 0) end
        for i, v in pairs(saved) do x.store[i] = v end
      end
    else
      local kind = R:weighed(weights)
      local fine, text, v = pcall(step[kind], R, x, y, pick)
      if not fine and text ~= UNKNOWN then error(text, 0) end
      if fine and text and #v.at < 200 then
        v.name = "t" .. #values
        values[#values + 1] = v
        lines[#lines + 1] = ("local %s = %s"):format(v.name, text)
      end
    end
  end
  local params, results, wants = {}, {}, {}
  for i = 1, #inputs do params[i] = "x" .. i end
  for i = math.max(1, #values - 5), #values do
    results[#results + 1], wants[#wants + 1] = values[i].name, literal(values[i])
  end
  W:open("local function f(%s)", table.concat(params, ", "))
  for _, l in ipairs(lines) do W:line("%s", l) end
  W:line("return %s", table.concat(results, ", "))
  W:close "end"
  W:line("local function make() return %s end", table.concat(inputs, ", "))
  W:open "known(f, make, {"
  for i, w in ipairs(wants) do W:line("{%q, %s,", results[i], w:sub(2)) end
  W:close "})"
end
