-- docs/recipes/target.md, followed to the letter: its example's pieces go into a copy of the sources, which is built with
-- what this build has compiled already, and functions have code for the toy, whose
-- threads give the CPU's bits. With LONG=1 alone: it takes a minute or two.
if not os.getenv "LONG" then return print "skipped: LONG=1 builds a copy of the program" end
local tessera = require "tessera"
if not tessera.jit.status() then return print "skipped: nothing is compiled here" end
if not os.rename("build/release", "build/release") then return print "skipped: no build/release to begin with" end

local function run(command)
  local p = io.popen("(" .. command .. ") 2>&1; echo rc $?")
  local out = p:read "*a"
  p:close()
  return out:match "^(.*)rc (%d+)\n$"
end
local function must(command)
  local out, rc = run(command)
  assert(rc == "0", command .. ":\n" .. out:sub(-3000))
  return out
end
local function read(path)
  local f = assert(io.open(path))
  local text = f:read "*a"
  f:close()
  return text
end

local dir = os.tmpname()
os.remove(dir)
must("mkdir -p " .. dir .. "/build/release " .. dir .. "/bin")
local ok, why = pcall(function()
  for entry in must "ls":gmatch "[^\n]+" do -- all folders, whichever there are
    if entry ~= "build" and entry ~= "bin" then must("cp -a " .. entry .. " " .. dir) end
  end
  must("cp -a build/release/. " .. dir .. "/build/release && rm -rf " .. dir .. "/build/release/tests")
  local pieces = 0
  for file, rest, code in read "docs/recipes/target.md":gmatch "<!%-%- toy: ([^ ,]+)(.-) %-%->\n```c\n(.-)\n```" do
    local anchor, path = rest:match 'behind "(.*)"', dir .. "/" .. file
    local text = code .. "\n"
    if anchor then
      local was = read(path)
      local _, at = was:find(anchor, 1, true)
      assert(at, file .. " has no " .. anchor)
      text = was:sub(1, at) .. (code:find "\n" and "\n" or "") .. code .. was:sub(at + 1)
    end
    local f = assert(io.open(path, "w"))
    f:write(text)
    f:close()
    pieces = pieces + 1
  end
  assert(pieces == 9, pieces .. " pieces")
  must("make -C " .. dir .. " bin/tessera")
  local f = assert(io.open(dir .. "/toy.lua", "w"))
  f:write [[
local ts = require "tessera"
local op, normal = ts.op, ts.rng.normal
ts.jit.later(false)
ts.jit.eager(true)
local function show(name, f, ...)
  local m, there = ts.graph.module(name, f), {}
  local want = m(...)
  for i, x in ipairs { ... } do there[i] = x:to "toy:0" end
  local before = ts.jit.device().fallback
  assert(f(unpack(there)):hash() == want:hash(), name .. ": another answer")
  local got = m(unpack(there))
  assert(got.device == "toy:0" and got:hash() == want:hash(), name .. ": another answer of the function")
  assert(ts.jit.device().fallback == before, name .. ": the CPU ran it")
  for _, level in ipairs { "tile", "llvm", "asm" } do
    local text = m:ir(level, { target = "toy" })
    assert(not text:find "no kernel", name .. ": " .. text)
    if level == "llvm" then assert(text:find "amdgpu_kernel" and text:find "workitem", text) end
    if level == "asm" then assert(text:find "amdhsa%-%-gfx906" and text:find "s_endpgm", text) end
  end
end
show("softmax", function(x) return op.softmax(x) end, normal { 4, 700 })
show("sum", function(x) return x:sum { axis = 0 } end, normal { 300, 70 })
show("scan", function(x) return op.cumsum(x, { axis = 1 }) end, normal { 3, 300 })
show("product", function(x, y) return op.gelu(op.matmul(x, y)) end, normal { 40, 60 }, normal { 60, 70 })
show("sort", function(x) return (op.sort(x)) end, normal { 3, 300 })
show("half", function(x, y) return op.matmul(x, y) end, normal({ 70, 64 }):cast "bf16", normal({ 64, 80 }):cast "bf16")

-- Parameters live there, and learn the same.
local function train(where)
  ts.core.seed(3)
  return ts.device(where, function()
    local model = ts.nn.Sequential(ts.nn.Linear(2, 16), op.tanh, ts.nn.Linear(16, 1))
    local step = ts.graph.training_step(model, function(m, x, y) return op.mse(m(x), y) end,
      ts.optim.AdamW(model:parameters(), { lr = 1e-2 }))
    local loss
    for _ = 1, 4 do loss = step(normal { 16, 2 }, normal { 16, 1 }) end
    return loss:hash() .. model:parameters()[1]:hash()
  end)
end
assert(train "toy:0" == train "cpu", "another training")
print "the toy has code"
]]
  f:close()
  local out = must("cd " .. dir .. " && TESSERA_SIM=emulate bin/tessera toy.lua")
  assert(out:find "the toy has code", out)
end)
os.execute("rm -rf " .. dir)
assert(ok, why)
