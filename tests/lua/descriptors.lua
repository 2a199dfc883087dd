-- Files and folders are closed whatever ends their reading: Lua's memory may run out at any point.
local core = require "tessera.core"
local path = os.tmpname()
local file = io.open(path, "w")
file:write(("0123456789"):rep(20000))
file:close()

local function open() return #core.checkpoint_names "/proc/self/fd" end

local function clear()
  core.interrupt_after(0) -- the error waits for an instruction that is interpreted
  return core.fail_after(0, "lua") < 0
end

-- Whether f failed until it did not, and how many descriptors are open afterwards that were not before.
local function walk(f, ...)
  local before, failed, n = open(), false, 0
  local args = { ... }
  repeat
    n = n + 1
    local came
    local ok = pcall(function()
      core.fail_after(n, "lua")
      f(unpack(args))
      came = clear()
    end)
    if not ok then failed, came = true, clear() or true end
  until not came
  return failed, open() - before
end

walk(core.read_file, path) --> true, 0
walk(core.checkpoint_names, "/proc/self") --> true, 0
#core.read_file(path) --> 200000
os.remove(path)
