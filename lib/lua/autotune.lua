-- autotune: measures what could be chosen for a kernel, and remembers what was fastest. Results
-- have the same bits whatever is chosen.
--
--   autotune.mode("cached")      -- only winners on disk: the beginning
--   autotune.mode("on")          -- measures, while the program is idle
--   autotune.mode("off")         -- kernels are what the compiler chooses
--   autotune.budget{ms = 1000}   -- for a kernel; see ? autotune.budget
--   autotune.tune(f, x, y)       -- measures a captured function's kernels
--   print(autotune.plan(f))      -- which, and how long that may take
--   print(autotune.report())     -- what was measured, as text
--   autotune.clear()             -- forgets the winners, on disk too
--
-- tune takes kernels of op.kernel, too. Of a function that runs on a GPU it measures the kernels there;
-- what was measured for some GPUs comes with the program.

local core = require "tessera.core"
local captured = require "tessera.captured"

local autotune = {}

--- Sets the mode: "off", "cached" or "on"; gives it.
--   autotune.mode "on"
function autotune.mode(mode)
  if mode ~= nil and mode ~= "off" and mode ~= "cached" and mode ~= "on" then
    error(("autotune.mode is \"off\", \"cached\" or \"on\", not %s"):format(tostring(mode)), 2)
  end
  return core.autotune_mode(mode)
end

--- Sets what measuring may cost: ms for a kernel (a function's kernels share theirs by run time), total in ms for all, mb of memory for made-up
--- inputs, candidates of a kernel; gives all of them. What was spent of the total begins anew.
--   autotune.budget{ms = 1000, total = 60000}
function autotune.budget(b)
  b = b or {}
  if type(b) ~= "table" then
    error(("autotune.budget takes a table such as {ms = 1000}, not a %s"):format(type(b)), 2)
  end
  for name, n in pairs(b) do
    if name ~= "ms" and name ~= "total" and name ~= "mb" and name ~= "candidates" then
      error(("budget has ms, total, mb and candidates, not '%s'"):format(tostring(name)), 2)
    end
    if type(n) ~= "number" or not (n >= 0 and n <= 1e9) then
      error(("budget: %s is a number that is not negative and at most 1e9"):format(name), 2)
    end
    if name == "candidates" and n % 1 ~= 0 then error("budget: candidates is a whole number", 2) end
  end
  local ms, total, bytes, candidates = core.autotune_budget(b.ms, b.total, b.mb and b.mb * 2^20, b.candidates)
  return { ms = ms, total = total, mb = bytes / 2^20, candidates = candidates }
end

--- Measures the kernels of a captured function for these arguments, or for those of its last
--- call, and runs the fastest from then on; or a kernel of op.kernel, for these arguments. The time of the budget, ms for
--- each kernel, is spent by their shares of the run time, longest first. Gives a table for each kernel: kernel, what it does;
--- share, of the run time; ms that it might take; a list of candidates in the cost model's order, {choice, us, best, why}, where
--- why tells what is not measured: "does not fit: ..", "other bits", "not tried: .."; why, if nothing was
--- measured: "chosen by the user", "interrupted" ... Ctrl-C keeps what was measured before.
--   print(autotune.text(autotune.tune(f, x, y)))
function autotune.tune(f, ...)
  captured.need("autotune.tune", f, true)
  local before = #core.autotune_records()
  f:tune(...)
  return core.autotune_records(before)
end

-- What tune is about to measure, and how long it may take, as text.
--   print(autotune.plan(f))
function autotune.plan(f)
  captured.need("autotune.plan", f, true)
  return require("tessera.tune.text").plan(f)
end

-- The list that autotune.tune gives, as text: each kernel with the times of its candidates, what won and by how much, and why
-- the others lost.
--   print(autotune.text(autotune.tune(f, x, y)))
function autotune.text(records)
  local first = type(records) == "table" and records[1]
  if type(records) ~= "table" or first ~= nil and (type(first) ~= "table" or not first.kernel) then
    core.fail "autotune.text: it takes what autotune.tune gives, a list of records of kernels"
  end
  return require("tessera.tune.text").records(records)
end

-- What this program measured so far, as text: each kernel with the times of its candidates.
--   print(autotune.report())
function autotune.report() return autotune.text(core.autotune_records()) end

-- Forgets the winners that were measured and their records, on disk too: kernels are what the compiler chooses again.
--   autotune.clear()
function autotune.clear() core.autotune_clear() end

return require("tessera.named")("tessera.autotune", autotune)
