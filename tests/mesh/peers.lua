-- Meshes of GPUs whose memory the others reach: they read summands and boxes where these lie.
local tessera = require "tessera"
local op, dist, rng = tessera.op, tessera.dist, tessera.rng

local DEVICE = os.getenv "DEV" or ""
local kind = DEVICE ~= "" and DEVICE:match "^%a+" or "sim"
local list = { kind .. ":0", kind .. ":1" }
if kind ~= "sim" and not pcall(tessera.device, list[2]) then return print("skipped: there is no " .. list[2]) end

local function same(a, b, what)
  a, b = a:gather():to "cpu", b:to "cpu"
  assert(a.dtype == b.dtype and a:hash() == b:hash(), what)
end

for _, shape in ipairs { { 2 }, { 2, 2 }, { 3 } } do
  local names, devices = { "dp", "tp" }, {}
  local n = shape[1] * (shape[2] or 1)
  for i = 1, n do
    devices[i] = list[(i - 1) % 2 + 1]
  end
  local mesh = dist.Mesh { axes = { names[1], shape[2] and names[2] }, shape = shape, devices = devices }
  local last = names[#shape]
  for _, dtype in ipairs { "f32", "bf16", "f64", "i32" } do
    dist.leaves(12, function()
      rng.seed(n)
      local x = (rng.normal { 24, 37 } * 100):cast(dtype)
      local w = (rng.normal { 37, 12 } * 100):cast(dtype)
      local s = dist.shard(x, mesh, { "dp", #shape > 1 and "tp" or nil })
      same(s, x, "shard")
      same(s:reshard { nil, "dp" }, x, "moved to the other axis")
      same(s:reshard { { names[1], names[#shape > 1 and 2 or nil] } }, x, "rows over all")
      same(s:reshard { "dp", block = 5 }, x, "dealt out in blocks")
      same(s:sum { axis = 0 }, x:sum { axis = 0 }, "sum over rows")
      same(s:max { axis = 1 }, x:max { axis = 1 }, "maximum of columns")
      if dtype ~= "i32" then
        local a, b = dist.shard(x, mesh, { nil, last }), dist.shard(w, mesh, { last })
        same(op.matmul(a, b), op.matmul(x, w), "summed product")
        same(op.matmul(a, b, { out = { last } }), op.matmul(x, w), "each its piece")
      end
    end)
  end
end

-- Sums that are large: each adds a range.
local five = {}
for i = 1, 5 do
  five[i] = list[i % 2 + 1]
end
local mesh = dist.Mesh { axes = { "dp" }, devices = five }
local x = rng.normal { 5, 400, 331 }
dist.leaves(5, function()
  same(dist.shard(x, mesh, { "dp" }):sum { axis = 0 }, x:sum { axis = 0 }, "ranges")
end)

-- Indices are looked at by the device that has them, whichever it is: nobody waits for it, and it is told later.
for _, name in ipairs { list[1], list[2], list[1] } do
  local table_ = rng.normal({ 6, 5 }):to(name)
  local function there(...) return op.cast(tessera.tensor { ... }:to(name), "i64") + 0 end
  for _ = 1, 3 do -- code that makes them and looks at them is compiled meanwhile
    op.embedding(table_, there(1, 0, 5)):hash()
    tessera.jit.wait()
  end
  local late = op.embedding(table_, there(1, 9, 5))
  local well, why = pcall(function() return late:hash() end)
  assert(not well and why:find "index 9 is out of range", name)
end
