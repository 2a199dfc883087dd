-- Programs that go wrong, each as one of several processes: _faults.lua what [file]. Each line that is printed begins with the
-- rank. With a file it goes into file.rank: launchers lose what is printed when a process dies.
local tessera = require "tessera"
local op, dist, checkpoint = tessera.op, tessera.dist, tessera.checkpoint
local ffi = require "ffi"
ffi.cdef "int kill(int, int); int getpid(void); int usleep(unsigned);"
local C, rank, n = ffi.C, dist.rank(), dist.world()
local mesh = dist.Mesh { axes = { "dp" }, devices = dist.range(n) }
local x = dist.shard(op.arange(2 * n), mesh, { "dp" })

local to = arg[2] and assert(io.open(arg[2] .. "." .. rank, "w")) or io.stdout
local function say(...)
  local words = { ... }
  for i = 1, select("#", ...) do words[i] = tostring(words[i]):gsub("\n", " ") end
  to:write(("%d: %s\n"):format(rank, table.concat(words, " ")))
  to:flush()
end

-- One rank stands still until another has said something, however long that takes.
local function told_by(file)
  while true do
    local there = io.open(file)
    if there then return there:close() end
    C.usleep(10000)
  end
end
local function tell(file) assert(io.open(file, "w")):close() end

local what = {}

-- One rank comes to another collective; afterwards all go on together.
function what.mismatch()
  local ok, why = pcall(function()
    if rank == 1 then return x:reshard {}:hash() end
    return x:sum():item()
  end)
  say(ok, why)
  say("then", x:sum():item())
end

function what.killed()
  for _ = 1, 20 do x:sum():item() end
  C.usleep(300000)
  if rank == n - 1 then C.kill(C.getpid(), 9) end
  local ok, why = pcall(function() return x:max():item() end)
  say(ok, why)
  say("alive", op.ones { 3 }:sum():item())
  say("flight", dist.flight())
end

-- A rank's program ends with an error of its own.
function what.ended()
  x:sum():item()
  if rank == 1 then error "no more of this" end
  say(pcall(function() return x:max():item() end))
end

-- A rank computes and computes: the others say for whom they wait, and Ctrl-C ends that.
function what.late()
  x:sum():item()
  local file = os.getenv "TESSERA_FLIGHT" .. "/interrupted"
  if rank == 1 then told_by(file) else os.execute(("(sleep 6; kill -INT %d) &"):format(C.getpid())) end
  local ok, why = pcall(function() return x:max():item() end)
  if rank == 0 then tell(file) end
  say(ok, why)
  say("alive", op.ones { 3 }:sum():item())
end

-- A rank comes late, and what the others send on behind it arrives though they end at once.
function what.comes()
  x:sum():item()
  if rank == 1 then C.usleep(3000000) end
  say("max", x:max():item())
end

function what.patience()
  dist.patience(1)
  x:sum():item()
  local file = os.getenv "TESSERA_FLIGHT" .. "/gave-up"
  if rank == 1 then told_by(file) end
  local ok, why = pcall(function() return x:max():item() end)
  if rank == 0 then tell(file) end
  say(ok, why)
end

-- The elements of others' parts.
function what.away()
  local parts = x:parts()
  for p, t in ipairs(parts) do say("part", p - 1, t.device, (pcall(t.totable, t))) end
  local y = parts[1] * 2 + op.ones { 2 }
  say("more", y.device, y.shape)
  say("all", table.concat(x:totable(), " "))
end

what[arg[1]]()
