-- Products of 64 bits beside zero, compiled: as they are interpreted (lib/lua/luajit.lua).
package.path = "tests/jit/?.lua;" .. package.path
local tiers = require "_tiers"
local code = [[
local ffi = require "ffi"
local bad = {}
local function count(name, wrong) if wrong then bad[name] = (bad[name] or 0) + 1 end end
local n, o = 0ULL, 0ULL
for i = 1, 5000 do if n * o ~= 0ULL then count("loop", true) end n = n + 3ULL end
local function zero(a, b) return a * b == 0LL end
local x, y = 5LL, 0LL
for i = 1, 5000 do count("call", not zero(x, y)) x = x + 3LL end
local A, B = ffi.new "int64_t[100]", ffi.new "int64_t[100]"
for i = 0, 99 do A[i] = i end
for k = 1, 100 do for i = 0, 99 do count("arrays", A[i] * B[i] ~= 0LL) end end
for k = 1, 100 do for i = 1, 99 do count("squares", A[i] * A[i] == 0LL) end end
for k = 1, 100 do for i = 1, 99 do count("less", not (A[i] * (B[i] - 1) < 0LL)) end end
for k = 1, 100 do for i = 1, 99 do count("not less", A[i] * B[i] < 0LL) end end
local function rec(n, x, y)
  if n == 0 then return end
  if x * y ~= 0ULL then count("tail calls", true) end
  return rec(n - 1, x + 1, y)
end
rec(5000, 1ULL, 0ULL)
local k, u, v = 0, 1ULL, 0ULL
while k < 5000 do
  k, u = k + 1, u + 1
  local m = u * v
  if k % 3 == 0 then count("branches", m ~= 0) else count("branches", m ~= 0) end
end
for name, n in pairs(bad) do print(name, n) end
print "done"
]]
local function run(options) return (tiers.run(code, options):gsub("%s+$", "")) end
run "" --> done
run "-O3" --> done
run "-joff" --> done
run "-O-loop" --> done
run "-O-cse" --> done
-- Another listener, as -jv is one, takes nothing away, and hears of traces.
run "-jv=/dev/null" --> done
local heard = run "-jv=-"
heard:find "TRACE" ~= nil, heard:match "[^\n]*$" --> true, done

-- What has no such pair keeps its loops: another loop of the same text is compiled with its box sunk,
-- and the option is as it was.
local out = tiers.run [[
local s, n = 0LL, 0ULL
for i = 1, 200 do if n * 0ULL ~= 0ULL then print "bad" end n = n + 1ULL end
local before = collectgarbage "count"
collectgarbage "stop"
for i = 1, 1e6 do s = s + 3LL end
print(collectgarbage "count" - before < 1000)
local on = {}
for _, word in ipairs { select(2, jit.status()) } do on[word] = true end
print(on.loop, on.cse, on.fold)
]]
(out:gsub("%s+$", "")) --> true
--> true	true	true


-- The program's word on the option is the last one.
local left = "for _, w in ipairs { select(2, jit.status()) } do io.write(w == 'loop' and 'loop' or '') end"
(tiers.run(left, "-O-loop")) -->
(tiers.run(left, "-Oloop")) --> loop
