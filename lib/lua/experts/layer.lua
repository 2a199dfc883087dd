-- A mixture of experts as a layer. Loaded by nn, whose classes these become.

local core = require "tessera.core"
local Module = require "tessera.module"
local options = require "tessera.options"
local op, rng = core.op, core.op

local FLAG, DTYPE, COUNT, need = options.flag, options.dtype, options.whole { least = 1 }, options.argument
local SIZE, ABOVE = options.number { least = 0 }, options.number { above = 0 }

-- ---- experts: rows of each times its own matrices

-- What stands between both products, of rows [.., width]; gated ones have twice as many columns before as behind.
local function halves(h)
  local n = h.shape[h.ndim] / 2
  return h:narrow(-1, 0, n), h:narrow(-1, n, n)
end

local gated = {
  swiglu = function(h)
    local gate, up = halves(h)
    return op.silu(gate) * up
  end,
  -- As in GPT-OSS: gate and up are neighbours, both are limited.
  clamped_swiglu = function(h)
    local shape = { unpack(h.shape) }
    shape[#shape], shape[#shape + 1] = shape[#shape] / 2, 2
    h = h:reshape(shape)
    local gate, up = h:select(-1, 0):clamp { max = 7 }, h:select(-1, 1):clamp(-7, 7)
    return gate * op.sigmoid(gate * 1.702) * (up + 1)
  end,
}

local Experts = Module:extend "Experts"

function Experts:init(width, hidden, o)
  local function drawn(inputs, ...)
    local bound = 1 / math.sqrt(inputs)
    return rng.uniform({ ... }, { low = -bound, high = bound, dtype = o.dtype })
  end
  local n, wide = o.experts, gated[o.activation] and 2 * hidden or hidden
  self.experts, self.activation = n, o.activation
  self._told = ("experts = %d, width = %d, hidden = %d"):format(n, width, hidden)
  self.up, self.down = drawn(width, n, width, wide), drawn(hidden, n, hidden, width)
  if o.bias then self.up_bias, self.down_bias = drawn(width, n, 1, wide), drawn(hidden, n, 1, width) end
end

-- A bias is a product with ones: so its gradient adds up rows in the order in which those of matrices do.
local function product(rows, w, bias, sizes, ones)
  local y = op.grouped_matmul(rows, w, sizes)
  return bias and y + op.grouped_matmul(ones, bias, sizes) or y
end

function Experts:compute(rows, sizes, up, up_bias, down, down_bias)
  local ones = up_bias and op.ones_like(rows:narrow(-1, 0, 1))
  local h = product(rows, up, up_bias, sizes, ones)
  h = (gated[self.activation] or op[self.activation])(h)
  return product(h, down, down_bias, sizes, ones)
end

function Experts:forward(rows, sizes) return self:compute(rows, sizes, self.up, self.up_bias, self.down, self.down_bias) end

-- ---- the layer

local MoE = Module:extend "MoE"
local kinds = { experts = options.needed(COUNT), k = COUNT, activation = options.text, bias = FLAG, router_bias = FLAG,
  softmax = options.one_of("after", "before", "none"), noise = SIZE, capacity = ABOVE, dtype = DTYPE }
local defaults = { k = 2, activation = "gelu", bias = true, router_bias = false, softmax = "after", noise = 0 }
local read = options.of("MoE", kinds, defaults)

-- MoE(width, hidden, {experts, k = 2, activation = "gelu", bias = true, router_bias = false, softmax = "after", noise = 0,
-- capacity, dtype}): a mixture of experts, each a layer to hidden, the activation and a layer back. The layer `router` gives
-- logits, of which op.router chooses k experts for each token by softmax; noise of that deviation is added to them while
-- training. activation: an operator, or "swiglu", or "clamped_swiglu" as in GPT-OSS, whose first layer is twice as wide.
-- capacity: no expert takes more than capacity * tokens * k / experts rows, and what is more is dropped; without it nothing is.
-- y, routing = moe(x, seen): y as x [.., width]; seen, of that shape, is what the router looks at instead of x. routing is a table: logits, index and weights of the choices, sizes (rows of each expert),
-- dropped (how many choices were). The experts' weights are moe.experts.up [experts, width, hidden], up_bias, down, down_bias;
-- dist.shard_module(moe, mesh, {["experts.*"] = {"ep"}}) splits them over a mesh, and each device does its experts' rows.
--   moe = nn.MoE(8, 16, {experts = 4})
--   y, routing = moe(rng.normal{2, 5, 8})
--   print(routing.sizes, routing.dropped)
function MoE:init(width, hidden, o)
  o = read(o)
  need("MoE", "width", COUNT, width)
  need("MoE", "hidden", COUNT, hidden)
  if o.k > o.experts then core.fail(("MoE: k = %d of %d experts"):format(o.k, o.experts)) end
  if not gated[o.activation] then options.argument("MoE", "activation", options.operator, o.activation) end
  for _, name in ipairs { "k", "softmax", "noise", "capacity" } do self[name] = o[name] end
  self._told = options.told("MoE", o, "width", width, "hidden", hidden)
  self.router = MoE.Linear(width, o.experts, { bias = o.router_bias, dtype = o.dtype })
  self.experts = Experts(width, hidden, o)
end

-- Rows that each expert has room for; nil: rows of all stand one behind the other. Where experts are spread, each device has
-- room for its own, as much as the largest needs; in a captured function, as much as it could need.
local function room(self, index, names)
  local n, tokens = self.experts.experts, index.numel / self.k
  if self.capacity then return math.min(math.ceil(self.capacity * index.numel / n), tokens) end
  if not names then return nil end
  if core.capturing() then return tokens end
  local _, _, sizes = op.moe_places(index, { experts = n })
  return sizes:max():item()
end

-- Where experts are spread evenly and a device has more of them than a token chooses, in a captured function: their rows stand side by
-- side in a room of the device, as many as all tokens can choose there. By place and source of all rows in one row, the same by devices.
local function packed(self, index, devices, names)
  local n, k, rows = self.experts.experts, self.k, index.numel
  local place, source, sizes, dropped = op.moe_places(index, { experts = n })
  local own = sizes:reshape(devices, n / devices):sum { axis = 1 }
  local start = op.cumsum(own) - own
  local function split(t) return t:reshape(devices, 1):reshard { names } end -- each device finds out what its own rows are
  local at = op.arange(rows):reshape(1, rows)
  local has = at:lt(split(own))
  local from = op.take(source, (at + split(start)):clamp { max = rows - 1 })
  place = place + op.take(op.arange(devices) * rows - start, op.floordiv(index, n / devices))
  return place, op.where(has, from, -1), sizes, dropped
end

-- The axes of the mesh that split the experts, nil if none do; and the mesh.
local function split_by(self)
  local layout = core.mesh_layout_of(self.experts.up)
  if not layout then return nil end
  local s, mesh = require("tessera.dist.spec").of_layout(layout)
  return s.axes[0], mesh
end

-- Rows can be sent by counts: these are known, nobody drops by the order of all tokens, and no other axis of the mesh has copies,
-- whose gradients would be added up in an order of their own.
local function sends(self, names, mesh)
  local parts = 1
  for _, name in ipairs(names) do parts = parts * mesh:size(name) end
  return not core.capturing() and not self.capacity and parts == mesh.n
end

-- How choices of tokens lie, with their rows.
local function as_tokens(index)
  local layout = core.mesh_layout_of(index)
  return layout and { out = (require("tessera.dist.spec").of_layout(layout)) } or {}
end

function MoE:forward(x, seen)
  local experts, k = self.experts, self.k
  if seen then
    options.argument("MoE", "seen", options.tensor, seen)
    if seen.numel / seen.shape[seen.ndim] ~= x.numel / x.shape[x.ndim] then
      core.fail(("MoE: tokens and what the router sees of them do not fit: %s x %s"):format(core.type_text(x), core.type_text(seen)))
    end
  end
  local logits = self.router(seen or x)
  local weights, index = op.router(logits, { k = k, softmax = self.softmax, noise = self.training and self.noise or 0 })
  local routing = { logits = logits, index = index, weights = weights }
  local names, mesh = split_by(self)
  local y
  if names and sends(self, names, mesh) then
    y, routing.sizes = require "tessera.experts.exchange"(mesh, names, experts, x, index, weights)
    routing.dropped = op.zeros({}, { dtype = "i64" })
    return y, routing
  end
  local place, source, sizes, dropped
  local devices = 1
  for _, name in ipairs(names or {}) do devices = devices * mesh:size(name) end
  if names and core.capturing() and not self.capacity and experts.experts % devices == 0 and experts.experts / devices > k then
    place, source, sizes, dropped = packed(self, index, devices, names)
  else
    place, source, sizes, dropped = op.moe_places(index, { experts = experts.experts, capacity = room(self, index, names) })
  end
  routing.sizes, routing.dropped = sizes, dropped
  local function own(t) return names and t:reshard { names } or t end
  local rows = op.route_rows(x, own(source), place, { times = k })
  y = op.route_rows(experts(rows, own(sizes)), place, source, as_tokens(index))
  return op.moe_combine(y, nil, nil, weights), routing
end

return function(nn)
  MoE.Linear = nn.Linear
  nn.MoE = MoE
end
