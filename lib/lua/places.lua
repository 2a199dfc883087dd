-- Functions of places in images, made of operators. Loaded by op when one is first named (named_functions.lua).

local core = require "tessera.core"
local options = require "tessera.options"
local op = core.op
local need, TENSOR = options.argument, options.tensor
local SIZE, COUNT = options.whole { least = 0 }, options.whole { least = 1 }
local P = {}

local read_affine = options.placed("affine_grid", { align_corners = options.flag }, { align_corners = false }, { "align_corners" })
-- affine_grid(theta, size, {align_corners = false}): the grid of op.grid_sample for images of that size, {N, C, H, W} or {N, C,
-- D, H, W}, whose places are moved by the matrices theta [N, 2, 3] or [N, 3, 4]: [N, H, W, 2], or [N, D, H, W, 3].
--   theta = tessera.tensor{{{1, 0, 0}, {0, 1, 0}}}
--   y = op.grid_sample(op.ones{1, 1, 4, 4}, op.affine_grid(theta, {1, 1, 4, 4}))
function P.affine_grid(theta, size, ...)
  need("affine_grid", "theta", TENSOR, theta)
  need("affine_grid", "size", options.list(COUNT, nil, 1), size)
  local o, axes = read_affine(...), #size - 2
  if (axes ~= 2 and axes ~= 3) or theta.ndim ~= 3 or theta.shape[1] ~= size[1] or theta.shape[2] ~= axes or theta.shape[3] ~= axes + 1 then
    core.fail(("affine_grid: theta %s does not fit size {%s}: [N, 2, 3] and {N, C, H, W} are needed, or [N, 3, 4] and {N, C, D, H, W}"):format(
      core.type_text(theta), table.concat(size, ", ")))
  end
  local space, lines = { unpack(size, 3) }, {}
  for i = 1, axes do -- columns stand first, and are the last axis
    local n, shape = space[axes - i + 1], {}
    local line = op.arange(n, { dtype = "f64" }) * 2 - (n - 1)
    line = line / (o.align_corners and math.max(n - 1, 1) or n)
    for a = 1, axes do shape[a] = a == axes - i + 1 and n or 1 end
    lines[i] = line:reshape(shape):broadcast_to(space):reshape(-1)
  end
  lines[axes + 1] = op.ones({ lines[1].numel }, { dtype = "f64" })
  local shape = { size[1], unpack(space) }
  shape[#shape + 1] = axes
  local places = op.stack(lines, { axis = -1 }):cast(theta.dtype):to(theta.device)
  return op.matmul(places, theta:T()):reshape(shape)
end

local SIZES = options.each(SIZE)
local read_unpool = options.of("max_unpool", { window = options.needed(options.each(COUNT)), stride = options.each(COUNT), padding = SIZES,
  size = options.list(COUNT) }, { padding = 0 })
-- max_unpool(x, index, {window, stride = window, padding = 0, size}): the elements of x [N, C, ..], which op.max_pool gave, at
-- their places in the image, which op.max_pool_index gave, and zeros elsewhere. size is that of the space axes; the least
-- that has those windows if it is not given.
--   image = rng.normal{1, 2, 4, 4}
--   y = op.max_unpool(op.max_pool(image, {window = 2}), op.max_pool_index(image, {window = 2}), {window = 2})
function P.max_unpool(x, index, given)
  need("max_unpool", "x", TENSOR, x)
  need("max_unpool", "index", TENSOR, index)
  local o, axes = read_unpool(given), x.ndim - 2
  if axes < 1 or table.concat(index.shape, ",") ~= table.concat(x.shape, ",") then
    core.fail(("max_unpool: x and index are [N, C, ..] of one shape, not %s and %s"):format(core.type_text(x), core.type_text(index)))
  end
  local function each(v, name)
    if type(v) == "number" then return setmetatable({}, { __index = function() return v end }) end
    if #v ~= axes then core.fail(("max_unpool: %s has %d numbers for %d axes"):format(name, #v, axes)) end
    return v
  end
  local window, padding = each(o.window, "window"), each(o.padding, "padding")
  local stride = each(o.stride or o.window, "stride")
  local size, count = {}, 1
  for i = 1, axes do
    size[i] = o.size and each(o.size, "size")[i] or (x.shape[i + 2] - 1) * stride[i] - 2 * padding[i] + window[i]
    count = count * size[i]
  end
  local n, c = x.shape[1], x.shape[2]
  local flat = index:reshape(n, c, -1)
  if not core.capturing() and index.numel > 0 and (index:max():item() >= count or index:min():item() < 0) then
    core.fail(("max_unpool: a place is none of %d elements of size {%s}"):format(count, table.concat(size, ", ")))
  end
  local zeros = op.zeros({ n, c, count }, { dtype = x.dtype, device = x.device })
  return op.scatter(zeros, flat, x:reshape(n, c, -1), { axis = -1 }):reshape { n, c, unpack(size) }
end

return P
