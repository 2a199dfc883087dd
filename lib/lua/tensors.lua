-- Functions that make, join and rearrange tensors, and statistics, made of operators. Loaded by op when one is
-- first named (named_functions.lua).

local core = require "tessera.core"
local options = require "tessera.options"
local op = core.op
local need = options.argument
local TENSOR, FLAG, AXIS, COUNT = options.tensor, options.flag, options.whole(), options.whole { least = 0 }
local T = {}

local function tensors(what, ...)
  local list = ...
  if core.is_tensor(list) then list = { ... } end
  if #options.tensors(what, "tensor", list) == 0 then core.fail(what .. ": the list of tensors is empty") end
  return list
end

local function axis_of(x, axis) return axis < 0 and x.ndim + axis or axis end

-- ---- axes

local AXES = options.each(AXIS)
local function as_list(v) return type(v) == "number" and { v } or v end

local function need_axis(what, x, axis)
  if axis < -x.ndim or axis >= x.ndim then core.fail(("%s: axis %d is out of range for %s"):format(what, axis, core.type_text(x))) end
  return axis_of(x, axis)
end

-- movedim(x, from, to): the axes `from` at the places `to`, numbers or lists; the others stay in order.
--   y = op.movedim(op.ones{2, 3, 4}, 0, -1)      -- f32[3,4,2]
function T.movedim(x, from, to)
  need("movedim", "x", TENSOR, x)
  from, to = as_list(need("movedim", "from", AXES, from)), as_list(need("movedim", "to", AXES, to))
  if #from ~= #to then core.fail(("movedim: %d axes for %d places"):format(#from, #to)) end
  local order, moved = {}, {}
  for i, a in ipairs(from) do
    local place = need_axis("movedim", x, to[i]) + 1
    a = need_axis("movedim", x, a)
    if moved[a] or order[place] then core.fail "movedim: an axis is named twice" end
    moved[a], order[place] = true, a
  end
  local next = 0
  for i = 1, x.ndim do
    if not order[i] then
      while moved[next] do next = next + 1 end
      order[i], moved[next] = next, true
    end
  end
  return x:permute(order)
end

-- unflatten(x, axis, sizes): an axis as several, of which one size may be -1.
--   y = op.unflatten(op.ones{2, 12}, 1, {3, -1})      -- f32[2,3,4]
function T.unflatten(x, axis, sizes)
  need("unflatten", "x", TENSOR, x)
  axis = axis_of(x, need("unflatten", "axis", AXIS, axis))
  need("unflatten", "sizes", options.list(AXIS, nil, 1), sizes)
  local shape, known, hole = {}, 1, nil
  for i = 1, x.ndim do
    if i ~= axis + 1 then
      shape[#shape + 1] = x.shape[i]
    else
      for _, n in ipairs(sizes) do
        shape[#shape + 1] = n
        if n == -1 and hole then core.fail(("unflatten: of {%s} two sizes are -1"):format(table.concat(sizes, ", "))) end
        if n == -1 then hole = #shape else known = known * n end
      end
    end
  end
  local n = x.shape[axis + 1]
  if not n or (hole and n % known or n - known) ~= 0 then
    core.fail(("unflatten: axis %d of %s is not {%s}"):format(axis, core.type_text(x), table.concat(sizes, ", ")))
  end
  if hole then shape[hole] = n / known end
  return x:reshape(shape)
end

-- hstack(tensors): joined along axis 1, vectors along axis 0.
--   y = op.hstack(op.ones{2, 1}, op.zeros{2, 3})      -- f32[2,4]
function T.hstack(...)
  local list = {}
  for i, x in ipairs(tensors("hstack", ...)) do list[i] = x.ndim == 0 and x:reshape(1) or x end
  return op.concat(list, { axis = list[1].ndim == 1 and 0 or 1 })
end

-- vstack(tensors): joined along axis 0, vectors as rows.
--   y = op.vstack(op.ones{3}, op.zeros{2, 3})      -- f32[3,3]
function T.vstack(...)
  local list = {}
  for i, x in ipairs(tensors("vstack", ...)) do list[i] = x.ndim < 2 and x:reshape(1, -1) or x end
  return op.concat(list, { axis = 0 })
end

-- dstack(tensors): joined along axis 2, vectors as [1, n, 1] and matrices as [n, m, 1].
--   y = op.dstack(op.ones{3}, op.zeros{3})      -- f32[1,3,2]
function T.dstack(...)
  local list = {}
  for i, x in ipairs(tensors("dstack", ...)) do
    list[i] = x.ndim < 2 and x:reshape(1, -1, 1) or x.ndim == 2 and x:unsqueeze(2) or x
  end
  return op.concat(list, { axis = 2 })
end

-- column_stack(tensors): joined along axis 1, vectors as columns.
--   y = op.column_stack(op.ones{3}, op.zeros{3})      -- f32[3,2]
function T.column_stack(...)
  local list = {}
  for i, x in ipairs(tensors("column_stack", ...)) do list[i] = x.ndim < 2 and x:reshape(-1, 1) or x end
  return op.concat(list, { axis = 1 })
end

-- fliplr(x): axis 1 reversed, as a view.
--   y = op.fliplr(op.eye(2))
function T.fliplr(x) return op.flip(x, { axis = { 1 } }) end
-- flipud(x): axis 0 reversed, as a view.
--   y = op.flipud(op.eye(2))
function T.flipud(x) return op.flip(x, { axis = { 0 } }) end

-- broadcast_tensors(tensors): each as a view of the shape that they have together: as many results.
--   a, b = op.broadcast_tensors(op.ones{3, 1}, op.ones{4})
function T.broadcast_tensors(...)
  local list, shape = tensors("broadcast_tensors", ...), {}
  for _, x in ipairs(list) do
    for i = 1, x.ndim do
      local at, n = -i, x.shape[x.ndim - i + 1]
      if n ~= 1 then
        if (shape[at] or n) ~= n then core.fail(("broadcast_tensors: sizes %d and %d meet"):format(shape[at], n)) end
        shape[at] = n
      end
      shape.n = math.max(shape.n or 0, i)
    end
  end
  local sizes, out = {}, {}
  for i = 1, shape.n or 0 do sizes[i] = shape[i - (shape.n + 1)] or 1 end
  for i, x in ipairs(list) do out[i] = op.broadcast_to(x, { shape = sizes }) end
  return unpack(out)
end

-- ---- by index

local MOST = 2 ^ 28 -- elements of a table of indices: more is a slip

local function need_room(what, count, noun)
  if count > MOST then core.fail(("%s: %.4g %s are too many: at most 2^28"):format(what, count, noun)) end
end

-- Runs of these lengths one behind the other, `total` in all: for each element its run, and its place in it.
local function runs(lengths, total)
  local ends, zeros = op.cumsum(lengths, { axis = 0 }), op.zeros({ total + 1 }, { dtype = "i64" })
  -- Counted are the runs that ended: op.repeat_counts searches for each, in many times the memory.
  local run = op.cumsum(op.scatter_add(zeros, ends, op.ones_like(ends)):narrow(0, 0, total), { axis = 0 })
  return run, op.arange(total) - op.take(ends - lengths, run)
end

-- The sum of i + from, cut to 0 .. most, over i = 0 .. n - 1.
local function cut_sum(n, from, most)
  local function below(i) return i > 0 and i * (i + 1) / 2 or 0 end
  return below(n - 1 + from) - below(from - 1) - below(n - 1 + from - most) + below(from - most - 1)
end

local function triangle(name, rows, columns, offset, upper)
  need(name, "rows", COUNT, rows)
  columns, offset = columns or rows, offset or 0
  need(name, "columns", COUNT, columns)
  need(name, "offset", AXIS, offset)
  offset = math.max(-rows, math.min(offset, columns))
  local from = upper and offset or offset + 1
  local count = cut_sum(rows, from, columns)
  if upper then count = rows * columns - count end
  need_room(name, math.max(rows, count), "elements")
  if rows == 0 or count == 0 then return op.zeros({ 2, 0 }, { dtype = "i64" }) end
  local edge = (op.arange(rows) + from):clamp(0, columns) -- where rows end, or begin
  local row, column = runs(upper and columns - edge or edge, count)
  if upper then column = column + op.take(edge, row) end
  return op.stack({ row, column }, { axis = 0 })
end
-- tril_indices(rows, columns, offset): rows and columns of the lower triangle of a matrix, i64[2,n]; columns are rows and
-- offset is 0 by default.
--   y = op.tril_indices(3)      -- i64[2,6]
function T.tril_indices(rows, columns, offset) return triangle("tril_indices", rows, columns, offset, false) end
-- triu_indices(rows, columns, offset): as op.tril_indices, of the upper triangle.
--   y = op.triu_indices(3, 3, 1)      -- i64[2,3]
function T.triu_indices(rows, columns, offset) return triangle("triu_indices", rows, columns, offset, true) end

local read_take = options.placed("take_along_dim", { axis = AXIS }, nil, { "axis" })
-- take_along_dim(x, index, {axis}): op.gather along an axis, x and index broadcasting elsewhere; without axis from x as a
-- vector.
--   y = op.take_along_dim(op.eye(3), op.argmax(op.eye(3), {axis = 1, keepdims = true}), 1)      -- f32[3,1]
function T.take_along_dim(x, index, ...)
  need("take_along_dim", "x", TENSOR, x)
  need("take_along_dim", "index", TENSOR, index)
  local axis = read_take(...).axis
  if not axis then return op.take(x, index:reshape(-1)) end
  axis = axis_of(x, axis)
  local sx, si = { unpack(x.shape) }, { unpack(index.shape) }
  for i = 1, x.ndim do
    if i ~= axis + 1 then sx[i] = math.max(sx[i], si[i] or 1) si[i] = sx[i] end
  end
  return op.gather(op.broadcast_to(x, { shape = sx }), op.broadcast_to(index, { shape = si }), { axis = axis })
end

-- index as op.scatter has it: i of [n] stands for the slices of x at i along axis.
local function slices(x, axis, index)
  local shape, line = { unpack(x.shape) }, {}
  shape[axis + 1] = index.numel
  for i = 1, x.ndim do line[i] = i == axis + 1 and index.numel or 1 end
  return op.broadcast_to(index:reshape(line), { shape = shape })
end

-- index_copy(x, axis, index, src): a copy of x with the slices of src at index along axis.
--   y = op.index_copy(op.zeros{3, 2}, 0, op.arange(1), op.ones{1, 2})
function T.index_copy(x, axis, index, src)
  need("index_copy", "x", TENSOR, x)
  axis = axis_of(x, need("index_copy", "axis", AXIS, axis))
  need("index_copy", "index", TENSOR, index)
  return op.scatter(x, slices(x, axis, index), src, { axis = axis })
end

-- index_fill(x, axis, index, value): a copy of x with value, a number, in the slices at index along axis.
--   y = op.index_fill(op.zeros{3, 2}, 0, op.arange(1), 7)
function T.index_fill(x, axis, index, value)
  need("index_fill", "x", TENSOR, x)
  axis = axis_of(x, need("index_fill", "axis", AXIS, axis))
  need("index_fill", "index", TENSOR, index)
  need("index_fill", "value", options.kind("a number", function(v) return type(v) == "number" end), value)
  return op.scatter(x, slices(x, axis, index), op.full({}, value, { dtype = x.dtype }):to(x.device), { axis = axis })
end

-- ---- made of others

-- block_diag(tensors): matrices along the diagonal of one, zeros elsewhere; vectors are rows.
--   y = op.block_diag(op.ones{2, 2}, op.ones{1, 3})      -- f32[3,5]
function T.block_diag(...)
  local list, columns, at, rows = {}, 0, 0, {}
  for i, x in ipairs(tensors("block_diag", ...)) do
    if x.ndim > 2 then core.fail(("block_diag: tensor %d is %s, and no matrix"):format(i, core.type_text(x))) end
    list[i] = x.ndim < 2 and x:reshape(1, -1) or x
    columns = columns + list[i].shape[2]
  end
  for i, x in ipairs(list) do
    rows[i] = op.pad(x, { pads = { at, columns - at - x.shape[2] } })
    at = at + x.shape[2]
  end
  return op.concat(rows, { axis = 0 })
end

-- cartesian_prod(tensors): all tuples of one element of each vector, as rows; the last varies fastest.
--   y = op.cartesian_prod(op.arange(2), op.arange(3))      -- i64[6,2]
function T.cartesian_prod(...)
  local list = tensors("cartesian_prod", ...)
  if #list == 1 then return list[1] end
  local grids = { op.meshgrid(unpack(list)) }
  for i, g in ipairs(grids) do grids[i] = g:reshape(-1) end
  return op.stack(grids, { axis = 1 })
end

local read_combinations = options.placed("combinations", { r = COUNT, replacement = FLAG }, { r = 2, replacement = false }, { "r", "replacement" })
-- combinations(x, {r = 2, replacement = false}): all r elements of a vector in its order, as rows; with replacement one
-- may stand again.
--   y = op.combinations(op.arange(3))      -- i64[3,2]
function T.combinations(x, ...)
  need("combinations", "x", TENSOR, x)
  local o = read_combinations(...)
  local r, n, again = o.r, x.numel, o.replacement
  if r == 0 or n == 0 or (n < r and not again) then return op.zeros({ 0, r }, { dtype = x.dtype }) end
  -- Those of k elements: of k - 1, the last of which is `last`, and one behind it, with which r can be reached.
  local values, before, last, count = {}, {}, op.arange(1) - 1, 1
  for k = 1, r do
    local behind = again and n or n - r + k
    count = math.floor(count * ((again and n - 1 or n - r) + k) / k + 0.5)
    need_room("combinations", count * r, "elements")
    local first = (again and k > 1) and last or last + 1
    local run, place = runs(behind - first, count)
    last = place + op.take(first, run)
    values[k], before[k] = last, run
  end
  local columns, at = {}, op.arange(count)
  for k = r, 1, -1 do
    columns[k], at = op.take(values[k], at), op.take(before[k], at)
  end
  return op.take(x, op.stack(columns, { axis = 1 }))
end

local read_vander = options.placed("vander", { n = COUNT, increasing = FLAG }, { increasing = false }, { "n", "increasing" })
-- vander(x, {n, increasing = false}): the powers n - 1 .. 0 of a vector's elements as columns, or 0 .. n - 1 if
-- increasing; n is the length of x by default.
--   y = op.vander(op.arange(3):cast "f32")      -- f32[3,3]
function T.vander(x, ...)
  need("vander", "x", TENSOR, x)
  local o, powers = read_vander(...), {}
  local n = o.n or x.shape[x.ndim] or 1
  need_room("vander", math.max(n, n * x.numel), "elements")
  local p = op.ones_like(x)
  for i = 1, n do
    powers[o.increasing and i or n + 1 - i] = p
    if i < n then p = p * x end
  end
  if n == 0 then return op.zeros({ x.numel, 0 }, { dtype = x.dtype }) end
  return op.stack(powers, { axis = -1 })
end

local read_logspace = options.placed("logspace", { num = COUNT, base = options.number { above = 0 }, dtype = options.dtype }, { num = 50, base = 10, dtype = "f32" },
  { "num", "base", "dtype" })
-- logspace(start, stop, {num = 50, base = 10, dtype = "f32"}): base to the powers that op.linspace gives.
--   y = op.logspace(0, 2, 3)      -- 1, 10, 100
function T.logspace(start, stop, ...)
  local o = read_logspace(...)
  local at = op.linspace(need("logspace", "start", options.number(), start), need("logspace", "stop", options.number(), stop),
    { num = o.num, dtype = "f64" })
  return op.pow(op.full({}, o.base, { dtype = "f64" }), at):cast(o.dtype)
end

-- ---- statistics

local reduce = { axis = options.each(AXIS), correction = options.number(), keepdims = FLAG }
local reduced = { correction = 1, keepdims = false }
local read_std_mean, read_var_mean = options.of("std_mean", reduce, reduced), options.of("var_mean", reduce, reduced)
-- std_mean(x, {axis, correction = 1, keepdims = false}): op.std with PyTorch's correction, and op.mean: two results.
--   local s, m = op.std_mean(op.ones{2, 3}, {axis = 1})
function T.std_mean(x, given)
  local o = read_std_mean(given)
  return op.std(x, { axis = o.axis, correction = o.correction, keepdims = o.keepdims }),
    op.mean(x, { axis = o.axis, keepdims = o.keepdims })
end
-- var_mean(x, {axis, correction = 1, keepdims = false}): op.var with PyTorch's correction, and op.mean: two results.
--   local v, m = op.var_mean(op.ones{2, 3}, {axis = 1})
function T.var_mean(x, given)
  local o = read_var_mean(given)
  return op.var(x, { axis = o.axis, correction = o.correction, keepdims = o.keepdims }),
    op.mean(x, { axis = o.axis, keepdims = o.keepdims })
end

local read_aminmax = options.of("aminmax", { axis = AXIS, keepdims = FLAG }, { keepdims = false })
-- aminmax(x, {axis, keepdims = false}): op.min and op.max: two results.
--   local low, high = op.aminmax(op.arange(4))
function T.aminmax(x, given)
  local o = read_aminmax(given)
  return op.min(x, o), op.max(x, o)
end

local read_cov = options.placed("cov", { correction = options.number() }, { correction = 1 }, { "correction" })
-- cov(x, {correction = 1}): covariances of the rows of x, of which columns are observations: sums over n - correction.
--   y = op.cov(op.eye(3))      -- f32[3,3]
function T.cov(x, ...)
  need("cov", "x", TENSOR, x)
  local correction = read_cov(...).correction
  if x.ndim > 2 then core.fail(("cov: x is %s, and no matrix of observations"):format(core.type_text(x))) end
  local rows = x.ndim < 2 and x:reshape(1, -1) or x
  local d = rows - rows:mean { axis = 1, keepdims = true }
  local y = d:matmul(d.dtype:match "^complex" and d:T():conj() or d:T()) / math.max(rows.shape[2] - correction, 0)
  return x.ndim < 2 and y:reshape {} or y
end

-- corrcoef(x): correlations of the rows of x, covariances over the roots of both variances.
--   y = op.corrcoef(op.eye(3))      -- f32[3,3]
function T.corrcoef(x)
  local c = T.cov(x)
  if c.ndim == 0 then return c / c end
  local s = c:diagonal():sqrt()
  return (c / s:unsqueeze(1) / s:unsqueeze(0)):clamp(-1, 1)
end

local METHOD = options.one_of("linear", "lower", "higher", "midpoint", "nearest")
local read_nanquantile = options.placed("nanquantile", { axis = AXIS, keepdims = FLAG, method = METHOD }, { keepdims = false, method = "linear" },
  { "axis", "keepdims", "method" })
-- nanquantile(x, q, {axis, keepdims = false, method = "linear"}): op.quantiles of what is not NaN, NaN where nothing is: of
-- all elements, or along an axis. q is a number, or a list, whose results stand along a new first axis.
--   y = op.nanquantile(op.arange(5):cast "f32", 0.5)      -- 2
function T.nanquantile(x, q, ...)
  need("nanquantile", "x", TENSOR, x)
  need("nanquantile", "q", options.each(options.number { least = 0, most = 1 }), q)
  local o = read_nanquantile(...)
  if not x.dtype:match "^b?f" then x = x:cast "f32" end
  local ndim, axis = x.ndim, o.axis and axis_of(x, o.axis) or 0
  if not o.axis then x = x:reshape(-1) end
  if axis >= math.max(ndim, 1) or axis < 0 then core.fail(("nanquantile: axis %d is out of range for %s"):format(o.axis, core.type_text(x))) end
  if x.shape[axis + 1] == 0 then -- nothing is as one NaN
    local shape = { unpack(x.shape) }
    shape[axis + 1] = 1
    x = op.full(shape, 0 / 0, { dtype = x.dtype }):to(x.device)
  end
  local sorted = op.sort(x, { axis = axis })
  local last = op.isnan(x):logical_not():sum { axis = axis, keepdims = true } - 1 -- the place of the largest number
  local function at(place) return op.gather(sorted, op.maximum(place, 0):cast "i64", { axis = axis }) end
  local function one(q)
    local place = last:cast "f64" * q
    local low, high = op.floor(place), op.ceil(place)
    if o.method == "nearest" then low = op.round(place) elseif o.method == "higher" then low = high end
    local y = at(low)
    if o.method == "midpoint" or o.method == "linear" then
      local share = o.method == "linear" and (place - low):cast(x.dtype) or op.where(op.eq(low, high), 0, 0.5):cast(x.dtype)
      y = op.where(op.eq(share, 0), y, y + (at(high) - y) * share)
    end
    if o.axis then return o.keepdims and y or y:squeeze(axis) end
    local ones = {}
    for i = 1, o.keepdims and ndim or 0 do ones[i] = 1 end
    return y:reshape(ones)
  end
  if type(q) == "number" then return one(q) end
  local list = {}
  for i, v in ipairs(q) do list[i] = one(v) end
  return op.stack(list, { axis = 0 })
end

local read_histc = options.placed("histc", { bins = options.whole { least = 1 }, min = options.number(), max = options.number() }, { bins = 100, min = 0, max = 0 },
  { "bins", "min", "max" })
-- histc(x, {bins = 100, min = 0, max = 0}): counts of op.histogram in the type of x, without its edges; of the range of
-- x where min is max.
--   y = op.histc(op.arange(4):cast "f32", 2)      -- 2, 2
function T.histc(x, ...)
  need("histc", "x", TENSOR, x)
  local o = read_histc(...)
  local low, high = o.min, o.max
  local counts = op.histogram(x:reshape(-1), low == high and { bins = o.bins } or { bins = o.bins, low = low, high = high })
  return counts:cast(x.dtype)
end

local read_cumtrapezoid = options.placed("cumulative_trapezoid", { dx = options.number(), axis = AXIS }, { dx = 1, axis = -1 }, { "dx", "axis" })
-- cumulative_trapezoid(y, {dx = 1, axis = -1}): running integrals along axis by the trapezoidal rule, dx apart: one less
-- than y has.
--   y = op.cumulative_trapezoid(op.ones{4})      -- 1, 2, 3
function T.cumulative_trapezoid(y, ...)
  need("cumulative_trapezoid", "y", TENSOR, y)
  local o = read_cumtrapezoid(...)
  local axis = need_axis("cumulative_trapezoid", y, o.axis)
  local n = y.shape[axis + 1]
  if n == 0 then return op.cumsum(y * (o.dx / 2), { axis = axis }) end
  return op.cumsum((y:narrow(axis, 0, n - 1) + y:narrow(axis, 1, n - 1)) * (o.dx / 2), { axis = axis })
end

-- dist(x, y [, p]): the norm of order p, by default 2, of x - y.
--   y = op.dist(op.ones{4}, op.zeros{4})      -- 2
function T.dist(x, y, p)
  need("dist", "x", TENSOR, x)
  need("dist", "y", options.operand, y)
  return op.norm(x - y, { ord = need("dist", "p", options.number(), p or 2) })
end

local ONES, SIZES = options.each(options.whole { least = 1 }, 2), options.each(COUNT, 2)
local read_col2im = options.of("col2im", { size = options.needed(options.list(COUNT, 2)), window = options.needed(ONES), stride = ONES,
  padding = SIZES, dilation = ONES }, { stride = 1, padding = 0, dilation = 1 })
-- col2im(x, {size, window, stride = 1, padding = 0, dilation = 1}): the reverse of op.im2col, elements of windows added up
-- where they overlap, as PyTorch's fold: [.., C kh kw, windows] -> [.., C, H, W] with size {H, W}.
--   y = op.col2im(op.ones{1, 4, 9}, {size = {4, 4}, window = 2})      -- f32[1,1,4,4]
function T.col2im(x, given)
  need("col2im", "x", TENSOR, x)
  local o = read_col2im(given)
  local function two(v) return type(v) == "table" and v or { v, v } end
  local k, s, p, d = two(o.window), two(o.stride), two(o.padding), two(o.dilation)
  local places, shape, n = {}, { unpack(x.shape) }, x.ndim
  for i = 1, 2 do places[i] = math.floor((o.size[i] + 2 * p[i] - d[i] * (k[i] - 1) - 1) / s[i]) + 1 end
  if n < 2 or places[1] * places[2] ~= shape[n] or shape[n - 1] % (k[1] * k[2]) ~= 0 then
    core.fail(("col2im: %s is not of %d x %d windows of %d x %d elements"):format(core.type_text(x), places[1], places[2], k[1], k[2]))
  end
  local lead = { unpack(shape, 1, n - 2) }
  lead[#lead + 1] = shape[n - 1] / (k[1] * k[2])
  local m = #lead
  local sizes = { unpack(lead) }
  for _, v in ipairs { k[1], k[2], places[1], places[2] } do sizes[#sizes + 1] = v end
  local order = {}
  for i = 0, m - 1 do order[i + 1] = i end
  for _, i in ipairs { m + 2, m + 3, m, m + 1 } do order[#order + 1] = i end -- places, then windows
  local v = x:reshape(sizes):permute(order)
  for i = 2, 1, -1 do -- the last axis holds the windows of axis m + i - 1
    if d[i] > 1 then
      local wide = { unpack(v.shape) }
      wide[#wide] = (k[i] - 1) * d[i] + 1
      local start, stop, step = {}, {}, {}
      for a = 1, #wide do start[a], stop[a], step[a] = 0, wide[a], a == #wide and d[i] or 1 end
      v = op.slice_update(op.zeros(wide, { dtype = v.dtype }):to(v.device), v, { start = start, stop = stop, step = step })
    end
    v = op.fold(v, { axis = m + i - 1, length = o.size[i] + 2 * p[i], step = s[i] })
  end
  return v:narrow(m, p[1], o.size[1]):narrow(m + 1, p[2], o.size[2])
end

return T
