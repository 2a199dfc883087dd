-- One of several processes: 20 steps of a GPT-2 and of a mixture of experts over devices of all of them, beside no mesh, and from a
-- checkpoint that another arrangement has left. What differs is printed, by rank 0 how many were compared.
--   tessera tests/net/_models.lua folder kind cast|f32 arrangement..
local tessera = require "tessera"
local dist = tessera.dist
local models = dofile "tests/mesh/_models.lua"
local dir, kind, cast = arg[1], arg[2], arg[3] ~= "f32" and arg[3] or nil
local compared, wrong = 0, 0

-- Ranks in turn, where NCCL is the transport as well: GPUs that stand in run no kernels.
local function devices(n)
  local list = {}
  for i = 1, n do list[i] = "cpu:0@" .. (i - 1) % dist.world() end
  return list
end

dist.leaves(24, function()
  local how = { kind = kind, cast = cast, devices = devices }
  local want, weights = models.train(how)
  local function compare(what)
    local losses, after = models.train(how)
    local same = after == weights
    for i in pairs(losses) do same = same and losses[i] == want[i] end
    compared, wrong = compared + 1, wrong + (same and 0 or 1)
    if not same then print(("rank %d: %s %s %s"):format(dist.rank(), kind, cast or "f32", what)) end
  end
  local last
  for i = 4, #arg do
    how.how, how.from, how.to = arg[i], nil, ("%s/%s-%s-%d"):format(dir, kind, arg[3], i)
    compare(arg[i])
    how.from, how.to = last, nil
    if last then compare(arg[i] .. " from a checkpoint") end
    last = ("%s/%s-%s-%d"):format(dir, kind, arg[3], i)
  end
end)
if dist.rank() == 0 then print(("compared %d over %d ranks, wrong %d"):format(compared, dist.world(), wrong)) end
