-- Memory that runs out: the n-th allocation of every row fails, for n = 1, 2, .. until
-- the call succeeds. Each failure is the clean error, and nothing leaks.
package.path = "tests/errors/?.lua;tests/agree/?.lua;" .. package.path
local core = require "tessera.core"
local cases = require "_cases"
local rows = require "_rows"

local function live()
  collectgarbage()
  return core.memory().live
end

local MOST = 2000 -- allocations of one call

-- f is run with every allocation failing in turn; what is wrong, or nil.
local function walk(f)
  local ok, why = pcall(f)
  if not ok then return why end
  why = nil
  local before = live()
  for n = 1, MOST do
    core.seed(1)
    core.fail_after(n)
    local done, e = pcall(f)
    core.fail_after(0)
    local failed = not done
    if failed and not tostring(e):find("out of memory", 1, true) then
      return ("allocation %d: %s"):format(n, tostring(e))
    end
    e = nil
    local after = live()
    if after ~= before then
      return ("allocation %d: %d bytes leak%s"):format(n, after - before, failed and "" or " on success")
    end
    if not failed then return nil end
  end
  return "fails at every allocation"
end

for row, list in rows.each(2) do
  for _, c in ipairs(list) do
    local x = cases.inputs(c)
    local why = walk(function() return cases.call(c, x) end)
    cases.expect(cases.name(c), not why, why)
  end
end

-- Making a tensor from a table, reading and writing files.
local tessera = require "tessera"
local name = os.tmpname()
local made = {
  ["tensor of a table"] = function() return core.tensor { { 1, 2 }, { 3, 4 } } end,
  ["from_bytes"] = function() return core.from_bytes(("x"):rep(64), "f32", { 16 }) end,
  ["slices"] = function() return core.tensor({ 1, 2, 3 })["::-1"]:bytes() end,
  ["save and load"] = function()
    tessera.save(name .. ".safetensors", { a = core.op.ones(3):flip() })
    return tessera.load(name .. ".safetensors")
  end,
  ["save and load npy"] = function()
    tessera.save(name .. ".npy", core.op.ones({ 3, 2 }):T())
    return tessera.load(name .. ".npy")
  end,
  ["table"] = function() return core.op.ones({ 3, 2 }):T():totable() end,
  ["display"] = function() return tostring(core.op.ones({ 3, 2 }):T()) end,
  ["in place"] = function() return core.op.ones({ 3, 2 }):T():add_(1):mul_(2) end,
  ["assignment"] = function()
    local t = core.op.ones({ 3, 2 })
    t[0] = 5
    t["1:, 0"] = core.tensor { 1, 2 }
    t[t:gt(3)] = 0
    return t
  end,
}
for what, f in pairs(made) do
  local why = walk(f)
  cases.expect("memory " .. what, not why, why)
end
os.remove(name)
os.remove(name .. ".npy")
os.remove(name .. ".safetensors")
