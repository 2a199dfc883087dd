-- docs/recipes/target.md, followed to the letter: its example's pieces go into a copy of the sources, which is built with
-- what this build has compiled already, and functions have code for the toy. With LONG=1 alone: it takes a minute or two.
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
  must("cp -a Makefile docs devices ir jit lib net repl scripts vm examples " .. dir)
  must("mkdir -p " .. dir .. "/tests && cp -a build/release/. " .. dir .. "/build/release && rm -rf " .. dir .. "/build/release/tests")
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
  assert(pieces == 6, pieces .. " pieces")
  must("make -C " .. dir .. " bin/tessera")
  local f = assert(io.open(dir .. "/toy.lua", "w"))
  f:write [[
local ts = require "tessera"
local op = ts.op
local function show(name, f, ...)
  local m = ts.graph.module(name, f)
  m(...)
  for _, level in ipairs { "tile", "llvm", "asm" } do
    local text = m:ir(level, { target = "toy" })
    assert(not text:find "no kernel", name .. ": " .. text)
    if level == "llvm" then assert(text:find "amdgpu_kernel" and text:find "workitem", text) end
    if level == "asm" then assert(text:find "amdhsa%-%-gfx906" and text:find "s_endpgm", text) end
  end
end
show("softmax", function(x) return op.softmax(x) end, op.ones { 4, 700 })
show("product", function(x, y) return op.gelu(op.matmul(x, y)) end, op.ones { 40, 60 }, op.ones { 60, 70 })
show("sort", function(x) return (op.sort(x)) end, op.ones { 3, 300 })
show("half", function(x, y) return op.matmul(x, y) end, op.ones({ 70, 64 }):cast "bf16", op.ones({ 64, 80 }):cast "bf16")
print "the toy has code"
]]
  f:close()
  local out = must("cd " .. dir .. " && bin/tessera toy.lua")
  assert(out:find "the toy has code", out)
end)
os.execute("rm -rf " .. dir)
assert(ok, why)
