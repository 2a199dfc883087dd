-- Derivatives of layers beside convolutions, pools, norms and attention.
local check = dofile "tests/grad/_check.lua"
local core = require "tessera.core"
local op, R = core.op, check.random
local I = function(t) return core.tensor(t, { dtype = "i64" }) end

check("embedding", { R { 5, 3 }, I { 4, 0, 4, -1 } })
check("embedding", { R { 4, 2 }, I { { 1, 1 }, { 3, 0 } } })
check("embedding", { R { 4, 2 }, op.zeros({ 0 }, { dtype = "i64" }) })

for _, interleaved in ipairs { false, true } do
  check("rope", { R { 2, 3, 6 } }, { interleaved = interleaved })
  check("rope", { R { 2, 3, 8 } }, { interleaved = interleaved, dims = 4, offset = 7, theta = 100 })
  check("rope", { R { 2, 2, 3, 4 }, I { { 0, 5, 2 }, { 9, 1, 1 } } }, { interleaved = interleaved })
  check("rope", { R { 3, 8 }, I { 3, 1, 4 } }, { interleaved = interleaved, scaling = "yarn", factor = 4, original_context = 16 })
  check("rope_grad", { R { 3, 4 } }, { interleaved = interleaved, scaling = "linear", factor = 2, concentration = 1.5 })
end
local x = R { 3, 4 }
core.vjp("rope", { x, R { 3 } }, {}, { x }) --! rope has no derivative by its positions

check("batch_norm", { R { 2, 3, 4 }, R { 3 }, R({ 3 }, 0.5, 2), R { 3 }, R { 3 } })
check("lstm", { R { 3, 2, 8 }, R { 8, 2 }, R { 2, 2 }, R { 2, 2 } })
check("lstm", { R { 2, 1, 4 }, R { 4, 1 }, R { 1, 1 }, R { 1, 1 } }, { reverse = true })
for _, reverse in ipairs { false, true } do
  local x, w, h, c, y = R { 3, 2, 8 }, R { 8, 2 }, R { 2, 2 }, R { 2, 2 }, R { 3, 2, 2 }
  check("lstm_grad", { x, w, h, c, y, R { 3, 2, 2 }, R { 2, 2 }, R { 2, 2 } }, { reverse = reverse })
  check("lstm_grad", { x, w, h, c, y, R { 3, 2, 2 } }, { reverse = reverse })
  check("lstm_grad", { x, w, h, c, y, false, false, R { 2, 2 } }, { reverse = reverse })
end
check("batch_norm", { R { 2, 3 }, R { 3 }, R({ 3 }, 0.5, 2) })
check("group_norm", { R { 2, 4, 3 }, R { 4 }, R { 4 } }, { groups = 2 })
check("group_norm", { R { 2, 4, 3 } }, { groups = 4 })
check("gelu", { R { 7 } })
check("gelu", { R { 7 } }, { approximate = "tanh" })
check("linear", { R { 2, 3, 4 }, R { 5, 4 }, R { 5 } })
check("linear", { R { 4 }, R { 5, 4 } })
check("linear", { R { 2, 4 }, R { 3, 4 }, R { 3 } }, { epilogue = "bias_gelu" })
check("linear", { check.complex { 2, 4 }, check.complex { 3, 4 }, check.complex { 3 } })
check("qkv_projection", { R { 1, 2, 6 }, R { 8, 6 }, R { 8 } }, { heads = 2, kv_heads = 1 })
check("fused_mlp", { R { 2, 3 }, R { 4, 3 }, R { 4 }, R { 2, 4 }, R { 2 } }, { activation = "gelu" })
check("fused_mlp", { R { 2, 3 }, R { 4, 3 }, false, R { 2, 4 } }, { activation = "silu" })

-- Narrow types, and rows that are hit often.
local index = op.randint({ 300 }, { low = 0, high = 20, seed = 3, stream = 0 })
local g = R { 300, 9 }
local want = core.vjp("embedding", { R { 20, 9 }, index }, {}, { g })
local one = op.one_hot(index, { classes = 20, dtype = "f64" })
assert((one:T():matmul(g) - want):abs():max():item() < 1e-12)
for _, t in ipairs { { "f32", 1e-5 }, { "bf16", 5e-2 }, { "f16", 1e-2 } } do
  local got = core.vjp("embedding", { op.zeros({ 20, 9 }, { dtype = t[1] }), index }, {}, { g:cast(t[1]) })
  assert(got.dtype == t[1] and (got:cast("f64") - want):abs():max():item() < t[2] * 10)
end
