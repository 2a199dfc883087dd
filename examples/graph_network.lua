-- A graph network: the members of a network are sorted into groups by whom they know, of a few of whom the group is told.
--
--   tessera examples/graph_network.lua [--steps N] [--nodes N] [--degree N] [--groups N] [--width N] [--device cuda:0]
--
-- Members know more of their own group than of others, and have features that say little by themselves. In each of two layers
-- a member sends what it has to all that it knows, along edges whose weights are learned too: a gate of both ends. What comes
-- together at a member is a product with a sparse matrix, added up in the order of edges, whatever runs it. Beside it learns a
-- network of the same layers that sees no edges.

local tessera = require "tessera"
local op, nn, optim, data, graph, rng = tessera.op, tessera.nn, tessera.optim, tessera.data, tessera.graph, tessera.rng

local options = tessera.arguments { steps = 150, nodes = 2000, degree = 8, groups = 5, features = 16, width = 32, told = 20, device = "cpu" }
local NODES, GROUPS, FEATURES, WIDTH = options.nodes, options.groups, options.features, options.width
assert(options.degree % 2 == 0, "--degree must be even: half of the edges are begun by a member, half by others")
assert(GROUPS > 0 and options.told * GROUPS <= NODES, "--told members of each of --groups groups are more than --nodes, or none")
assert(GROUPS <= FEATURES, "--features must be as many as --groups: one says which group it is")
local KIN = 0.7 -- of the edges that a member begins, so many stay in its group

-- ---- the network of members, as rows of edges: offsets [NODES + 1], and the other ends in order (CSR)
rng.seed(1)
local function network()
  local group = rng.randint({ NODES }, { low = 0, high = GROUPS })
  local from = op.arange(NODES):unsqueeze(1):expand(NODES, options.degree / 2):reshape(-1)
  local order, start = group:argsort(), op.cumsum(op.bincount(group, { length = GROUPS }))
  local size = op.bincount(group, { length = GROUPS })
  local at = op.take(group, from) -- one of the same group, or of all
  local kin = op.take(order, op.take(start - size, at) + (rng.uniform { from.numel } * op.take(size, at)):cast "i64")
  local to = op.where(rng.uniform({ from.numel }):lt(KIN), kin, rng.randint({ from.numel }, { low = 0, high = NODES }))
  -- Both directions, and everyone knows himself, sorted by receiver.
  local all = op.arange(NODES)
  local receiver, sender = op.concat { from, to, all }, op.concat { to, from, all }
  local sorted = receiver:argsort()
  local offsets = op.concat { op.zeros({ 1 }, { dtype = "i64" }), op.cumsum(op.bincount(receiver, { length = NODES })) }
  local features = op.one_hot(group, { classes = FEATURES }):cast "f32" + rng.normal { NODES, FEATURES }
  return group, features, offsets, op.take(sender, sorted)
end
local group, features, offsets, sender = network()
local told = op.arange(options.told * GROUPS) -- the first ones are in any group
if options.device ~= "cpu" then
  group, features, offsets, sender, told = group:to(options.device), features:to(options.device), offsets:to(options.device),
    sender:to(options.device), told:to(options.device)
end
local EDGES = sender.numel
local receiver = op.csr_rows(offsets, { entries = EDGES })
local degrees = op.rsqrt((offsets:narrow(0, 1, NODES) - offsets:narrow(0, 0, NODES)):cast "f32")
local share = op.take(degrees, receiver) * op.take(degrees, sender)

-- ---- the model
local Layer, Net = nn.Module:extend "Layer", nn.Module:extend "Net"

function Layer:init(width, out, edges)
  self.own, self.edges = nn.Linear(width, out), edges
  if edges then self.sent, self.ends = nn.Linear(width, out, { bias = false }), nn.Linear(width, 2, { bias = false }) end
end

function Layer:forward(x)
  local y = self.own(x)
  if not self.edges then return y end
  local ends = self.ends(x) -- what a member says of its edges as a receiver, and as a sender
  local gate = op.sigmoid(op.take(ends:select(1, 0), receiver) + op.take(ends:select(1, 1), sender))
  return y + op.spmm_coo(gate * share * 2, receiver, sender, self.sent(x), { rows = NODES })
end

function Net:init(edges)
  self.first, self.last = Layer(FEATURES, WIDTH, edges), Layer(WIDTH, GROUPS, edges)
end

function Net:forward(x) return self.last(op.relu(self.first(x))) end

-- ---- training on those whose group is told
local function trained(name, edges)
  rng.seed(2)
  local model = Net(edges)
  if options.device ~= "cpu" then model:to(options.device) end
  local step = graph.training_step(model, function(m, x, index, target)
    return op.cross_entropy(m(x):index_select(index), target)
  end, optim.AdamW(model:parameters(), { lr = 1e-2, weight_decay = 0.1 }))
  local target = op.take(group, told)
  local bar = data.progress(options.steps, { label = name, unit = edges and "edge" or "member", scale = edges and EDGES or NODES })
  for i = 1, options.steps do bar:update(i, { loss = step(features, told, target) }) end
  bar:finish()
  local seen = tessera.no_grad(graph.module(name, function(x) return model(x):argmax { axis = -1 } end), features)
  local right = seen:eq(group):cast "f32"
  return model, (right:sum() - op.take(right, told):sum()):item() / (NODES - told.numel)
end

print(("%d members, %d edges, %d groups, of %d members told"):format(NODES, EDGES, GROUPS, told.numel))
local model, right = trained("by edges", true)
local plain, alone = trained("alone", false)
print(("others sorted right: %.1f%% by edges, %.1f%% by their own features alone, %.1f%% by chance"):format(100 * right,
  100 * alone, 100 / GROUPS))
if options.steps >= 100 then assert(right > alone + 0.15, "edges have taught too little") end
local result = { features = features, group = group, offsets = offsets, sender = sender }
for key, t in pairs(model:state_dict()) do result["edges." .. key] = t end
for key, t in pairs(plain:state_dict()) do result["alone." .. key] = t end
return result
