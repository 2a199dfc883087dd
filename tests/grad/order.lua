-- Derivatives of sorting and of what depends on order: the gradient goes to where the
-- element stood.
local check = dofile "tests/grad/_check.lua"
local core = require "tessera.core"
local op = core.op
local random = check.distinct

for axis = -2, 2 do
  for _, flag in ipairs { false, true } do
    check("sort", { random { 2, 3, 2 } }, { axis = axis, descending = flag })
    check("sort", { random { 2, 3, 2 }:permute { 2, 0, 1 } }, { axis = axis, descending = flag })
    check("topk", { random { 2, 3, 2 } }, { k = 2, axis = axis, largest = flag })
  end
  for _, keep in ipairs { false, true } do
    check("median", { random { 2, 3, 2 } }, { axis = axis, keepdims = keep })
    for _, q in ipairs { 0, 0.2, 0.5, 0.9, 1 } do
      check("quantile", { random { 2, 3, 2 }:permute { 2, 0, 1 } }, { q = q, axis = axis, keepdims = keep })
    end
  end
end
check("topk", { random { 2, 3 } }, { k = 0 })
for _, shape in ipairs { {}, { 1 }, { 4 }, { 5 }, { 2, 3 } } do
  check("median", { random(shape) })
  check("median", { random(shape) }, { keepdims = true })
  check("quantile", { random(shape) }, { q = 0.3, keepdims = true })
end
check("sort", { random {} })
check("sort", { random { 2, 0 } })
check("median", { random { 2, 0 } }, { axis = 0 })
check("unique", { random { 2, 3 } })
check("histogram", { random { 2, 3 } }, { bins = 4 })
check("histogram", { random { 2, 3 } }, { bins = 4, low = -2 })
check("histogram", { random { 2, 3 } }, { bins = 4, high = 2 })
check("histogram", { random { 2, 3 } }, { bins = 4, low = -2, high = 2 })
assert(core.vjp("argsort", { random { 3 } }, {}, { false }) == false)

local function at(name, x, options, g)
  x = core.tensor(x, { dtype = "f64" })
  return core.vjp(name, { x }, options, { core.tensor(g, { dtype = "f64" }) }):totable()
end
at("median", { 3, 1, 2, 5 }, {}, 1) --> {0.5, 0, 0.5, 0}
at("median", { 3, 1, 2 }, {}, 1) --> {0, 0, 1}
at("quantile", { 30, 10, 20 }, { q = 0.75 }, 1) --> {0.5, 0, 0.5}
at("unique", { 4, 2, 4 }, {}, { 1, 6 }) --> {3, 1, 3}
at("topk", { 4, 2, 4 }, { k = 2 }, { 5, 7 }) --> {5, 0, 7}

for _, dtype in ipairs { "f32", "bf16" } do
  local x = op.linspace(0, 1, 5):cast(dtype)
  assert(core.vjp("median", { x }, {}, { op.ones({}, { dtype = dtype }) }).dtype == dtype)
  assert(core.vjp("sort", { x }, {}, { op.ones_like(x) }).dtype == dtype)
end
