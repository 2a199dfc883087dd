-- Tiers agree (ALL=1: on all of them, some minutes): the cases of tests/vectors as captured functions, each between pointwise
-- neighbours so that a group forms, run by the VM, by compiled kernels and by the interpreter of
-- Tile IR in both forms, on every instruction set, with one and two threads: the same bits. In the
-- strict profile as well, where that makes another graph.
package.path = "tests/agree/?.lua;" .. package.path
local tessera = require "tessera"
local core = require "tessera.core"
local graph, numerics = require "tessera.graph", require "tessera.numerics"
local cases = require "_cases"
local shared = require "_captured"
local larger = require "_larger"
local jit, op, present = tessera.jit, core.op, shared.present

local floats = { f16 = true, bf16 = true, f32 = true, f64 = true }
local integers = { i8 = true, u8 = true, i16 = true, i32 = true, i64 = true }
local default_threads, default_isa = core.threads(), core.isa()
local compiles = jit.status() and true
if not compiles then print "skipped: nothing is compiled here: kernels" end
local isas = {}
for _, name in ipairs { "avx512", "avx2", "base" } do
  if pcall(core.isa, name) then isas[#isas + 1] = name end
end
core.isa(default_isa)
local counted = { functions = 0, kernels = 0, refused = 0, strict = 0 }

-- Neighbours that keep where the elements of a case lie, about.
local function before(x)
  return floats[x.dtype] and op.maximum(x * 1.0625, x) or x
end

local function after(y)
  if floats[y.dtype] then return op.abs(y * 0.75) - y end
  if integers[y.dtype] then return op.maximum(y * 3, y) + 1 end
  if y.dtype == "bool" then return op.logical_not(y):cast "f32" * 2 end
  return y
end

-- The gradient of the case's float results by its first float input; nil if it has none.
local function gradient(c, x)
  local at, k = nil, 0
  for _, t in ipairs(x) do
    if t then k = k + 1 end
    if t and floats[t.dtype] and not at then at = k end
  end
  local f = shared.captured(c, x, before, after)
  return at and graph.module("gradient", graph.grad(function(...)
    local total = 0
    for _, y in ipairs { f(...) } do
      if core.is_tensor(y) and floats[y.dtype] then total = total + (y * y):sum() end
    end
    return total
  end, at))
end

local function run(f, list)
  core.seed(17)
  local ok, h = pcall(function()
    return shared.text_of { f(unpack(list)) }
  end)
  return ok and h or "error: " .. tostring(h):gsub("\n.*", "")
end

local function size(list)
  local n = 0
  for _, t in ipairs(list) do n = n + t.numel end
  return n
end

-- What another tier gives, or nothing if it is the same.
local function other(f, list, want, what)
  local got = run(f, list)
  if got ~= want then return ("%s: %s, not %s\n%s"):format(what, got, want, f:ir "schedule") end
end

local function interpreted(f, list, want)
  for _, form in ipairs { "block", "explicit" } do
    core.jit_interpret(form)
    local why = other(f, list, want, "interpreted, " .. form .. " form")
    core.jit_interpret()
    if why then return why end
  end
end

local function compiled(f, list, want, all)
  for _, isa in ipairs(all and isas or { default_isa }) do
    core.isa(isa)
    jit.flush()
    for threads = 1, 2 do
      core.threads(threads)
      local why = other(f, list, want, ("compiled, %s, %d threads"):format(isa, threads))
      if why then return why end
    end
  end
end

local function tiers(f, list, all)
  jit.off()
  local want = run(f, list)
  jit.on()
  if want:find "^error" then return end
  local start = jit.stats()
  jit.eager(true)
  local why = compiles and compiled(f, list, want, all)
  if not why and size(list) < 20000 then why = interpreted(f, list, want) end
  local s = jit.stats()
  counted.functions = counted.functions + 1
  counted.kernels = counted.kernels + (s.kernels > start.kernels and 1 or 0)
  counted.refused = counted.refused + s.refused - start.refused
  return why
end

-- make() in the profile of now, and in strict where that is another graph: other kernels.
local function profiles(make, list, all)
  local ok, f = pcall(make)
  if not ok or not f then return end
  local why = tiers(f, list, all)
  return why or numerics.profile("strict", function()
    local g = make()
    if not pcall(g, unpack(list)) or g:ir "graph" == f:ir "graph" then return end
    counted.strict = counted.strict + 1
    why = tiers(g, list, false)
    return why and "strict: " .. why
  end)
end

local share = os.getenv "LONG" and 4 or 8 -- of cases that are derived too
local function differences(c, number)
  local x = cases.inputs(c)
  local why = profiles(function() return shared.captured(c, x, before, after) end, present(x), number % share == 1)
  if why or (number % share ~= 0 and not os.getenv "ALL") then return why end
  return profiles(function() return gradient(c, x) end, present(x), false)
end

local function check(c, number)
  local ok, why = pcall(differences, c, number)
  core.isa(default_isa)
  core.threads(default_threads)
  jit.eager(false)
  jit.on()
  core.jit_interpret()
  if os.getenv "RATIO" then
    io.stderr:write(("%s %.2f %s\n"):format(cases.name(c), os.clock(), ok and not why and "" or tostring(why)))
  end
  cases.expect(cases.name(c) .. ", tiers", ok and not why, why)
end

local skipped = cases.skipped
local done, total, of_row = {}, 0, {}
local every = os.getenv "ALL" and 1e9 or 1
for c in cases.each() do
  local spec = c.x[1]
  local key = c.row .. " " .. (type(spec) == "table" and spec[1] or tostring(spec):match "^%S+" or "")
  done[key] = (done[key] or 0) + 1
  if not skipped[c.row] and done[key] <= every then
    total = total + 1
    if every > 1 or key:find " f32$" or total % (share - 1) == 0 or not of_row[c.row] then
      of_row[c.row] = true
      check(c, total)
    end
  end
  if total % 8 == 0 then collectgarbage() end
end
for i, c in ipairs(larger.cases()) do
  c.number, c.family = i, "larger"
  if not skipped[c.row] and (i % (3 * share) == 0 or every > 1 or not of_row[c.row]) then
    of_row[c.row] = true
    check(c, i / (3 * share))
  end
  if i % 8 == 0 then collectgarbage() end
end
do -- weights in blocks are no inputs of vectors
  local op, graph = core.op, require("tessera.graph")
  local w = op.normal({ 3, 32, 64 }, { seed = 1, stream = 1 }):cast "q8_0"
  local x, index = op.normal({ 5, 64 }, { seed = 1, stream = 2 }), core.tensor({ { 0, 2 }, { 1, 0 }, { 2, 2 }, { 1, 2 }, { 0, 1 } }, { dtype = "i64" })
  local f = graph.module("experts", function(x) return op.experts_linear(x * 2, w, index) + 1 end)
  local want = (op.experts_linear(x * 2, w, index) + 1):hash()
  for _ = 1, 4 do of_row.experts_linear = f(x):hash() == want end
  core.jit_wait()
  of_row.experts_linear = of_row.experts_linear and f(x):hash() == want or nil
end
local missing = {}
for _, o in ipairs(core.operators()) do
  if not of_row[o.name] and not skipped[o.name] then missing[#missing + 1] = o.name end
end
table.concat(missing, " ") -->
counted.functions > 500 --> true
not compiles or counted.kernels > 250 --> true
counted.strict > 10 --> true
if os.getenv "RATIO" then print(counted.functions, counted.kernels, counted.refused, counted.strict) end
