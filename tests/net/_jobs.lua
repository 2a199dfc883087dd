-- Programs over several processes, started by the launchers that are installed.
local jobs = {}
local program = arg[-1] or "bin/tessera"

local function shell(command)
  local p = io.popen("{ " .. command .. "; } 2>&1; echo \"exit $?\"")
  local out = p:read "*a"
  p:close()
  return (out:gsub("exit 0\n$", ""))
end
jobs.shell = shell

local function there(name) return shell("command -v " .. name .. " >/dev/null"):find "exit" == nil end

-- How each starts n processes; and how it lets the others live when one is killed, if it can.
jobs.launchers = {}
local function launcher(name, exists, command, survives)
  if exists then
    jobs.launchers[#jobs.launchers + 1] = { name = name, command = command, survives = survives }
  else
    print("skipped: there is no " .. name)
  end
end
launcher("mpirun of Open MPI", there "mpirun.openmpi", "mpirun.openmpi --allow-run-as-root --oversubscribe", "--enable-recovery")
launcher("mpirun of MPICH", there "mpirun.mpich", "mpirun.mpich")
local abi = io.open "build/python/lib/libmpi_abi.so.1"
if abi then abi:close() end
launcher("MPI of the standard interface in build/python", abi,
  "env TESSERA_MPI=build/python/lib/libmpi_abi.so.1 build/python/bin/mpiexec")

--- What n processes print that run these arguments.
function jobs.run(l, n, arguments, survives)
  return shell(("TESSERA_FLIGHT=%s timeout 120 %s %s -n %d %s --threads=1 %s"):format(jobs.folder, l.command, survives and l.survives or "",
    n, program, arguments))
end

--- The same where each process takes itself for one of another host.
function jobs.run_apart(l, n, arguments)
  return shell(("TESSERA_FLIGHT=%s timeout 120 %s -n %d sh -c 'TESSERA_HOST=node$OMPI_COMM_WORLD_RANK$PMI_RANK exec %s --threads=1 %s'"):format(
    jobs.folder, l.command, n, program, arguments))
end

--- The same in one process.
function jobs.alone(arguments) return shell(("timeout 120 %s --threads=1 %s"):format(program, arguments)) end

function jobs.count(text, what)
  local n = 0
  for _ in text:gmatch(what) do n = n + 1 end
  return n
end

jobs.folder = os.tmpname()
os.remove(jobs.folder)
shell("mkdir " .. jobs.folder)
function jobs.finish() shell("rm -rf " .. jobs.folder) end

return jobs
