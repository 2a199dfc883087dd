-- dist.map: a program of one part, run for each part of a mesh. Parts are coroutines that run until they stand at a collective;
-- when all stand at the same one it is done (collectives.lua). What goes in and comes out are functions with gradients, so
-- backward() and captured functions go through all of it.

local core = require "tessera.core"
local collectives = require "tessera.dist.collectives"
local grid = require "tessera.dist.grid"
local spec = require "tessera.dist.spec"

local map = {}
local count = 0

local function custom(name, forward, adjoint, inputs, types)
  count = count + 1
  local f = core.custom(name, 2 ^ 50 + count, { forward = forward, adjoint = adjoint })
  return { core.custom_call(f, inputs, types) }
end

-- ---- in and out
-- By part, from 1: the first part that has the same elements.
local function firsts(layout, shape, mesh)
  local first, seen = {}, {}
  local s = spec.of_layout(layout)
  local matters = {}
  for _, list in pairs(s.axes) do
    for _, name in ipairs(list) do matters[name] = true end
  end
  for _, name in ipairs(s.over) do matters[name] = true end
  for p = 1, mesh.n do
    local key = {}
    for name, at in pairs(mesh:place(p - 1)) do
      if matters[name] then key[#key + 1] = name .. at end
    end
    table.sort(key)
    local id = table.concat(key, " ")
    seen[id] = seen[id] or p
    first[p] = seen[id]
  end
  return first
end

-- The gradient of a tensor from those of its parts, nil where there is none: copies of one piece add up.
local function joined_gradient(x_type, layout, mesh, grads)
  local list, at = {}, {}
  for p = 1, mesh.n do
    if grads[p] then
      list[#list + 1] = grads[p]
      at[#list] = p
    end
  end
  if #list == 0 then return false end
  local first = firsts(layout, x_type.shape, mesh)
  local function forward(given)
    local by_first, parts = {}, {}
    for i, g in ipairs(given) do
      local f = first[at[i]]
      by_first[f] = by_first[f] or { list = {}, from = {} }
      table.insert(by_first[f].list, g)
      table.insert(by_first[f].from, at[i] - 1)
    end
    local rows = {}
    for p = 1, mesh.n do
      local own = by_first[first[p]]
      if own then
        rows[#rows + 1] = { part = p - 1, list = own.list, from = own.from }
      else
        parts[p] = grid.full(mesh, p - 1, core.mesh_part_shape(layout, x_type.shape, p - 1), 0, x_type.dtype)
      end
    end
    core.mesh_about("gradient", given[1])
    local sums = core.mesh_sums(mesh.id, rows)
    for i, row in ipairs(rows) do parts[row.part + 1] = sums[i] end
    return { core.mesh_join(layout, parts, x_type.shape) }
  end
  local function adjoint(_, _, g, wanted)
    local parts = map.split(g[1], layout, mesh)
    local result = {}
    for i in ipairs(list) do result[i] = wanted[i] and parts[at[i]] or false end
    return result
  end
  return custom("dist.join", forward, adjoint, list, { { dtype = x_type.dtype, shape = x_type.shape, layout = layout } })[1]
end

--- The parts of x, which lies under the layout, as tensors of their own.
function map.split(x, layout, mesh)
  local types, x_type = {}, { dtype = x.dtype, shape = { unpack(x.shape) } }
  for p = 1, mesh.n do types[p] = { dtype = x.dtype, shape = core.mesh_part_shape(layout, x_type.shape, p - 1) } end
  local function forward(list)
    local parts = core.mesh_parts(core.mesh_move(list[1], layout, "reshard"))
    for i, part in ipairs(parts) do parts[i] = part:clone() end
    return parts
  end
  local function adjoint(_, _, grads) return { joined_gradient(x_type, layout, mesh, grads) } end
  return custom("dist.split", forward, adjoint, { x }, types)
end

-- Only the first of several copies gives what they are; so only it has a gradient.
local function joined(parts, layout, shape, mesh)
  local first, x_type = firsts(layout, shape, mesh), { dtype = parts[1].dtype, shape = shape }
  local s = spec.of_layout(layout)
  local summands = s.over[1] ~= nil
  local function forward(list)
    local own = {}
    for p, part in ipairs(list) do
      own[p] = part:clone()
      if summands then own[p] = own[p]:unsqueeze(0) end
    end
    return { core.mesh_join(layout, own, shape) }
  end
  local function adjoint(_, _, grads, wanted)
    local lying = layout
    if summands then
      s.over = {}
      lying = spec.layout(mesh, s, #shape)
    end
    local own, result = map.split(grads[1], lying, mesh), {}
    for p = 1, mesh.n do result[p] = wanted[p] and first[p] == p and own[p] or false end
    return result
  end
  return custom("dist.join", forward, adjoint, parts, { { dtype = x_type.dtype, shape = shape, layout = layout } })[1]
end

-- The sizes of the whole, from those of the parts.
local function whole_shape(parts, layout, mesh)
  local s, shape = spec.of_layout(layout), { unpack(parts[1].shape) }
  for d, names in pairs(s.axes) do
    local sum, matters = 0, {}
    for _, name in ipairs(names) do matters[name] = true end
    for p = 1, mesh.n do
      local here = true
      for name, at in pairs(mesh:place(p - 1)) do here = here and (matters[name] or at == 0) end
      if here then sum = sum + parts[p].shape[d + 1] end
    end
    shape[d + 1] = sum
  end
  return shape
end

local function result_of(parts, given, k, mesh)
  local ndim
  for p, part in ipairs(parts) do
    if not core.is_tensor(part) then
      core.fail(("dist.map: result %d of part %d is %s, not a tensor"):format(k, p - 1, part == nil and "nothing" or "a " .. type(part)))
    end
    ndim = ndim or part.ndim
    if part.ndim ~= ndim or part.dtype ~= parts[1].dtype then
      core.fail(("dist.map: result %d is %s of part 0, %s of part %d"):format(k, core.type_text(parts[1]), core.type_text(part), p - 1))
    end
  end
  local s = spec.ShardSpec(given)
  if s.over[1] and not s.leaves then
    local n = 1
    for _, name in ipairs(s.over) do n = n * mesh:size(name) end
    local own = {}
    for key, v in pairs(s) do own[key] = v end
    own.leaves = n
    s = setmetatable(own, getmetatable(s))
  end
  local layout = spec.layout(mesh, s, ndim, "dist.map")
  local shape = whole_shape(parts, layout, mesh)
  for p, part in ipairs(parts) do
    local want = core.mesh_part_shape(layout, shape, p - 1)
    for d = 1, ndim do
      if want[d] ~= part.shape[d] then
        core.fail(("dist.map: result %d of part %d is %s; under %s part %d of [%s] is [%s]"):format(k, p - 1, core.type_text(part),
          tostring(s), p - 1, table.concat(shape, ","), table.concat(want, ",")))
      end
    end
  end
  return joined(parts, layout, shape, mesh)
end

-- ---- the parts run
local function ended(state)
  return state.done and ("has returned") or ("stands at dist.%s (%s)"):format(state.request.kind, state.request.place)
end

local function disagree(states, a, b)
  core.fail(("dist.map: part %d %s, part %d %s: all parts come to the same collectives, in the same order"):format(a - 1,
    ended(states[a]), b - 1, ended(states[b])))
end

local function resume(state, ...)
  core.mesh_reader(state.mesh, state.part)
  local result = { coroutine.resume(state.co, ...) }
  core.mesh_reader()
  if not result[1] then error(result[2], 0) end
  if coroutine.status(state.co) == "dead" then
    state.done, state.request = true, nil
    state.results = { n = #result - 1, unpack(result, 2) }
  else
    state.request = result[2]
  end
end

-- Whoever sends to a part that waits for it: both go on. Gives whether there were such.
local function exchange(mesh, states)
  local any = false
  for p = 1, mesh.n do
    local send = states[p].request
    if send and send.kind == "send" then
      local at = mesh:place(p - 1)
      local place = 0
      for _, a in ipairs(send.axes) do place = place * mesh.shape[a + 1] + at[mesh.axes[a + 1]] end
      for q = 1, mesh.n do
        local recv = states[q].request
        local other, same, target = mesh:place(q - 1), true, 0
        for a, name in ipairs(mesh.axes) do
          local along = false
          for _, i in ipairs(send.axes) do along = along or i == a - 1 end
          same = same and (along or at[name] == other[name])
        end
        for _, a in ipairs(send.axes) do target = target * mesh.shape[a + 1] + other[mesh.axes[a + 1]] end
        if recv and recv.kind == "recv" and same and target == send.options.to and recv.options.from == place then
          local y = collectives.sent(mesh, send.x, p - 1, q - 1)
          resume(states[p])
          resume(states[q], y)
          any = true
          break
        end
      end
    end
  end
  return any
end

local function step(mesh, states)
  if exchange(mesh, states) then return end
  local requests = {}
  for p, state in ipairs(states) do
    local first = states[1]
    if state.done ~= first.done or (state.request and state.request.key ~= first.request.key) then disagree(states, 1, p) end
    requests[p] = state.request
  end
  local kind = requests[1].kind
  if kind == "send" or kind == "recv" then
    core.fail(("dist.map: every part stands at dist.%s (%s), and nobody answers"):format(kind, requests[1].place))
  end
  local results = collectives.run(mesh, requests)
  for p, state in ipairs(states) do resume(state, results[p]) end
end

local function run(mesh, f, args)
  local states, running = {}, true
  for p = 1, mesh.n do
    local co = coroutine.create(f)
    collectives.enter(co, mesh, p - 1)
    states[p] = { co = co, done = false, mesh = mesh.id, part = p - 1 }
    resume(states[p], unpack(args[p], 1, args[p].n))
  end
  while running do
    running = false
    for _, state in ipairs(states) do running = running or not state.done end
    if running then step(mesh, states) end
  end
  return states
end

-- ---- the function
-- One spec, or a list of them: a list of tables is one.
local function specs_of(given, what)
  if type(given) ~= "table" then core.fail(("dist.map: %s is a ShardSpec, or a list of them"):format(what)) end
  local many = given[1] ~= nil
  for k, v in pairs(given) do many = many and type(k) == "number" and type(v) == "table" end
  if not many then return { spec.ShardSpec(given) } end
  local list = {}
  for i, s in ipairs(given) do list[i] = spec.ShardSpec(s) end
  return list
end

local function run_all(mesh, ins, outs, f, ...)
  local n, args = select("#", ...), {}
  for p = 1, mesh.n do args[p] = { n = n } end
  for i = 1, n do
    local x = (select(i, ...))
    if core.is_tensor(x) then
      local s = ins[i] or #ins == 1 and n == 1 and ins[1]
      if not s then core.fail(("dist.map: %d arguments, of which in_specs has %d: argument %d has none\n  hint: {} is the spec of a copy on each device"):format(n, #ins, i)) end
      local layout = spec.layout(mesh, s, x.ndim, "dist.map")
      if core.mesh_layout_of(x) ~= layout then x = core.mesh_move(x, layout, "reshard") end
      if core.mesh_is_planned(x) then core.fail "dist.map: it runs on parts, of which a planned tensor has none" end
      for p, part in ipairs(map.split(x, layout, mesh)) do args[p][i] = part end
    else
      for p = 1, mesh.n do args[p][i] = x end
    end
  end
  local states, results = run(mesh, f, args), {}
  for p = 1, mesh.n do
    if states[p].results.n ~= #outs then
      core.fail(("dist.map: part %d gives %d results, and there are %d specs for what comes out"):format(p - 1, states[p].results.n, #outs))
    end
  end
  for k, s in ipairs(outs) do
    local parts = {}
    for p = 1, mesh.n do parts[p] = states[p].results[k] end
    if parts[1] == nil then parts[1] = false end
    results[k] = result_of(parts, s, k, mesh)
  end
  return unpack(results, 1, #outs)
end

-- map(mesh, in_specs, out_specs, f): a function of tensors over the mesh (or of one device, which are spread first) that runs
-- f once for each part, on the part's own tensors, and puts the results together. Specs are ShardSpecs, one or a list by argument
-- and result. f names what parts send each other (dist.all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, scatter,
-- gather, permute, send, recv, barrier); all parts have to come to the same collectives in the same order. Of a result that its
-- spec does not split, part 0's counts. Gradients go through, and it can be captured.
--   local function body(x) return dist.all_reduce(x:sum(), "dp") end
--   local f = dist.map(mesh, {{"dp"}}, {{}}, body)
--   print(f(op.ones {8, 2}))      -- 16
function map.map(mesh, in_specs, out_specs, f)
  grid.need_mesh(mesh, "dist.map")
  local ins, outs = specs_of(in_specs, "in_specs"), specs_of(out_specs, "out_specs")
  core.need_function(f, "dist.map")
  return core.keep_line(function(...) return run_all(mesh, ins, outs, f, ...) end)
end

return map
