-- A training that checkpoint_kills.lua kills and starts again: over a mesh of so many devices, from the newest checkpoint to
-- step `last`, with one checkpoint being written most of the time. Each step's loss goes into a log.
--   tessera --devices=cpu:8 tests/mesh/_training.lua folder devices last
local tessera = require "tessera"
local op, rng, dist, nn, optim, data, checkpoint = tessera.op, tessera.rng, tessera.dist, tessera.nn, tessera.optim, tessera.data, tessera.checkpoint
local dir, devices, last = arg[1], tonumber(arg[2]), tonumber(arg[3])

rng.seed(1)
dist.leaves(8)
local rows = devices > 1 and 2 or 1
local mesh = dist.Mesh { axes = { "dp", "tp" }, shape = { rows, devices / rows }, devices = dist.range(devices) }
local X, Y = rng.normal { 64, 12 }, rng.normal { 64, 4 }
local batches = data.batches({ X, Y }, { batch = 16, shuffle = true })
local params = { dist.shard(rng.normal { 12, 16 }, mesh, { nil, "tp" }), dist.shard(rng.normal { 16, 4 }, mesh, { "tp" }) }
for _, p in ipairs(params) do p.requires_grad = true end
local ballast = dist.shard(op.zeros { 8, 65536 }, mesh, { "dp" }) -- so that writing takes a while
local opt = optim.AdamW(params, { lr = 1e-2 })

local function state(step) return { step = step, params = params, opt = opt:state_dict(), ballast = ballast } end

local step = 0
if checkpoint.latest(dir) then
  local was = checkpoint.load(dir, { rng = true, data = batches })
  was = checkpoint.load(dir, { like = { params = params, ballast = ballast, opt = was.opt } }) -- the optimiser has none yet
  step = was.step
  for i, p in ipairs(params) do tessera.no_grad(function() p:copy_(was.params[i]) end) end
  tessera.no_grad(function() ballast:copy_(was.ballast) end)
  opt:load_state_dict(was.opt)
end

local log = assert(io.open(dir .. ".log", "a"))
while step < last do
  for x, y in batches do
    step = step + 1
    local noise = rng.normal { 16, 12 } * 0.01 -- the generator's state matters
    x, y = dist.shard(x + noise, mesh, { "dp" }), dist.shard(y, mesh, { "dp" })
    local loss = op.mse(op.matmul(op.relu(op.matmul(x, params[1])), params[2]), y)
    loss:backward()
    opt:step()
    opt:zero_grad()
    tessera.no_grad(function() ballast:add_(1) end)
    log:write(("%d %s %s\n"):format(step, loss:hash(), ballast:max():item()))
    log:flush()
    if step % 3 == 0 or step == last then checkpoint.save(dir, state(step), { step = step, async = true, keep = 2, data = batches }) end
    if step == last then break end
  end
end
print(step, params[1]:hash(), params[2]:hash(), ballast:hash())
