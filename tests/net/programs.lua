-- A program gives over several processes what it gives in one, whoever has started them and however many devices each has: dist.map
-- with all its collectives and their gradients, steps of training, attention over split sequences, experts, checkpoints.
package.path = "tests/net/?.lua;" .. package.path
local jobs = require "_jobs"
local count = jobs.count

for _, l in ipairs(jobs.launchers) do
  local out = jobs.run(l, 4, "scripts/run_test.lua tests/mesh/map.lua")
  assert(count(out, "checks 17 failed 0") == 4, l.name .. "\n" .. out)
end

local first = jobs.launchers[1]
if first then
  -- However the devices are dealt out, also those that the host's memory is not that of.
  local want = jobs.alone("--devices=cpu:4 tests/net/_sums.lua range")
  assert(count(want, "\n") == 8, want)
  assert(jobs.run(first, 4, "tests/net/_sums.lua range") == want)
  assert(jobs.run(first, 2, "--devices=cpu:2 tests/net/_sums.lua range") == want)
  assert(jobs.run(first, 3, "--devices=cpu:2 tests/net/_sums.lua cpu:1@2 cpu:0@0 cpu:1@2 cpu:0@2") == want)
  assert(jobs.run(first, 2, "tests/net/_sums.lua cpu:0 cpu:0 cpu:0 cpu:0") == want) -- of each process's own
  for _, l in ipairs(jobs.launchers) do
    assert(jobs.run(l, 2, "tests/net/_sums.lua sim:0@0 sim:1@0 sim:0@1 sim:1@1") == want, l.name)
  end
  local function both(arguments, want)
    for _, how in ipairs { { 4, "" }, { 2, "--devices=cpu:2 " } } do
      local out = jobs.run(first, how[1], how[2] .. arguments(how[1]))
      want(out, how[1])
    end
  end
  both(function() return "scripts/run_test.lua tests/mesh/map.lua" end, function(out, n)
    assert(count(out, "checks 17 failed 0") == n, out)
  end)
  -- Losses and weights of a transformer, f32 and bf16, by ZeRO's stages and split by columns and rows, beside one device.
  both(function() return "scripts/run_test.lua tests/mesh/training.lua" end, function(out, n)
    assert(count(out, "failed 0") == n, out)
  end)
  -- Sequences that are split, and mixtures of experts.
  for _, name in ipairs { "sequence", "moe" } do
    local out = jobs.run(first, 4, ("scripts/run_test.lua tests/mesh/%s.lua"):format(name))
    assert(count(out, "checks %d+ failed 0") == 4 and count(out, "checks 0") == 0, out)
  end
  local out = jobs.run(first, 2, "tests/net/_pipeline.lua")
  assert(count(out, "equal\ttrue\ttrue\ttrue") == 2, out)
  -- A training with checkpoints, which others go on from.
  local function train(n, where, last) return ("tests/mesh/_training.lua %s/%s 4 %d"):format(jobs.folder, where, last) end
  local want = jobs.alone("--devices=cpu:4 " .. train(1, "alone", 10))
  assert(want:find "^10\t", want)
  both(function(n) return train(n, "of" .. n, 10) end, function(out, n) assert(out == want:rep(n), out) end)
  want = jobs.alone("--devices=cpu:4 " .. train(1, "alone", 16))
  out = jobs.run(first, 2, "--devices=cpu:2 " .. train(2, "of4", 16))
  assert(out == want:rep(2), out)
  assert(jobs.alone("--devices=cpu:4 " .. train(1, "of2", 16)) == want)
end
jobs.finish()
