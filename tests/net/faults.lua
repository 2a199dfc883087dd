-- Ranks that come to another collective, die, end, or take long: who, where and at what line is said on both sides, and those
-- that live go on.
package.path = "tests/net/?.lua;" .. package.path
local jobs = require "_jobs"
local shell = jobs.shell

local function run(l, n, what, survives) return jobs.run(l, n, "tests/net/_faults.lua " .. what, survives) end

local function has(out, ...)
  for _, line in ipairs { ... } do
    assert(out:find(line), "not there: " .. line .. "\n" .. out)
  end
end

-- Where a text stands in the program.
local function line_of(text)
  local n = 0
  for line in io.lines "tests/net/_faults.lua" do
    n = n + 1
    if line:find(text, 1, true) then return n end
  end
end

for _, l in ipairs(jobs.launchers) do
  local out = run(l, 3, "mismatch")
  local reduce = "all_reduce of sum: i64%[%] %-> i64%[%] %(tests/net/_faults.lua:" .. line_of "return x:sum():item()" .. "%)"
  local gather = "all_gather of reshard: i64%[6@dp%] %-> i64%[6%] %(tests/net/_faults.lua:" .. line_of "return x:reshard" .. "%)"
  has(out, "0: false .*rank 0 %([^)]+%) is at " .. reduce .. ", rank 1 %([^)]+%) at " .. gather,
    "1: false .*rank 1 %([^)]+%) is at " .. gather .. ", rank [02] %([^)]+%) at " .. reduce, "2: false .*" .. reduce,
    "as collective 1: all ranks come to the same ones", "0: then 15", "1: then 15", "2: then 15")
  out = jobs.run_apart(l, 3, "tests/net/_faults.lua mismatch")
  has(out, "0: false .*rank 0 %(node0%) is at " .. reduce .. ", rank 1 %(node1%) at " .. gather,
    "1: false .*rank 1 %(node1%) is at " .. gather .. ", rank [02] %(node[02]%) at " .. reduce, "2: false ", "0: then 15", "1: then 15", "2: then 15")
  if l.survives then
    local file = jobs.folder .. "/said"
    run(l, 4, "killed " .. file, true)
    out = shell("cat " .. file .. ".[012]")
    has(out, "0: false [^\n]*rank 3 %([^)]+%) is dead; its last collective was %d+, all_reduce of sum", "0: alive 3",
      "1: alive 3", "2: false ")
    local path = out:match "0: flight (%S+)"
    local told = shell((arg[-1] or "bin/tessera") .. " --flight " .. path)
    has(told, "^job %x+, 4 ranks\n", "rank 3  %S+  process %d+  dead", "done  +%d+ bytes  all_reduce of sum: i64%[%] %-> i64%[%]  tests/net/_faults.lua:%d+",
      "failed", "rank 3 has come to collective %d+, others to %d+")
  end
end

local first = jobs.launchers[1]
if first then
  local out = run(first, 2, "ended")
  has(out, "0: false [^\n]*rank 1 %([^)]+%) has ended: tests/net/_faults.lua:%d+: no more of this", "no more of this")
  out = run(first, 2, "late")
  has(out, "tessera: rank 0 %([^)]+%) waits since 3 s for rank 1 %([^)]+%) at all_reduce of max: i64%[%] %-> i64%[%] %(tests/net/_faults.lua:%d+%)",
    "0: false [^\n]*max: interrupted", "0: alive 3", "1: false [^\n]*rank 0 %([^)]+%) gave it up: [^\n]*interrupted", "1: alive 3")
  out = run(first, 4, "comes")
  has(out, "0: max %d", "1: max %d", "2: max %d", "3: max %d")
  out = run(first, 2, "patience")
  has(out, "0: false [^\n]*waited 1 s for rank 1", "dist.patience")
  out = run(first, 2, "away")
  has(out, "0: part 0 cpu:0 true", "0: part 1 away false", "1: part 0 away false", "0: more cpu:0 %[2%]", "1: more away %[2%]", "0: all 0 1 2 3",
    "1: all 0 1 2 3")
end

-- No flight of this version, none at all, and who is alone.
local program = arg[-1] or "bin/tessera"
has(shell(program .. " --flight README.md"), "README.md is no flight of this version\nexit 1")
has(shell(program .. " --flight nosuch.flight"), "nosuch.flight: No such file or directory\nexit 1")
has(shell(program .. " -l tessera -e 'print(dist.rank(), dist.world(), dist.transport(), dist.flight())'"), "^0\t1\tone process\tnil\n")
-- Variables of a launcher without what it would connect by.
has(shell("RANK=0 WORLD_SIZE=2 " .. program .. " -l tessera -e 'dist.world()'"), "torchrun has started 2 processes, and none has a GPU",
  "mpirun %-n 2 tessera")
has(shell("OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 TESSERA_MPI=/nosuch.so " .. program .. " -l tessera -e 'dist.world()'"),
  "no MPI: /nosuch.so is none that can be used")
has(shell(program .. " -l tessera -e 'dist.Mesh {axes = {\"dp\"}, devices = {\"cpu:0@1\"}}'"), "there are ranks 0 to 0")
jobs.finish()
