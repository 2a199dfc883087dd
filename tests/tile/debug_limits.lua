-- Where the debugger's tables end it says so, and nothing is called clean; numbers that are none of a text are no others.
local tessera = require "tessera"
local core, op, debug = tessera.core, tessera.op, tessera.debug

-- ---- more accesses than are remembered
local function overlap(n)
  return debug.kernel(([[
tile @many(%%x: f32[1]) -> (%%y: f32[1]) {
  %%m = alloc : f32[2] @scratch
  for %%r in 0..2 parallel {
    %%b = load %%x[0] : f32[]
    for %%i in 0..%d {
      store %%m[%%r] = %%b
    }
    store %%y[0] = %%b
  }
}
]]):format(n), op.zeros { 1 })
end
local found = overlap(10)
assert(found[1].kind == "overlap" and not found.partly and not found.clean)
found = overlap(1)
found.partly --> nil
found = overlap(2100000)
assert(not found.clean and found.partly == "4194304 accesses", tostring(found))
assert(#found > 0 or tostring(found) == "many: nothing was found, as far as it looked: to 4194304 accesses", tostring(found))

-- ---- more findings than are kept
local lines = {}
for i = 0, 69 do lines[#lines + 1] = ("    store %%y[%d] = %%a"):format(i) end
found = debug.kernel("tile @all(%x: f32[1]) -> (%y: f32[70]) {\n  for %r in 0..2 parallel {\n    %a = load %x[0] : f32[]\n" ..
  table.concat(lines, "\n") .. "\n  }\n}\n", op.zeros { 1 })
assert(#found == 64 and found.partly == "64 findings", tostring(found))
tostring(found):match "[^\n]+$" --> all: 64 findings, as far as it looked: to 64 findings

-- ---- more barriers than have clocks of their own
local function barriers(n)
  return debug.kernel(([[
tile @waits() -> (%%y: f32[1]) target sm_90a threads 128 form explicit {
  for %%r in 0..1 parallel {
    %%b = alloc : i64[%d] @barrier(count=1)
    role some warps 4 {
      for %%i in 0..%d {
        arrive %%b[%%i]
      }
    }
  }
}
]]):format(n, n))
end
assert(barriers(130).clean and not barriers(130).partly)
found = barriers(131)
assert(not found.clean and found.partly == "130 barriers of a block", tostring(found))

-- ---- a join of many tiles, one of which nobody wrote
local parts, shown = {}, {}
for i = 1, 20 do
  parts[i] = ("    %%p%d = load %%%s[0] : f32[1]"):format(i, i == 20 and "m" or "x")
  shown[i] = "%p" .. i
end
found = debug.kernel("tile @joins(%x: f32[1]) -> (%y: f32[20]) {\n  %m = alloc : f32[1] @scratch\n  for %r in 0..1 parallel {\n" ..
  table.concat(parts, "\n") .. "\n    %j = join " .. table.concat(shown, ", ") .. " {axis=0} : f32[20]\n    store %y[0] = %j\n  }\n}\n",
  op.zeros { 1 })
assert(#found == 1 and found[1].kind == "uninitialised", tostring(found))

-- ---- numbers and names that are none of a text
local k = op.kernel [[
tile @k(%x: f32[4]) -> (%y: f32[4]) {
  for %r in 0..1 parallel {
    %a = load %x[0] : f32[4]
    %b = neg %a : f32[4]
    store %y[0] = %b
  }
}
]]
local x = op.arange(4):cast "f32"
k:peek(nil, 4294967300, x) --! debug.peek: line is a whole number, not 4294967300
k:peek(nil, 3.5, x) --! debug.peek: line is a whole number, not 3.5
k:peek(nil, { line = 4, stage = "x" }, x) --! debug.peek: stage is a whole number, not 'x'
k:peek({ 0 / 0 }, 4, x) --! debug.peek: a coordinate of the tile is a whole number, not
k:peek({ 1e300 }, 4, x) --! debug.peek: a coordinate of the tile is a whole number, not 1e+300
local said = k:debug(x, { commands = { "break 4294967300", "role nosuch", "quit" } }).output
assert(said:find "no statement is on this line\n" and said:find "the kernel has no role of this name\n", said)
