-- op.kernel: kernels from text and from Lua functions, compiled and interpreted, as operators.
local tessera = require "tessera"
local op, graph, rng, core = tessera.op, tessera.graph, tessera.rng, tessera.core
rng.seed(1)

-- ---- from a function: shapes are solved, tiers agree, the same operators have the same bits
local function norm(options)
  return op.kernel("norm", { x = "f32[M,N]", w = "f32[N]" }, { y = "f32[M,N]", s = "f32[M]" },
    function(t, x, w, y, s)
      for r in t:rows(x) do
        local a = x[r]
        local mean = (a * a):mean()
        s[r] = mean
        y[r] = a * (1 / (mean + 1e-6):sqrt()) * w:load()
      end
    end, options)
end
local compiled, interpreted = norm(), norm { interpret = true }
local function expected(x, w)
  local mean = (x * x):sum { axis = 1 } / x.shape[2]
  return x * (1 / (mean + 1e-6):sqrt()):reshape { x.shape[1], 1 } * w, mean
end
for _, shape in ipairs { { 3, 5 }, { 64, 768 }, { 2, 5000 }, { 0, 7 }, { 1, 1 } } do
  local x, w = rng.normal(shape), rng.normal { shape[2] }
  local y, s = expected(x, w)
  for _, k in ipairs { compiled, interpreted } do
    local a, b = k(x, w)
    assert(a:hash() == y:hash() and b:hash() == s:hash(), tostring(k) .. " " .. table.concat(shape, ","))
  end
end
interpreted:status() --> interpreted, it is to be interpreted

-- Views, and other instruction sets and threads.
local x, w = rng.normal { 70, 33 }, rng.normal { 70 }
local want = expected(x:transpose(), w):hash()
local isa = core.isa()
for _, name in ipairs { "avx512", "avx2", "base" } do
  if pcall(core.isa, name) then
    for threads = 1, 2 do
      core.threads(threads)
      assert(compiled(x:transpose(), w):hash() == want, name)
    end
  end
end
core.isa(isa)

-- ---- in a captured function, with a derivative that is a kernel too
local cube_grad = op.kernel("cube_grad", { x = "f64[N]", g = "f64[N]" }, { d = "f64[N]" },
  function(t, x, g, d)
    for i in t:parallel(0, t.N, 32) do
      local a = x:load({ i }, 32, { edge = true })
      d:store({ i }, 3 * a * a * g:load({ i }, 32, { edge = true }), { edge = true })
    end
  end)
local cube = op.kernel("cube", { x = "f64[N]" }, { y = "f64[N]" }, function(t, x, y)
  for i in t:parallel(0, t.N, 32) do
    local a = x:load({ i }, 32, { edge = true })
    y:store({ i }, a * a * a, { edge = true })
  end
end, { adjoint = function(x, _, g) return cube_grad(x, g) end })
local v = tessera.tensor({ 1, 2, 3 }, { dtype = "f64" })
graph.grad(function(a) return (cube(a * 2) + 1):sum() end)(v) --> [ 24.  96. 216.]
--> f64[3]
local u = tessera.tensor({ 1, 2, 3 }, { dtype = "f64" }):requires_grad_()
cube(u):sum():backward()
u.grad --> [ 3. 12. 27.]
--> f64[3]
graph.grad(function(a) return cube_grad(a, a):sum() end)(v) --! cube_grad has no derivative

-- ---- loops that carry, positions before the first row, branches, 16-bit floats, integers
local function previous(options)
  return op.kernel("previous", { h = "bf16[T,C]" }, { y = "bf16[T,C]", n = "i64[T]" }, function(t, h, y, n)
    for r in t:rows(h) do
      for c in t:range(0, t.C, 64) do
        y:store({ r, c }, h:load({ r - 1, c }, 64, { edge = true }) * 2, { edge = true })
      end
      local sign = t:when((r % 2):eq(0), function() return t:full("i64[]", 1) end,
        function() return t:full("i64[]", -1) end)
      n[r] = t:fold({ 0, r + 1 }, { t:full("i64[]", 0) }, function(i, s) return s + i end) * sign
    end
  end, options)
end
local b = rng.normal({ 5, 70 }, { dtype = "bf16" })
local y, n = previous()(b)
assert(y:hash() == previous { interpret = true }(b):hash())
assert(y["1:"]:hash() == (b["0:4"] * 2):hash() and y[0]:abs():max():item() == 0)
n --> [ 0 -1  3 -6 10]
--> i64[5]

local product = op.kernel("product", { a = "f32[M,K]", b = "f32[K,N]" }, { y = "f32[M,N]" },
  function(t, a, b, y)
    local edge = { edge = true }
    for i in t:parallel(0, t.M, 16) do
      for j in t:range(0, t.N, 32) do
        y:store({ i, j }, t:fold({ 0, t.K, 32 }, { t:full("f32[16,32]") }, function(k, acc)
          return t:mma(a:load({ i, k }, { 16, 32 }, edge), b:load({ k, j }, { 32, 32 }, edge), acc)
        end), edge)
      end
    end
  end)
for _, s in ipairs { { 16, 32, 32 }, { 17, 33, 35 }, { 5, 7, 9 } } do
  local p, q = rng.normal { s[1], s[2] }, rng.normal { s[2], s[3] }
  assert(product(p, q):hash() == p:matmul(q):hash())
end

-- ---- from text; sizes that no argument has
local ramp = op.kernel [[
tile @ramp<N>(%a: f32[]) -> (%y: f32[N]) {
  %n = dim {index=0} : i64[]
  for %i in 0..%n parallel {
    %x = load %a[] : f32[]
    %f = cast %i : f32[]
    %p = mul %x, %f : f32[]
    store %y[%i] = %p
  }
}
]]
ramp(0.5, { N = 4 }) --> [0.0000 0.5000 1.0000 1.5000]
--> f32[4]
ramp(0.5) --! ramp: no argument gives the size N
ramp(0.5, { M = 4 }) --! ramp: the kernel has no size 'M'
ramp(0.5, { N = -1 }) --! ramp: the size N is a whole number
graph.module("f", function(a) return ramp(a * 2, { N = 3 }) + 1 end)(tessera.tensor(1)) --> [1. 3. 5.]
--> f32[3]

-- ---- levels
assert(compiled:ir():find("tile @norm<M, ?N>"))
assert(interpreted:ir("explicit"):find "form explicit")
compiled:ir "fast" --! there is no level 'fast'

-- ---- errors: types of arguments
compiled(x) --! norm: takes 2 tensors, 1 given
compiled(x:cast "f64", w) --! norm: argument 1 is f64[70,33], the kernel takes x: f32[M,N]
compiled(x, x) --! norm: argument 2 is f32[70,33], the kernel takes w: f32[N]
compiled(x, w) --! the kernel takes w: f32[N], and N is 33 by argument 1, which is f32[70,33]
compiled(x, "w") --! norm: argument 2 is a string, not a tensor

-- ---- errors in the function, with its line
local function bad(f) return op.kernel("bad", { x = "f32[M,N]" }, { y = "f32[M,N]" }, f) end
bad(function(t, x, y) x[0] = 1 end) --! store: %x is an input
bad(function(t, x, y) return x + 1 end) --! memory is no tile: load it first
bad(function(t, x, z) end) --! parameter 'z' of the function is neither an input nor a result
bad(function(t, x) end) --! 'y' is no parameter of the function
bad(function(t, x, y) for r in t:rows(x) do y[r] = x[r]:i32() end end) --! store: i32[N] into memory f32[M,N]
bad(function(t, x, y) for r in t:rows(x) do y[r] = x[r] + r end end) --! operands of two types: f32[N] and i64[]
bad(function(t, x, y) for r in t:rows(x) do y[r] = x[r] + t:full("f32[3]", 0) end end) --! does not lie along the last axes
bad(function(t, x, y) for r in t:rows(x) do y[r] = x[r]:hyp() end end) --! a tile has no method 'hyp'
bad(function(t, x, y) for r in t:rows(x) do break end end) --! a loop was left by break or return
bad(function(t, x, y) for r in t:rows(x) do y[r] = x[r].lt end end) --! what is stored is a function
bad(function(t, x, y) local a = x[0] end) --! kernel.lua:150: @bad: load: stands outside of the parallel loops
bad(function(t, x, y) for r in t:rows(x) do y[{ r, 0.5 }] = 1 end end) --! a position is a whole number or i64[]
local function filled(dtype, v)
  return op.kernel("bad", { x = dtype .. "[N]" }, { y = dtype .. "[N]" }, function(t, x, y)
    for i in t:parallel(0, t.N, 4) do y:store({ i }, x:load({ i + 1 }, 4, { edge = true, fill = v }), { edge = true }) end
  end)
end
filled("u8", 300) --! load: 300 does not fit into u8
filled("u8", 300) --! u8 holds whole numbers from 0 to 255
filled("u8", 256) --! 256 does not fit into u8
filled("u8", -1) --! -1 does not fit into u8
filled("u8", 1e10) --! 10000000000 does not fit into u8
filled("u8", 0 / 0) --! nan does not fit into u8
filled("i8", -129) --! -129 does not fit into i8
filled("i32", 0.5) --! 0.5 does not fit into i32
filled("bool", 2) --! 2 does not fit into bool
filled("u8", 255)(op.zeros({ 5 }, { dtype = "u8" })) --> [  0   0   0   0 255]
--> u8[5]
filled("i8", -128)(op.zeros({ 3 }, { dtype = "i8" })) --> [   0    0 -128]
--> i8[3]
filled("f32", 1e10)(op.zeros { 2 })[1]:item() --> 10000000000
local function picked(t, x, at, y)
  for i in t:rows(at) do y:store({ i }, x:gather(at:load({ i }, 1), { edge = true, fill = 300 })) end
end
op.kernel("bad", { x = "u8[N]", at = "i64[N]" }, { y = "u8[N]" }, picked) --! gather: 300 does not fit into u8
op.kernel("bad", { x = "complex64[N]" }, { y = "f32[N]" }, function(t, x, y) end) --! elements of a kernel are real numbers
op.kernel("tile @f(%x: f32[2]) -> () {}") --! nothing is written
op.kernel("bad", {}, {}, function() end, { adjoint = 1 }) --! adjoint is a function, not a number

-- The interpreter finds positions outside of memory.
local outside = op.kernel("outside", { x = "f32[N]" }, { y = "f32[N]" }, function(t, x, y)
  for i in t:rows(x) do y[i] = x[i + 1] end
end, { interpret = true })
outside(w) --! outside

-- A text that is wrong names the program's line once.
local wrong = "tile @x(%a: f32[4]) -> (%b: f32[4]) {\n  %v = loda %a[0] : f32[4]\n}"
local _, message = pcall(function() local k = op.kernel(wrong) return k end)
select(2, message:gsub("kernel%.lua:%d+: ", "")) --> 1
message:match "did you mean '%a+'" --> did you mean 'load'
tessera.jit.flsh() --! did you mean 'flush'?

-- A text that lacks memory, or whose error does, says so.
local symbolic = op.kernel("symbolic", { x = "f32[M,N]" }, { y = "f32[M]" }, function(t, x, y)
  for r in t:rows(x) do y[r] = (x[r] * x[r]):mean():sqrt() end
end)
local turned = op.kernel("turned", { x = "f32[M,N]" }, { y = "f32[N,M]" }, function(t, x, y)
  for i in t:parallel(0, t.M, 8) do
    y:store({ 0, i }, x:load({ i, 0 }, { 8, 8 }, { edge = true }):transpose { 1, 0 }, { edge = true })
  end
end)
local function text_of(k, level)
  local ok, text = pcall(function() return k:ir(level) end)
  return text, ok
end
for _, case in ipairs { { symbolic, "explicit" }, { turned, "tile" }, { turned, "explicit" } } do
  local want, fine, n = text_of(case[1], case[2]), true, 0
  repeat
    n = n + 1
    core.fail_after(n)
    local have, ok = text_of(case[1], case[2])
    local left = core.fail_after(0)
    fine = fine and (have == want or not ok and have:find "out of memory" ~= nil and not have:find "call it first")
    assert(fine, ("%s %s, %d: %s"):format(case[1].name, case[2], n, have))
  until left > 0 or n == 1000
  assert(n > 4 and n < 1000, n)
end
