-- Values that are made where concat and pad want them: kernels that write with strides, rows of
-- the VM's, several calls, results that are kept. Bits are those of the VM without kernels, and
-- of the operators one by one.
local tessera = require "tessera"
local core = require "tessera.core"
local graph, op, jit = tessera.graph, tessera.op, tessera.jit
if not jit.status() then print "skipped: nothing is compiled here: kernels" end

local function u(shape, stream, dtype)
  local x = op.uniform(shape, { low = -2, high = 2, seed = 3, stream = stream })
  return dtype and x:cast(dtype) or x
end

local wrong = {}
local function hashes(f, args)
  local t = { f(unpack(args)) }
  for i = 1, #t do t[i] = t[i]:hash() end
  return table.concat(t, " ")
end

-- rooms: how many wholes have their parts made in place.
local function check(name, rooms, f, ...)
  local m, args = graph.module(name, f), { ... }
  local want = hashes(f, args)
  local function expect(how)
    if hashes(m, args) ~= want then wrong[#wrong + 1] = name .. " differs " .. how end
    local _, n = m:ir("bytecode"):gsub("= room", "")
    if n ~= rooms and how ~= "on the VM" then wrong[#wrong + 1] = ("%s: %d rooms %s\n%s"):format(name, n, how, m:ir "bytecode") end
  end
  jit.off()
  for _ = 1, 2 do expect "on the VM" end
  jit.on()
  if not jit.status() then return end
  jit.eager(true)
  local kept = { m(unpack(args)) }
  for _ = 1, 2 do expect "with kernels" end
  core.jit_returns(2)
  if hashes(m, args) ~= want then wrong[#wrong + 1] = name .. " differs with operators in place of some kernels" end
  core.jit_returns(0)
  if kept[1]:hash() .. (kept[2] and " " .. kept[2]:hash() or "") ~= want then
    wrong[#wrong + 1] = name .. ": a result changed later"
  end
  jit.eager(false)
end

local x, y = u({ 40, 33 }, 1), u({ 40, 33 }, 2)
local cat = function(axis, ...) return op.concat({ ... }, { axis = axis }) end

check("rows", 1, function(a, b) return cat(0, op.exp(a) * b, op.tanh(a + b)) end, x, y)
check("columns", 1, function(a, b) return cat(1, op.exp(a) * b, op.tanh(a + b)) end, x, y)
check("inside", 1, function(a, b) return op.sum(cat(1, op.exp(a) * b, op.tanh(a + b)), { axis = 1 }) * 2 end, x, y)
check("softmax", 1, function(a, b) return cat(-1, op.softmax(a * 2), op.layernorm(a + b), a - b) end, x, y)
check("row_operators", 1, function(a, b) return cat(1, op.softmax(a), op.rmsnorm(b)) end, x, y)
check("half", 1, function(a, b) return cat(1, op.exp(a) * b, b) end, x, y)
check("little", 0, function(a, b) return cat(1, op.exp(a) * b, b, b) end, x, y) -- not worth it
check("read_too", 1, function(a, b)
  local p = op.exp(a) * b
  return cat(1, p, a - b), p * 3 + a
end, x, y)
check("shown", 0, function(a, b) -- a view of a part in another shape would be a copy
  local p = op.exp(a) * b
  return cat(1, p, op.softmax(a):matmul(b:T())), op.sum(p:reshape(1320) * 2)
end, x, y)
check("result", 0, function(a, b)
  local p = op.exp(a) * b
  return cat(1, p, p), p
end, x, y)
check("twice", 1, function(a, b)
  local p, q = op.exp(a) * b, op.sin(a) + b
  return cat(1, p, q, q)
end, x, y)
check("cast", 1, function(a, b) -- the first part is converted on its way
  return cat(1, (op.exp(a) * b):cast("f16"), op.tanh(a + b) * 2, op.cos(a) - 1)
end, x, y)
check("stack", 1, function(a, b) return op.stack({ op.exp(a) * b, op.tanh(a + b) }, { axis = 1 }) end, x, y)
check("planes", 1, function(a, b) return cat(1, op.exp(a) * b, op.tanh(b) * 2) end, u({ 5, 8, 12 }, 1), u({ 5, 8, 12 }, 2))
check("sums", 1, function(a, b) return cat(0, op.sum(a * b, { axis = 1 }), op.max(a + b, { axis = 1 })) end, x, y)
check("column_sums", 1, function(a, b) return cat(0, op.sum(a * b, { axis = 0 }), op.sum(a + b, { axis = 0 })) end, x, y)
check("product", 1, function(a, b) return cat(0, op.matmul(a, b:T()), op.matmul(b, a:T()) * 2) end, x, y)
check("pad", 1, function(a, b) return op.pad(op.exp(a) * b, { pads = { 1, 2, 3, 0 }, value = 7 }) end, x, y)
check("reflect", 1, function(a, b) return op.pad(op.exp(a) * b, { pads = { 1, 2 }, mode = "reflect" }) end, x, y)
check("bf16", 1, function(a, b) return cat(1, op.exp(a) * b, op.tanh(a + b)) end, x:cast "bf16", y:cast "bf16")
check("two_wholes", 2, function(a, b)
  return cat(1, op.exp(a) * b, op.tanh(a + b) * 3), op.pad(op.sin(a) * b, { pads = { 4, 4 } })
end, x, y)
check("nested", 1, function(a, b) return cat(0, cat(1, op.exp(a) * b, op.tanh(a + b)), cat(1, a, b)) end, x, y)
check("numbers", 1, function(a, b) return cat(0, op.sum(a * b):reshape(1), op.mean(a):reshape(1)) end, x, y)

-- Slices are read where they lie.
check("slices", 1, function(a, b)
  local p, q = a["::2, 1:"], b["::2, :-1"]
  return cat(1, p * q + 1, q - p * 2)
end, x, y)
-- Turned halves, as of rotary embeddings.
check("rotary", 1, function(a, c, s)
  local p, q = a:chunk(2, { axis = -1 })
  return cat(-1, p * c - q * s, q * c + p * s)
end, u({ 3, 20, 64 }, 1), u({ 20, 32 }, 2), u({ 20, 32 }, 3))

-- In a loop, in a gradient, and with the bytes of parameters replaced.
local f = graph.grad(function(a) return (cat(1, op.exp(a), a * a) * cat(1, op.sin(a), a)):sum() end)
local want = f(x):hash()
jit.eager(true)
f(x):hash() == want --> true
f(x):hash() == want --> true
jit.eager(false)

print(#wrong == 0 and "the same" or table.concat(wrong, "\n")) --> the same
