-- The processes of a job that a launcher has started: mpirun, srun, torchrun. All run the same program.

local core = require "tessera.core"

local world = {}

-- rank(): the number of this process, from 0; without a launcher 0. Every process prints what it prints.
--   if dist.rank() == 0 then print "once" end
function world.rank() return core.world().rank end

-- world(): how many processes there are; without a launcher 1.
--   print(dist.world())      -- 1
function world.world() return core.world().size end

-- transport(): who started the processes, and who carries bytes between them, as text.
--   print(dist.transport())
function world.transport() return core.world().text end

-- flight(): the file in which the processes of this host note their last collectives, or nil; tessera --flight FILE reads it, also
-- when they are dead.
--   print(dist.flight())
function world.flight() return core.world().flight end

-- patience([seconds]): for how long a process that lives is waited for at a collective before that is an error, 600 at first;
-- gives what it was. Those that are dead are told at once. GPUs of one process wait as long for each other, 4 seconds at first.
--   dist.patience(60)
function world.patience(seconds)
  if seconds ~= nil and (type(seconds) ~= "number" or seconds <= 0) then
    core.fail "dist.patience: it takes a number of seconds"
  end
  core.world()
  return core.world_patience(seconds)
end

return world
