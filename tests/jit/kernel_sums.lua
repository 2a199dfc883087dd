-- Reductions of kernels that a program writes, of every type that elements have: what is accepted is
-- compiled, on its device, and has the numbers of the operators in f64 and i64.
local tessera = require "tessera"
local op, core, jit = tessera.op, tessera.core, tessera.jit
if not jit.status() then return print "skipped: no LLVM in this program" end

-- Integers go to the ends of their types, where a sum needs i64.
local range = { bool = { 0, 2 }, u8 = { 0, 256 }, i8 = { -128, 128 }, i16 = { -2 ^ 15, 2 ^ 15 }, i32 = { -2 ^ 31, 2 ^ 31 },
  i64 = { -2 ^ 40, 2 ^ 40 }, fp8_e4m3 = { -2, 3 }, f16 = { -4, 5 }, bf16 = { -4, 5 }, f32 = { -9, 10 }, f64 = { -9, 10 } }
local kernels = {}

local function add(name, memory, result, body, x, want)
  local k = op.kernel(name, { x = memory }, { s = result }, body)
  kernels[#kernels + 1] = { k = k, x = x, want = want, name = name }
end

local function reductions(dtype, m, n)
  local x = op.randint({ m, n }, range[dtype][1], range[dtype][2], { seed = 1, stream = 0 }):cast(dtype)
  local out = (dtype:find "^f" or dtype == "bf16") and "f64" or "i64"
  local wide = x:cast(out)
  for _, name in ipairs { "sum", "pairs", "prod", "max", "min", "argmax", "argmin" } do
    local to = name:find "^arg" and "i64" or out
    local operator = op[name == "pairs" and "sum" or name]
    local function reduce(v, axis) return v[name](v, axis):cast(to) end
    if name ~= "prod" or out == "i64" then -- products of floats are rounded on the way
      local title = ("%s_%s_%d"):format(name, dtype, n)
      add(title, dtype .. "[M,N]", to .. "[M]", function(t, x, s)
        for r in t:rows(x) do s[r] = reduce(x[r]) end
      end, x, operator(wide, { axis = 1 }))
      if n < 100 then
        add(title .. "_columns", ("%s[%d,N]"):format(dtype, m), to .. "[N]", function(t, x, s)
          for c in t:parallel(0, t.N, 8) do
            s:store({ c }, reduce(x:load({ 0, c }, { m, 8 }, { edge = true }), 0), { edge = true })
          end
        end, x, operator(wide, { axis = 0 }))
      end
    end
  end
  add("mean_" .. dtype .. n, dtype .. "[M,N]", "f64[M]", function(t, x, s)
    for r in t:rows(x) do s[r] = x[r]:mean():cast "f64" end
  end, x, nil)
end

for dtype in pairs(range) do
  for _, shape in ipairs { { 5, 37 }, { 2, 300 } } do reductions(dtype, unpack(shape)) end
end
local devices = { "cpu:0" }
if pcall(op.zeros, { 1 }, { device = "sim:0" }) then devices[2] = "sim:0" end
local wrong
for _, device in ipairs(devices) do
  for round = 1, 2 do -- interpreted while they are compiled, then as compiled
    for _, c in ipairs(kernels) do
      local y = c.k(c.x:to(device))
      local good = not c.want or y:to "cpu:0":eq(c.want):all():item()
      if not c.want then good = math.abs(y:to "cpu:0":sub(c.x:cast "f64":mean { axis = 1 }):abs():max():item()) <=
        1e-6 * c.x:cast "f64":abs():max():item() end
      if round == 2 and c.k:status() == "interpreted" then good = false end
      if not good then wrong = wrong or ("%s on %s: %s"):format(c.name, device, table.concat({ c.k:status() }, " ")) end
    end
    jit.wait()
  end
end
wrong --> nil
