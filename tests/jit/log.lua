-- What `tessera -jv` tells: each kind of line says what, where, why, how long.
package.path = "tests/jit/?.lua;" .. package.path
local tiers = require "_tiers"
local tessera = require "tessera"
if not tessera.jit.status() then print "skipped: nothing is compiled here: kernels" end

local HEAD = [[
local tessera = require "tessera"
local op, rng, graph, jit = tessera.op, tessera.rng, tessera.graph, tessera.jit
]]

local function lines_of(code)
  local out, status = tiers.run(HEAD .. code, "-jv", "TESSERA_CACHE=off")
  assert(status == 0, out)
  return out
end

-- Every pattern in this order, each behind the one before; %P is the script's place.
local function told(out, patterns)
  local at = 1
  for _, pattern in ipairs(patterns) do
    local _, stop = out:find(pattern:gsub("%%P", "%%S+:%%d+"), at)
    assert(stop, pattern .. "\nis not in\n" .. out)
    at = stop + 1
  end
end

-- ---- specialisations: the closest one, what differs; eviction
local out = lines_of [[
local f = graph.module("f", function(x, y) return op.exp(x) * y + x end)
for _, n in ipairs { 8, 9, 10, 11 } do f(rng.normal { n, 4 }, rng.normal { n, 4 }) end
local g = graph.module("g", function(x, k) return x * k end)
for k = 1, 200 do g(op.ones { 3 }, k) end
local members, families = 0, 0
for _ in pairs(g.cache) do members = members + 1 end
for _ in pairs(g.families) do families = families + 1 end
assert(members == 32 and families == 32, members .. " " .. families)
]]
told(out, {
  "%[jit captured f %P: x is f32%[9,4%], in the closest one f32%[8,4%]; sizes that differ are symbols now, in [%d.]+ ms%]",
  "%[jit sized f %P: %(f32%[11,4%], f32%[11,4%]%), of the graph with symbols, in [%d.]+ ms%]",
  "%[jit captured g %P: k is 2, in the closest one 1 %(a number; a tensor would be an input%), in [%d.]+ ms%]",
  "%[jit captured g %P: k is 33, in the closest one 32 %(a number; a tensor would be an input%), in [%d.]+ ms%]",
  "%[jit evicted g %P: %(f32%[3%], 1%), which ran longest ago of 33%]",
})
assert(not out:find "captured f [^\n]*f32%[8,4%], in", "the first one is no news")

-- Without -jv there is nothing, on what is no terminal.
assert(tiers.run(HEAD .. [[
local f = graph.module("f", function(x) return x * 2 end)
f(op.ones { 2 }); f(op.ones { 3 })]]) == "")

-- ---- hot loops: side exits, branches, the closest trace, eviction
out = lines_of [[
local function loop(n, x, y)
  for i = 1, n do
    local a = op.tanh(x * 0.5 + y) - y
    if i % 3 == 0 then x = op.relu(a) else x = op.exp(a) end
    if i % 50 == 0 then a:sum():item() end
  end
end
loop(2000, rng.normal { 16, 16 }, rng.normal { 16, 16 })
loop(2000, rng.normal { 8, 16 }, rng.normal { 8, 16 })
]]
told(out, {
  "%[jit trace found %S+:%d+..%d+: %d+ calls%]",
  "%[jit trace promoted %S+:[%d.]+: %d+ calls, %d tensors in, %d+ of %d+ values out, in [%d.]+ ms here%]",
  "%[jit trace exit %S+:[%d.]+: %w+ comes behind call %d+, for the first time, in [%d.]+ ms%]",
  "%[jit trace exit %S+:[%d.]+: %w+ comes behind call %d+, 3 times, in [%d.]+ ms; what follows is recorded%]",
  "%[jit trace branch ",
  "%[jit trace found [^\n]*; closest is %S+, the same for %d+ calls but that call %d+ makes f32%[8,16%], not f32%[16,16%]%]",
})

-- A value that is read once, soon after its trace was found, is none of its results for ever.
out = lines_of [[
jit.traces(true)
local x, y = op.ones { 8 }, op.ones { 8 }
x = x + y -- the trace begins with the sum
for _ = 1, 12 do
  for _ = 1, 24 do x = op.tanh(x) + y end
  x:data_ptr()
end
]]
told(out, { "%[jit trace promoted %S+: 2 calls, 2 tensors in, 1 of 2 values out" })
assert(not out:find "2 of 2 values out", out)

-- More loops than there is room for. What goes has not run for longest, and not the loop in line 7,
-- which is the oldest.
out = lines_of [[
jit.traces(true)
local y = rng.normal { 4, 4 }
for n = 1, 100 do
  local z = rng.normal { n + 4 }
  for i = 1, n == 1 and 100 or 8 do y = op.tanh(y) * 0.5 + y end
  for i = 1, 60 do z = op.sin(z) - z * 0.5 end
end
]]
told(out, { "%[jit trace found %S+:7: ", "%[jit trace found %S+:8: ", "%[jit trace evicted %S+:8: unused for longest of 64; it ran %d+ times%]" })
assert(not out:find "trace evicted %S+:7: ", out)

if tessera.jit.status() then
  -- ---- promotions name the specialisation; what cannot be a kernel says so, with the time
  out = lines_of [[
local f = graph.module("f", function(x, y) return op.exp(x) * y + x end)
local x, y = rng.normal { 64, 128 }, rng.normal { 64, 128 }
for i = 1, 400 do f(x, y) end
jit.wait()
f(x, y)
local g = graph.module("g", function(x) return (x:sort()) end)
for i = 1, 400 do g(x) end
jit.wait()
g(x)
]]
  told(out, {
    "%[jit promoted f%(f32%[64,128%], f32%[64,128%]%) %P: 1 kernel of 3 operators, 0 from disk, in [%d.]+ ms and [%d.]+ ms here%]",
    "%[jit refused g%(f32%[64,128%]%) %P: nothing to fuse, in [%d.]+ ms%]",
  })
end
