-- Collectives by name: between the parts of dist.map, and, where that has a meaning, of tensors over a mesh.
--
-- Inside of dist.map each of these functions stops the part that calls it; when all parts stand at the same one, map.lua asks
-- here what goes where (routing.lua), and all of them go on.

local core = require "tessera.core"
local grid = require "tessera.dist.grid"
local options = require "tessera.options"
local routing = require "tessera.dist.routing"
local spec = require "tessera.dist.spec"

local collectives = {}
local inside = setmetatable({}, { __mode = "k" }) -- by coroutine: {mesh, part}

--- For map.lua: this coroutine is that part of the mesh.
function collectives.enter(co, mesh, part) inside[co] = { mesh = mesh, part = part } end
function collectives.here() return inside[coroutine.running() or false] end

-- The program's line that calls.
local function place()
  for level = 3, 12 do
    local info = debug.getinfo(level, "Sl")
    if not info then break end
    if info.source:sub(1, 1) ~= "=" and info.currentline > 0 then
      return ("%s:%d"):format(info.short_src:match "[^/]*$", info.currentline)
    end
  end
  return "?"
end

-- ---- arguments
local function axes_of(mesh, axis, what)
  local list = type(axis) == "table" and axis or axis == nil and mesh.axes or { axis }
  local numbers = {}
  for i, name in ipairs(list) do numbers[i] = grid.axis_index(mesh, name, what) end
  return numbers
end

local AXIS = options.whole {}
local readers = {
  all_reduce = options.of("dist.all_reduce", { op = options.one_of("sum", "max", "min") }, { op = "sum" }),
  reduce_scatter = options.of("dist.reduce_scatter", { dim = AXIS }, { dim = 0 }),
  all_gather = options.of("dist.all_gather", { dim = AXIS }, { dim = 0 }),
  all_to_all = options.of("dist.all_to_all", { split = AXIS, concat = AXIS, sizes = options.list(options.whole { least = 0 }) },
    { split = 0, concat = 0 }),
  broadcast = options.of("dist.broadcast", { from = options.whole { least = 0 } }, { from = 0 }),
  scatter = options.of("dist.scatter", { from = options.whole { least = 0 }, dim = AXIS }, { from = 0, dim = 0 }),
  gather = options.of("dist.gather", { to = options.whole { least = 0 }, dim = AXIS }, { to = 0, dim = 0 }),
}

local function axis_of(x, dim, what)
  local d = dim < 0 and dim + x.ndim or dim
  if d < 0 or d >= x.ndim then core.fail(("%s: axis %d of a tensor of %d axes"):format(what, dim, x.ndim)) end
  return d
end

-- Stops this part at a collective, and gives what it gets. word: what has to be the same for all parts.
local function stop(kind, x, axis, o, word)
  local here = collectives.here()
  local what = "dist." .. kind
  if x ~= nil and not core.is_tensor(x) then core.fail(("%s: x must be a tensor, not a %s"):format(what, type(x))) end
  local axes = axes_of(here.mesh, axis, what)
  for i, name in ipairs { "dim", "split", "concat" } do
    if o[name] then o[name] = axis_of(x, o[name], what) end
    if i == 1 and o[name] then word = (word or "") .. o[name] end
  end
  return coroutine.yield { kind = kind, x = x, axes = axes, options = o, place = place(),
    key = ("%s %s %s"):format(kind, table.concat(axes, ","), word or "") }
end

-- ---- what goes where
-- Parts that differ along these axes alone, in the order of their places.
local function groups(mesh, axes)
  local list, by_key = {}, {}
  for p = 0, mesh.n - 1 do
    local at, key, rank = mesh:place(p), {}, 0
    for a, name in ipairs(mesh.axes) do
      local is = false
      for _, i in ipairs(axes) do is = is or i == a - 1 end
      key[a] = is and "*" or at[name]
    end
    for _, i in ipairs(axes) do rank = rank * mesh.shape[i + 1] + at[mesh.axes[i + 1]] end
    local id = table.concat(key, " ")
    if not by_key[id] then
      by_key[id] = {}
      list[#list + 1] = by_key[id]
    end
    by_key[id][rank + 1] = p
  end
  return list
end

-- Where piece i of n pieces begins, as layouts cut (lib/mesh.h).
local function cut(size, n, i) return math.floor(i * size / n) end

local function whole(list)
  local b = { sources = {} }
  for i, from in ipairs(list) do b.sources[i] = { from = from } end
  return b
end

local function piece(list, dim, size, n, i)
  local start = cut(size, n, i)
  local b = { dim = dim, count = cut(size, n, i + 1) - start, sources = {} }
  for k, from in ipairs(list) do b.sources[k] = { from = from, start = start } end
  return b
end

-- By kind: the out of place i of a group, as blocks and the axis along which they stand; nil: it gets nothing. group: the numbers
-- of its inputs, r: by input its request.
local plans = {}

function plans.all_reduce(group) return { whole(group) } end
function plans.broadcast(group, r) return { whole { group[r[1].options.from + 1] } } end

function plans.reduce_scatter(group, r, i)
  local dim = r[1].options.dim
  return { piece(group, dim, r[1].x.shape[dim + 1], #group, i) }
end

function plans.all_gather(group, r)
  local blocks = {}
  for k, from in ipairs(group) do blocks[k] = whole { from } end
  return blocks, r[1].options.dim
end

function plans.scatter(group, r, i)
  local from, dim = r[1].options.from + 1, r[1].options.dim
  return { piece({ group[from] }, dim, r[from].x.shape[dim + 1], #group, i) }
end

function plans.gather(group, r, i)
  if i ~= r[1].options.to then return nil end
  return plans.all_gather(group, r)
end

function plans.all_to_all(group, r, i)
  local blocks, n = {}, #group
  for k, from in ipairs(group) do
    local o, x = r[k].options, r[k].x
    local size = x.shape[o.split + 1]
    if o.sizes then
      local start, sum = 0, 0
      for j, s in ipairs(o.sizes) do
        sum = sum + s
        if j <= i then start = start + s end
      end
      if #o.sizes ~= n or sum ~= size then
        core.fail(("dist.all_to_all: sizes are %d numbers that add up to %d, for %d parts and %d elements"):format(#o.sizes, sum, n, size))
      end
      blocks[k] = { dim = o.split, count = o.sizes[i + 1], sources = { { from = from, start = start } } }
    else
      blocks[k] = piece({ from }, o.split, size, n, i)
    end
  end
  return blocks, r[1].options.concat
end

function plans.permute(group, r, i)
  for _, pair in ipairs(r[1].options.pairs) do
    if pair[2] == i then return { whole { group[pair[1] + 1] } } end
  end
  return { { sources = {}, shape = { unpack(r[i + 1].x.shape) } } }
end

local function same_shapes(kind, r)
  for i = 2, #r do
    local a, b = r[1].x, r[i].x
    if a.dtype ~= b.dtype or (kind ~= "all_gather" and kind ~= "gather" and kind ~= "all_to_all" and tostring(a.shape) ~= tostring(b.shape)) then
      core.fail(("dist.%s: parts have %s and %s (%s)"):format(kind, core.type_text(a), core.type_text(b), r[i].place))
    end
  end
end

local function check_place(kind, n, i, name)
  if i and i >= n then core.fail(("dist.%s: %s = %d, of %d parts"):format(kind, name, i, n)) end
end

--- What each part of the mesh gets, a list by part from 1 (nil: nothing). requests: of each part.
function collectives.run(mesh, requests)
  local first = requests[1]
  if first.kind == "barrier" then
    core.world_tell("", "barrier") -- other processes, if there are any
    return {}
  end
  local r = { mesh = mesh, kind = first.kind, axes = first.axes, parts = {}, outs = {} }
  if first.options.op ~= "sum" then r.op = first.options.op end
  local inputs = {}
  for p = 1, mesh.n do inputs[p], r.parts[p] = requests[p].x, p - 1 end
  local of = {}
  for _, group in ipairs(groups(mesh, first.axes)) do
    local own, numbers = {}, {}
    for i, p in ipairs(group) do own[i], numbers[i] = requests[p + 1], p + 1 end
    same_shapes(first.kind, own)
    check_place(first.kind, #group, first.options.from, "from")
    check_place(first.kind, #group, first.options.to, "to")
    for i, p in ipairs(group) do
      local blocks, dim = plans[first.kind](numbers, own, i - 1)
      if blocks then
        r.outs[#r.outs + 1] = { part = p, dim = #blocks > 1 and dim or nil, blocks = blocks }
        of[p + 1] = #r.outs
      end
    end
  end
  local made, result = routing.apply(r, inputs), {}
  for p = 1, mesh.n do result[p] = of[p] and made[of[p]] end
  return result
end

--- What a part sends another: its tensor, there.
function collectives.sent(mesh, x, from, to)
  local r = { mesh = mesh, kind = "permute", axes = {}, parts = { from }, outs = { { part = to, blocks = { whole { 1 } } } } }
  return routing.apply(r, { x })[1]
end

-- ---- of tensors over a mesh
local function over_mesh(x, what)
  local l = core.is_tensor(x) and core.mesh_layout_of(x)
  if not l then
    core.fail(("%s: it stands in dist.map, or its tensor is over a mesh, not %s"):format(what,
      core.is_tensor(x) and "on " .. tostring(x.device) or x == nil and "nothing" or "a " .. type(x)))
  end
  local s, mesh = spec.of_layout(l)
  return s, mesh
end

local function names_of(mesh, axis, what)
  local names = {}
  for i, a in ipairs(axes_of(mesh, axis, what)) do names[i] = mesh.axes[a + 1] end
  return names
end

local function without(list, names)
  local rest, found = {}, 0
  for _, name in ipairs(list or {}) do
    local is = false
    for _, n in ipairs(names) do is = is or n == name end
    if is then found = found + 1 else rest[#rest + 1] = name end
  end
  return rest, found
end

local function moved(x, mesh, s, ndim) return core.mesh_move(x, spec.layout(mesh, s, ndim), "reshard") end

local function reduced(x, axis, what, dim)
  local s, mesh = over_mesh(x, what)
  local names = names_of(mesh, axis, what)
  local rest, found = without(s.over, names)
  if found < #names then
    core.fail(("%s: %s has no summands along %s"):format(what, core.type_text(x), table.concat(names, ", ")))
  end
  s.over = rest
  if #rest == 0 then s.leaves = nil end -- they were those of the summands
  if dim then
    s.axes[dim] = s.axes[dim] or {}
    for _, name in ipairs(names) do table.insert(s.axes[dim], name) end
  end
  return moved(x, mesh, s, x.ndim)
end

-- ---- the functions
-- all_reduce(x, axis [, {op = "sum"}]): in dist.map: the sum (or "max", "min") of what the parts along the axis of the mesh have,
-- added in the canonical tree, for each of them; an axis is a name, a list of names, or nil: all. Of a tensor over a mesh: its
-- summands along the axis are added up.
--   local function body(x) return dist.all_reduce(x:sum(), "dp") end
--   local y = dist.map(mesh, {{"dp"}}, {{}}, body)(x)
function collectives.all_reduce(x, axis, o)
  if not collectives.here() then return reduced(x, axis, "dist.all_reduce") end
  o = readers.all_reduce(type(o) == "string" and { op = o } or o)
  return stop("all_reduce", x, axis, o, o.op)
end

-- reduce_scatter(x, axis [, {dim = 0}]): the sum over the parts along the axis, of which each part gets its piece along dim.
--   local function body(x) return dist.reduce_scatter(x, "dp", {dim = 0}) end
function collectives.reduce_scatter(x, axis, o)
  o = readers.reduce_scatter(o)
  if not collectives.here() then return reduced(x, axis, "dist.reduce_scatter", axis_of(x, o.dim, "dist.reduce_scatter")) end
  return stop("reduce_scatter", x, axis, o)
end

-- all_gather(x, axis [, {dim = 0}]): what the parts along the axis have, behind each other along dim, for each of them. Of a
-- tensor over a mesh: it is not split by the axis any more.
--   local function body(x) return dist.all_gather(x, "tp", {dim = 1}) end
function collectives.all_gather(x, axis, o)
  o = readers.all_gather(o)
  if collectives.here() then return stop("all_gather", x, axis, o) end
  local s, mesh = over_mesh(x, "dist.all_gather")
  local names = names_of(mesh, axis, "dist.all_gather")
  for d, list in pairs(s.axes) do s.axes[d] = without(list, names) end
  return moved(x, mesh, s, x.ndim)
end

-- all_to_all(x, axis [, {split = 0, concat = 0, sizes}]): each part cuts its tensor along split, in equal pieces or of these
-- sizes, one for each part along the axis, which puts what it gets behind each other along concat. Of a tensor over a mesh: the
-- axis, which splits concat, splits `split` instead.
--   local how = {sizes = {3, 1}}
--   local function body(x) return dist.all_to_all(x, "ep", how) end
function collectives.all_to_all(x, axis, o)
  o = readers.all_to_all(o)
  if collectives.here() then return stop("all_to_all", x, axis, o, ("%d %d"):format(o.split, o.concat)) end
  local s, mesh = over_mesh(x, "dist.all_to_all")
  local names, from, to = names_of(mesh, axis, "dist.all_to_all"), axis_of(x, o.concat, "dist.all_to_all"), axis_of(x, o.split, "dist.all_to_all")
  local rest, found = without(s.axes[from], names)
  if found < #names then
    core.fail(("dist.all_to_all: axis %d of %s is not split by %s"):format(from, core.type_text(x), table.concat(names, ", ")))
  end
  s.axes[from] = rest
  s.axes[to] = s.axes[to] or {}
  for _, name in ipairs(names) do table.insert(s.axes[to], name) end
  return moved(x, mesh, s, x.ndim)
end

local function inside_only(what)
  if not collectives.here() then
    core.fail(("%s: it stands in the function of dist.map, where a part has its own tensors"):format(what))
  end
end

-- broadcast(x, axis [, {from = 0}]): in dist.map: the tensor of the part at place `from` along the axis, for all of them.
--   local function body(x) return dist.broadcast(x, "dp", {from = 1}) end
function collectives.broadcast(x, axis, o)
  inside_only "dist.broadcast"
  o = readers.broadcast(o)
  return stop("broadcast", x, axis, o, tostring(o.from))
end

-- scatter(x, axis [, {from = 0, dim = 0}]): in dist.map: the tensor of the part at place `from`, of which each part along the
-- axis gets its piece along dim.
--   local function body(x) return dist.scatter(x, "dp") end
function collectives.scatter(x, axis, o)
  inside_only "dist.scatter"
  o = readers.scatter(o)
  return stop("scatter", x, axis, o, tostring(o.from))
end

--- dist.gather of a part: what the parts have, behind each other, for the one at place `to`; nil for the others.
function collectives.gather_parts(x, axis, o)
  o = readers.gather(o)
  return stop("gather", x, axis, o, tostring(o.to))
end

-- permute(x, axis, pairs): in dist.map: each {from, to} of the list sends the tensor of the part at place `from` along the axis
-- to the one at `to`; a number n sends from each place to the n-th behind it, around the end. Who gets nothing has zeros.
--   local function body(x) return dist.permute(x, "pp", 1) end
function collectives.permute(x, axis, pairs)
  inside_only "dist.permute"
  local here, list = collectives.here(), {}
  local n = 1
  for _, a in ipairs(axes_of(here.mesh, axis, "dist.permute")) do n = n * here.mesh.shape[a + 1] end
  if type(pairs) == "number" and pairs % 1 == 0 then
    for i = 0, n - 1 do list[i + 1] = { i, (i + pairs) % n } end
  elseif type(pairs) == "table" then
    list = pairs
  else
    core.fail "dist.permute: pairs {from, to}, or how many places further\n  hint: dist.permute(x, \"pp\", 1)"
  end
  local gets, words = {}, {}
  for i, pair in ipairs(list) do
    local from, to = type(pair) == "table" and pair[1], type(pair) == "table" and pair[2]
    for _, k in ipairs { from, to } do
      if type(k) ~= "number" or k < 0 or k >= n then core.fail(("dist.permute: place %s, of %d parts"):format(tostring(k), n)) end
    end
    if not from or not to then core.fail "dist.permute: a pair is {from, to}" end
    if gets[to] then core.fail(("dist.permute: part %d gets two tensors"):format(to)) end
    gets[to], words[i] = true, ("%d>%d"):format(from, to)
  end
  return stop("permute", x, axis, { pairs = list }, table.concat(words, " "))
end

-- send(x, axis, to): in dist.map: gives x to the part at place `to` along the axis, which calls dist.recv.
--   local function body(h)
--     if dist.place "pp" > 0 then return dist.recv("pp", 0) end
--     dist.send(h, "pp", 1)
--     return h
--   end
function collectives.send(x, axis, to)
  inside_only "dist.send"
  return stop("send", x, axis, { to = to }, tostring(to))
end

-- recv(axis, from): in dist.map: what the part at place `from` along the axis sends with dist.send.
--   local function body() return dist.recv("pp", 0) end
function collectives.recv(axis, from)
  inside_only "dist.recv"
  return stop("recv", nil, axis, { from = from }, tostring(from))
end

-- barrier(): in dist.map: goes on when all parts have come here.
--   local function body(x) dist.barrier() return x end
function collectives.barrier()
  inside_only "dist.barrier"
  stop("barrier", nil, nil, {})
end

-- place([axis]): in dist.map: where this part stands along an axis of the mesh, from 0; without an axis its number.
--   local function body(x) return x + dist.place "tp" end
function collectives.place(axis)
  inside_only "dist.place"
  local here = collectives.here()
  if axis == nil then return here.part end
  grid.axis_index(here.mesh, axis, "dist.place")
  return here.mesh:place(here.part)[axis]
end

return collectives
