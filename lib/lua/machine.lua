-- What this machine's CPU does at most, measured when it is first asked for, and what keeps an instruction of a
-- profile below it: one sentence that names the limit and what would move it.

local core = require "tessera.core"
local units = require "tessera.units"

local machine = {}

local roofs = {} -- by number of threads

local function best(n, f)
  local least = math.huge
  for _ = 1, n do
    local _, usec = core.spans(f)
    least = math.min(least, usec)
  end
  return least
end

--- Gigabytes a second of x + 1 on 64 MiB, and GFLOP/s of a product of f32 matrices of 768.
function machine.roofs()
  local op, threads = core.op, core.threads()
  if not roofs[threads] then
    local bytes, n = 64 * 2 ^ 20, 768
    local x, a = op.zeros { bytes / 4 }, op.full({ n, n }, 0.5)
    local copy = best(5, function() return x + 1 end)
    local product = best(5, function() return a:matmul(a) end)
    roofs[threads] = { 2 * bytes / copy / 1e3, 2 * n ^ 3 / product / 1e3 }
  end
  return roofs[threads][1], roofs[threads][2]
end

local percent = units.percent

-- What the threads of a row's phases did beside the one that took longest: 1 where they took the same.
local function evenness(row)
  local all, most, n = 0, 0, 0
  for _, threads in pairs(row.phases) do
    local longest, sum, count = 0, 0, 0
    for _, list in pairs(threads) do
      local usec = list[math.ceil(#list / 2)]
      longest, sum, count = math.max(longest, usec), sum + usec, count + 1
    end
    all, most, n = all + sum, most + longest * count, math.max(n, count)
  end
  return n > 1 and most > 0 and all / most or 1
end

local LATENCY = 10 -- microseconds; starting threads and reading clocks takes one or two

--- The sentence for a row of profile.lua.
function machine.limit(row)
  local bandwidth, compute = machine.roofs()
  local memory, arithmetic = row.bytes / row.usec / 1e3 / bandwidth, row.flops / row.usec / 1e3 / compute
  if row.usec / math.max(1, row.calls) < LATENCY then
    return ("latency: %s a call are little more than starting it; larger operands, or more of the program in one function, would use the machine better"):format(
      units.time(row.usec / math.max(1, row.calls)))
  end
  if arithmetic >= 0.6 and arithmetic >= memory then
    return ("arithmetic: %s of what a product does here; fewer operations would make it faster"):format(percent(arithmetic))
  end
  if memory >= 0.6 then
    return ("memory: %s of what this machine moves%s; fewer bytes would make it faster, by fusing it with what makes or reads them, or narrower types"):format(
      percent(memory), memory > 1.05 and ", so caches hold a part of it" or "")
  end
  local even = evenness(row)
  if even < 0.75 then
    return ("imbalance: threads work %s of the time of the longest one; other programs take processors, or pieces are too large"):format(percent(even))
  end
  return ("instructions: memory is used to %s and arithmetic to %s; what stands between loads and results takes the time"):format(
    percent(memory), percent(arithmetic))
end

return machine
