-- A program gives over several processes what it gives in one, whoever has started them and however many devices each has: dist.map
-- with all its collectives and their gradients, steps of training, attention over split sequences, experts, checkpoints.
package.path = "tests/net/?.lua;" .. package.path
local jobs = require "_jobs"
local count = jobs.count

for _, l in ipairs(jobs.launchers) do
  local out = jobs.run(l, 4, "scripts/run_test.lua tests/mesh/map.lua")
  assert(count(out, "checks 18 failed 0") == 4, l.name .. "\n" .. out)
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
    assert(count(out, "checks 18 failed 0") == n, out)
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
  -- Twenty steps of a GPT-2 and of a mixture of experts; LONG=1: over all arrangements.
  local models = dofile "tests/mesh/_models.lua"
  local function arrangements(kind, k)
    local list = {}
    for i, text in ipairs(models.arrangements[kind]) do
      if os.getenv "LONG" or i % 8 == k then list[#list + 1] = "'" .. text .. "'" end
    end
    return table.concat(list, " ")
  end
  for k, kind in ipairs { "gpt2", "moe" } do
    for n, cast in ipairs { "f32", "bf16" } do
      local l = jobs.launchers[(k + n) % #jobs.launchers + 1]
      local out = jobs.run(l, 2 * n, ("tests/net/_models.lua %s %s %s %s"):format(jobs.folder, kind, cast, arrangements(kind, 2 * k + n)))
      assert(out:find "compared %d+ over %d ranks, wrong 0" and not out:find "rank %d:", l.name .. "\n" .. out)
    end
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

-- The same where NCCL carries everything: a library that stands for it, beside a driver without GPUs.
local built = jobs.shell(("cc -shared -fPIC -w -o %s/libnccl.so.2 tests/net/fake_nccl.c && cc -std=gnu11 -D_GNU_SOURCE -I. -shared -fPIC -w -o %s/cuda.so tests/devices/driver/fake_cuda.c")
  :format(jobs.folder, jobs.folder))
if built:find "exit" then
  print("skipped: there is no C compiler for a library that stands for NCCL")
else
  local ranks = ([[for r in 0 1; do RANK=$r WORLD_SIZE=2 LOCAL_RANK=$r LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29%d FAKE_NCCL=%s TESSERA_NCCL=%s/libnccl.so.2 TESSERA_LIBCUDA=%s/cuda.so TESSERA_FLIGHT=%s timeout 120 %s --threads=1 tests/net/_models.lua %s %s & done; wait]])
  for k, what in ipairs { "gpt2 f32 'dp2 tp2 zero0' 'dp2 pp2 micro2 zero1'", "moe bf16 ep2 'dp2 zero2'" } do
    local d = jobs.folder
    local out = jobs.shell(ranks:format(310 + k, d, d, d, d, arg[-1] or "bin/tessera", d, what))
    assert(out:find "compared 3 over 2 ranks, wrong 0" and not out:find "rank %d:", out)
  end
end
jobs.finish()
