-- The worker for this program: `tessera scripts/bench/ours.lua THREADS`. Protocol:
-- scripts/bench/worker.h. Each row is a function of the sizes that returns the call
-- to measure and, where one call is too short, a loop over n of them.

local ts = require "tessera"
local op, rng = ts.op, ts.rng
local now = os.getenv "CLOCK" == "cpu" and os.clock or ts.core.now

local device = os.getenv "DEV" or ""
local threads = tonumber(arg[1])
if threads then ts.threads(threads) end

local function normal(shape, dtype)
  local x = rng.normal(shape)
  return dtype and dtype ~= "f32" and x:cast(dtype) or x
end

-- Weights of a norm: of random ones about 0 the mean of all that they multiply depends on the draw.
local function near_one(n) return normal { n } * 0.125 + 1 end

local row = {}

-- The result of each call is an input of the next.
function row.small_add(n)
  local x, y = normal { n }, normal { n }
  local function loop(count)
    local z = x
    for _ = 1, count do z = z + y end
    return z
  end
  return function() return loop(1) end, loop
end

function row.matmul(dtype, m, k, n, layout)
  local a = normal({ m, k }, dtype)
  if layout == "nn" then
    local b = normal({ k, n }, dtype)
    return function() return op.matmul(a, b) end
  end
  local b = normal({ n, k }, dtype)
  return function() return op.matmul(a, b:T()) end
end

-- bf16 in the profile that rounds as the processor's instruction does; matmul has the other ones.
function row.fast_matmul(...)
  ts.numerics.profile "fast"
  return row.matmul(...)
end

function row.add(r, c)
  local x, y = normal { r, c }, normal { r, c }
  return function() return x + y end
end

function row.scale(r, c)
  local x = normal { r, c }
  return function() return x * 1.5 end
end

function row.bias(r, c)
  local x, y = normal { r, c }, normal { c }
  return function() return x + y end
end


for _, name in ipairs { "exp", "gelu", "softmax" } do
  row[name] = function(r, c)
    local x, f = normal { r, c }, op[name]
    return function() return f(x) end
  end
end

function row.layernorm(r, c)
  local x, w, b = normal { r, c }, normal { c }, normal { c }
  return function() return op.layernorm(x, w, b) end
end

function row.rmsnorm(r, c)
  local x, w = normal { r, c }, normal { c }
  return function() return op.rmsnorm(x, w) end
end

-- A plain loop of operators, which nobody captured.
function row.eager_loop(n)
  local x, y = normal { n }, normal { n }
  local function loop(count)
    local z = x
    for i = 1, count do
      z = op.relu(z * 0.5 + y) - (z + x) * 0.25 + y * 2
      if i % 100 == 0 then z:select(0, 0):item() end
    end
    return z
  end
  return function() return loop(1) end, loop
end

-- Operators in an order that no loop has: nothing repeats, so nothing gets hot.
function row.eager_any(n)
  local x, y, state = normal { n }, normal { n }, 1
  local any = { op.relu, op.abs, op.neg, op.square, function(v) return v + y end, function(v) return v - y end,
    function(v) return op.maximum(v, y) end }
  local function loop(count)
    local z = x
    for i = 1, count do
      state = (state * 1103515245 + 12345) % 2147483648
      z = any[math.floor(state / 65536) % #any + 1](i % 16 == 0 and x or z)
    end
    return z
  end
  return function() return loop(1) end, loop
end

-- A function that no size calls often.
function row.storm(shapes)
  local x, y = normal { shapes + 16, 64 }, normal { 64 }
  return function()
    local f = ts.graph.module("storm", function(v, w) return op.tanh(v * 2 + w) * w - v end)
    local z
    for i = 1, shapes do z = f(x:narrow(0, 0, 16 + (i * 389) % shapes), y) end
    return z
  end
end

-- Captured functions, warm: their kernels are there before anything is measured, and have had the
-- calls in which the code before takes turns with them, twice where some of them go back.
local JUDGED = 28
local function captured(f, ...)
  local m, args = ts.graph.module("fused", f), { ... }
  ts.jit.eager(true)
  m(unpack(args))
  ts.jit.eager(false)
  for _ = 1, JUDGED do m(unpack(args)):data_ptr() end
  return function() return m(unpack(args)) end
end

-- Warm as well: as torch.compile, which compiles before its first step ends.
function row.gpt_step(...)
  local step = dofile "scripts/bench/gpt.lua"(...)
  for _ = 1, JUDGED + 6 do
    step():item()
    ts.jit.wait()
  end
  return step
end

function row.fused_chain(r, c)
  return captured(function(x, y, b) return x * 2 - y * x + b end, normal { r, c }, normal { r, c }, normal { c })
end

function row.fused_gelu(r, c)
  return captured(function(x, y, b) return op.gelu(x + b) * y + x end, normal { r, c }, normal { r, c },
    normal { c })
end

function row.fused_softmax(r, c)
  return captured(function(x) return op.softmax(x / 8) end, normal { r, c })
end

function row.fused_layernorm(r, c)
  return captured(function(x, y, w, b) return op.layernorm(x + y, w, b) end, normal { r, c }, normal { r, c },
    near_one(c), normal { c })
end

function row.fused_rmsnorm(r, c)
  return captured(function(x, y, w) return op.rmsnorm(x + y, w) end, normal { r, c }, normal { r, c }, near_one(c))
end

-- Weights as layers begin with, of variance 1/k: gelu's arguments have that of 2.
function row.fused_product(m, k, n)
  return captured(function(x, w, b, r) return op.gelu(op.matmul(x, w) + b) + r end, normal { m, k },
    normal { k, n } * k ^ -0.5, normal { n }, normal { m, n })
end

-- In bf16, by the processor's instruction for it.
function row.fast_product(m, k, n)
  ts.numerics.profile "fast"
  return captured(function(x, w, b, r) return op.gelu(op.matmul(x, w) + b) + r end, normal({ m, k }, "bf16"),
    (normal { k, n } * k ^ -0.5):cast "bf16", normal({ n }, "bf16"), normal({ m, n }, "bf16"))
end

function row.fused_dot(r, c)
  return captured(function(x, y) return (x * y):sum { axis = 1 } end, normal { r, c }, normal { r, c })
end

-- Gradients by all inputs, for a given gradient of the result.
local function gradients(f, ...)
  local g = ts.graph.vjp(f)
  return captured(function(...) return (g(...)) end, ...)
end

function row.fused_layernorm_grad(r, c)
  return gradients(function(x, w, b) return op.layernorm(x, w, b) end, normal { r, c }, near_one(c), normal { c },
    normal { r, c })
end

function row.fused_rmsnorm_grad(r, c)
  return gradients(function(x, w) return op.rmsnorm(x, w) end, normal { r, c }, near_one(c), normal { r, c })
end

function row.fused_cross_entropy(r, c)
  local y = rng.randint({ r }, { low = 0, high = c })
  local f = ts.graph.value_and_grad(function(x, y) return op.cross_entropy(x, y) end)
  return captured(function(x, y)
    local _, slope = f(x, y)
    return slope
  end, normal { r, c }, y)
end

-- In place, so there is no result to allocate.
function row.fused_adamw(r, c)
  local w, g = normal { r, c }, { normal { r, c } }
  local adamw = ts.optim.AdamW({ w }, { lr = 1e-4 })
  return function()
    adamw:step(g)
    return w
  end
end

local AXIS = { rows = { axis = 1 }, columns = { axis = 0 }, all = nil }
for _, name in ipairs { "sum", "max" } do
  row[name] = function(r, c, over)
    local x, f, options = rng.uniform { r, c }, op[name], AXIS[over]
    return function() return f(x, options) end
  end
end

function row.clone(r, c)
  local x = normal { r, c }
  return function() return x:clone() end
end

function row.transpose(r, c)
  local x = normal { r, c }
  return function() return x:T():contiguous() end
end

function row.nhwc(...)
  local x, perm = normal { ... }, { 0, 2, 3, 1 }
  return function() return x:permute(perm):contiguous() end
end

function row.nchw(...)
  local x, perm = normal { ... }, { 0, 3, 1, 2 }
  return function() return x:permute(perm):contiguous() end
end

function row.cast(from, to)
  local x = normal({ 4096, 4096 }, from)
  return function() return x:cast(to) end
end

function row.concat(r, c, axis)
  local x, y, options = normal { r, c }, normal { r, c }, { axis = axis }
  return function() return op.concat(x, y, options) end
end

function row.attention(b, h, s, d)
  local q, k, v = normal { b, h, s, d }, normal { b, h, s, d }, normal { b, h, s, d }
  local options = { causal = true }
  return function() return op.attention(q, k, v, options) end
end

function row.attention_grad(b, h, s, d)
  local shape, options = { b, h, s, d }, { causal = true }
  return gradients(function(q, k, v) return op.attention(q, k, v, options) end, normal(shape), normal(shape),
    normal(shape), normal(shape))
end

function row.conv2d(b, cin, cout, size, window)
  local x, w = normal { b, cin, size, size }, normal { cout, cin, window, window }
  local options = { padding = (window - 1) / 2 }
  return function() return op.conv2d(x, w, options) end
end

function row.fused_conv(b, cin, cout, size, window)
  local options = { padding = (window - 1) / 2 }
  return captured(function(x, w, bias) return op.relu(op.conv2d(x * 2, w, options) + bias) end,
    normal { b, cin, size, size }, normal { cout, cin, window, window }, normal { cout, 1, 1 })
end

-- Without a factor, as the peers do by default.
local BACKWARD = { norm = "backward" }
function row.fft(count, n)
  local x = rng.normal({ count, n }, { dtype = "f32" }):cast("complex64")
  return function() return op.fft(x, BACKWARD) end
end

function row.fft2(n)
  local x = rng.normal({ n, n }, { dtype = "f32" }):cast("complex64")
  return function() return op.fft2(x, BACKWARD) end
end

function row.sort(n)
  local x = normal { n }
  return function() return (op.sort(x)) end
end

function row.topk(n, k)
  local x, options = normal { n }, { k = k }
  return function() return (op.topk(x, options)) end
end

function row.cholesky(n)
  local m = normal { n, n }
  local a = op.matmul(m, m:T()) + op.eye(n) * n
  return function() return op.cholesky(a) end
end

function row.svd(n)
  local x = normal { n, n }
  return function()
    local _, s = op.svd(x)
    return s
  end
end

for name, f in pairs(dofile "scripts/bench/models/cpu.lua") do
  if name:find "^model_" then row[name] = f end
end

-- Whole programs, captured, or eager in a worker of their own. Warm as a captured function is.
local eager = arg[2] == "eager"
function row.program(name)
  local call, checked = require("program").set_up(name, not eager, not eager)
  local start = now()
  for _ = 1, JUDGED + 6 do
    call():data_ptr()
    ts.jit.wait()
    if now() - start > 20 then break end
  end
  return call, nil, checked
end

package.path = "scripts/bench/?.lua;" .. package.path
for name, make in pairs(require "ours_operators") do row[name] = make end
if device ~= "" then row = require "gpu_ours" end
if eager then row = { program = row.program } end

-- ---- the loop over commands

local held, single, loop, calls
local checked -- what the row says of its result itself

local function split(text)
  local words = {}
  for word in text:gmatch("%S+") do words[#words + 1] = tonumber(word) or word end
  return words
end

local function set_up(text)
  held, single, loop, checked = nil, nil, nil, nil
  collectgarbage()
  ts.core.trim()
  ts.numerics.profile "deterministic"
  local words = split(text)
  local make = row[table.remove(words, 1)]
  if not make then return false end
  local call, own_loop
  call, own_loop, checked = make(unpack(words))
  single = call
  -- Asking for the data is what a result that nobody looks at would escape. On a device that
  -- would fetch it: there the work is queued, and the end of it is waited for.
  local function ask(y)
    if device == "" then y:data_ptr() end
    return y
  end
  loop = own_loop or function(count)
    local y
    for _ = 1, count do y = ask(call()) end
    return y
  end
  return true
end

local function time(count)
  local start, y = now(), loop(count)
  if device == "" then y:data_ptr() else ts.synchronize() end
  return (now() - start) / count
end

-- The first call compiles, which is no measure of how many there can be. A GPU runs a function
-- by kernels once enough was spent in it and they are made, and as one launch some calls later.
local function warm_up()
  local count = 1
  time(1)
  if device ~= "" then
    for _ = 1, 16 do
      ts.jit.wait()
      time(1)
    end
  end
  local start, once = now(), time(1)
  while now() - start < 0.1 and once < 0.5 do
    once = time(count)
    if once * count < 0.005 then count = count * 4 end
  end
  calls = math.max(1, math.floor(0.03 / once))
end

local command = {}

function command.about() return "ok " .. ts.version end

local function holds(text)
  if text == held then return true end
  if not set_up(text) then return false end
  warm_up()
  held = text
  return true
end

function command.bench(text)
  if not holds(text) then return "none" end
  if calls > 1 then time(calls) end -- the processors come back from the pause
  return ("ok %.9g"):format(time(calls))
end

-- Seconds of a call whose result takes the place of the last one's, which is collected untimed: what is
-- in the caches stays there. The median of many.
function command.apart(text)
  if not holds(text) then return "none" end
  local times = {}
  for i = 1, 101 do
    collectgarbage()
    local start = now()
    single():data_ptr()
    times[i] = now() - start
  end
  table.sort(times)
  return ("ok %.9g"):format(times[51])
end

function command.check()
  return ("ok %.9g"):format(checked or single():abs():cast("f64"):mean():item())
end

function command.drop()
  held, single, loop = nil, nil, nil
  collectgarbage()
  return "ok"
end

-- The VM alone stands beside ours where kernels are the matter.
if arg[2] == "vm" then
  for name in pairs(row) do
    local kept = { eager_loop = true, eager_any = true, storm = true, gpt_step = true }
    if not name:find "^fused_" and not kept[name] then row[name] = nil end
  end
end

for line in io.lines() do
  local name, text = line:match("^(%S+)%s*(.*)$")
  local ok, answer = pcall(command[name] or function() return "none" end, text)
  if not ok then answer = "fail " .. tostring(answer):match("[^\n]*") end
  io.write(answer, "\n")
  io.flush()
end
