-- Code for the oldest GPU (sm_80) of every family of kernels: what a simulated device was asked
-- for is kept as PTX and given to ptxas, where there is one. Values are compared elsewhere
-- (tests/devices): here the calls only have to reach each way to make a kernel.
local tessera = require "tessera"
local op, graph, rng, nn = tessera.op, tessera.graph, tessera.rng, tessera.nn
local ffi = require "ffi"
ffi.cdef "int setenv(const char *, const char *, int);"
local folder = os.tmpname()
os.remove(folder)
assert(os.execute("mkdir " .. folder) == 0)
ffi.C.setenv("TESSERA_SIM_PTX", folder, 1)

local function random(shape, d) return op.cast(op.mul(rng.normal(shape), 4), d or "f32"):to "sim" end
local called, refused = 0, {}
local function call(name, ...)
  local before = tessera.core.jit_device().fallback
  local y = op[name](...)
  called = called + 1
  if tessera.core.jit_device().fallback > before then refused[#refused + 1] = name end
  return y
end

for _, d in ipairs { "f32", "f64" } do
  for _, n in ipairs { 30, 61, 128, 1000 } do
    local x = random({ 3, n }, d)
    local z = call("rfft", x)
    call("irfft", z, { n = n })
    call("ifft", call("fft", x))
    call("fft", random({ n, 3 }, d), { axis = 0 })
  end
end
call("fft2", call("fft", random { 3, 20, 24 }))
call("fft", call("fft", random { 1, 32768 }))
for _, d in ipairs { "f32", "bf16", "i32" } do
  for axis = 0, 1 do
    local x = random({ 70, 133 }, d)
    for _, name in ipairs { "cumsum", "cumprod", "cummax", "sort", "argsort" } do call(name, x, { axis = axis }) end
    call("topk", x, 5, { axis = axis })
    for _, name in ipairs { "sum", "max", "min", "argmax", "argmin", "any", "all", "count_nonzero" } do
      call(name, x, { axis = axis })
    end
  end
end
for _, d in ipairs { "f32", "bf16", "f16" } do
  for _, n in ipairs { 40, 1024, 5000 } do
    local x, w, b = random({ 6, n }, d), random({ n }, d), random({ n }, d)
    call("softmax", x) call("log_softmax", x) call("layernorm", x, w, b) call("rmsnorm", x, w)
    call("mean", x, { axis = 1 }) call("var", x, { axis = 1 }) call("logsumexp", x, { axis = 1 })
    call("mean", x, { axis = 0 }) call("sum", x, { axis = 0 })
    call("gelu", x) call("silu", x) call("exp", x) call("tanh", x) call("add", x, w)
  end
end
for _, d in ipairs { "f32", "f64" } do
  call("conv1d", random({ 2, 3, 40 }, d), random({ 4, 3, 5 }, d))
  call("conv2d", random({ 2, 3, 12, 14 }, d), random({ 4, 3, 3, 3 }, d))
end
local image = random { 2, 3, 12, 14 }
call("max_pool", image, { window = 2 })
call("avg_pool", image, { window = 2 })
call("triu", random { 20, 20 })
call("tril", random { 20, 20 })
call("clone", random({ 40, 60 }):permute { 1, 0 })
for _, d in ipairs { "f32", "f64", "bf16", "f16" } do
  for layout = 0, 3 do
    local a = layout % 2 == 1 and random({ 40, 72 }, d):permute { 1, 0 } or random({ 72, 40 }, d)
    local b = layout > 1 and random({ 48, 40 }, d):permute { 1, 0 } or random({ 40, 48 }, d)
    call("matmul", a, b)
  end
end
for _, width in ipairs { 64, 128 } do
  local q, k = random({ 1, 2, 40, width }, "bf16"), random({ 1, 1, 72, width }, "bf16")
  local y = call("attention", q, k, k, nil, nil, { causal = true })
  call("attention_grad", q, k, k, nil, nil, y, q, { causal = true })
end

-- A step of training: sums of columns, gradients, the optimiser.
local step
tessera.device("sim:0", function()
  local model = nn.Sequential(nn.Linear(48, 64), op.gelu, nn.LayerNorm(64), nn.Linear(64, 16))
  step = graph.training_step(model, function(m, x, y) return op.mse(m(x), y) end,
    tessera.optim.AdamW(model:parameters(), { lr = 1e-3 }))
end)
for _ = 1, 3 do step(random { 32, 48 }, random { 32, 16 }) end

local files = {}
for file in io.popen("ls " .. folder):lines() do files[#files + 1] = folder .. "/" .. file end
local have = os.execute "ptxas --version > /dev/null 2>&1" == 0
if not have then print "skipped: no ptxas: PTX is made, not assembled" end
local bad = 0
for _, file in ipairs(files) do
  local f = io.open(file)
  local text = f:read "*a"
  f:close()
  if not text:find(".target sm_80", 1, true) then bad = bad + 1 print(file, (text:gsub("\n.*", ""))) end
end
local seen = {} -- ALL=1: every one, not the first few of each name
if have then
  for _, file in ipairs(files) do
    local name = file:match "([^/]*)%-%d+%.ptx$" or file:match "([^/]*)%-%d+%-marks%.ptx$" .. ", with marks"
    seen[name] = (seen[name] or 0) + 1
    if (seen[name] <= (os.getenv "LONG" and 3 or 1) or os.getenv "ALL") and os.execute(("ptxas -O1 -arch=sm_80 -o /dev/null %s 2>&1"):format(file)) ~= 0 then
      bad = bad + 1
      print(file:match "[^/]*$" .. " is refused")
    end
  end
end
os.execute("rm -r " .. folder)
table.sort(refused)
if #refused > 0 then print("the CPU ran " .. table.concat(refused, " ")) end
print(("%d kernels of %d calls, %d wrong"):format(#files, called, bad))
assert(bad == 0 and #files > 100, "not all of it is code for sm_80")
