-- Operators from outside: C functions, Lua functions, functions with a derivative of their
-- own. The C functions are those of the system's libm, libc and zlib, and where there is a
-- compiler some of a library that is made here.
local tessera = require "tessera"
local op, graph, rng = tessera.op, tessera.graph, tessera.rng
local T = tessera.tensor
local function near(a, b) return (a - b):abs():max():item() < 1e-12 end

-- ---- for each element
local j1 = op.foreign("m", "j1", "f64 (each f64 x)")
local j0 = op.foreign("libm.so.6", "j0", "double j0(each double x)",
  { adjoint = function(x, y, dy) return -j1(x) * dy end })
local x = op.linspace(0, 3, 4, { dtype = "f64" })
j0(x) --> [ 1.0000  0.7652  0.2239 -0.2601]
--> f64[4]
j0(0) --> 1. f64[]
j0(op.zeros({ 0, 3 }, { dtype = "f64" })) --> [] f64[0,3]
near(j0(op.stack { x, x }:T()), op.stack { j0(x), j0(x) }:T()) --> true
local pow = op.foreign("m", "pow", "f64 pow(each f64 x, each f64 y)")
pow(x, x:unsqueeze(1)) --> [[ 1.  1.  1.  1.]
-->  [ 0.  1.  2.  3.]
-->  [ 0.  1.  4.  9.]
-->  [ 0.  1.  8. 27.]]
--> f64[4,4]
local fmaf = op.foreign("m", "fmaf", "float fmaf(each float a, each float b, float c = 1)")
fmaf(T { 1, 2 }, T { 3, 4 }) --> [4. 9.]
--> f32[2]
fmaf(T { 1, 2 }, 3, { c = 0.5 }) --> [3.5000 6.5000]
--> f32[2]
local jn = op.foreign("m", "jn", "f64 jn(int n, each f64 x)")
near(jn(x, { n = 1 }), j1(x)) --> true
op.foreign(nil, "abs", "int (each int x)")(T({ -3, 4 }, { dtype = "i32" })) --> [3 4]
--> i32[2]
op.foreign("c", "toupper", "i32 (each i32 x)")(T({ 97, 48 }, { dtype = "i32" })) --> [65 48]
--> i32[2]

-- ---- pointers
local swab = op.foreign("c", "swab", "void swab(const u8 *from, u8 *to, i64 n = from.nbytes)")
swab(T({ 1, 2, 3, 4 }, { dtype = "u8" })) --> [2 1 4 3]
--> u8[4]
-- inputs are made row-major
swab(T({ { 1, 2 }, { 3, 4 } }, { dtype = "u8" }):T()) --> [[3 1]
-->  [4 2]]
--> u8[2,2]
local crc = op.foreign("z", "crc32", "unsigned long crc32(unsigned long crc = 0, const u8 *data, unsigned int n = data.numel)")
local text = T({ ("123456789"):byte(1, -1) }, { dtype = "u8" })
crc(text):item() == 0xcbf43926 --> true
crc(text["4:"], { crc = crc(text["0:4"]):item() }):item() == 0xcbf43926 --> true
local modf = op.foreign("m", "modf", "f64 modf(f64 x, f64 *whole)", { shape = {} })
modf({ x = 2.25 }) --> 0.2500 f64[], 2. f64[]
local uncompress = op.foreign("z", "uncompress", "status int (u8 *to, i64 *room, const u8 *from, u64 n = from.numel)",
  { shape = { { 4 }, { 1 } } })
uncompress(text) --! uncompress: the function failed with status

-- ---- captured, differentiated
local f = graph.module("f", function(x) return (j0(x) + j0(x) * j1(x)):sum() end)
near(f(x), (j0(x) + j0(x) * j1(x)):sum()) --> true
f:ir():gsub("%s+$", ""):match ".*" --> graph @f(%x: f64[4]) -> %4 {
-->   %0 = custom %x {name="j0"} : f64[4]
-->   %1 = custom %x {name="j1"} : f64[4]
-->   %2 = mul %0, %1 : f64[4]
-->   %3 = add %0, %2 : f64[4]
-->   %4 = sum %3 : f64[]
--> }
graph.module("jns", function(x) return jn(x, { n = 2 }) - jn(x, { n = 3 }) end):ir("graph", x):gsub("%s+$", ""):match ".*" --> graph @jns(%x: f64[4]) -> %2 {
-->   %0 = custom %x {name="jn {n = 2}"} : f64[4]
-->   %1 = custom %x {name="jn {n = 3}"} : f64[4]
-->   %2 = sub %0, %1 : f64[4]
--> }
near(graph.grad(function(x) return j0(x * 2):sum() end)(x), -2 * j1(x * 2)) --> true
local w = op.linspace(1, 2, 3, { dtype = "f64" })
w.requires_grad = true
j0(w):sum():backward()
near(w.grad, -j1(w)) --> true
w.grad = nil
graph.module(function(x) return j0(x):sum() end)(w):backward()
near(w.grad, -j1(w)) --> true
graph.grad(function(x) return j1(x):sum() end)(x) --! j1 has no derivative: it was made without an adjoint (the j1 of
graph.grad(function(x) return j1(x):sum() end)(x) --! tests/vm/foreign.lua:79)
j1(w):sum():backward() --! j1 has no derivative
-- twice, along a direction, in a loop
local d2 = graph.grad(function(x) return graph.grad(function(y) return op.custom("square", {
  forward = function(a) return a * a end, adjoint = function(a, b, db) return 2 * a * db end })(y * y):sum() end)(x):sum() end)
near(d2(w:detach()), 12 * w:detach() ^ 2) --> true
local _, along = graph.jvp(function(x) return j0(x) end)(x, op.full_like(x, 2))
near(along, -2 * j1(x)) --> true
local function looped(x) return (op.scan(function(c, _) return j0(c) * x end, x, nil, { length = 3 })):sum() end
local function unrolled(x) local c = x for _ = 1, 3 do c = j0(c) * x end return c:sum() end
near(graph.grad(looped)(x), graph.grad(unrolled)(x)) --> true

-- ---- what is wrong
op.foreign("nosuch", "f", "f64 (each f64 x)") --! foreign: no library 'nosuch'
op.foreign("./nosuch.so", "f", "f64 (each f64 x)") --! cannot open shared object file
op.foreign("m", "nosuch", "f64 (each f64 x)") --! foreign: the library 'm' has no function 'nosuch'
op.foreign("m", "j0", "flt64 (each f64 x)") --! foreign j0: unknown type flt64 at column 1
op.foreign("m", "j0", "flt64 (each f64 x)") --! did you mean 'f64'?
op.foreign("m", "j0", "f64 j1(each f64 x)") --! the signature is that of j1
op.foreign("m", "j0", "f64 (each f64)") --! a parameter needs a name
op.foreign("m", "j0", "f64 (each f64 x") --! ',' or ')' is missing
op.foreign("m", "j0", "f64 (each f64 x) y") --! something stands behind
op.foreign("m", "j0", "f64 (each f64 x, f32 x)") --! two parameters are called x
op.foreign("m", "j0", "f64 *(each f64 x)") --! a pointer cannot be returned
op.foreign("m", "j0", "f64 (const f64 **x)") --! pointers to pointers
op.foreign("m", "j0", "f64 (const void *x)") --! a pointer needs the type of its elements
op.foreign("m", "j0", "f64 (const u64 *x)") --! no tensor has elements of type u64
op.foreign("m", "j0", "f64 (f16 x)") --! only pointers can have type f16
op.foreign("m", "j0", "f64 (each complex64 x)") --! only pointers can have type complex64
op.foreign("m", "j0", "void (const f64 *x)") --! there is no result
op.foreign("m", "j0", "void (each f64 x)") --! a function for each element returns its only result
op.foreign("m", "j0", "f64 (const f64 *x, i64 n = y.numel)") --! no pointer is called y
op.foreign("m", "j0", "f64 (const f64 *x, i64 n = x.size)") --! numel, nbytes, ndim or shape[..] is wanted, not size
op.foreign("m", "j0", "f64 (const f64 *x = 2)") --! only a number can be given
op.foreign("m", "j0", "f64 ()") --! a type is missing
op.foreign("m", "j0", "f64 (void)") --! without parameters
op.foreign("m", "j0", "status f64 (f64 *x)") --! a status is an integer
op.foreign("m", "j0", "") --! a type is missing
op.foreign("m", "j0", "f64 (each f64 x)", { adjont = j0 }) --! there is no option 'adjont'
op.foreign("m", "j0", "f64 (each f64 x)", { adjoint = 2 }) --! adjoint is a function, not a number
op.foreign("m", 3, "f64 (each f64 x)") --! strings
j0(T { 1, 2 }) --! j0: input 'x' is f32[2], the function takes f64
j0(T { 1, 2 }) --! x:cast("f64") converts it
j0(x, x) --! j0: 2 tensors given, its signature has 1
j0() --! j0: 0 tensors given
j0 { x } --! j0: argument 1 is a table, not a tensor
pow(x, w) --! pow
jn(x) --! jn: 'n' is missing: give {n = ...}
jn(x, { n = 2.5 }) --! jn: 'n' = 2.5 does not fit its type i32
jn(x, { n = 2 ^ 31 }) --! does not fit its type i32
jn(x, { n = "a" }) --! jn: 'n' is a string, not a number
jn(x, { n = 1, m = 2 }) --! jn: there is no option 'm'
graph.module(function(x) return j0(x:cast "f32") end)(x) --! the function takes f64
op.foreign("m", "modf", "f64 modf(f64 x = 2, f64 *whole)")() --! modf: without inputs, its result needs a shape
op.foreign("m", "modf", "f64 modf(f64 x = 2, f64 *whole)", { shape = { -1 } })() --! size 1 of a shape is not a whole number
op.foreign("m", "modf", "f64 modf(f64 x = 2, f64 *whole)", { shape = { { 1 }, { 1 } } })() --! shape gives 2 shapes, the signature has 1
op.foreign("c", "swab", "void swab(const u8 *from, u8 *to, i64 n = from.shape[1])")(text) --! 'n' is the size of axis 1, 'from' has 1 axes
tessera.is_tensor(j0(x)) --> true

-- ---- Lua functions
local calls = 0
local sorted = op.custom("sorted", {
  forward = function(x) calls = calls + 1 return (x:sort()) end,
  adjoint = function(x, _, dy) local _, at = x:sort() return op.zeros_like(x):scatter(at, dy) end })
local z = T { 3, 1, 2 }
sorted(z) --> [1. 2. 3.]
--> f32[3]
local g = graph.module("g", function(x) return sorted(x * 2) + 1 end)
calls = 0
g(z) --> [3. 5. 7.]
--> f32[3]
g(z + 1) --> [5. 7. 9.]
--> f32[3]
calls --> 2
g:ir "bytecode":match "custom r%d : [^ ]*" --> custom r3 : f32[3]
graph.grad(function(x) return (sorted(x) * T { 1, 10, 100 }):sum() end)(z) --> [100.   1.  10.]
--> f32[3]
-- what a run gave stays when the frame's memory is used again
local kept = {}
local keep = op.custom("keep", { forward = function(x) kept[#kept + 1] = x return x end })
local k = graph.module(function(x) return keep(x + 1) * 2 end)
k(z) k(z * 10)
kept[1] + kept[2] --> [35. 13. 24.]
--> f32[3]
-- structures, values that are no tensors, several results, types as text and by function
local both = op.custom("both", { forward = function(t, n) return t.a * n, t.b:sum() end,
  infer = function(t) return t.a, { dtype = t.b.dtype, shape = {} } end,
  adjoint = function(t, n, _, _, da, db) return { a = da * n, b = db:expand(3) } end })
both({ a = z, b = z }, 2) --> [6. 2. 4.]
--> f32[3], 6. f32[]
local function loss(a, b) local p, q = both({ a = a, b = b }, 3) return p:sum() + q * 5 end
graph.grad(loss, { 1, 2 })(z, z) --> [3. 3. 3.]
--> f32[3], [5. 5. 5.]
--> f32[3]
graph.module("s", function(x) return (both({ a = x, b = x }, 2)) end):ir("graph", z):match 'name="([^"]*)' --> both({a = _, b = _}, 2)
local count = op.custom("count", { forward = function(x) return op.full({ 2 }, x.numel, { dtype = "i64" }) end, infer = "i64[2]" })
count(z) --> [3 3]
--> i64[2]
op.custom("rows", { forward = function(x) return x:sum { axis = 0 } end, shape = function(x) return { x.shape[2] } end })(op.ones { 2, 3 }) --> [2. 2. 2.]
--> f32[3]
op.custom("pi", { forward = function() return T(3.25) end, shape = {}, dtype = "f32" })() --> 3.2500 f32[]
op.custom("half", { forward = function(x) return x:cast "fp8_e5m2" end, infer = "fp8_e5m2[3]" })(z).dtype --> fp8_e5m2
-- many sizes: one graph of symbols
local twice = graph.custom_adjoint(function(x) return x * 2 end, function(_, _, dy) return dy end)
local sizes = graph.module("sizes", function(x) return sorted(x + 1) * 2, count(x), twice(x) end)
local function sums(n) local a, b, c = sizes(op.arange(n):cast "f32") return a:sum():item(), b, c:sum():item() end
sums(4) --> 20, [4 4]
--> i64[2], 12
sums(6) --> 42, [6 6]
--> i64[2], 30
sums(9) --> 90, [9 9]
--> i64[2], 72
local wrong = op.custom("wrong", { forward = function(x) return x:sum() end })
wrong(z) --! wrong: result 1 is f32[], not f32[3] as it was inferred
graph.module(function(x) return wrong(x) + 1 end)(z) --! not f32[3] as it was inferred
wrong(T { 1 }:reshape {}) --> 1. f32[]
local fails = op.custom("fails", { forward = function(x) return x.nothing end })
fails(z) --! fails: tests/vm/foreign.lua:195: a tensor has no field or method 'nothing'
graph.module("m", function(x) return fails(x) + 1 end)(z) --! (in m, tests/vm/foreign.lua:197)
op.custom("f", { forward = function() error {} end })(z) --! an error that is no text
op.custom("f", { forward = function(x) return x, x end })(z) --! the function returns 2 tensors, not 1
op.custom("f", { forward = function() return 2 end })(z) --! must be a tensor, not number
op.custom("f", { forward = tostring, infer = "f32[x]" })(z) --! 'f32[x]' is no type
op.custom("f", { forward = tostring, infer = "g32[2]" })(z) --! result 1 has no dtype 'g32'
op.custom("f", { forward = tostring, infer = 3 })(z) --! a result's type is a table, a text or a tensor, not a number
op.custom("f", { forward = tostring })() --! without tensors among its arguments
op.custom("f", { forwrad = tostring }) --! there is no option 'forwrad'
op.custom("f", {}) --! forward is a function, not a nil
op.custom("f") --! a table {forward = f} are needed
op.custom("f", { forward = function(x) return x end })(tessera.nn.Linear(2, 2)) --! is a module: pass its tensors
local badly = op.custom("badly", { forward = function(x) return x end, adjoint = function(x) return x:sum() end })
graph.grad(function(x) return badly(x):sum() end)(z) --! badly: the adjoint's gradient 1 is f32[], its input is f32[3] (the badly of
local function two(adjoint) return op.custom("two", { forward = function(x, y) return x * y end, adjoint = adjoint }) end
local function both(adjoint) local f = two(adjoint) return graph.grad(function(x, y) return f(x, y):sum() end, { 1, 2 })(z, z) end
both(function() end) --! two: the adjoint returns nothing, not 2: a gradient for each argument, nil where there is none
both(function(x) return x end) --! two: the adjoint returns 1 value, not 2: a gradient for each argument
select(2, both(function(x) return x, nil end)):sum():item() --> 0
select(2, both(function(x) return x, false end)):sum():item() --> 0
graph.custom_adjoint(function(x) return x * 1 end, function() end)(z:clone():requires_grad_(true)):sum():backward() --! the adjoint returns nothing, not 1
-- and where no gradient can be, none is given
two(function(x, i, _, dy) return dy * i end)(z:clone():requires_grad_(true), op.arange(3)):sum():backward()
-- in a coroutine, inside each other, in a function of the program that is called again
coroutine.wrap(function() return g(z) end)() --> [3. 5. 7.]
--> f32[3]
local nested = op.custom("nested", { forward = function(x) return coroutine.wrap(function() return sorted(x) + g(x) end)() end })
graph.module(function(x) return nested(x) * nested(x + 1) end)(z) --> [ 28.  70. 130.]
--> f32[3]
-- random calls, modules and in-place changes belong to the program
rng.seed(1)
local noise = op.custom("noise", { forward = function(x) local y = x:clone() y:add_(rng.normal(x.shape)) return y end })
local n1 = graph.module(noise)
(n1(z) - n1(z)):abs():max():item() > 0 --> true

-- ---- derivatives that replace
-- Control operators in an adjoint.
local half = op.custom("half", { forward = function(x) return x * 0.5 end, adjoint = function(_, _, dy)
  return op.cond(dy:sum():gt(0), function(g) return g * 0.5 end, function(g) return g end, dy) end })
graph.grad(function(x) return half(x):sum() end)(op.ones { 3 }):sum():item() --> 1.5
local clip = graph.custom_adjoint(function(x) return x * 1 end, function(_, _, dy) return dy:clamp(-1, 1) end)
graph.grad(function(x) return (clip(x) * 5):sum() end)(z) --> [1. 1. 1.]
--> f32[3]
local v = T { 1, 2 }
v.requires_grad = true
(clip(v) * T { 0.5, 5 }):sum():backward()
v.grad --> [0.5000 1.0000]
--> f32[2]
clip(z) --> [3. 1. 2.]
--> f32[3]
-- the function may return its argument, use tensors from outside, and be called twice
local same = graph.custom_adjoint(function(x) return x end, function(_, _, dy) return dy * 7 end)
v.grad = nil
same(same(v)):sum():backward()
v.grad --> [49. 49.]
--> f32[2]
v.requires_grad --> true
local scaled = graph.custom_adjoint(function(x) return x * v end, function(_, y, dy) return y * dy end)
graph.grad(function(x) return scaled(scaled(x)):sum() end)(T { 1, 1 }):sum():item() --> 9
graph.jvp(function(x) return clip(x) end)(z, z) --! an adjoint is not linear in the gradients
graph.custom_adjoint(3, print) --! the first argument is a function, not a number

-- ---- a library of our own
local dir = os.tmpname()
os.remove(dir)
local has_cc = os.execute "command -v gcc >/dev/null 2>&1" == 0 and os.execute("mkdir -p " .. dir) == 0
if has_cc then
  local file = assert(io.open(dir .. "/own.c", "w"))
  file:write [[
#include <stdint.h>
#include <stdbool.h>
void scale(const float *x, float *y, int64_t rows, int columns, double by, bool minus) {
  for (int64_t i = 0; i < rows * columns; i++) y[i] = x[i] * (minus ? -by : by);
}
void divide(const int32_t *a, int32_t *q, int32_t *r, uint16_t by, size_t n);
void divide(const int32_t *a, int32_t *q, int32_t *r, uint16_t by, size_t n) {
  for (size_t i = 0; i < n; i++) q[i] = a[i] / by, r[i] = a[i] % by;
}
int8_t negate(int8_t x) { return -x; }
uint16_t wide(uint8_t x) { return 65535 - x; }
uint32_t high(uint32_t x) { return x | 0x80000000u; }
bool odd(int64_t x) { return x & 1; }
void conj(const float _Complex *z, float _Complex *w, int n) { for (int i = 0; i < n; i++) w[i] = ~z[i]; }
]]
  file:close()
  has_cc = os.execute(("gcc -shared -fPIC -include stddef.h -o %s/own.so %s/own.c 2>/dev/null"):format(dir, dir)) == 0
end
local own = has_cc and function(symbol, signature, options) return op.foreign(dir .. "/own.so", symbol, signature, options) end
if not own then print "skipped: no C compiler: functions of C of our own" end
local function compiled(f) if own then return f() end return true end
local function scales()
  local scale = own("scale", "void (const f32 *x, f32 *y, i64 rows = x.shape[0], i32 columns = x.shape[-1], f64 by = 2, bool minus = 0)")
  local a = op.arange(6):cast "f32":reshape(2, 3)
  local s = graph.module(function(x) return scale(x:T(), { by = 3, minus = true }) end)
  return (scale(a) - a * 2):abs():max():item() == 0 and (s(a) + a:T() * 3):abs():max():item() == 0
end
compiled(scales) --> true
local function divides()
  local q, r = own("divide", "void (const int *a, int *q, int *r, u16 by, size_t n = q.numel)")(T({ 7, -8, 9 }, { dtype = "i32" }), { by = 4 })
  return q[0]:item() == 1 and q[1]:item() == -2 and r[2]:item() == 1 and r.dtype == "i32"
end
compiled(divides) --> true
compiled(function() return own("negate", "i8 (each i8 x)")(T({ 5 }, { dtype = "i8" })):item() == -5 end) --> true
compiled(function() return own("wide", "u16 (each u8 x)")(T({ 5 }, { dtype = "u8" })):item() == 65530 end) --> true
compiled(function() return own("high", "u32 (u32 x)")({ x = 1 }):item() == 2 ^ 31 + 1 end) --> true
compiled(function() return own("odd", "bool (each i64 x)")(T({ 4, 5 }, { dtype = "i64" }))[1]:item() end) --> true
local function conjugates()
  local z = op.complex(T { 1, 2 }, T { 3, 4 })
  return (own("conj", "void (const complex64 *z, float complex *w, int n = z.numel)")(z) - op.conj(z)):abs():max():item() == 0
end
compiled(conjugates) --> true
os.execute("rm -rf " .. dir)
-- Messages.
op.foreign("m", "j0", "f64 (const f64 *x, i64 n = x.shape[4294967296])") --! there is no such axis
pow(op.ones({ 2 }, { dtype = "f64" }), op.ones({ 3 }, { dtype = "f64" })) --! pow: 'y' is f64[3], which does not broadcast with f64[2]
