-- Ranks of the pages of a small web by power iteration, checked against the
-- eigenvector equation.

local tessera = require "tessera"
local op, rng = tessera.op, tessera.rng

local N, DAMPING = 500, 0.85
rng.seed(7)
-- Page j links to page i with a probability that falls with i: some pages are popular.
local popularity = op.pow(op.arange(1, N + 1):cast("f64"), -0.8):unsqueeze(1)
local links = rng.uniform({ N, N }, { dtype = "f64" }):lt(popularity * 0.5):cast("f64")
local out = links:sum { axis = 0 }
local M = op.where(out:gt(0), links / out, 1 / N)

local rank = op.full({ N }, 1 / N, { dtype = "f64" })
for step = 1, 200 do
  local next_rank = op.matmul(M, rank) * DAMPING + (1 - DAMPING) / N
  local change = (next_rank - rank):abs():sum():item()
  rank = next_rank
  if change < 1e-14 then
    print("settled after " .. step .. " steps")
    break
  end
end

local best, at = rank:topk(5)
for i = 0, 4 do print(("  page %3d  rank %.4f"):format(at[i]:item(), best[i]:item())) end
assert(math.abs(rank:sum():item() - 1) < 1e-12)
assert((op.matmul(M, rank) * DAMPING + (1 - DAMPING) / N - rank):abs():max():item() < 1e-14)
return { rank }
