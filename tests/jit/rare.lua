-- Elements that take the rare path of a function, alone, among others, and none: kernels and the
-- interpreter of their explicit form, against the VM.
local tessera = require "tessera"
local core = require "tessera.core"
local graph, op, jit = tessera.graph, tessera.op, tessera.jit
jit.eager(true)

local function inputs(n, dtype, every)
  local t = {}
  for i = 1, n do t[i] = every and i % every == 0 and (i % 2 == 0 and 3e8 * i or -1e30) or i * 0.37 - 5 end
  return tessera.tensor(t, { dtype = dtype })
end

local wrong = {}
local function check(name, f, x)
  local m = graph.module(name, f)
  jit.off()
  local want = m(x):hash()
  jit.on()
  m(x)
  for _, form in ipairs { "compiled", "explicit", "block" } do
    core.jit_interpret(form ~= "compiled" and form or nil)
    if m(x):hash() ~= want then wrong[#wrong + 1] = name .. " " .. form .. " " .. tostring(x.dtype) .. " " .. x.numel end
    core.jit_interpret()
  end
end

for _, dtype in ipairs { "f32", "f64" } do
  for _, n in ipairs { 1, 15, 64, 200 } do
    for _, every in ipairs { false, 1, 13 } do
      local x = inputs(n, dtype, every)
      for _, name in ipairs { "sin", "cos", "tan" } do check(name, function(a) return op[name](a) * 2 end, x) end
      check("mod", function(a) return op.mod(a, 0.37) * 2 end, x)
      check("sum", function(a) return op.sum(op.sin(a)) end, x)
    end
  end
end
jit.eager(false)
print(#wrong == 0 and "the same" or table.concat(wrong, "\n")) --> the same
