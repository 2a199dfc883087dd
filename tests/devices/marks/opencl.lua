-- Profile marks of code in SPIR-V, run by OpenCL's device for CPUs: bits as without, stages that add up, times of the
-- device's clock in the host's; what the driver does not tell is left out.
package.path = "tests/devices/?.lua;" .. package.path
local opencl = require "_opencl"
local why = opencl.missing()
if why then return print(why) end
local tessera = require "tessera"
local op, rng, core = tessera.op, tessera.rng, tessera.core
local kernels = require "tessera.kernel.profile"
core.jit_later(false)
local name = "opencl:0"
for _, d in ipairs(tessera.devices()) do
  if d.name == name and d.no_clock then return print("skipped: " .. d.no_clock) end
end
rng.seed(1)

local function check(title, f, ...)
  local args = { ... }
  for i, x in ipairs(args) do args[i] = x:to(name) end
  local plain = f(unpack(args)):hash()
  local list, names = kernels.run(f, unpack(args)), {}
  assert(#list > 0, title .. ": no launch")
  for _, k in ipairs(list) do
    local sum = 0
    for _, s in ipairs(k.roles[1].stages) do
      sum, names[s.name] = sum + s.part, true
      assert(s.median <= s.p95 and s.count > 0, title)
    end
    assert(math.abs(sum - 1) < 1e-9, title .. ": parts add up to " .. sum)
    assert(k.usec > 0 and k.launch.tick_nsec > 0 and k.clock > 0, title)
    assert(not k.occupancy and next(k.processors) == nil, title .. ": what no driver tells")
  end
  core.jit_marks "stages"
  assert(f(unpack(args)):hash() == plain, title .. ": other bits with marks")
  core.jit_marks(nil)
  core.jit_profile(false)
  local text = kernels.text(list, 80)
  assert(not text:find "occupancy" and not text:find "processors" and not text:find "nan" and not text:find "used to 0%%", text)
  return names
end

local rows = check("softmax", function(x) return op.softmax(x) end, rng.normal { 300, 500 })
assert(rows.load and rows.store and rows.reduce)
local product = check("product", function(a, b) return op.matmul(a, b) end, rng.normal { 70, 90 }, rng.normal { 90, 60 })
assert(product.mma and product.load)
check("scan", function(x) return op.cumsum(x, { axis = 1 }) end, rng.normal { 9, 300 })

-- The files have no numbers either where there are none.
local path = os.tmpname()
local x = rng.normal({ 64, 64 }):to(name)
tessera.profile.report(op.softmax, { args = { x }, runs = 2, csv = path .. ".csv", trace = path .. ".json", html = path .. ".html" })
local file = io.open(path .. ".kernels.csv")
local rows_text = file:read "*a"
file:close()
rows_text:find("its driver does not tell registers, shared memory and occupancy", 1, true) ~= nil --> true
for _, more in ipairs { "", ".csv", ".json", ".html", ".kernels.csv" } do os.remove(path .. more) end
