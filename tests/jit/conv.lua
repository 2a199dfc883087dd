-- Convolutions as kernels, with pointwise rows before and behind them: the VM's bits, compiled and
-- by the interpreter, for sizes at every edge.
local ts = require "tessera"
local core = require "tessera.core"
local op, rng, graph, jit = ts.op, ts.rng, ts.graph, ts.jit
if not jit.status() then print "skipped: nothing is compiled here: kernels" end

local function both(name, f, ...)
  jit.off()
  local want = f(...):hash()
  jit.on()
  jit.eager(true)
  local m = graph.module("f", f)
  local got = m(...):hash()
  assert(got == want, name)
  assert(m(...):hash() == want, name .. ", again")
  if jit.status() then
    assert(m:ir("bytecode"):match "fused [^\n]*conv%dd", name .. ": no kernel\n" .. m:ir "why")
  end
  return m
end

local function bare(conv, options) return function(x, w) return conv(x, w, options) end end

-- ---- windows, paddings, dilations, rows that no vector divides, maps that no tile divides
local cases = {
  { op.conv2d, { 2, 16, 20, 20 }, { 16, 16, 3, 3 }, { padding = { 1 } } },
  { op.conv2d, { 1, 16, 33, 35 }, { 13, 16, 3, 3 }, { padding = { 1, 1 } } },
  { op.conv2d, { 3, 5, 29, 57 }, { 9, 5, 3, 5 }, { padding = { 1, 2 } } },
  { op.conv2d, { 2, 16, 20, 7 }, { 40, 16, 3, 3 }, {} },
  { op.conv2d, { 1, 8, 40, 40 }, { 8, 8, 5, 5 }, { padding = { 4 }, dilation = { 2 } } },
  { op.conv2d, { 1, 3, 64, 64 }, { 24, 3, 7, 7 }, { padding = { 3 } } },
  { op.conv2d, { 1, 64, 9, 9 }, { 110, 64, 1, 3 }, { padding = { 0, 1 } } },
  { op.conv2d, { 1, 64, 9, 9 }, { 30, 64, 3, 1 }, { padding = { 1, 0 } } },
  { op.conv2d, { 1, 16, 3, 300 }, { 16, 16, 3, 3 }, { padding = { 12, 20 } } },
  { op.conv2d, { 5, 130, 6, 6 }, { 33, 130, 2, 2 }, { padding = { 1 }, dilation = { 3, 1 } } },
  { op.conv2d, { 2, 16, 20, 20 }, { 16, 16, 3, 3 }, { padding = { 1 }, stride = { 2 } } },
  { op.conv2d, { 1, 16, 33, 35 }, { 13, 16, 3, 3 }, { padding = { 1, 1 }, stride = { 1, 2 } } },
  { op.conv2d, { 1, 16, 33, 36 }, { 13, 16, 3, 2 }, { padding = { 2, 0 }, stride = { 3, 1 } } },
  { op.conv2d, { 1, 3, 65, 67 }, { 24, 3, 7, 7 }, { padding = { 3 }, stride = { 2 } } },
  { op.conv2d, { 2, 24, 24, 31 }, { 40, 24, 4, 5 }, { padding = { 5, 9 }, stride = { 4, 3 }, dilation = { 2, 3 } } },
  { op.conv2d, { 2, 24, 24, 31 }, { 40, 24, 2, 2 }, { stride = { 3, 4 }, dilation = { 3, 4 } } },
  { op.conv1d, { 2, 32, 500 }, { 24, 32, 5 }, { padding = { 2 }, stride = { 3 } } },
  { op.conv3d, { 2, 6, 7, 12, 13 }, { 17, 6, 3, 3, 3 }, { padding = { 1 }, stride = { 2 } } },
  { op.conv3d, { 2, 12, 17, 20, 40 }, { 16, 12, 2, 3, 2 }, { padding = { 2, 0, 1 }, stride = { 3, 2, 4 } } },
  { op.conv1d, { 2, 32, 500 }, { 24, 32, 5 }, { padding = { 2 } } },
  { op.conv1d, { 1, 16, 99 }, { 40, 16, 11 }, { dilation = { 3 } } },
  { op.conv3d, { 2, 6, 7, 12, 13 }, { 11, 6, 3, 3, 3 }, { padding = { 1 } } },
  { op.conv3d, { 1, 4, 9, 10, 20 }, { 16, 4, 2, 3, 2 }, { padding = { 2, 0, 1 }, dilation = { 3, 1, 2 } } },
}
for i, c in ipairs(cases) do
  for _, dtype in ipairs { "f32", "f64" } do
    local x, w = rng.normal(c[2], { dtype = dtype }), rng.normal(c[3], { dtype = dtype })
    local name = ("case %d of %s"):format(i, dtype)
    both(name, bare(c[1], c[4]), x, w)
    -- With rows before it, behind it, and both. What is before must not reach the padding: cos 0 is 1.
    local shape = {}
    for k = 1, #c[2] do shape[k] = k == 2 and c[3][1] or 1 end
    local b = rng.normal(shape, { dtype = dtype })
    local scale = rng.normal({ c[2][#c[2]] }, { dtype = dtype })
    local m = both(name .. " in rows", function(x, w, b, scale)
      local y = c[1](op.cos(x * scale), w, c[4])
      return op.relu(y + b) * y
    end, x, w, b, scale)
    if jit.status() then
      assert(m:ir("schedule"):match "conv [^\n]*mul cos conv%dd add relu mul", m:ir "schedule")
    end
  end
end

-- ---- operands that lie otherwise: slices, turned images, turned weights
local x, w = rng.normal { 3, 20, 24, 40 }, rng.normal { 12, 20, 3, 3 }
both("slices", function(x, w) return op.conv2d(x["0:2, 4:12, 1:23, 2:39"], w[":, 8:16"], { padding = { 1 } }) end, x, w)
both("turned", function(x, w) return op.conv2d(x:transpose(2, 3), w:transpose(2, 3)) end, x, w)
both("channels last", function(x, w) return op.conv2d(x:permute { 0, 3, 1, 2 }, w) end, rng.normal { 2, 18, 18, 20 }, w)

-- ---- what is before is kept where somebody else reads it, and what is behind is as well
local function twice(x, w)
  local a = op.relu(x)
  local y = op.conv2d(a, w, { padding = { 1 } })
  return op.concat({ a:sum():reshape { 1 }, (y * 2):sum():reshape { 1 }, y:max():reshape { 1 } }, { axis = 0 })
end
both("read twice", twice, x, w)

-- ---- the words of its own epilogue, and rows behind them
local words = {
  { "bias" }, { "relu" }, { "bias_relu" }, { "bias_residual_relu" }, { "gelu_bias" }, { "residual_silu_bias" }, {},
}
for _, word in ipairs(words) do
  for _, c in ipairs { cases[2], cases[11], cases[13] } do
    local x, w = rng.normal(c[2]), rng.normal(c[3])
    local options = { epilogue = word[1] }
    for k, v in pairs(c[4]) do options[k] = v end
    local y = c[1](x, w, c[4])
    local plain = not word[1]
    local bias = (plain or word[1]:find "bias") and rng.normal { c[3][1] } or nil
    local residual = (plain or word[1]:find "residual") and rng.normal(y.shape) or nil
    local name = "words " .. (word[1] or "none") .. " of " .. #c[2]
    both(name, function(x, w, b, r) return c[1](x, w, b, r, options) * 2 end, x, w, bias, residual)
  end
end

-- ---- NaN, infinities and zeros with signs go through padding as they do on the VM
local odd = x:clone()
odd[0][0][0][0] = 0 / 0
odd[0][1][3][5] = 1 / 0
odd[1][2] = -0.0
local wide = w:clone()
wide[0][0][0][0] = 1 / 0
both("odd numbers", bare(op.conv2d, { padding = { 2 } }), odd, wide)

-- ---- by the interpreter, in both forms
for _, form in ipairs { "block", "explicit" } do
  core.jit_interpret(form)
  for i = 1, 3 do
    local c = cases[4 * i - 2]
    both(form, function(x, w) return op.tanh(c[1](x * 2, w, c[4])) end, rng.normal(c[2]), rng.normal(c[3]))
  end
end
core.jit_interpret()

-- ---- a gradient runs through kernels as well
local slope = graph.grad(function(w, x) return (op.conv2d(op.relu(x), w, { padding = { 1 } }) ^ 2):sum() end)
both("gradient", function(w, x) return (slope(w, x)) end, w, x)

-- ---- what takes time in it
local m = graph.module("f", function(x, w) return op.relu(op.conv2d(x, w, { padding = { 1 } })) end)
m(x, w)
if jit.status() then
  local report = ts.profile.report(m, { args = { x, w } })
  for _, stage in ipairs { "image", "mma", "rows" } do assert(report:find(stage, 1, true), stage .. "\n" .. report) end
end

-- ---- any sizes
local state = 7
local function random(lo, hi)
  state = (state * 1103515245 + 12345) % 2147483648
  return lo + math.floor(state / 65536) % (hi - lo + 1)
end
local kernels, SIDE = 0, { 400, 40, 12 }
for i = 1, 80 do
  local nd = random(1, 3)
  local conv = ({ op.conv1d, op.conv2d, op.conv3d })[nd]
  local sizes, window, options = { random(1, 3), random(1, 24) }, { random(8, 50) }, { padding = {}, stride = {}, dilation = {} }
  window[2] = sizes[2]
  for a = 1, nd do
    local k, d, s, p = random(1, 4), random(1, 3), random(1, 4), random(0, 6)
    sizes[2 + a] = math.max(1, (k - 1) * d + 1 - 2 * p) + random(0, SIDE[nd])
    window[2 + a] = k
    options.padding[a], options.stride[a], options.dilation[a] = p, s, d
  end
  local x, w = rng.normal(sizes), rng.normal(window)
  local function f(x, w) return op.abs(conv(op.cos(x), w, options)) end
  jit.off()
  local want = f(x, w):hash()
  jit.on()
  local m = graph.module("any", f)
  assert(m(x, w):hash() == want, ("random case %d: %s by %s"):format(i, table.concat(sizes, "x"), table.concat(window, "x")))
  if m:ir("bytecode"):match "fused [^\n]*conv%dd" then kernels = kernels + 1 end
end
assert(not jit.status() or kernels > 20, kernels)
