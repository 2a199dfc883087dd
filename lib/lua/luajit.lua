-- A fault of the LuaJIT that is linked, kept away from programs (upstream's issue 1376; the newest one
-- that distributions have has it). Its code for a 64-bit FFI product that is compared with zero next jumps
-- by the flags that the multiplication leaves, which say nothing: the test in between is left out when
-- the comparison stands right behind the product.
--
-- In what is recorded the product's box stands between them. Only the copy of a loop's body, which the
-- option "loop" makes, has boxes that are not needed any more left out. So each trace is looked at before
-- it first runs; one with such a pair goes, and its loop is recorded again without that option. All
-- other code is as it was. Rejected: "loop", "cse" or "fold" off for everything. Each keeps the pair
-- apart, but int64 loops take 25 to 85 times as long without any of them (boxes are no longer sunk), plain
-- loops up to 8 times without "loop" (mandelbrot 1.6, matrices in tables 2.7), nbody 1.3 without the others.
--
-- -Oloop and jit.opt.start("loop") trust the option: then nothing is looked at.

local util, opt = require "jit.util", require "jit.opt"
local attach, flush, off, status = jit.attach, jit.flush, jit.off, jit.status
local start = opt.start
local traceir, traceinfo, tracemc, funcinfo = util.traceir, util.traceinfo, util.tracemc, util.funcinfo
local tracesnap, traceexitstub = util.tracesnap, util.traceexitstub
local note, forget = require("tessera.interrupt").note, require("tessera.interrupt").forget
local band, rshift = bit.band, bit.rshift
local select, require, pcall, getinfo = select, require, pcall, debug.getinfo

local I64, U64 = 21, 22 -- types of IR instructions
local compares = { ["LT    "] = true, ["GE    "] = true, ["LE    "] = true, ["GT    "] = true, ["EQ    "] = true, ["NE    "] = true }

local plain = {}    -- loops that are recorded without the option, by their place
local other         -- whoever else listens to traces
local trusted       -- the program wants the option as it is
local place, suspended
local line          -- of the program, where the trace that is being recorded begins
local own           -- it begins in the program, not in the library
local lines = {}    -- by trace

local irnames
local function name_of(ot)
  local at = 6 * rshift(ot, 8)
  return irnames:sub(at + 1, at + 6)
end

-- Loaded when the first trace is looked at. Without it nothing can be told from traces.
local function load_names()
  local found, vmdef = pcall(require, "jit.vmdef")
  irnames = found and vmdef.irnames
  if found then return true end
  trusted = true
  start "-cse"
  flush()
end

local function has_pair(trace)
  local product
  for ref = 1, traceinfo(trace).nins do
    local _, ot, left, right = traceir(trace, ref)
    if not ot then return false end
    local type = band(ot, 31)
    local wide = type == I64 or type == U64
    -- Constants have negative numbers.
    if wide and product and left == ref - 1 and right < 0 and compares[name_of(ot)] then return true end
    product = wide and name_of(ot) == "MUL   "
  end
  return false
end

local function has_loop_option()
  for i = 2, select("#", status()) do
    if select(i, status()) == "loop" then return true end
  end
end

-- Ctrl-C in a loop that hears none tells where it is, of traces of the library by the line of the trace
-- around them, and makes those of the program end (repl/interrupt_exits.h): by the first exit, where its
-- snapshot restores nothing. Of the others the library's are left alone: it ends what it has begun.
local function tell(trace)
  local code, address, loop = tracemc(trace)
  lines[trace] = line
  if not line or not code then return end
  local snapshot = own and tracesnap(trace, 0)
  local plain = snapshot and #snapshot == 2 -- its slots, its end
  if plain then return note(address, #code, line, trace, loop, traceexitstub(0)) end
  note(address, #code, line)
end

local function look(what, trace, func, pc, parent)
  if what == "flush" then
    lines = {}
    return forget()
  end
  if what == "start" then
    local info = funcinfo(func, pc)
    place = info.loc .. ":" .. pc
    line, own = lines[parent], not info.source:find "^=tessera"
    if own then line = getinfo(func, "S").short_src .. ":" .. info.currentline end
    suspended = plain[place] and has_loop_option()
    if suspended then start "-loop" end
    return
  end
  if what ~= "stop" and what ~= "abort" then return end
  if suspended then start "+loop" end
  suspended = nil
  if what == "stop" then tell(trace) end
  if what == "abort" or trusted or not (irnames or load_names()) or not has_pair(trace) then return end
  if plain[place] then off(func, true) end -- it has it all the same: interpreted
  plain[place] = true
  flush(trace)
end

attach(function(...)
  look(...)
  if other then return other(...) end
end, "trace")

-- LuaJIT keeps one listener of an event.
function jit.attach(f, event)
  if event == "trace" then
    other = f
    return
  end
  if event == nil and f == other then other = nil end
  return attach(f, event)
end

function opt.start(...)
  for i = 1, select("#", ...) do
    local word = select(i, ...)
    if word == "loop" or word == "+loop" then trusted = true end
  end
  return start(...)
end
