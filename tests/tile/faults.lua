-- The debugger of kernels finds what is wrong: each text of tests/tile/faults has one fault, whose kind and lines (the
-- access, and the one that it is at odds with) stand in its first line; "clean" has none.
local tessera = require "tessera"
local core, op, debug = tessera.core, tessera.op, tessera.debug

local function read(path)
  local file = assert(io.open(path))
  local text = file:read "*a"
  file:close()
  return text
end

-- Inputs of a text, M being 10.
local function inputs(text)
  local _, params, _, n = core.debug_about(text)
  local list = {}
  for i = 1, n do
    local shape = {}
    for a, dim in ipairs(params[i]) do shape[a] = dim == "M" and 10 or dim end
    list[i] = op.normal(shape, { seed = 1, stream = i }):cast(params[i].dtype)
  end
  return unpack(list, 1, n)
end

local kinds, count, wrong = {}, 0, {}
local list = io.popen "ls tests/tile/faults/*.tile"
for path in list:lines() do
  local text = read(path)
  local want = text:match "^// ([%a %d]+)[:,\n]"
  local found = debug.kernel(text, inputs(text))
  local first = found[1]
  local got = first and ("%s %d%s"):format(first.kind, first.line, first.other and " " .. first.other or "") or "clean"
  if got ~= want then wrong[#wrong + 1] = ("%s: %s, not %s"):format(path, got, want) end
  if first then
    count, kinds[first.kind] = count + 1, true
    -- Both lines are quoted as they stand in the file, with who ran them.
    local lines = {}
    for line in text:gmatch "([^\n]*)\n" do lines[#lines + 1] = line:match "^%s*(.-)%s*$" end
    for _, number in ipairs { first.line, first.other } do
      if not first.text:find(("line %d: %s"):format(number, lines[number]), 1, true) then
        wrong[#wrong + 1] = path .. ": line " .. number .. " is not quoted"
      end
    end
    if not first.text:find "block %d" and first.kind ~= "deadlock" then wrong[#wrong + 1] = path .. ": no block" end
  end
end
list:close()
table.concat(wrong, "\n") -->
count >= 20 --> true
local names = {}
for kind in pairs(kinds) do names[#names + 1] = kind end
table.sort(names)
table.concat(names, " ") --> barrier bounds deadlock fence overlap race swizzle uninitialised wait

-- ---- what is said
local function first(name, ...)
  local text = read("tests/tile/faults/" .. name .. ".tile")
  return (debug.kernel(text, inputs(text))[1].text:gsub("\n$", ""))
end
print(first "wrong_phase") --> race: %sa[0, 0, 0] is read before the copy to it has come
-->   line 30: %x = load %sa[%t, 0, 0] : bf16[64,32] @fragment
-->     role mma, element (0, 0) of its tile, block 0, %j = 0
-->   line 17: copy_bulk %sa[%s, 0, 0], %a[%m, %k0], %full[%s] {shape=[64,32]}
-->     role load, element (0, 0) of its tile, block 0, %k = 0
-->   the copy completes phase 0 of %full[0]; role mma awaited parity 1 there at line 29, which counts as complete before the first phase
print(first "lanes") --> race: %s[0, 1, 0] is read by other threads than wrote it
-->   line 10: %y = load %s[0, 0, 0] {axes=[2,1]} : f32[64,128] @fragment
-->     role give warp 0 lane 0, element (0, 1) of its tile, block 0
-->   line 9: store %s[0, 0, 0] = %x
-->     role give warp 0 lane 4, element (1, 0) of its tile, block 0
-->   they are of different threads, which have not met between them
-->   it ends in %c[0, 1], line 11
print(first "barrier_count") --> deadlock: nobody can go on
-->   role load waits at line 14: await %empty[%s], %p
-->     for parity 0 of %empty[0], which is in phase 0 with 1 of 2 arrivals
-->   role mma waits at line 29: await %full[%t], %q
-->     for parity 1 of %full[0], which is in phase 1 with 0 of 1 arrivals
print(first "same_tile") --> overlap: %c[0, 0] is written by two blocks
-->   line 44: store_bulk %c[0, 0], %sc[0, 0, 0] {shape=[64,64]}
-->     role mma, element (0, 0) of its tile, block 1
-->   line 44: store_bulk %c[0, 0], %sc[0, 0, 0] {shape=[64,64]}
-->     role mma, element (0, 0) of its tile, block 0
-->   blocks are in no order

-- ---- every statement of synchronisation is needed: where one is left out something is found
local words = { sync = true, wait = true, await = true, arrive = true, fence = true, expect = true, commit = true }
local function without_each(path, ...)
  local lines, left = {}, {}
  for line in read(path):gmatch "([^\n]*)\n" do lines[#lines + 1] = line end
  for i, line in ipairs(lines) do
    if words[line:match "^%s*(%a+)"] then
      local less = { unpack(lines) }
      table.remove(less, i)
      if debug.kernel(table.concat(less, "\n") .. "\n", ...).clean then left[#left + 1] = i .. ":" .. line end
    end
  end
  return table.concat(left, "\n")
end
without_each("tests/tile/faults/ring.tile", inputs(read "tests/tile/faults/ring.tile")) -->
local function numbers(...) return op.normal({ ... }, { seed = 1, stream = 0 }):cast "bf16" end
local a, b, bias = numbers(600, 200), numbers(300, 200), numbers(300)
debug.kernel(read "tests/tile/gpu_product.tile", a, b, bias, { P = 2 }).clean --> true
without_each("tests/tile/gpu_product.tile", a, b, bias, { P = 2 }) -->
