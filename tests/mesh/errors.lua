-- A call that is an error on one device is the same error on a mesh.
local tessera = require "tessera"
local core, dist, op = tessera.core, tessera.dist, tessera.op

local grid = dist.Mesh { axes = { "a", "b" }, shape = { 2, 2 }, devices = { "cpu:0", "cpu:0", "cpu:0", "cpu:0" } }
local function i64(list) return tessera.tensor(list, { dtype = "i64" }) end
local x, rows = op.normal({ 4, 6 }, { seed = 1 }), i64 { 0, 1, 5, 9 }
local calls = {
  embedding = { { x, rows } },
  gather = { { x, i64 { { 0, 1 }, { 2, 3 }, { 4, 5 }, { 6, 7 } } }, { axis = 1 } },
  take = { { x, i64 { 0, 99, 3 } } },
  index_select = { { x, rows }, { axis = 1 } },
  index_add = { { x, rows, op.ones { 4, 6 } } },
  scatter = { { x, i64 { { 0 }, { 1 }, { 2 }, { 7 } }, op.ones { 4, 1 } }, { axis = 1 } },
  one_hot = { { rows }, { classes = 6 } },
  cross_entropy = { { x, i64 { 0, 1, 2, 6 } } },
  cross_entropy_grad = { { x, i64 { 0, 1, 2, 6 }, op.ones {} } },
  cholesky = { { op.neg(op.ones { 2, 3, 3 }) } },
  inv = { { op.zeros { 4, 2, 2 } } },
  solve = { { op.zeros { 4, 2, 2 }, op.ones { 4, 2, 6 } } },
  categorical = { { op.full({ 4, 6 }, 0 / 0) } },
  segment_reduce = { { x, rows }, { segments = 3 } },
  grouped_matmul = { { x, op.ones { 2, 6, 4 }, i64 { -1, 2 } } },
  moe_places = { { i64 { 0, 1, 5, 9 } }, { experts = 6 } },
  route_rows = { { x, i64 { 0, 1, 5, 2 }, i64 { 0, 1, 2, 3 } } },
  quantile = { { x }, { q = 2 } },
  masked_scatter = { { x, x:gt(-99), op.ones { 3 } } },
  matmul = { { x, x } },
  reshape = { { x }, { shape = { 5, 5 } } },
  max = { { op.zeros { 4, 0 } }, { axis = { 1 } } },
  narrow = { { x }, { axis = 0, start = 3, length = 2 } },
}

-- Of which part and row is left out: it is counted within the part. Types say how tensors lie.
local function words(e)
  return (tostring(e):gsub("^[^\n]-:%d+: ", ""):gsub("\n.*", ""):gsub("@%w+", ""):gsub("%d+", "#"))
end

local wrong, tried = {}, 0
for name, c in pairs(calls) do
  local ok, wanted = pcall(core.run, name, c[1], c[2] or {})
  if ok then wrong[#wrong + 1] = name .. " is no error" end
  for i, t in ipairs(c[1]) do
    for d = 1, t.ndim do
      for _, leaves in ipairs { 0, 12 } do
        local y = { unpack(c[1]) }
        y[i] = dist.shard(t, grid, { [d] = "a" })
        local fine, got = dist.leaves(leaves, pcall, core.run, name, y, c[2] or {})
        tried = tried + 1
        if fine or words(got) ~= words(wanted) then
          wrong[#wrong + 1] = ("%s, axis %d of %d: %s, not %s"):format(name, d, i, words(got), words(wanted))
        end
      end
    end
  end
end
table.sort(wrong)
table.concat(wrong, "\n") -->
tried > 50 --> true

-- Two ways that are equally good are for the program to choose.
dist.shard(x, grid, { "a" }) + dist.shard(x, grid, { nil, "a" }) --! are equally good
-- Blocks are not split.
dist.shard(op.ones { 4, 32 }:cast "mxfp4", grid, { "a" }) --! not split
dist.replicate(op.ones { 4, 32 }:cast "mxfp4", grid):cast("f32"):sum():item() --> 128
