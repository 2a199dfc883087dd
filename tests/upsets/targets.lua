-- What goes wrong while code for GPUs that are not here is made: memory that runs out, and Ctrl-C, at one point after
-- the other. What comes says so, or is the code, letter by letter; no other reason is given, and what is made next is right.
-- FUZZ_COUNT: each point, up to so many.
local ffi = require "ffi"
ffi.cdef "int setenv(const char *, const char *, int);"
local tessera = require "tessera"
local core, op, graph = tessera.core, tessera.op, tessera.graph
if not tessera.jit.status() then return print "skipped: nothing is compiled here" end

local function values(d, ...) return op.normal({ ... }, { seed = 1, stream = 1 }):cast(d) end
local made = {
  { op.softmax, values("f32", 5, 300) },
  { function(x, y) return op.gelu(op.matmul(x, y)) end, values("bf16", 65, 64), values("bf16", 64, 40) },
}
local targets = { "gfx942", "gfx1200", "sm_80", "pvc", "dg2", "spirv_cpu" }
local count, rise = tonumber(os.getenv "FUZZ_COUNT"), os.getenv "LONG" and 1.2 or 2.2
local function next_point(n) return (count or n < 8) and n + 1 or math.floor(n * rise) end

local upsets = {
  memory = {
    set = function(n) core.fail_after(n) end,
    came = function() return core.fail_after(0) < 0 end,
    expects = "out of memory",
  },
  interrupt = {
    set = function(n) core.interrupt_after(n) end,
    came = function() return core.interrupt_after(0) < 0 end,
    expects = "interrupted",
  },
}

-- LLVM has this maker; asked of SPIR-V alone, as the others' first code is to be made in what follows.
local function has(target)
  if target:find "^gfx" or target:find "^sm" then return true end
  local f = graph.module("any", op.tanh)
  f(op.ones { 3 })
  return not f:ir("asm", { target = target }):find "has no SPIR%-V"
end

-- make() gives a text; whatever goes wrong in it, the next one is what it would have been. The first ones are those of
-- a process that has made none yet.
local function walk(what, kind, make)
  local u, n, more, points, refused, texts = upsets[kind], 1, true, 0, 0, {}
  while more and n <= (count or 1e6) do
    u.set(n)
    local ok, text = pcall(make)
    more = u.came() or not ok
    points = points + 1
    if ok then texts[#texts + 1] = { n, text }
    else
      refused = refused + 1
      assert(tostring(text):find(u.expects), ("%s %d of %s: %s"):format(kind, n, what, tostring(text)))
    end
    n = next_point(n)
  end
  local want = make()
  for _, t in ipairs(texts) do assert(t[2] == want, ("%s %d of %s gives something else:\n%s"):format(kind, t[1], what, t[2])) end
  assert(not want:find "no kernel" and points > 8 and refused > 0, want)
end

core.arena_single(true)
for _, case in ipairs(made) do
  local f = graph.module("made", case[1])
  f(unpack(case, 2))
  for _, target in ipairs(targets) do
    for _, kind in ipairs { "memory", "interrupt" } do
      for _, level in ipairs { "asm", "tile" } do
        if has(target) then
          walk(level .. " for " .. target, kind, function()
            core.jit_texts(true)
            return f:ir(level, { target = target })
          end)
        end
      end
    end
  end
end
core.arena_single(false)

-- Objects, which are linked: the simulated device makes them and runs their threads. A call for which there is no code
-- runs on the CPU, with the same bits.
ffi.C.setenv("TESSERA_SIM", "emulate", 1)
core.jit_later(false)
for _, target in ipairs { "gfx942", "gfx1200", has "pvc" and "pvc" or "sm_80" } do
  ffi.C.setenv("TESSERA_GPU", target, 1)
  local x = made[1][2]
  local want, there = op.softmax(x):hash(), x:to "sim:0"
  for _, kind in ipairs { "memory", "interrupt" } do
    walk("an object for " .. target, kind, function()
      core.jit_flush()
      local f = graph.module("made", op.softmax)
      return f(there):hash()
    end)
  end
  op.softmax(there):hash() == want --> true
end
