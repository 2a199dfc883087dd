-- What the tuner is about to measure, and what it measured, as text: see autotune.plan and autotune.text.
local core = require "tessera.core"
local captured = require "tessera.captured"
local text = {}

local function seconds(ms) return ms >= 1e5 and ("%.0f s"):format(ms / 1000) or ms >= 1000 and ("%.3g s"):format(ms / 1000) or ("%.3g ms"):format(ms) end
local function time(us) return us >= 1e6 and ("%.2f s"):format(us / 1e6) or us >= 1e3 and ("%.2f ms"):format(us / 1e3) or ("%.2f us"):format(us) end
local function count(n, noun) return n == 1 and "1 " .. noun or n .. " " .. noun .. "s" end

--- Which kernels, how long at most, and what raises that.
function text.plan(f)
  local ms, total, _, candidates, spent = core.autotune_budget()
  local n, name = 1, f.name
  if captured.is_function(f) and f.current then
    n = 0
    for _, g in ipairs(f:_runs():groups()) do
      if g.kernel and g.origin ~= "chosen by the user" and not g.edited and next(g.can) then n = n + 1 end
    end
  end
  local left = math.max(0, total - spent)
  return ("%s: %s, up to %d candidates of each, in at most %s, shared by run time\n"):format(name, count(n, "kernel"),
    candidates, seconds(math.min(n * ms, left))) ..
    ("  (%s for a kernel, %s left of %s in all: autotune.budget{ms = %d, total = %d, candidates = %d} gives more)\n"):format(
      seconds(ms), seconds(left), seconds(total), 2 * ms, math.max(2 * total, 2 * n * ms), 2 * candidates)
end

local function choice_of(c) return c.choice == "as it was" and "the default" or c.choice end

-- Why a candidate that was measured lost, or that it won.
local function verdict(c, best, usual)
  if c.best then
    if c == usual then return "  <- runs: no other is clearly faster" end
    return ("  <- runs: %.0f%% faster than the default"):format((usual.us / c.us - 1) * 100)
  end
  local percent = (c.us / best.us - 1) * 100
  if percent <= -5 then return ("  %.0f%% faster at first, not again"):format((best.us / c.us - 1) * 100) end
  if percent < 0.5 then return "  as fast, within what is noise" end
  return ("  %.0f%% slower"):format(percent)
end

-- Those of one reason that have no times share a line.
local function put_untried(r, out)
  local of, order = {}, {}
  for _, c in ipairs(r) do
    if not c.us and c.why then
      if not of[c.why] then of[c.why], order[#order + 1] = {}, c.why end
      table.insert(of[c.why], choice_of(c))
    end
  end
  for _, why in ipairs(order) do out[#out + 1] = ("  %13s  %s: %s\n"):format("", table.concat(of[why], "; "), why) end
end

function text.records(records)
  local out = {}
  for _, r in ipairs(records) do
    local best, usual, known
    for i, c in ipairs(r) do
      if c.best then best = c end
      if i == 1 then usual = c end
      known = known or c.us
    end
    out[#out + 1] = r.kernel
    if r.why and known then
      out[#out + 1] = (": %s, so the default runs; what was measured until then:"):format(r.why)
    elseif r.why then
      out[#out + 1] = ": not measured, " .. r.why
    else
      if r.share then out[#out + 1] = (", %.0f%% of the run time"):format(r.share * 100) end
      if r.ms then out[#out + 1] = (", at most %s"):format(seconds(r.ms)) end
    end
    out[#out + 1] = "\n"
    for _, c in ipairs(r) do
      if c.us then
        out[#out + 1] = ("  %13s  %s%s\n"):format(time(c.us), choice_of(c), best and best.us and verdict(c, best, usual) or "")
      end
    end
    put_untried(r, out)
    if r.differing > 0 then
      out[#out + 1] = ("  %d candidates had other bits: please report this\n"):format(r.differing)
    end
  end
  return out[1] and table.concat(out) or "no kernel was measured\n"
end

return text
