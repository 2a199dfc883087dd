-- Places of a mixture's rows on a device against the CPU: few and many experts and choices, all of one expert, with a capacity and
-- without; a captured mixture; choices that are no experts.
package.path = "tests/devices/?.lua;" .. package.path
local on = require "_families"
if not on then return end
local tessera = require "tessera"
local op, rng, graph = tessera.op, tessera.rng, tessera.graph
local name = on.name

local function choices(tokens, k, experts, seed, dtype)
  return (rng.uniform({ tokens, k }, { seed = seed, stream = 5 }) ^ 2 * experts):cast(dtype)
end
local function same(what, index, o) on.check(what, function(t) return op.moe_places(t, o) end, index) end
for i, row in ipairs { { 1, 1, 1 }, { 3, 2, 4 }, { 40, 4, 7 }, { 300, 8, 128 }, { 700, 3, 2 }, { 2, 1, 4000 } } do
  local tokens, k, experts = unpack(row)
  for _, dtype in ipairs { "i64", "i32", "u8" } do
    if dtype ~= "u8" or experts < 256 then
      local index = choices(tokens, k, experts, i, dtype)
      for _, capacity in ipairs { -1, 1, 5, 900 } do
        same(("%d of %d to %d, capacity %d"):format(k, tokens, experts, capacity), index, { experts = experts, capacity = capacity >= 0 and capacity or nil })
      end
    end
  end
end
same("one expert has all", op.full({ 400, 2 }, 6):cast "i64", { experts = 9 })
same("one expert has too many", op.full({ 400, 2 }, 6):cast "i64", { experts = 9, capacity = 33 })
same("choices that do not lie in a row", choices(50, 6, 5, 3, "i64"):T(), { experts = 5 })

-- Rows of all types there and back, short and long, some of them nobody's.
for _, d in ipairs { "f32", "bf16", "f16", "f64", "i64", "u8" } do
  for _, n in ipairs { 3, 64, 1000 } do
    local rows = (rng.normal({ 10, n }, { seed = 2, stream = n }) * 50):abs():cast(d)
    local place, source = op.moe_places(choices(5, 2, 3, 4, "i64"), { experts = 3, capacity = 3 })
    on.check("rows of " .. d, op.route_rows, rows:narrow(0, 0, 9):reshape(3, 3, n), place, source)
    on.check("there and back of " .. d, function(x, p, s) return op.route_rows(x, s, p, { times = 2 }) end, rows:narrow(0, 0, 5), place, source)
  end
end

-- Rows of which each device of a mesh has a part: -0 where another has what comes.
local place, none = tessera.tensor({ 3, -1, 23, 0, 7, 11, 1, -5, 12, 8, 22 }, { dtype = "i64" }), op.full({ 12, 2 }, -1):cast "i64"
for _, d in ipairs { "f32", "bf16", "f16", "f64", "i32", "i64", "u8", "bool" } do
  for _, n in ipairs { 1, 5, 64, 300, 5000 } do
    local rows = (rng.normal({ 12, n }, { seed = 3, stream = n }) * 9):abs():cast(d)
    for _, part in ipairs { { 0, 4 }, { 4, 5 }, { 9, 3 }, { 0, 12 } } do
      local first, m = unpack(part)
      on.check(("rows %d to %d of %s"):format(first, first + m, d), function(x, p, s) return op.route_rows(x, p, s, { times = 2, first = first, of = 12 }) end,
        rows:narrow(0, first, m), place, none:narrow(0, first, m))
    end
  end
end

-- A mixture in one function.
local x, logits = rng.normal({ 33, 16 }, { seed = 1, stream = 1 }), rng.normal({ 33, 6 }, { seed = 1, stream = 2 })
local up, down = rng.normal({ 6, 16, 24 }, { seed = 1, stream = 3 }), rng.normal({ 6, 24, 16 }, { seed = 1, stream = 4 })
local function mixture(y, l, u, d)
  local weights, index = op.router(l, { k = 2 })
  return op.moe(y, weights, index, u, d)
end
local f = graph.module(mixture)
local want, there = mixture(x, logits, up, down), { x:to(name), logits:to(name), up:to(name), down:to(name) }
local got
for _ = 1, 3 do got = f(unpack(there)) end
((got:to "cpu" - want):abs():max() / want:abs():max()):item() < 1e-5 --> true

local function wrong(v, dtype)
  local _, why = pcall(function()
    local place = op.moe_places(tessera.tensor({ 0, v }, { dtype = dtype }):to(name), 3)
    return place:sum():item()
  end)
  return tostring(why):match "(moe_places: [^\n]*)"
end
wrong(3, "i64") --> moe_places: expert 3 is out of range for 3 experts
wrong(-1, "i32") --> moe_places: expert -1 is out of range for 3 experts
local function beyond(first)
  local _, why = pcall(function()
    local x, p, s = op.zeros { 4, 64 }, place + 1, none:narrow(0, 0, 4):contiguous()
    return op.route_rows(x:to(name), p:to(name), s:to(name), { times = 2, first = first, of = 12 }):sum():item()
  end)
  return tostring(why):match "(route_rows: [^\n]*)"
end
beyond(0) --> route_rows: place 24 is out of range for 24 rows
beyond(8) --> route_rows: place 24 is out of range for 24 rows
