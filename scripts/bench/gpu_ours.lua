-- The rows of `make bench DEV=cuda` in this program: functions as in ours.lua.

local ts = require "tessera"
local op, rng = ts.op, ts.rng
local device = "cuda:0"
ts.jit.later(false) -- kernels are measured, not the CPU meanwhile

local function normal(shape, dtype) return rng.normal(shape):cast(dtype or "f32"):to(device) end

local row = {}

function row.copy(dtype, r, c)
  local x = normal({ r, c }, dtype)
  return function() return x:clone() end
end

function row.small_add(n)
  local x, y = normal { n }, normal { n }
  local function loop(count)
    local z = x
    for _ = 1, count do z = z + y end
    return z
  end
  return function() return loop(1) end, loop
end

function row.matmul(dtype, m, n, k, layout)
  local a = layout:sub(1, 1) == "n" and normal({ m, k }, dtype) or normal({ k, m }, dtype):T()
  local b = layout:sub(2, 2) == "n" and normal({ k, n }, dtype) or normal({ n, k }, dtype):T()
  return function() return op.matmul(a, b) end
end

-- Uneven, and the same in each library.
local function sizes_of(rows, groups)
  local weight, all, sizes = {}, 0, {}
  for i = 1, groups do weight[i] = i * 7919 % 13 + 1; all = all + weight[i] end
  local left = rows
  for i = 1, groups do sizes[i] = i == groups and left or math.floor(rows * weight[i] / all); left = left - sizes[i] end
  return ts.tensor(sizes, { dtype = "i32" }):to(device)
end

function row.grouped(dtype, rows, groups, k, n)
  local x, w, sizes = normal({ rows, k }, dtype), normal({ groups, k, n }, dtype), sizes_of(rows, groups)
  return function() return op.grouped_matmul(x, w, sizes) end
end

function row.grouped_weights(dtype, rows, groups, k, n)
  local x, g, sizes = normal({ rows, k }, dtype), normal({ rows, n }, dtype), sizes_of(rows, groups)
  return function() return op.grouped_matmul_weight_grad(x, g, sizes) end
end

-- Captured functions, warm.
local function captured(f, ...)
  local m, args = ts.graph.module("fused", f), { ... }
  ts.jit.eager(true)
  m(unpack(args))
  ts.jit.eager(false)
  return function() return m(unpack(args)) end
end

function row.mlp(dtype, m, n, k)
  return captured(function(x, w, b) return op.gelu(op.matmul(x, w, { bias = b }), { approximate = "tanh" }) end,
    normal({ m, k }, dtype), normal({ k, n }, dtype), normal({ n }, dtype))
end

function row.softmax(dtype, r, c)
  local x = normal({ r, c }, dtype)
  return function() return op.softmax(x) end
end

function row.layernorm(dtype, r, c)
  local x, w, b = normal({ r, c }, dtype), normal({ c }, dtype), normal({ c }, dtype)
  return function() return op.layernorm(x, w, b) end
end

function row.rmsnorm(dtype, r, c)
  local x, w = normal({ r, c }, dtype), normal({ c }, dtype)
  return function() return op.rmsnorm(x, w) end
end

function row.chain(dtype, r, c)
  return captured(function(x, y, b) return op.gelu(x + b, { approximate = "tanh" }) * y + x end,
    normal({ r, c }, dtype), normal({ r, c }, dtype), normal({ c }, dtype))
end

for name, options in pairs { sum_rows = { axis = 1 }, sum_columns = { axis = 0 }, sum_all = {} } do
  row[name] = function(dtype, r, c)
    local x = normal({ r, c }, dtype):abs()
    return function() return op.sum(x, options) end
  end
end

function row.transpose(dtype, r, c)
  local x = normal({ r, c }, dtype)
  return function() return x:T():contiguous() end
end

function row.attention(b, h, s, d, causal)
  local q, k, v = normal({ b, h, s, d }, "bf16"), normal({ b, h, s, d }, "bf16"), normal({ b, h, s, d }, "bf16")
  local options = { causal = causal == 1 }
  return function() return op.attention(q, k, v, options) end
end

function row.attention_grad(b, h, s, d, causal)
  local shape = { b, h, s, d }
  local options = { causal = causal == 1 }
  local f = function(q, k, v, g)
    local loss = function(q, k, v) return (op.attention(q, k, v, options) * g):sum() end
    return ts.graph.grad(loss, { 1, 2, 3 })(q, k, v)
  end
  return captured(f, normal(shape, "bf16"), normal(shape, "bf16"), normal(shape, "bf16"), normal(shape, "bf16"))
end

function row.decode(b, length)
  local q, k, v = normal({ b, 64, 1, 128 }, "bf16"), normal({ b, 8, length, 128 }, "bf16"), normal({ b, 8, length, 128 }, "bf16")
  return function() return op.attention(q, k, v) end
end

function row.matmul_fp8(n)
  local a, b = normal({ n, n }, "fp8_e4m3"), normal({ n, n }, "fp8_e4m3"):T()
  return function() return op.matmul(a, b, { accumulate = "bf16" }) end
end

local BACKWARD = { norm = "backward" }
function row.fft(count, n)
  local x = rng.normal({ count, n }):cast("complex64"):to(device)
  return function() return op.fft(x, BACKWARD) end
end

function row.fft2(n)
  local x = rng.normal({ n, n }):cast("complex64"):to(device)
  return function() return op.fft2(x, BACKWARD) end
end

-- One step of examples/gpt2.lua at its small size.
function row.gpt2(batch, context)
  local kept, print_ = {}, print
  print, arg = function() end, { "--size", "small", "--synthetic", "--steps", "1", "--batch", tostring(batch),
    "--context", tostring(context), "--device", device }
  local training_step = ts.graph.training_step
  ts.graph.training_step = function(...)
    kept.step = training_step(...)
    return function(x, y)
      kept.x, kept.y = x, y
      return kept.step(x, y)
    end
  end
  dofile "examples/gpt2.lua"
  ts.graph.training_step, print = training_step, print_
  return function() return kept.step(kept.x, kept.y) end
end

return row
