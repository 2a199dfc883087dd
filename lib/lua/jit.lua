-- tessera.jit: kernels that are compiled while the program runs. LuaJIT's own jit library is the
-- global of that name and has nothing to do with it.
--
--   tessera.jit.v()                -- a line to stderr for what is compiled, and what not
--   print(tessera.jit.loops()[1])  -- loops of plain code that became kernels

local core = require "tessera.core"
local captured = require "tessera.captured"
local facts = require "tessera.explain.facts"
local options = require "tessera.options"

local jit = {}

-- What gets hot is compiled, as it is at first; says on stderr why nothing is where that is so.
--   tessera.jit.on()
function jit.on()
  local _, absent = core.jit(true)
  if absent then io.stderr:write(("tessera.jit: nothing is compiled: %s\n"):format(absent)) end
end

-- Everything runs on the VM from now on; the results have the same bits.
--   tessera.jit.off()
function jit.off() core.jit(false) end

-- Whether kernels run, and why not if there is a reason.
--   print(tessera.jit.status())
function jit.status() return core.jit() end


-- v([on]): a line to stderr for each promotion, refusal, return to bytecode, new specialisation (and the closest one),
-- side exit of a hot loop, eviction. tessera -jv does it for a whole run.
--   tessera.jit.v()
jit.v = core.jit_verbose

-- wait(): until everything that is hot is compiled: for measurements.
--   for _ = 1, 100 do f(x, y) end
--   tessera.jit.wait()
jit.wait = core.jit_wait

-- flush(): forgets compiled code and counts; what is on disk stays.
--   tessera.jit.flush()
jit.flush = core.jit_flush

-- stats(): what was compiled so far, {kernels, from_disk, refused, promoted, compile_ms, ...}.
--   print(tessera.jit.stats().kernels)
jit.stats = core.jit_stats

-- eager(on): compile at the first call, and wait for it: for tests.
--   tessera.jit.eager(true)
function jit.eager(on) core.jit_eager(on) end

-- traces([eager]): {traces, deferred, quick, runs, exits, observed, replayed} of hot loops; eager: whatever repeats
-- twice is a trace at once, for tests.
--   print(tessera.jit.traces().runs)
jit.traces = core.jit_traces

-- device([on]): {calls, fallback, kernels, from_disk, refused, compile_ms, meanwhile, replays, replayed, early} of operators on
-- GPUs; on = false: the CPU runs them, over fetched bytes.
--   print(tessera.jit.device().kernels)
jit.device = core.jit_device

-- overlap(on): kernels of a function that need nothing of each other run side by side on a GPU, from the next time that
-- their launches are recorded. Off at first.
--   tessera.jit.overlap(true)
jit.overlap = core.jit_overlap

-- ahead([on]): whether launches of a function that are replayed as a record begin before the one in front of them ends, where
-- what they read before they wait is not written by it: a product of few rows reads its matrix so. On at first; holds from the
-- next record on. Gives what it was.
--   tessera.jit.ahead(false)
jit.ahead = core.jit_ahead

-- persistent(on): kernels of a function on an NVIDIA GPU, or a simulated one, are one launch, whose blocks wait for each
-- other by counters, where a check proves that they may; else they are replayed as a record. f:why() says which, and why;
-- f:ir "schedule" has the tasks. The bits are the same. Off at first: on an H100 the record is faster so far.
--   tessera.jit.persistent(true)
function jit.persistent(on) return (core.jit_persistent(on)) end

-- pages([on]): whether op.paged_attention reads pages where they lie on an NVIDIA GPU with a copy engine, each next token in 16
-- bits; else pages are brought together first, as for other types and sizes. f:why() says which, and why. Holds for what is compiled
-- from then on: what was compiled is forgotten. The bits are the same. On at first. Gives what it was.
--   tessera.jit.pages(false)
jit.pages = core.jit_pages

-- later(on): the CPU runs small calls on a GPU (meanwhile) until their kernels are compiled, with the same bits; on at
-- first. wait() waits for these kernels as well.
--   tessera.jit.later(false)
jit.later = core.jit_later

local LAUNCHED = {}
for i, level in ipairs(core.jit_levels "call") do LAUNCHED[i] = level.name end
LAUNCHED = options.one_of(unpack(LAUNCHED))
local showing = false
local read_ir = options.of("loop:ir", { target = options.text })

-- ir(level, f, ...): calls f, an operator or a function of them, and gives the kernels that its operators launch on
-- devices, in their order, as text: "tile", "explicit", "llvm", "asm", "tiles". What is captured has f:ir.
--   print(tessera.jit.ir("tile", op.softmax, x:to "sim:0"))
function jit.ir(level, f, ...)
  options.argument("jit.ir", "level", LAUNCHED, level)
  core.need_function(f, "jit.ir")
  if showing then core.fail "jit.ir: a call inside of jit.ir is shown already" end
  showing = true
  core.jit_show(level)
  local ok, why = pcall(f, ...)
  local text = core.jit_show()
  showing = false
  if not ok then error(why, 0) end
  if text == "" then
    core.fail "jit.ir: no operator ran on a device; the CPU's are those of the VM\n  hint: x:to 'sim:0' has the kernels of a GPU; f:ir those of a captured function"
  end
  return text
end

local Loop = {}
Loop.__index = Loop

local function text_of(core_text, loop, level, given)
  options.argument("loop:ir", "level", options.text, level)
  local target = read_ir(given).target
  core.jit_level("loop", level, target)
  local text = core_text(loop.id, level, target)
  if text then return text end
  error(("the loop at %s is no more: other code runs there, or it was not worth it; jit.loops() lists them")
    :format(loop.where), 3)
end

--- The text of a level, of what runs now, as f:ir of a captured function gives it.
---   for _, loop in ipairs(tessera.jit.loops()) do print(loop:ir "why") end
function Loop:ir(level, given)
  if level == nil then level = "graph" end
  if facts.has(level) then return tostring(self:facts(level, given)) end
  return text_of(core.jit_loop_text, self, level, given)
end

--- What loop:ir has as text, as a table, as f:facts of a captured function gives it.
---   for _, loop in ipairs(tessera.jit.loops()) do print(#loop:facts("tile").kernels) end
function Loop:facts(level, given) return facts.of(text_of(core.jit_loop_facts, self, level, given)) end

--- What was decided about it and why, as f:why of a captured function.
---   for _, loop in ipairs(tessera.jit.loops()) do print(loop:why()) end
function Loop:why() return self:facts "why" end

--- What each of its kernels is, as f:tiles of a captured function.
---   for _, loop in ipairs(tessera.jit.loops()) do print(loop:tiles()) end
function Loop:tiles(given) return self:facts("tiles", given) end

captured.class(Loop, "loop")

function Loop:__tostring()
  return ("loop at %s: %d calls, %d runs, %s"):format(self.where, self.calls, self.runs,
    self.live and "by kernels" or "by operators")
end

-- The loops of plain code that became functions: a list of {where, calls, runs, live}, which print as a line, and have
-- loop:ir(level): "graph", "schedule", "tile", "explicit", "llvm", "asm", "bytecode", "tiles", "why"; {target =
-- "sm_90a"}: as f:ir.
--   for _, loop in ipairs(tessera.jit.loops()) do print(loop:ir "tile") end
function jit.loops()
  local list = core.jit_loops()
  for _, l in ipairs(list) do setmetatable(l, Loop) end
  return list
end

local function pin(name, on, f, ...) return captured.need("jit." .. name, f):pin(on, ...) end

-- pin(f, ...): compiles a captured function now, for these arguments or those of its last call, and keeps its kernels:
-- they are not weighed against operators, and other sizes do not evict it. Whether kernels run; f:ir "why" says why not.
-- flush() forgets them.
--   print(tessera.jit.pin(f, x, y))
function jit.pin(f, ...) return pin("pin", true, f, ...) end

-- unpin(f, ...): the end of jit.pin, for these arguments or those of the last call.
--   tessera.jit.unpin(f, x, y)
function jit.unpin(f, ...) pin("unpin", false, f, ...) end

-- prepare([device]): compiles what most programs use on a GPU into the disk cache: element-wise operators, rows,
-- products, attention and its gradients, of the profile in force; {kernels, from_disk, ms}. Once a machine and driver.
--   print(pcall(tessera.jit.prepare, "cuda:0"))
function jit.prepare(device) return require("tessera.prepare")(device) end

local Profile = {}

function Profile.__tostring(rows)
  local total, lines = 0, {}
  if #rows == 0 then return "no kernel of a GPU ran" end
  for _, r in ipairs(rows) do total = total + r.us end
  lines[1] = ("%9s %6s %7s %9s %8s %9s  kernel"):format("us", "%", "count", "us each", "GB/s", "GFLOP/s")
  for _, r in ipairs(rows) do
    lines[#lines + 1] = ("%9.1f %6.2f %7d %9.2f %8.0f %9.0f  %s"):format(r.us, 100 * r.us / total, r.count,
      r.us / r.count, r.bytes / r.us * 1e-3, r.flops / r.us * 1e-3, r.name)
  end
  lines[#lines + 1] = ("%9.1f us in all"):format(total)
  return table.concat(lines, "\n")
end

-- device_profile(f, ...): runs f with every kernel of a GPU by itself and measured; a list of {name, count, us, bytes,
-- flops}, dearest first, which prints as a table. bytes: of the operands, each once.
--   print(tessera.jit.device_profile(op.softmax, x:to "sim:0"))
function jit.device_profile(f, ...)
  core.need_function(f, "jit.device_profile")
  local rows
  core.guarded(function() rows = core.jit_profile(false) end, function(...)
    core.jit_profile(true)
    f(...)
  end, ...)
  return setmetatable(rows, Profile)
end

return require("tessera.named")("tessera.jit", jit)
