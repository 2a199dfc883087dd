-- Workers of the benchmark: long-lived processes that answer one line to each line
-- they get (protocol: scripts/bench/worker.h). Questions go through a pipe, answers
-- come back through a named pipe. Between its turns a worker is stopped: threads of some
-- libraries look for work long after the last call, on the processor that others are measured on.

local ffi = require "ffi"
ffi.cdef "int kill(int pid, int signal); void *signal(int signal, void *action);"
local CONTINUE, STOP = 18, 19 -- SIGCONT, SIGSTOP of Linux
ffi.C.signal(13, ffi.cast("void *", 1)) -- SIGPIPE, SIG_IGN: a worker that has ended is a line in the notes

local worker = {}
worker.__index = worker

local DIR = "build/bench"
local all = {} -- workers by number

-- Programs of the peers run on the same number of threads, and on the CPU.
local function environment(threads)
  local names = { "OMP", "MKL", "OPENBLAS", "NUMEXPR" }
  local cpu = (os.getenv "DEV" or "") == "" and "CUDA_VISIBLE_DEVICES= JAX_PLATFORMS=cpu " or ""
  local out = { "env " .. cpu .. "XLA_PYTHON_CLIENT_PREALLOCATE=false TF_CPP_MIN_LOG_LEVEL=3" }
  for _, name in ipairs(names) do out[#out + 1] = ("%s_NUM_THREADS=%d"):format(name, threads) end
  out[#out + 1] = "NPROC=" .. threads
  if threads == 1 then out[#out + 1] = "XLA_FLAGS=--xla_cpu_multi_thread_eigen=false" end
  return table.concat(out, " ")
end

function worker.start(command, threads)
  local count = #all + 1
  local w = setmetatable({ command = command, threads = threads }, worker)
  w.fifo = ("%s/answers.%d"):format(DIR, count)
  os.execute(("rm -f %s && mkfifo %s"):format(w.fifo, w.fifo))
  w.file = ("%s/worker.%d.pid"):format(DIR, count)
  w.questions = io.popen(("echo $$ > %s; exec %s %s > %s 2> %s/worker.%d.log"):format(w.file, environment(threads),
    command, w.fifo, DIR, count), "w")
  w.questions:setvbuf("line")
  w.answers = io.open(w.fifo, "r")
  w.pid = tonumber(io.open(w.file):read("*l")) -- the shell became the worker
  all[count] = w
  return w
end

-- What a GPU still does for a worker is not stopped with it: those run on.
local function signal(w, which)
  if (os.getenv "DEV" or "") == "" then ffi.C.kill(w.pid, which) end
end

-- All of them, when the driver fails or is interrupted: it waits for them as it ends.
function worker.release()
  for _, w in ipairs(all) do signal(w, CONTINUE) end
end

function worker:stop()
  signal(self, CONTINUE)
  self.answers:close()
  self.questions:close()
  os.remove(self.fifo)
  os.remove(self.file)
  self.questions = nil
end

-- Returns the answer's words after "ok", or nil and why not: nil without a reason
-- means that the worker does not have what was asked for.
function worker:ask(question)
  if not self.questions then return nil, "its process has ended" end
  signal(self, CONTINUE)
  self.questions:write(question, "\n")
  self.questions:flush()
  local line = self.answers:read("*l")
  if not line then
    self:stop()
    return nil, "its process ended at: " .. question
  end
  signal(self, STOP)
  local kind, text = line:match("^(%S+)%s*(.*)$")
  if kind == "ok" then return text end
  return nil, kind == "fail" and text or nil
end

return worker
