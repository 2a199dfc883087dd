-- Random elements are those of their places in the whole tensor, however it is spread.
local tessera = require "tessera"
local core, dist, op = tessera.core, tessera.dist, tessera.op

local grid = dist.Mesh { axes = { "a", "b" }, shape = { 2, 2 }, devices = { "cpu:0", "cpu:0", "cpu:0", "cpu:0" } }
local three = dist.Mesh { axes = { "c" }, shape = { 3 }, devices = { "cpu:0", "cpu:0", "cpu:0" } }

local rows = {
  uniform = {}, normal = { mean = 1 }, truncated_normal = { low = 0.5, high = 2 }, bernoulli = { p = 0.3 },
  randint = { low = -7, high = 1000 }, zeros = {}, ones = {}, full = { value = 3 },
}
local dtypes = { uniform = { "f32", "f64", "bf16", "f16" }, normal = { "f32", "f64", "bf16" }, truncated_normal = { "f32", "f64" },
  bernoulli = { "bool", "f32" }, randint = { "i64", "i32" } }
local specs = { { grid, {} }, { grid, { "a" } }, { grid, { nil, "b" } }, { grid, { "b", "a" } }, { grid, { { "a", "b" } } },
  { grid, { nil, nil, "a" } }, { grid, { nil, nil, { "b", "a" } } }, { three, { "c" } }, { three, { nil, "c" } },
  { three, { nil, nil, "c" } }, { grid, { "a", nil, "b", block = 3 } }, { three, { nil, "c", block = 2 } } }

local wrong, tried = 0, 0
local function compare(what, got, wanted)
  tried = tried + 1
  if got:hash() == wanted:hash() and got.dtype == wanted.dtype then return end
  wrong = wrong + 1
  print(what)
end

for row, given in pairs(rows) do
  for _, dtype in ipairs(dtypes[row] or { "f32" }) do
    for _, shape in ipairs { { 7, 13, 37 }, { 2, 1, 2100 }, { 5, 3, 0 } } do
      local o = { shape = shape, dtype = dtype }
      for k, v in pairs(given) do o[k] = v end
      core.seed(5)
      local wanted = core.run(row, {}, o)
      local after = op.normal { 3 }
      for i, s in ipairs(specs) do
        core.seed(5)
        local got = core.mesh_draw(row, o, dist.layout_of(s[1], s[2], 3))
        compare(row .. " " .. dtype .. " under " .. i, got, wanted)
        compare("what is drawn after " .. row .. " under " .. i, op.normal { 3 }, after)
      end
    end
  end
end

for _, dtype in ipairs { "f32", "f64", "bf16" } do
  local x = op.normal({ 7, 13, 37 }, { seed = 1 }):cast(dtype)
  for i, s in ipairs(specs) do
    local y = dist.shard(x, s[1], s[2])
    compare("dropout " .. dtype .. " under " .. i, op.dropout(y, { p = 0.4, seed = 3 }), op.dropout(x, { p = 0.4, seed = 3 }))
    for _, count in ipairs { 1, 5, 70 } do
      compare("categorical " .. dtype .. " under " .. i, op.categorical(y, { count = count, seed = 3 }),
        op.categorical(x, { count = count, seed = 3 }))
    end
  end
end
wrong, tried > 500 --> 0, true

-- A row without sizes is made whole and dealt out.
core.mesh_draw("arange", { start = 0, stop = 10 }, dist.layout_of(grid, { "a" }, 1)):hash() == op.arange(10):hash() --> true
core.mesh_draw("normal", { shape = { 4, 4 } }, dist.layout_of(grid, { "a" }, 1)) --! a layout of 1 axes for f32[4,4]
core.mesh_draw("normal", { shape = { 4 }, std = -1 }, dist.layout_of(grid, { "a" }, 1)) --! std -1

-- GPUs as well.
local mixed = dist.Mesh { axes = { "a", "b" }, shape = { 2, 2 }, devices = { "sim:0", "cpu:0", "sim:0", "cpu:0" } }
local z = op.normal({ 6, 10 }, { seed = 1 })
for _, spec in ipairs { { "a" }, { nil, "b" }, { "b", "a" }, { { "a", "b" } } } do
  local y = dist.shard(z, mixed, spec)
  compare("dropout on GPUs", op.dropout(y, { p = 0.4, seed = 3 }), op.dropout(z, { p = 0.4, seed = 3 }))
  compare("categorical on GPUs", op.categorical(y, { count = 3, seed = 3 }), op.categorical(z, { count = 3, seed = 3 }))
  compare("normal on GPUs", core.mesh_draw("normal", { shape = { 6, 10 }, seed = 1 }, dist.layout_of(mixed, spec, 2)), z)
end
wrong --> 0
