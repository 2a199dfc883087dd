-- tessera.profile: what a report says, apart from times.
local tessera = require "tessera"
local op, graph, jit, profile = tessera.op, tessera.graph, tessera.jit, tessera.profile
if not jit.status() then print "skipped: nothing is compiled here: kernels" end

local w = op.linspace(-1, 1, 400):reshape{20, 20}
local f = graph.module("f", function(x)
  local y = op.softmax(x:matmul(w) * 0.5, {axis = 1})
  return op.while_loop(function(i) return i:lt(3) end, function(i, v) return i + 1, v:tanh() end,
    op.zeros({}, {dtype = "i64"}), y)
end)
local x = op.ones{10, 20}

-- At tier 0 each operator is a line; what a loop runs stands deeper, rounds together.
jit.off()
local text = profile.report(f, {args = {x}, runs = 3})
text:find "matmul" ~= nil, text:find "softmax" ~= nil --> true, true
text:find "\n[^\n]*   while_loop" ~= nil or text:find "  while_loop" ~= nil --> true
text:find "  tanh %(3 times%)" ~= nil --> true
text:find "thread 0  [a-z.]+" ~= nil --> true
text:find "lies between instructions" ~= nil --> true
jit.on()

-- A compiled kernel is one line, and its phases stand below.
if jit.status() then
  jit.eager(true)
  local g = graph.module("g", function(v) return op.relu(v * 2 + 1) - v end)
  local big = op.ones{400, 400}
  for _ = 1, 3 do g(big) end
  local name, csv = os.tmpname(), os.tmpname()
  local said = profile.report(g, {args = {big}, trace = name, csv = csv})
  assert(said:find "mul add relu sub", said)
  assert(said:find "phase 0  thread %d+: ", said) -- on a busy machine one may do it all
  local file = io.open(name):read "*a"
  assert(file:find '^{"traceEvents":%[\n' and file:find '\n{"name":"mul add relu sub[^\n]*"ph":"X"', file)
  assert(io.open(csv):read "*l" == "run,instruction,place,phase,thread,start_us,us,bytes,flops,count,reason")
  os.remove(name)
  os.remove(csv)
  jit.eager(false)
end

local core = require "tessera.core"
-- Stages of kernels: rows of softmax, a product and what follows it, the marks of a kernel's own text.
-- Results keep their bits, and the function's own kernels come back.
if jit.status() then
  jit.eager(true)
  local b, m = op.linspace(-1, 1, 96), op.linspace(-2, 2, 80 * 96):reshape { 96, 80 }:T()
  local h = graph.module("h", function(v)
    return op.softmax(v * 0.5, { axis = 1 }), op.gelu(v:matmul(m) + b)
  end)
  local v = op.linspace(-3, 3, 200 * 80):reshape { 200, 80 }
  for _ = 1, 3 do h(v) end
  local p, q = h(v)
  local before, plain = p:hash() .. q:hash(), h:ir "explicit"
  assert(not plain:find "mark ")
  assert(h:marks(true))
  p, q = h(v)
  assert(p:hash() .. q:hash() == before)
  assert(h:ir("explicit"):find 'mark {stage=mma}' and h:ir("tile"):find " marks {")
  assert(not h:marks(false) and h:ir "explicit" == plain)
  local page = os.tmpname()
  local said = profile.report(h, { args = { v }, runs = 3, html = page })
  assert(said:find "\n +other %(max%) %d+%%, other %(sum exp%) %d+%%, store %([^)]*%) %d+%%, between %d+%%\n", said)
  assert(said:find "\n +load %(pack columns%) %d+%%, mma %d+%%, [^\n]*epilogue %(rows%) %d+%%", said)
  assert(said:find "Stages: 5 runs with marks, %d+%.%d+ times as long; %? marks tells their words%.", said)
  assert(said:find("\nwritten: " .. page .. "\n", 1, true) and said:find "\nIts limit: %l+: ", said)
  local text = io.open(page):read "*a"
  assert(text:find "^<!DOCTYPE html>" and text:find "</html>\n$" and not text:find 'src=')
  assert(text:find "<h2>Roofline</h2>" and text:find "% of the roof" and text:find "<h2>Stages of kernels</h2>")
  os.remove(page)
  assert(not profile.report(h, { args = { v }, runs = 3, marks = false }):find "Stages")

  local k = op.kernel [[
    tile @twice<M>(%x: f32[M,64]) -> (%y: f32[M,64]) {
      %n = dim {index=0} : i64[]
      for %r in 0..%n parallel {
        mark {stage=load what="the row"}
        %a = load %x[%r, 0] : f32[64]
        mark {stage=load end=true what="the row"}
        mark {stage=store}
        %b = add %a, %a : f32[64]
        store %y[%r, 0] = %b
        mark {stage=store end=true}
      }
    }]]
  local g2 = graph.module("g2", function(x) return k(x) end)
  local rows = op.linspace(0, 1, 500 * 64):reshape { 500, 64 }
  assert(g2(rows):hash() == (rows + rows):hash())
  local spans = core.spans(function() assert(k(rows):hash() == (rows + rows):hash()) end, true)
  local seen = {}
  for _, s in ipairs(spans) do
    if s.stage then
      seen[#seen + 1] = s.stage .. " " .. s.what
      assert(s.usec >= 0)
      seen[s.stage] = (seen[s.stage] or 0) + s.count
    end
  end
  assert(seen[1] == "load the row" and seen.load == 500 and seen.store == 500)
  local built = op.kernel("built", { x = "f32[M,64]" }, { y = "f32[M,64]" }, function(t, x, y)
    for r in t:rows(x) do
      local a = t:stage("load", "row", function() return x[r] end)
      t:stage("store", function() y[r] = a * 2 end)
    end
  end)
  assert(built:ir():find 'mark {stage=load what="row"}' and built(rows):hash() == (rows * 2):hash())
  jit.eager(false)
end

-- Results are those of a run; an error inside is the function's own, and profiles go on.
local out
local spans, usec, lost = core.spans(function() out = f(x) end)
#spans > 0, usec > 0, lost --> true, true, 0
core.spans(function() error("inside", 0) end) --! inside
core.spans(function() core.spans(function() end) end) --! a profile is being made already
#core.spans(function() end) --> 0

-- A kernel of op.kernel by itself, with its own name and the marks of its author.
if jit.status() then
  local twice = op.kernel("twice", { x = "f32[N]" }, { y = "f32[N]" }, function(t, x, y)
    for i in t:parallel(0, t.N, 64) do
      local v = t:stage("load", "mine", function() return x:load({ i }, 64) end)
      t:stage("store", "and away", function() y:store({ i }, v + v) end)
    end
  end)
  local x = op.ones { 6400 }
  local said = profile.report(twice, { args = { x }, runs = 3 })
  assert(said:find "%%[^\n]* twice\n" and said:find "load %(mine%)[^\n]* %d+%%, store %(and away%)[^\n]* %d+%%", said)
  local g = graph.module("g", function(v) return twice(v) * 2 end)
  g(x)
  said = profile.report(g, { runs = 3 }) -- on the arguments of its last call
  assert(said:find "%%[^\n]* twice at tests/lua/profile.lua:%d+\n" and said:find "load %(mine%)", said)
end

-- Any other function: what it calls, with calls, and Lua's own part.
local function plain(v) return op.softmax(v:matmul(w)):sum() end
local csv = os.tmpname()
local said = profile.report(plain, { args = { x }, runs = 10, warm = 0, csv = csv })
assert(said:find "^[^\n]+ in all: [^\n]+ Lua, [^\n]+ operators" and said:find("written: " .. csv, 1, true), said)
assert(said:find "  10%s+matmul", said)
local calls, own, all = {}, 0, nil
for line in io.lines(csv) do
  local path, kind, what, count, usec, mine = line:match '^"([^"]*)",(%l+),"([^"]*)","[^"]*",(%d+),([%d.]+),([%d.]+),'
  if kind == "operator" then calls[what] = tonumber(count) end
  if kind == "program" then all = tonumber(usec) end
  if kind and kind ~= "lua" then own = own + tonumber(mine) end
end
calls.matmul, calls.softmax, calls.sum --> 10, 10, 10
assert(math.abs(own - all) < 0.001 * 60, own .. " " .. all) -- times add up, but for the rounding of each to ns
os.remove(csv)
local page = os.tmpname()
profile.report(plain, { args = { x }, html = page }):find("written: " .. page, 1, true) ~= nil --> true
io.open(page):read("*a"):find "matmul %(20 times%)" ~= nil --> true
os.remove(page)
profile.report(f, { argz = {} }) --! did you mean 'args'?
profile.report(graph.module("fresh", function(v) return v end)) --! fresh runs, and needs its arguments: {args = {v}}
profile.report(3) --! profile.report: a function is needed, not a number

-- Errors of what runs end the recording.
pcall(profile.report, function() error "no" end)
profile.report(plain, { args = { x }, runs = 1 }):find " operators" ~= nil --> true

-- The words of stages are those of the page, and the prompt knows them.
local marks = require "tessera.profile.marks"
local table_of = io.open("docs/profile.md"):read "*a":match "\n| stage | [^\n]*\n| %-%-%- [^\n]*\n(.-)\n\n" .. "\n"
local rows = {}
for _, row in ipairs(marks.rows) do rows[#rows + 1] = ("| %s | %s |\n"):format(row[1], row[2]) end
table.concat(rows) == table_of --> true
local pipe = io.popen(("echo '? marks' | %s -i 2>&1"):format(arg[-1] or "bin/tessera"))
local shown = pipe:read "*a"
pipe:close()
assert(shown:find "wait barrier\n +wait for copies that were told" and shown:find "not recorded\n", shown)
