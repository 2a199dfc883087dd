-- What goes from part to part: linear maps of a list of tensors to another, of which the transposed one is found by itself. So
-- collectives have gradients, and those have gradients, too.
--
-- A routing has outs, each of blocks that stand behind each other along out.dim; a block is the sum (in the canonical tree) of
-- its sources, pieces [start, start + count) along block.dim of inputs, or all of them; one without sources is zeros.

local core = require "tessera.core"
local grid = require "tessera.dist.grid"
local op = core.op

local routing = {}

local function shape_of_block(r, out, b)
  local first = b.sources[1]
  if not first then return b.shape end
  local shape = { unpack(r.shapes[first.from]) }
  if b.dim then shape[b.dim + 1] = b.count end
  return shape
end

-- Fills in the shapes of the results.
local function settle(r)
  for _, out in ipairs(r.outs) do
    local shape
    for _, b in ipairs(out.blocks) do
      b.shape = shape_of_block(r, out, b)
      if not shape then
        shape = { unpack(b.shape) }
      else
        shape[out.dim + 1] = shape[out.dim + 1] + b.shape[out.dim + 1]
      end
    end
    out.shape = shape
  end
  return r
end

local function key_of(out)
  local parts = { out.dim or "" }
  for _, b in ipairs(out.blocks) do
    parts[#parts + 1] = ("%s:%s"):format(b.dim or "", b.count or "")
    for _, s in ipairs(b.sources) do parts[#parts + 1] = ("%d+%d"):format(s.from, s.start or 0) end
  end
  return table.concat(parts, " ")
end

-- The pieces of a block, and whose they are; the bytes of those that come from elsewhere. What 16-bit floats are summed to is
-- rounded once.
local function sources_of(r, out, b, inputs)
  local list, from, bytes = {}, {}, 0
  for k, s in ipairs(b.sources) do
    local x = inputs[s.from]
    if b.dim then x = op.narrow(x, b.dim, s.start, b.count) end
    if r.parts[s.from] ~= out.part then
      local wide = #b.sources > 1 and (x.dtype == "bf16" or x.dtype == "f16")
      bytes = bytes + (wide and x.numel * 4 or x.nbytes)
    end
    list[k], from[k] = x, r.parts[s.from]
  end
  return { part = out.part, list = list, from = from }, bytes
end

local function is_sum(out)
  for _, b in ipairs(out.blocks) do
    if #b.sources > 1 then return true end
  end
  return false
end

-- Rows are fetched and added all at once: what is sent for them goes together.
local function send(r, inputs)
  local results, made, rows, at, bytes = {}, {}, {}, {}, 0
  for k, out in ipairs(r.outs) do
    local key = key_of(out)
    at[k] = {}
    if is_sum(out) and made[key] then -- the sum is sent on
      at[k].same = made[key]
    else
      for i, b in ipairs(out.blocks) do
        if #b.sources > 0 then
          local sent
          rows[#rows + 1], sent = sources_of(r, out, b, inputs)
          at[k][i], bytes = #rows, bytes + sent
        end
      end
      made[key] = k
    end
  end
  core.mesh_about(r.kind, inputs[1])
  local sums = core.mesh_sums(r.mesh.id, rows, r.op)
  local again, sent_on = {}, {}
  for k, out in ipairs(r.outs) do
    local blocks = {}
    for i, b in ipairs(out.blocks) do
      if at[k].same then break end
      blocks[i] = at[k][i] and sums[at[k][i]] or grid.full(r.mesh, out.part, b.shape, 0, r.dtype)
    end
    if not at[k].same then results[k] = #blocks == 1 and blocks[1] or op.concat(blocks, { axis = out.dim }) end
  end
  for k, out in ipairs(r.outs) do
    if at[k].same then
      local x = results[at[k].same]
      again[#again + 1] = { part = out.part, list = { x }, from = { r.outs[at[k].same].part } }
      sent_on[#again] = k
      bytes = bytes + x.nbytes
    end
  end
  local copies = #again > 0 and core.mesh_sums(r.mesh.id, again) or {}
  for i, k in ipairs(sent_on) do results[k] = copies[i] end
  local axes = {}
  for i, a in ipairs(r.axes) do axes[i] = a end
  if results[1] then core.mesh_note(r.mesh.id, r.kind, axes, bytes, results[1]) end
  return results
end

-- A recording hears of its end, however that comes.
local function run(r, inputs)
  if not core.mesh_sends(r.mesh.id, r.kind) then return send(r, inputs) end
  return core.guarded(core.mesh_sends, send, r, inputs)
end

local TRANSPOSED = { all_reduce = "all_reduce", all_gather = "reduce_scatter", reduce_scatter = "all_gather",
  all_to_all = "all_to_all", broadcast = "reduce", reduce = "broadcast", scatter = "gather", gather = "scatter", permute = "permute" }

-- Pieces of outs to which an input went, by which piece of it: a list of {dim, start, count, uses}.
local function pieces_of(r, from, present)
  local list, by_key = {}, {}
  for o, out in ipairs(r.outs) do
    local at = 0
    for _, b in ipairs(out.blocks) do
      local length = out.dim and b.shape[out.dim + 1]
      for _, s in ipairs(b.sources) do
        if s.from == from and present[o] then
          local key = b.dim and ("%d:%d:%d"):format(b.dim, s.start, b.count) or ""
          if not by_key[key] then
            by_key[key] = { dim = b.dim, start = s.start or 0, count = b.count, uses = {} }
            list[#list + 1] = by_key[key]
          end
          table.insert(by_key[key].uses, { from = present[o], start = at, dim = out.dim, count = length })
        end
      end
      at = at + (length or 0)
    end
  end
  table.sort(list, function(a, b) return a.start < b.start or (a.start == b.start and (a.count or 0) < (b.count or 0)) end)
  return list
end

local function block_of(piece)
  local first = piece.uses[1]
  local b = { dim = first.dim, count = first.count, sources = {} }
  for i, u in ipairs(piece.uses) do b.sources[i] = { from = u.from, start = u.start } end
  return b
end

local function zeros_block(shape, dim, n)
  local own = { unpack(shape) }
  own[dim + 1] = n
  return { sources = {}, shape = own }
end

-- The blocks of an input's gradient; nil: it has none.
local function transposed_out(r, from, present)
  local pieces = pieces_of(r, from, present)
  if #pieces == 0 then return nil end
  local out = { part = r.parts[from], dim = pieces[1].dim, blocks = {} }
  if not out.dim then
    out.blocks[1] = block_of(pieces[1])
    return out
  end
  local shape, at = r.shapes[from], 0
  for _, piece in ipairs(pieces) do
    if piece.start > at then table.insert(out.blocks, zeros_block(shape, out.dim, piece.start - at)) end
    table.insert(out.blocks, block_of(piece))
    at = piece.start + piece.count
  end
  if at < shape[out.dim + 1] then table.insert(out.blocks, zeros_block(shape, out.dim, shape[out.dim + 1] - at)) end
  return out
end

local function gradients(r, grads, wanted)
  local list, present, shapes, parts = {}, {}, {}, {}
  for o, out in ipairs(r.outs) do
    if grads[o] then
      list[#list + 1] = grads[o]
      present[o], shapes[#list], parts[#list] = #list, out.shape, out.part
    end
  end
  local back = { mesh = r.mesh, kind = TRANSPOSED[r.kind], axes = r.axes, dtype = r.dtype, shapes = shapes, parts = parts, outs = {} }
  local of = {}
  for from = 1, #r.shapes do
    local out = wanted[from] and transposed_out(r, from, present)
    if out then
      back.outs[#back.outs + 1] = out
      of[from] = #back.outs
    end
  end
  local result, made = {}, #back.outs > 0 and routing.apply(back, list) or {}
  for from = 1, #r.shapes do result[from] = of[from] and made[of[from]] or false end
  return result
end

local count = 0

--- Results of a routing of these tensors, a list. r: mesh, kind, axes (numbers from 0), parts (by input: whose it is), outs; op
--- is "max" or "min" instead of sums, which then have no gradient.
function routing.apply(r, inputs)
  r.dtype, r.shapes = r.dtype or inputs[1].dtype, r.shapes or {}
  for i, x in ipairs(inputs) do r.shapes[i] = r.shapes[i] or { unpack(x.shape) } end
  settle(r)
  local types = {}
  for i, out in ipairs(r.outs) do types[i] = { dtype = r.dtype, shape = out.shape } end
  count = count + 1
  local adjoint = not r.op and function(_, _, grads, wanted) return gradients(r, grads, wanted) end or nil
  local f = core.custom("dist." .. r.kind, 2 ^ 51 + count, { forward = function(list) return run(r, list) end, adjoint = adjoint })
  return { core.custom_call(f, inputs, types) }
end

return routing
