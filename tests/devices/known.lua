-- What an earlier process promoted on a GPU runs by its kernels from the first call on, and what
-- none did waits until it is hot; by a driver that only counts.
package.path = "tests/devices/?.lua;" .. package.path
local fake, dir = require "_fake"()
if not fake then return print "skipped: no C compiler" end
local code = [[
local ffi, tessera = require "ffi", require "tessera"
ffi.cdef "void fake_any(void); void fake_limit(long n);"
local fake = ffi.load "DIR/fake.so"
fake.fake_any()
fake.fake_limit(2 ^ 35)
local op, graph, jit = tessera.op, tessera.graph, tessera.jit
local x = op.empty({ 64, 128 }, { device = "cuda:0" })
local f = graph.module("f", function(x) return op.softmax(x * 2 + 1), (x - 1):tanh() end)
if ... == "eager" then jit.eager(true) end
f(x)
local s = jit.stats()
io.write(jit.device().calls >= 0 and s.promoted, " ", s.kernels, " ", s.kernels - s.from_disk)
]]
local path = dir .. "/child.lua"
local file = io.open(path, "w")
file:write((code:gsub("DIR", dir)))
file:close()
local function child(word)
  local p = io.popen(("TESSERA_CACHE=%s/cache %s %s %s 2>&1"):format(dir, arg[-1] or "bin/tessera", path, word or ""))
  local out = p:read "*a"
  p:close()
  return out
end
if child() == "0 0 0" and child "eager":match "^1 [1-9]" then
  child():match "^1 [1-9]%d* 0$" ~= nil --> true
  -- Where it is known and its kernels are gone, a call that is hot at once has them all the same.
  os.execute(("grep -rL promoted %s/cache | xargs rm"):format(dir))
  child "eager":match "^1 [1-9]%d* [1-9]" ~= nil --> true
elseif not require("tessera.core").jit() then
  print "skipped: no kernels"
else
  error(child() .. "; " .. child "eager")
end
os.execute("rm -rf " .. dir)
