-- Rows of norms whose results go past the caches: kernels have the bits of the VM, with rows that
-- are whole vectors and that are not, of several memories and of one, in two passes and in three.
local ts = require "tessera"
local op, jit = ts.op, ts.jit

local function normal(stream, dtype, ...)
  return ts.rng.normal({ ... }, { seed = 3, stream = stream }):cast(dtype)
end

local functions = {
  rmsnorm = function(x, y, w) return op.rmsnorm(x + y, w) end,
  layernorm = function(x, y, w, b) return op.layernorm(x + y, w, b) end,
  alone = function(x, _, w) return op.rmsnorm(x, w) end,
  quotient = function(x, y) return (x - y) / op.sum(x * y, { axis = -1, keepdims = true }) end,
  both = function(x, y)
    local s = x + y
    return s, s / op.sum(op.square(s), { axis = -1, keepdims = true })
  end,
}

local function bits(f, ...)
  local all = { f(...) }
  for i, t in ipairs(all) do all[i] = t:hash() end
  return table.concat(all, " ")
end

for _, shape in ipairs { { 4100, 1024 }, { 1030, 4096 }, { 4103, 1000 }, { 8200, 513 } } do
  for _, dtype in ipairs { "f32", "bf16" } do
    local rows, width = unpack(shape)
    local x, y = normal(1, dtype, rows, width), normal(2, dtype, rows, width)
    local w, b = normal(3, dtype, width), normal(4, dtype, width)
    for name, f in pairs(functions) do
      jit.off()
      local want = bits(f, x, y, w, b)
      jit.on()
      local m = ts.graph.module(name, f)
      for _ = 1, 12 do m(x, y, w, b) end
      jit.wait()
      local what = ("%s %s %dx%d"):format(name, dtype, rows, width)
      assert(bits(m, x, y, w, b) == want, what)
      assert(m:ir("tile", x, y, w, b):find "tile @", what .. ": no kernel")
    end
  end
end
