-- The same bits whatever the threads, the instruction set, the layout of the inputs and
-- the other rows of the batch: every row, with the cases of tests/vectors and larger ones.
package.path = "tests/agree/?.lua;" .. package.path
local core = require "tessera.core"
local cases = require "_cases"
local larger = require "_larger"
local op = core.op

local default_threads, default_isa = core.threads(), core.isa()
local isas = {}
for _, name in ipairs { "avx512", "avx2", "base" } do
  if pcall(core.isa, name) then isas[#isas + 1] = name end
end
core.isa(default_isa)

-- One text for all the outputs of a call, or its error.
local function bits(c, x)
  core.seed(17)
  local ok, out = pcall(cases.call, c, x)
  if not ok then return "error: " .. tostring(out):gsub("^[^:]*:%d+: ", "") end
  local h = {}
  for i, y in ipairs(out) do
    h[i] = core.is_tensor(y) and y.dtype .. "[" .. table.concat(y.shape, ",") .. "]" .. y:hash() or tostring(y)
  end
  return table.concat(h, " ")
end

-- ---- layouts: views with the same elements

local layouts = {}

function layouts.transposed(x)
  if x.ndim < 2 then return nil end
  local perm = {}
  for i = 1, x.ndim do perm[i] = x.ndim - i end
  return op.clone(x:permute(perm)):permute(perm)
end

function layouts.stepped(x)
  if x.ndim == 0 then return nil end
  local wide = op.repeat_interleave(x, 2, x.ndim - 1)
  return wide[(("...,"):rep(1)) .. "::2"]
end

function layouts.backwards(x)
  if x.ndim == 0 then return nil end
  return op.clone(op.flip(x)):flip()
end

function layouts.inside(x)
  if x.ndim == 0 then return nil end
  local junk = x:narrow(0, 0, math.min(x.shape[1], 1))
  local big = op.concat { junk, x, junk, axis = 0 }
  return big:narrow(0, junk.shape[1], x.shape[1])
end

-- The first row of each input stretched over all the rows: stride 0.
function layouts.stretched(x)
  if x.ndim == 0 or x.shape[1] < 2 then return nil end
  return x:narrow(0, 0, 1):broadcast_to(x.shape)
end

local function map(x, f)
  local out, any = {}, false
  for i, t in ipairs(x) do
    out[i] = t
    if t then
      local ok, v = pcall(f, t)
      if ok and v then out[i], any = v, true end
    end
  end
  return any and out
end

local is_view = { empty = true, empty_like = true }

local function differences(c)
  local x = cases.inputs(c)
  core.threads(1)
  local first = bits(c, x)
  if first:match "^error" then return first end
  for _, n in ipairs { 2, 3 } do
    core.threads(n)
    local other = bits(c, x)
    if other ~= first then return ("%d threads: %s, not %s"):format(n, other, first) end
  end
  core.threads(2)
  for _, isa in ipairs(isas) do
    core.isa(isa)
    local other = bits(c, x)
    core.isa(default_isa)
    if other ~= first then return ("%s: %s, not %s"):format(isa, other, first) end
  end
  for name, f in pairs(layouts) do
    local y = map(x, f)
    if y then
      local wanted = first
      if name == "stretched" then wanted = bits(c, map(y, op.clone)) end
      local other = bits(c, y)
      if other ~= wanted then return ("%s inputs: %s, not %s"):format(name, other, wanted) end
    end
  end
end

local function check(c, name)
  if is_view[c.row] then return end
  local ok, why = pcall(differences, c)
  core.isa(default_isa)
  core.threads(default_threads)
  cases.expect(name, ok and not why, why)
end

local done, most = {}, os.getenv "LONG" and 6 or 3
for c in cases.each() do
  -- A few cases of each row and dtype suffice: values do not matter here.
  local spec = c.x[1]
  local key = c.row .. " " .. tostring(type(spec) == "table" and spec[1] or c.t or c.number % 7)
  done[key] = (done[key] or 0) + 1
  if done[key] <= most then check(c, cases.name(c)) end
end
for i, c in ipairs(larger.cases()) do
  c.number, c.family = i, "larger"
  if i % 2 == 0 or most == 6 then check(c, cases.name(c)) end
end

-- ---- the other rows of the batch

-- Rows [0, 3) of the result alone equal those of a batch: f maps a batch to its result.
local function batch(name, x, f)
  local ok, why = pcall(function()
    local all = f(x)
    local few = f(op.clone(x:narrow(0, 2, 3)))
    local one = f(op.clone(x:narrow(0, 4, 1)))
    if all:narrow(0, 2, 3):hash() ~= few:hash() then return "three rows differ from those of the batch" end
    if all:narrow(0, 4, 1):hash() ~= one:hash() then return "a row differs from that of the batch" end
  end)
  cases.expect("batch of " .. name, ok and not why, why)
end

for _, dtype in ipairs { "f32", "f64", "f16", "bf16", "fp8_e4m3" } do
  local function gen(shape, seed) return cases.generate(dtype, shape, seed, -1, 1) end
  for _, n in ipairs { 1, 64, 257, 4097 } do
    local x = gen({ 37, n }, n)
    for _, row in ipairs { "sum", "mean", "var", "std", "norm", "logsumexp", "prod", "max", "argmax", "median" } do
      batch(row .. " " .. dtype .. " " .. n, x, function(t) return op[row](t, { axis = 1 }) end)
    end
    for _, row in ipairs { "softmax", "log_softmax", "cumsum", "sort", "argsort", "logcumsumexp" } do
      batch(row .. " " .. dtype .. " " .. n, x, function(t) return (op[row](t, { axis = 1 })) end)
    end
    batch("layernorm " .. dtype .. " " .. n, x, op.layernorm)
    batch("rmsnorm " .. dtype .. " " .. n, x, op.rmsnorm)
    for _, m in ipairs { 1, 5, 48 } do
      if n * m <= 70000 then
        local w = gen({ n, m }, m)
        batch("matmul " .. dtype .. " " .. n .. " " .. m, x, function(t) return t:matmul(w) end)
        local v = op.clone(w:transpose())
        batch("linear " .. dtype .. " " .. n .. " " .. m, x, function(t) return op.linear(t, v) end)
      end
    end
  end
  batch("fft " .. dtype, gen({ 37, 30 }, 1), op.fft)
  batch("rfft " .. dtype, gen({ 37, 101 }, 1), op.rfft)
  batch("dct " .. dtype, gen({ 37, 16 }, 1), op.dct)
  local w = gen({ 8, 4, 3, 3 }, 5)
  batch("conv2d " .. dtype, gen({ 9, 4, 10, 11 }, 4), function(t) return op.conv2d(t, w, { padding = 1 }) end)
  local w1 = gen({ 8, 4, 3 }, 5)
  batch("conv1d " .. dtype, gen({ 9, 4, 50 }, 4), function(t) return op.conv1d(t, w1) end)
  batch("max_pool " .. dtype, gen({ 9, 4, 10, 11 }, 4), function(t) return op.max_pool(t, { window = { 2, 2 } }) end)
  local k, v = gen({ 9, 2, 200, 16 }, 7), gen({ 9, 2, 200, 16 }, 8)
  batch("attention " .. dtype, gen({ 9, 2, 200, 16 }, 6), function(t)
    local n = t.shape[1]
    local from = n == 9 and 0 or n == 3 and 2 or 4
    return op.attention(t, op.clone(k:narrow(0, from, n)), op.clone(v:narrow(0, from, n)), { causal = true })
  end)
  batch("cross_entropy " .. dtype, gen({ 37, 100 }, 9), function(t)
    return op.cross_entropy(t, op.zeros({ t.shape[1] }, { dtype = "i64" }), { reduction = "none" })
  end)
end

-- ---- randomness: a tensor of another shape is the same sequence, streams differ
local a = op.normal({ 1000 }, { seed = 5, stream = 3 })
local b = op.normal({ 10, 100 }, { seed = 5, stream = 3 })
a:hash() == b:reshape(1000):hash() --> true
a:narrow(0, 0, 77):hash() == op.normal({ 77 }, { seed = 5, stream = 3 }):hash() --> true
a:hash() == op.normal({ 1000 }, { seed = 5, stream = 4 }):hash() --> false
a:hash() == op.normal({ 1000 }, { seed = 6, stream = 3 }):hash() --> false
