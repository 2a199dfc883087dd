-- Derivatives of the rows that are derivatives themselves, and of barrier.
local check = dofile "tests/grad/_check.lua"
local op = require("tessera").op
local function y(shape) return op.softmax(check.random(shape)) end
check("softmax_grad", { y { 2, 5 }, check.random { 2, 5 } }, {}, { tolerance = 1e-6 })
check("log_softmax_grad", { op.log_softmax(check.random { 2, 5 }), check.random { 2, 5 } }, {}, { tolerance = 1e-6 })
for _, name in ipairs { "gelu_erf_grad", "gelu_tanh_grad", "silu_grad" } do
  check(name, { check.random { 3, 4 }, check.random { 3, 4 } })
  check(name, { check.random { 3, 1 }, check.random { 4 } })
end
check("barrier", { check.random { 3 }, check.random { 2 } })
check("reshard", { check.random { 3, 2 } }, { spec = "dp," })

-- Rows know nothing of the others: of a result that goes past the caches the same bits.
do
  local op = require "tessera".op
  for _, name in ipairs { "layernorm_grad", "rmsnorm_grad" } do
    local x = op.normal({ 3100, 1024 }, { seed = 5, stream = 1 })
    local g = op.normal({ 3100, 1024 }, { seed = 5, stream = 2 })
    local w = op.normal({ 1024 }, { seed = 5, stream = 3 })
    local all = op[name](x, w, g)
    for _, at in ipairs { 0, 255, 2816, 3099 } do
      local one = op[name](x:narrow(0, at, 1), w, g:narrow(0, at, 1))
      assert(all:narrow(0, at, 1):hash() == one:hash(), name .. " row " .. at)
    end
  end
end

-- Longer rows go several in one walk. Rows without a gradient behind the others, which make the
-- result large enough for that, leave every sum as it is.
do
  local op = require "tessera".op
  local function whole(name, dtype, rows, width, most, options)
    local x = op.normal({ most, width }, { seed = 6, stream = 1, dtype = dtype })
    local g = op.normal({ most, width }, { seed = 6, stream = 2, dtype = dtype })
    local w = options.weight and op.normal({ width }, { seed = 6, stream = 3, dtype = dtype }) or nil
    g:narrow(0, rows, most - rows):copy_(op.zeros { most - rows, width })
    local attr = name == "layernorm_grad" and { bias = options.bias } or {}
    local many = { op[name](x, w, g, attr) }
    local few = { op[name](x:narrow(0, 0, rows), w, g:narrow(0, 0, rows), attr) }
    local what = ("%s %s %dx%d"):format(name, dtype, most, width)
    assert(#many == #few and #many >= 1, what)
    assert(many[1]:narrow(0, 0, rows):hash() == few[1]:hash(), what .. ": dx")
    for i = 2, #many do assert(many[i]:hash() == few[i]:hash(), what .. ": sum " .. i) end
  end
  local all = { { weight = true, bias = true }, { weight = true }, { bias = true }, {} }
  for _, name in ipairs { "layernorm_grad", "rmsnorm_grad" } do
    for _, options in ipairs(all) do
      whole(name, "f32", 1500, 2048, 1600, options)
      whole(name, "f32", 3000, 1024, 3201, options) -- lane by lane
    end
    whole(name, "f32", 700, 4096, 790, all[1])
    whole(name, "f32", 1500, 2064, 1600, all[1])
    whole(name, "f64", 1500, 1024, 1601, all[1])
    whole(name, "f32", 6100, 512, 6301, all[1])
    whole(name, "f32", 4000, 784, 4101, all[1]) -- a leaf of five rows
    whole(name, "f64", 5700, 272, 6301, all[1])
    whole(name, "f32", 2200, 1392, 2301, all[1]) -- few rows in the first cache
  end
  -- One thread takes other ways.
  local core = require "tessera.core"
  local threads = core.threads()
  core.threads(1)
  for _, name in ipairs { "layernorm_grad", "rmsnorm_grad" } do
    whole(name, "f32", 1500, 2048, 1600, all[1])
    whole(name, "f32", 700, 4096, 790, all[2])
    whole(name, "f64", 1500, 1024, 1601, all[1])
  end
  core.threads(threads)
end

-- A leaf of one row behind a whole one: groups of fewer rows than are under way. The sums of g
-- are those of `sum`.
do
  local op = require "tessera".op
  for _, width in ipairs { 2048, 784 } do
    local x = op.normal({ 4098, width }, { seed = 7, stream = 1 })
    local g, w = op.normal({ 4098, width }, { seed = 7, stream = 2 }), op.normal({ width }, { seed = 7, stream = 3 })
    for _, rows in ipairs { 4096, 4097, 4098 } do
      local part = g:narrow(0, 0, rows)
      local _, _, db = op.layernorm_grad(x:narrow(0, 0, rows), w, part, { bias = true })
      assert(db:hash() == op.sum(part, { axis = 0 }):hash(), ("db of %d rows of %d"):format(rows, width))
    end
  end
end
