-- What is shown is what runs: the names of the kernels that are printed are those of the kernels that a
-- device has run, for each operator called by itself and for captured functions.
package.path = "tests/agree/?.lua;tests/devices/?.lua;" .. package.path
local tessera = require "tessera"
local core, op, graph, jit = tessera.core, tessera.op, tessera.graph, tessera.jit
local cases = require "_cases"
local shared = require "_captured"
local device = require "_device"
local name = device.name
if not name then return print(device.skipped) end
local every = os.getenv "ALL" and 1 or 3 -- cases; all of them with ALL=1

jit.later(false)

-- The names of kernels in a text of level "tiles".
local function names(text)
  local set = {}
  for list in text:gmatch "kernels? ([%x ]+)" do
    for key in list:gmatch(("%x"):rep(16)) do set[key] = true end
  end
  return set
end

local function list_of(set)
  local list = {}
  for key in pairs(set) do list[#list + 1] = key end
  table.sort(list)
  return table.concat(list, " ")
end

-- Both sets are equal, or: what ran is what was shown, and perhaps more was shown (`some`).
local function compare(what, text, some)
  local shown, ran = names(text), {}
  for _, key in ipairs(core.jit_watch()) do ran[key] = true end
  for key in pairs(ran) do
    assert(shown[key], ("%s: kernel %s ran and is not shown:\n%s"):format(what, key, text))
  end
  assert(some or list_of(shown) == list_of(ran), ("%s: shown %s, ran %s"):format(what, list_of(shown), list_of(ran)))
  return next(ran) ~= nil
end

-- ---- operators
local number, ran = 0, 0
for c in cases.each() do
  number = number + 1
  if number % every == 0 then
    local x, moved = cases.inputs(c), {}
    for i, t in ipairs(x or {}) do moved[i] = t and t:to(name) end
    core.jit_watch(true)
    core.jit_show "tiles"
    pcall(cases.call, c, moved)
    local text = core.jit_show()
    if compare(c.row .. " " .. cases.name(c), text, true) then ran = ran + 1 end
  end
end

-- ---- captured functions
jit.eager(true)
local functions = 0
number = 0
for c in cases.each() do
  number = number + 1
  if number % (4 * every) == 1 and #c.x > 0 then
    local x = cases.inputs(c)
    local f, list = shared.neighbours(c, x), shared.present(x, name)
    if pcall(function() return f(unpack(list)) end) then
      local text = f:ir "tiles"
      core.jit_watch(true)
      core.jit_show "tiles"
      f(unpack(list))
      text = text .. core.jit_show()
      if compare("captured " .. c.row .. " " .. cases.name(c), text, true) then functions = functions + 1 end
    end
  end
end
-- ---- hot loops that move there
jit.traces(true)
core.jit_move(name)
local x, w = tessera.rng.normal { 64, 64 }, tessera.rng.normal { 64, 64 }
local y = x
local function rounds(n)
  for _ = 1, n do
    y = op.tanh(y * 0.5 + w)
    y = y + op.sum(y, { axis = 1, keepdims = true })
    y = op.matmul(y, w) * 0.01
  end
end
rounds(60)
jit.wait()
core.jit_watch(true)
rounds(20)
y:hash()
local loop = assert(jit.loops()[1], "there is no hot loop")
assert(compare("loop", loop:ir "tiles"), "the loop ran on the CPU:\n" .. loop:ir "why")
core.jit_move(nil)
jit.traces(false)
core.jit_watch(false)
jit.eager(false)
assert(functions > 50, functions .. " functions ran kernels")
assert(ran > 100, ran .. " cases ran kernels")
print(ran .. " cases")
