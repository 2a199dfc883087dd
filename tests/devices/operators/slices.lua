-- Slices that are written on a device, by Python's rule: ends that are given or not, steps up and
-- down. The rule is written out here; a gradient through x["a:b:s"] is such a slice.
package.path = "tests/devices/?.lua;" .. package.path
local on = require "_families"
if not on then return end
local tessera = require "tessera"
local op, graph = tessera.op, tessera.graph
local name = on.name

-- range(*slice(start, stop, step).indices(n))
local function visited(n, start, stop, step)
  local lo, hi = step > 0 and 0 or -1, step > 0 and n or n - 1
  local function clip(i, none)
    if not i then return none end
    if i < 0 then i = i + n end
    return math.max(lo, math.min(hi, i))
  end
  local list = {}
  local from, to = clip(start, step > 0 and lo or hi), clip(stop, step > 0 and hi or lo)
  for i = from, to + (step > 0 and -1 or 1), step do list[#list + 1] = i end
  return list
end

-- What only the device has: a cotangent that is a constant would be the host's.
local one = tessera.tensor(1, { dtype = "f64" }):to(name) * 1
local ends = { false, -9, -3, -1, 0, 1, 4, 9 }
local wrong, count = {}, 0
local function same(what, got, want)
  count = count + 1
  if got:hash() ~= want:hash() then wrong[#wrong + 1] = what .. ": " .. tostring(got) .. tostring(want) end
end
for _, n in ipairs { 1, 5, 6 } do
  local x = op.arange(n):cast "f64"
  local there = x:to(name)
  for _, start in ipairs(ends) do
    for _, stop in ipairs(ends) do
      for _, step in ipairs { 1, 2, 3, -1, -2 } do
        local text = ("%s:%s:%d"):format(start or "", stop or "", step)
        local at = visited(n, start, stop, step)
        local want, ones = {}, {}
        for i = 1, n do want[i], ones[i] = i - 1, 0 end
        for k, i in ipairs(at) do want[i + 1], ones[i + 1] = -k, 1 end
        local src = op.arange(#at):cast "f64" * -1 - 1
        local y = there:clone()
        if #at > 0 then y[text] = src:to(name) end
        same("assigned " .. text, y, tessera.tensor(want, { dtype = "f64" }))
        local slope = graph.grad(function(t) return (t[text] * one):sum() end)(there)
        same("gradient " .. text, slope, tessera.tensor(ones, { dtype = "f64" }))
      end
    end
  end
end
assert(#wrong == 0, #wrong .. " of " .. count .. "; " .. (wrong[1] or ""))

-- the diagonal of an einsum, whose cotangent only the device has
local x = tessera.rng.normal({ 5, 5 }, { dtype = "f64", seed = 1, stream = 0 }):to(name)
local half = tessera.tensor(0.5, { dtype = "f64" }):to(name)
local g = graph.grad(function(t) return op.sum(op.einsum("ii->", t) * half) end)(x)
assert(g:hash() == (op.eye(5, { dtype = "f64" }) * 0.5):hash(), tostring(g))

-- added to a part
for _, d in ipairs { "f32", "f64", "bf16", "f16", "i64", "i16", "u8" } do
  local function some(shape) return op.randint(shape, { low = 0, high = 100, dtype = d }) end
  for _, o in ipairs { { start = { 1, 0 }, stop = { 5, 6 }, step = { 2, 2 } }, { start = { 4, 5 }, stop = { 0, 0 }, step = { -2, -2 } } } do
    on.check("slice_add " .. d, function(y, w) return op.slice_add(y, w, o) end, some { 5, 6 }, some { 2, 3 })
    on.check("slice_add of a row " .. d, function(y, w) return op.slice_add(y, w, o) end, some { 5, 6 }, some { 3 })
  end
end

-- several axes, some not named, in every kind of type
for _, d in ipairs { "f32", "bf16", "i8", "complex64" } do
  local z = d:find "c" and op.fft(on.random { 4, 6, 5 }) or on.random({ 4, 6, 5 }, d)
  for _, text in ipairs { "::2", "::-1, 1::2", ":, ::-3, :-1:2" } do
    on.check("slice " .. text .. " " .. d, function(y, w)
      local r = y:clone()
      r[text] = w
      return r
    end, z, z[text] * 3)
  end
end
