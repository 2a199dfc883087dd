-- What the numbers of a target allow; the hint and the line that a message shows.
local core = require "tessera.core"
local function kernel(head, lines)
  return "tile @f<M>(%x: f32[M,64]) -> (%y: f32[64]) " .. head .. " {\n  for %r in 0..4 parallel {\n" .. lines .. "  }\n}\n"
end
local function check(text, target)
  local _, message = core.tile_parse(text, "text", target)
  return message or "legal"
end

local shared = kernel("target sm_90a", "    %s = alloc : f32[64,64] @shared\n    %b = alloc : i64[2] @barrier(count=1)\n")
check(shared) --> legal
check(shared, { name = "sm_90a", shared_bytes = 16400 }) --> legal
check(shared, { name = "sm_90a", shared_bytes = 16399 }) --> illegal: @f: alloc: 16400 bytes of shared memory, sm_90a has 16399 for a block
-->     %b = alloc : i64[2] @barrier(count=1)

check(kernel("", "    %a = load %x[%r, 0] : f32[64]\n    %b = add %a, 1 : f32[64]\n")) --> illegal: @f: add: operand 1 is i64[], not f32[64]
-->     %b = add %a, 1 : f32[64]
check(kernel("", "    %a = const : f16[64]\n    %b = exp %a : f16[64]\n")) --> illegal: @f: exp: takes f32, f64, not f16[64]
-->     %b = exp %a : f16[64]
-->   hint: cast to f32 behind the load
check(kernel("", "    %i = iota {axis=0} : i32[64]\n    %b = look %i {table=[1,2]} : f32[64]\n")) --> illegal: @f: look: a table has 32 numbers, this one 2
-->     %b = look %i {table=[1,2]} : f32[64]
check(kernel("", "    %a = load %x[%r, 0] : f32[64]\n    %b = look %a {table=[1]} : f32[64]\n")) --> illegal: @f: look: looks by i32, not f32[64]
-->     %b = look %a {table=[1]} : f32[64]
local numbers = ("0,"):rep(31) .. "0.1"
-- Units for pairs of bf16: only what the processor has.
local block = "    %a = const : bf16[4,4]\n    %c = const : f32[4,4]\n    %d = mma %a, %a, %c {unit=\"amx_bf16\"} : f32[4,4]\n"
check(kernel("target avx512", block)) --> legal
check(kernel("target avx512", block), { name = "avx512" }) --> illegal: @f: mma: this processor has no amx_bf16
-->     %d = mma %a, %a, %c {unit="amx_bf16"} : f32[4,4]
(check(kernel("", "    %i = iota : i32[64]\n    %b = look %i {table=[" .. numbers .. "]} : f32[64]\n")):match "[^\n]+") --> illegal: @f: look: number 31 of the table is none of f32
check(kernel("", "    %a = laod %x[%r, 0] : f32[64]\n")) --> line 3: there is no operation 'laod' in Tile IR
-->     %a = laod %x[%r, 0] : f32[64]
-->          ^
-->   hint: did you mean 'load'?
check(kernel("", "    %a = load %x[%r, 0] : f32[K]\n")) --> line 3: there is no size K
-->     %a = load %x[%r, 0] : f32[K]
-->                               ^
-->   hint: sizes stand behind the name: tile @f<M,N>(...)
core.tile_parse("tile @f()\0 {}") --> nil, line 1: the text contains a zero byte, behind 9 of its 13 bytes
-->   hint: texts of IR are plain text: is this a file of another kind?

-- Equality: names as the text has them, places and spelling aside.
local a = kernel("", "    %a = load %x[%r, 0] : f32[64]\n")
core.tile_equal(a, a:gsub("%%a", "%%b"), "") --> false, result: a or b
core.tile_equal(a, (a:gsub("0%] :", "1] :"))) --> false, const: one attribute or another
core.tile_equal(a, (a:gsub("f32%[64%]\n", "f32[32]\n"))) --> false, a: f32[64] or f32[32]
core.tile_equal(a, (a:gsub("0%] : ", "%%z] : "):gsub("%%a", "%%z = const : i64[] // m.lua:3\n %%a"))) --> false, result: unnamed or z
(core.tile_equal(a, (a:gsub("\n", " // m.lua:3\n")))) --> true

-- Every row of the table stands in a golden file.
local function read(path)
  local file = assert(io.open(path))
  local text = file:read "*a"
  file:close()
  return text
end
local golden, missing = "", {}
for path in io.popen("ls tests/tile/*.tile"):lines() do golden = golden .. read(path) end
for word in read "ir/tile/tile.def":gmatch "\nTILE%(([%w_]+)" do
  if not golden:find("[ {]" .. word .. "%f[^%w_]") then missing[#missing + 1] = word end
end
missing --> {}

-- ---- how much: a tile's elements, those of a round with its loops, chains of tiles
local function work(lines) return check(kernel("target avx512", lines)) end
local huge = work "    %a = const : f32[1000000000000]\n"
huge --> illegal: @f: const: elements that a round of a kernel computes are at most 34359738368
-->     %a = const : f32[1000000000000]
-->   hint: what is between two rounds of a parallel loop cannot be interrupted: smaller tiles, and more rounds
assert(work "    %a = const : f32[1000000000]\n" == "legal")
local loops = "    for %i in 0..1000000 {\n      for %j in 0..1000000 {\n        %a = const : f32[64]\n      }\n    }\n"
assert(work(loops):find "const: elements that a round", work(loops))
assert(work(loops:gsub("0000", "", 1)) == "legal", work(loops:gsub("0000", "", 1)))
local function chain(n)
  local out = { "    %a0 = const : f32[64]\n" }
  for i = 1, n - 1 do out[i + 1] = ("    %%a%d = neg %%a%d : f32[64]\n"):format(i, i - 1) end
  return table.concat(out)
end
work(chain(1000)) --> legal
work(chain(1001)) --> illegal: @f: neg: tiles that are made of each other one by one are at most 1000
-->     %a1000 = neg %a999 : f32[64]
-->   hint: a store and a loop behind it begin a new chain

-- ---- Ctrl-C while a text of many lines is read
local many = kernel("target avx512", chain(900))
core.interrupt_after(1000, "looks")
assert(core.tile_parse(many, "text"))
core.interrupt_after(0, "looks") < 998 --> true
