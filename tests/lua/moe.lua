-- nn.MoE beside its definition, token by token; a token's bits in any batch; drops; losses of routers.
local tessera = require "tessera"
local op, nn, rng, graph = tessera.op, tessera.nn, tessera.rng, tessera.graph

-- ---- what a token's experts make of it, each by plain products
local acts = {
  gelu = op.gelu,
  swiglu = function(h) return op.silu(h:narrow(-1, 0, 12)) * h:narrow(-1, 12, 12) end,
  clamped_swiglu = function(h)
    local gate, up = h:reshape(1, 12, 2):select(-1, 0):clamp { max = 7 }, h:reshape(1, 12, 2):select(-1, 1):clamp(-7, 7)
    return gate * op.sigmoid(gate * 1.702) * (up + 1)
  end,
}
local function by_hand(moe, x, act)
  local e, rows = moe.experts, {}
  local w, index = op.router(moe.router(x), { k = moe.k, softmax = moe.softmax })
  for t = 0, x.shape[1] - 1 do
    local y = op.zeros { 1, x.shape[2] }
    for j = 0, moe.k - 1 do
      local n = index[t][j]:item()
      local h = act(op.matmul(x:narrow(0, t, 1), e.up:select(0, n)) + e.up_bias:select(0, n))
      y = op.fma(w[t][j], op.matmul(h, e.down:select(0, n)) + e.down_bias:select(0, n), y)
    end
    rows[t + 1] = y
  end
  return op.concat(rows, { axis = 0 })
end

rng.seed(2)
local x = rng.normal { 11, 8 } * 3
for name, act in pairs(acts) do
  for _, softmax in ipairs { "after", "before" } do
    local moe = nn.MoE(8, 12, { experts = 5, k = 2, activation = name, softmax = softmax })
    local y, r = moe(x)
    assert((y - by_hand(moe, x, act)):abs():max():item() < 1e-5, name)
    assert(r.dropped:item() == 0 and r.sizes:sum():item() == 22)
    local f = graph.module("f", function(t) return (moe(t)) end)
    for _ = 1, 3 do assert(f(x):hash() == y:hash(), name .. " captured") end
  end
end

-- ---- no token knows of another
for _, dtype in ipairs { "f32", "bf16" } do
  local moe, t = nn.MoE(8, 12, { experts = 5, k = 3, dtype = dtype }), x:cast(dtype)
  local y = moe(t)
  for i = 0, 10 do
    assert(moe(t:narrow(0, i, 1)):hash() == y:narrow(0, i, 1):contiguous():hash())
    assert(moe(t:narrow(0, 0, i + 1)):hash() == y:narrow(0, 0, i + 1):contiguous():hash())
  end
  assert(moe(t:reshape(1, 11, 8)):reshape(11, 8):hash() == y:hash())
end

-- ---- a capacity drops what comes last, and says so
local moe = nn.MoE(8, 12, { experts = 4, k = 2, capacity = 0.5 })
local same = op.ones { 6, 1 } * rng.normal { 1, 8 } -- all choose the same two: 12 choices, of which each may have 2
local y, r = moe(same)
local sorted = r.sizes:sort()
sorted --> [0 0 2 2]
--> i64[4]
r.dropped:item() --> 8
y[0]:hash() == y[1]:hash() --> true
y:narrow(0, 2, 4):abs():max():item() --> 0
nn.MoE(8, 12, { experts = 4, capacity = 4 })(same)[0]:hash() ~= y[0]:hash() --> true

-- ---- a router that looks at something else
local moe, seen = nn.MoE(8, 12, { experts = 4 }), rng.normal { 11, 8 }
local y, r = moe(x, seen)
local w, index = op.router(moe.router(seen), { k = 2 })
r.index:hash() == index:hash(), r.weights:hash() == w:hash() --> true, true
moe(x, x):hash() == moe(x):hash(), y:hash() ~= moe(x):hash() --> true, true
moe(x, rng.normal { 5, 8 }) --! MoE: tokens and what the router sees of them do not fit: f32[11,8] x f32[5,8]
moe(x, 3) --! seen

-- ---- losses of routers
local even, uneven = op.zeros { 4, 2 }, tessera.tensor { { 50, 0 }, { 50, 0 }, { 50, 0 }, { 50, 0 } }
op.load_balance_loss(even, tessera.tensor({ { 0 }, { 1 }, { 0 }, { 1 } }, { dtype = "i64" })):item() --> 1
op.load_balance_loss(uneven, tessera.tensor({ { 0 }, { 0 }, { 0 }, { 0 } }, { dtype = "i64" })):item() --> 2
assert(math.abs(op.router_z_loss(even):item() - math.log(2) ^ 2) < 1e-6)
local logits = rng.normal { 6, 4 }
logits.requires_grad = true
local _, index = op.router(logits, { k = 2 })
local loss = op.load_balance_loss(logits, index) + op.router_z_loss(logits)
loss:backward()
logits.grad:abs():max():item() > 0 --> true

-- ---- noise of a stream, choices by bias
local w, i = op.router(op.zeros { 3, 4 }, { k = 1, noise = 1, seed = 3, stream = 5 })
op.router(op.zeros { 3, 4 }, { k = 1, noise = 1, seed = 3, stream = 5 }):hash() == w:hash() --> true
select(2, op.router(op.zeros { 1, 4 }, tessera.tensor { 0, 0, 1, 0 }, { k = 2 })) --> [[2 0]]
--> i64[1,2]

nn.MoE(8, 12, { experts = 2, k = 3 }) --! MoE: k = 3 of 2 experts
nn.MoE(8, 12, { experts = 2, activation = "glue" }) --! activation
nn.MoE(8, 12) --! experts
