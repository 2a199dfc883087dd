-- Summands that are brought under a layout of pieces: each device gets the summands of its piece alone, with the bits of
-- the whole sum, and so it is told. Whatever else a layout asks goes by the whole sum.
local tessera = require "tessera"
local op, rng, dist = tessera.op, tessera.rng, tessera.dist

local function on(kind, n, axes, shape)
  local devices = {}
  for i = 1, n do devices[i] = ("%s:%d"):format(kind, kind == "cpu" and 0 or i - 1) end
  return dist.Mesh { axes = axes, shape = shape, devices = devices }
end

local tried = 0
for _, kind in ipairs { "cpu", "sim" } do
  for n = 2, 4 do
    local mesh = on(kind, n, { "tp" }, { n })
    for _, dtype in ipairs { "f32", "bf16", "f64" } do
      for _, shape in ipairs { { 24, 8 }, { 7, 5 }, { 24 }, { 1, 3 } } do
        local x = rng.normal { n, unpack(shape) }:cast(dtype)
        local summands = dist.map(mesh, { { "tp" } }, { { reduce = "sum", over = { "tp" } } }, function(t) return t:sum { axis = 0 } end)(x)
        local whole = summands:reshard {}
        for _, layout in ipairs { { "tp" }, #shape > 1 and { nil, "tp" } or { "tp" } } do
          local pieces = summands:reshard(layout)
          local last = dist.sent(1)[1]
          assert(last.kind == "reduce_scatter", last.kind)
          assert(tostring(dist.spec_of(pieces)) == tostring(dist.spec_of(whole:reshard(layout))))
          assert(pieces:gather():hash() == whole:gather():hash(), ("%s:%d %s %s %s"):format(kind, n, dtype, table.concat(shape, "x"), tostring(dist.spec_of(pieces))))
          tried = tried + 1
        end
      end
    end
  end
end
tried --> 144

-- Of two axes one is summed and split, the other lies as before, or goes another way.
local mesh = on("cpu", 4, { "dp", "tp" }, { 2, 2 })
local x = rng.normal { 2, 8, 6 }
local f = dist.map(mesh, { { "tp", "dp" } }, { { "dp", reduce = "sum", over = { "tp" } } }, function(t) return t:sum { axis = 0 } end)
local s = f(x)
local want = s:reshard({}):gather():hash()
s:reshard { { "dp", "tp" } }:gather():hash() == want --> true
s:reshard { "dp", "tp" }:gather():hash() == want --> true
s:reshard { "tp" }:gather():hash() == want --> true
s:reshard { "tp", "dp" }:gather():hash() == want --> true
