-- Random graphs of pointwise rows, rows, reductions, views and products, of random shapes and
-- types: what the VM computes, kernels compute to the bit. Each case has a seed of its own, so
-- that one that fails can be run by itself: `tessera tests/jit/graph_random.lua 1 77`
-- case from 77, `.. 5000` five thousand.
package.path = "tests/jit/?.lua;" .. package.path
local tessera = require "tessera"
local core = require "tessera.core"
local pairs_of = require "_pairs"
local graph, op, jit = tessera.graph, tessera.op, tessera.jit
if not jit.status() then print "skipped: nothing is compiled here: kernels" end

local state
local function random(n) -- of 0 .. n-1
  state = (state * 1103515245 + 12345) % 2147483648
  return math.floor(state / 65536) % n
end
local function pick(t) return t[1 + random(#t)] end

-- ---- operators: each takes what makes an operand and gives a function of the values
local unary = { "exp", "tanh", "sigmoid", "relu", "neg", "abs", "square", "sin", "sqrt", "log1p", "gelu",
  "silu", "floor", "reciprocal", "isnan" }
local binary = { "add", "sub", "mul", "div", "maximum", "minimum", "pow", "atan2" }
local compare = { "lt", "ge", "eq" }
local dtypes = { "f32", "f32", "f32", "f16", "bf16", "f64", "i32", "i64", "u8", "bool" }
local sizes = { 1, 2, 3, 4, 5, 7, 8, 16, 17, 31, 33, 64, 100 }

local function options(x, keep)
  local n = #x.shape
  local o = { keepdims = keep }
  local how = random(4)
  if how == 0 or n == 0 then return o end -- everything
  if how == 1 then o.axis = random(n) else o.axis = n - 1 end
  return o
end

local make = {}
function make.unary() local name, a = pick(unary), random(1e6)
  return function(v) return op[name](v(a)) end end
function make.binary() local name, a, b = pick(binary), random(1e6), random(1e6)
  return function(v) return op[name](v(a), v(b)) end end
function make.number() local name, a, c = pick { "add", "mul", "sub" }, random(1e6), (random(17) - 8) / 4
  return function(v) return op[name](v(a), c) end end
function make.compare() local name, a, b = pick(compare), random(1e6), random(1e6)
  return function(v) return op[name](v(a), v(b)) end end
function make.where() local a, b, c = random(1e6), random(1e6), random(1e6)
  return function(v) return op.where(op.gt(v(a), 0), v(b), v(c)) end end
function make.clamp() local a = random(1e6)
  return function(v) return op.clamp(v(a), -1, 1) end end
function make.cast() local a, d = random(1e6), pick(dtypes)
  return function(v) return v(a):cast(d) end end
function make.reduce() local a, name, keep, s = random(1e6), pick { "sum", "mean", "max", "min", "sum" }, random(2) == 0, state
  return function(v)
    local x, before = v(a), state
    state = s
    local o = options(x, keep)
    state = before
    return op[name](x, o)
  end end
function make.rows() local a, name = random(1e6), pick { "softmax", "log_softmax", "layernorm", "rmsnorm" }
  return function(v) return op[name](v(a)) end end
function make.transpose() local a = random(1e6)
  return function(v) return v(a):T() end end
function make.flat() local a = random(1e6)
  return function(v) return op.flatten(v(a)) end end
function make.split() local a = random(1e6) -- the last axis in two
  return function(v)
    local s = v(a).shape
    local n = s[#s]
    for _, k in ipairs { 2, 3, 5 } do
      if n and n % k == 0 then
        s[#s] = n / k
        s[#s + 1] = k
        return op.reshape(v(a), s)
      end
    end
    return v(a)
  end end
function make.narrow() local a, at = random(1e6), random(3)
  return function(v)
    local x = v(a)
    return x:narrow(0, math.min(at, x.shape[1] - 1), 1 + math.floor((x.shape[1] - at - 1) / 2))
  end end
function make.matmul() local a = random(1e6)
  return function(v) return op.matmul(v(a), v(a):T()) end end
function make.concat() local a, b, axis = random(1e6), random(1e6), random(2)
  return function(v) return op.concat({ v(a), v(b) }, { axis = axis }) end end
function make.dropout() local a = random(1e6)
  return function(v) return op.dropout(v(a), { p = 0.3 }) end end
function make.draw() local a, name = random(1e6), pick { "uniform", "bernoulli" } -- as many as x has
  return function(v)
    local x = v(a)
    return op.add(x, op[name](x.shape, name == "uniform" and { low = -1, high = 2 } or { p = 0.3 }))
  end end
function make.loss() local a = random(1e6)
  return function(v)
    local x = v(a)
    return op.cross_entropy(x, op.argmax(x, { axis = -1 }))
  end end
function make.losses() local a, p, how = random(1e6), random(2) == 0, pick { "mean", "sum", "none" }
  local e = random(3) == 0 and 0.1 or 0
  return function(v)
    local x = v(a)
    local o = { reduction = how, label_smoothing = e }
    local t = p and op.softmax(x, { axis = -1 }) or op.argmin(x, { axis = -1 })
    local y = op.cross_entropy(x, t, o)
    return op.cross_entropy_grad(x, t, op.mul(y, 0.5), o)
  end end
function make.pick() local a = random(1e6) -- one element of each row
  return function(v)
    local x = v(a)
    return op.gather(op.mul(x, 2), op.argmax(x, { axis = -1, keepdims = true }), { axis = -1 })
  end end
function make.bias() local a = random(1e6) -- a sum over the leading axes
  return function(v) return op.sum(op.mul(v(a), 0.5), { axis = 0 }) end end
local kinds = { "unary", "unary", "unary", "binary", "binary", "binary", "number", "compare", "where", "clamp",
  "cast", "reduce", "reduce", "rows", "rows", "transpose", "flat", "split", "narrow", "matmul", "concat",
  "dropout", "draw", "loss", "losses", "pick", "bias", "bias" }

-- ---- one case
local function input(shape, dtype, stream)
  local x = op.uniform(shape, { low = -3, high = 3, dtype = "f32", seed = 5, stream = stream })
  return dtype == "f32" and x or x:cast(dtype)
end

local function inputs()
  local n, s, list = 1 + random(3), {}, {}
  for i = 1, n do s[i] = pick(sizes) end
  if random(12) == 0 then s[n] = 3000 + random(2000) end
  list[1] = input(s, "f32", random(1000))
  list[2] = input(s, pick(dtypes), random(1000))
  list[3] = input({ s[n] }, "f32", random(1000))
  local b = { unpack(s) }
  b[1 + random(n)] = 1
  list[4] = input(b, pick { "f32", "f64", "f16" }, random(1000))
  if random(3) == 0 then list[1] = op.add(input({ s[n], s[1] }, "f32", 1), 0):T() end
  return list
end

local function run(steps, list)
  local values, n = { unpack(list) }, #list
  local function value(k) return values[1 + n - 1 - (k % math.min(n, 6))] end -- one of the latest
  for _, step in ipairs(steps) do
    n = n + 1
    values[n] = step(value)
  end
  local results = { values[n] }
  for i = 1, 2 do results[i + 1] = values[math.max(#list + 1, n - 2 * i)] end
  return unpack(results)
end

-- A step that the values refuse is left out.
local function program(list)
  local steps = {}
  for _ = 1, 2 + random(12) do
    local step = make[pick(kinds)]()
    steps[#steps + 1] = step
    local before = state
    local fine, y = pcall(run, steps, list)
    state = before
    if not fine or y.numel > 2e5 or y.numel == 0 then steps[#steps] = nil end
  end
  return steps
end

local function hashes(f, list)
  core.seed(9)
  local t = { f(unpack(list)) }
  for i = 1, #t do t[i] = core.type_text(t[i]) .. " " .. t[i]:hash() end
  return table.concat(t, ", ")
end

local function case(seed)
  state = seed * 7919 + 13
  for _ = 1, 5 do random(2) end
  jit.off()
  local list = inputs()
  local steps = program(list)
  if #steps == 0 then return nil, 0 end
  local f = graph.module("case" .. seed, function(...) return run(steps, { ... }) end)
  local want = hashes(f, list)
  jit.on()
  -- What the schedule prints reads back, and is legal.
  local text = f:ir "concrete" .. "\n" .. f:ir("schedule"):match "^.-\n}\n"
  local back, why = core.sched_parse(text)
  text = text:gsub(" +//[^\n]*", "")
  if back and back:gsub("threads %d+", "", 1) ~= text:gsub("threads %d+", "", 1) then why = "it reads back as\n" .. back end
  if why then return ("case %d: %s\n%s"):format(seed, why, text) end
  pairs_of.check(f) -- each pair of its kernels has one reason
  for _, target in ipairs { "avx2", "sm_90a" } do pairs_of.check(f, { target = target }) end
  for _ = 1, 2 do
    local got = hashes(f, list)
    if got ~= want then
      return ("case %d: %s, not %s\n%s\n%s"):format(seed, got, want, f:ir "concrete", f:ir "schedule")
    end
  end
  if seed % 3 > 0 then return end
  core.jit_returns(2) -- operators in place of every second kernel
  local got = hashes(f, list)
  core.jit_returns(0)
  if got ~= want then
    return ("case %d, every second kernel: %s, not %s\n%s\n%s"):format(seed, got, want, f:ir "concrete", f:ir "schedule")
  end
end

local function run_cases(count, first)
  local wrong = 0
  jit.eager(true)
  for seed = first, first + count - 1 do
    local fine, message = xpcall(case, debug.traceback, seed)
    if not fine then message = ("case %d: %s"):format(seed, message) end
    if message then
      wrong = wrong + 1
      if wrong <= 3 then print(message) end
    end
    if seed % 16 == 0 then jit.flush() collectgarbage() end
  end
  jit.eager(false)
  return wrong
end

local count, first = tonumber(arg and arg[1]) or 300, tonumber(arg and arg[2]) or 1
local before = jit.stats()
local wrong = run_cases(count, first)
local after = jit.stats()
assert(not jit.status() or count < 10 or after.kernels > before.kernels, "nothing was compiled")
if os.getenv "STATS" then
  print(("%d kernels, %d refused"):format(after.kernels - before.kernels, after.refused - before.refused))
end
print(wrong == 0 and "the same" or wrong .. " differ") --> the same
