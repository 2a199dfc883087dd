-- Rows of tokens sent to the devices of their experts, and back: as many as there are, which has to be known, so not in captured
-- functions. Each part of the mesh (dist.map) brings its own tokens into the order of experts and sends each device what is its
-- experts'; there rows of all parts are brought into the order of experts and tokens, so sums over rows have one order.

local core = require "tessera.core"
local spec = require "tessera.dist.spec"
local op = core.op

local function whole(t)
  local list = {}
  for i, v in ipairs(t:totable()) do list[i] = v end
  return list
end

local function index(list, device) return core.tensor(list, { dtype = "i64", device = device }) end

-- By place along the axes: how many experts stand before those of the place.
local function shares(mesh, names, layout, experts)
  local count, at, sum = {}, {}, 0
  for p = 0, mesh.n - 1 do
    local where, place = mesh:place(p), 0
    for _, name in ipairs(names) do place = place * mesh:size(name) + where[name] end
    count[place] = core.mesh_part_shape(layout, { experts, 1, 1 }, p)[1]
  end
  for place = 0, #count do
    at[place] = sum
    sum = sum + count[place]
  end
  return count, at
end

-- Where rows that come by part, then expert, go that stand by expert, then part; and how many each expert has. On a device.
local function merged(by_part, first, n, device)
  local start, sizes, place, source, at = {}, {}, {}, {}, 0
  for e = 1, n do
    sizes[e] = 0
    for p = 1, #by_part do
      start[p] = start[p] or {}
      start[p][e] = at
      at = at + by_part[p][first + e]
      sizes[e] = sizes[e] + by_part[p][first + e]
    end
  end
  local row = 0
  for p = 1, #by_part do
    for e = 1, n do
      for k = 0, by_part[p][first + e] - 1 do
        place[row + 1], source[start[p][e] + k + 1] = start[p][e] + k, row
        row = row + 1
      end
    end
  end
  return index(place, device), index(source, device), index(sizes, device)
end

--- What experts make of tokens x [.., d], whose choices are index [.., k], weighted, and how many rows each expert has. experts, a
--- module whose weights are split by the axes `names` of the mesh, computes the rows of each part.
return function(mesh, names, experts, x, choices, weights)
  local dist = require "tessera.dist.mesh"
  local n, k = experts.experts, choices.shape[choices.ndim]
  local layout = core.mesh_layout_of(experts.up)
  local count, first = shares(mesh, names, layout, n)
  local params = { experts.up, experts.down, experts.up_bias, experts.down_bias }
  local function body(own, chosen, weight, up, down, up_bias, down_bias)
    local here = 0
    for _, name in ipairs(names) do here = here * mesh:size(name) + dist.place(name) end
    local place, source, sizes = op.moe_places(chosen, { experts = n })
    local all = dist.all_gather(sizes:reshape(1, n), names)
    local by_part, sent, got = {}, {}, {}
    for p = 1, #count + 1 do by_part[p] = whole(all:select(0, p - 1)) end
    for p = 0, #count do
      sent[p + 1], got[p + 1] = 0, 0
      for e = first[p] + 1, first[p] + count[p] do sent[p + 1] = sent[p + 1] + by_part[here + 1][e] end
      for e = first[here] + 1, first[here] + count[here] do got[p + 1] = got[p + 1] + by_part[p + 1][e] end
    end
    local there, back, own_sizes = merged(by_part, first[here], count[here], own.device)
    local rows = dist.all_to_all(op.route_rows(own, source, place, { times = k }), names, { sizes = sent })
    rows = op.route_rows(rows, back, there)
    rows = experts:compute(rows, own_sizes, up, up_bias, down, down_bias)
    rows = dist.all_to_all(op.route_rows(rows, there, back), names, { sizes = got })
    return op.moe_combine(rows, place, source, weight), all:sum { axis = 0 }
  end
  local tokens, split = { names }, {}
  for i = 1, #params do split[i] = { names } end
  return dist.map(mesh, { tokens, tokens, tokens, unpack(split) }, { tokens, {} }, body)(x, choices, weights, unpack(params))
end
