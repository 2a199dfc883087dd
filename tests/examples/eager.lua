-- Examples give the same bits operator by operator as captured, under the strict profile:
-- those that train, as a whole; of all of them every function at the top of the file that can
-- be captured, at each call.
local tessera = require "tessera"
local core = require "tessera.core"
local graph, numerics, rng = tessera.graph, tessera.numerics, tessera.rng
local program = arg and arg[-1] or "bin/tessera"

-- ---- examples that capture something themselves
local function hashes(before, script)
  local p = io.popen(("%s -e '%s' --hash %s 2>&1"):format(program, before, script))
  local list = {}
  for line in p:lines() do
    if line:match(" %x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x$") then list[#list + 1] = line end
  end
  p:close()
  assert(#list > 0, script)
  return table.concat(list, "\n")
end

local STRICT = "local t = require \"tessera\" t.numerics.profile \"strict\""
local EAGER = STRICT .. " t.graph.eager = true"
for _, script in ipairs { "examples/gpt_char.lua --steps 3", "examples/mlp.lua --steps 20 --target 0",
  "examples/cnn.lua --steps 3 --train 256 --test 64 --target 0", "examples/foreign.lua",
  "examples/resnet18.lua --steps 2 --batch 4 --width 8 --image 16 --train 16 --test 8 --target 0",
  "examples/unet.lua --steps 2 --batch 4 --width 8 --samples 2 --denoise 2 --target -99",
  "examples/seq2seq.lua --steps 2 --batch 8 --width 32 --train 64 --test 2 --target 0" } do
  assert(hashes(STRICT, script) == hashes(EAGER, script), script)
end

-- ---- whole files in this process, silently
local print_, stderr = print, io.stderr
local function run(source, name, args)
  local before, chunk = arg, assert(loadstring(source, "@" .. name))
  arg = args
  print = function() end
  io.stderr = { write = function() return io.stderr end, flush = function() end }
  local results = { pcall(chunk) }
  arg, print, io.stderr = before, print_, stderr
  assert(results[1], ("%s: %s"):format(name, tostring(results[2])))
  return results[2]
end

local function strict(...)
  local source, name, args = ...
  return numerics.profile("strict", function() return run(source, name, args) end)
end

local function text_of(path)
  local file = assert(io.open(path))
  local text = file:read "*a"
  file:close()
  return text
end

-- Gradients through several derivatives, each a captured function of its own when it is called.
local function flow(eager)
  graph.eager = eager
  local state = strict(text_of "examples/pinn.lua", "pinn.lua",
    { "--steps", "3", "--rounds", "1", "--points", "64", "--tolerance", "99", "--dtype", "f64" })
  graph.eager = false
  return state
end
local captured, eager = flow(false), flow(true)
for name, t in pairs(captured) do
  assert(t:hash() == eager[name]:hash(), name)
end

-- ---- every function of every example
local function tensors(value, list, seen)
  seen = seen or {}
  if type(value) == "table" and not seen[value] then -- a module may hold itself
    seen[value] = true
    for _, v in pairs(value) do tensors(v, list, seen) end
  elseif tessera.is_tensor(value) then
    list[#list + 1] = value:hash()
  end
  return list
end
local function hash(...)
  local list = {}
  for i = 1, select("#", ...) do tensors((select(i, ...)), list) end
  table.sort(list)
  return table.concat(list, " ")
end
local function has_tensor(...)
  return hash(...) ~= ""
end

local MOST = 3 -- calls of one function that are compared
local compared, refused = {}, {}

-- f at its place, compared with its capture where that is possible: no tensor is read or
-- changed, and some tensor comes out. It draws the same numbers both times.
function CHECK(f, name)
  local calls, busy = 0, false
  return function(...)
    if busy or core.capturing() or calls >= MOST or not has_tensor(...) then return f(...) end
    busy, calls = true, calls + 1
    local g, before = graph.module(name, f), { rng.state() }
    local fine, text = pcall(g.ir, g, "graph", ...)
    local whole = fine and not text:find "\n  update "
    local made
    if whole then
      local ran, result = pcall(function(...) return hash(g(...)) end, ...)
      local holds_symbols = not ran and tostring(result):find("not known while a function is captured", 1, true) -- a module made inside
      made = ran and result or not holds_symbols and error(name .. ": " .. tostring(result), 0) or nil
      fine, text = not holds_symbols, holds_symbols and "gives a module whose weights are symbols" or text
    end
    rng.state(unpack(before))
    local function compare(...)
      busy = false
      if made then
        assert(hash(...) == made, name .. ": other bits as captured")
        if made ~= "" then compared[name] = true end
      else
        refused[name] = fine and "changes tensors" or text
      end
      return ...
    end
    return compare(f(...))
  end
end

-- "local function f" up to its end, which stands at the line's beginning or on the same line.
local function instrumented(text, file)
  local out, open = {}, nil
  for line in (text .. "\n"):gmatch "(.-)\n" do
    local name = line:match "^local function ([%w_]+)"
    local done = name and line:match "%f[%w]end%s*$" and name or (open and line == "end" and open)
    if name and not done then open = name end
    if done then
      line = ("%s %s = CHECK(%s, %q)"):format(line, done, done, file .. "." .. done)
      open = nil
    end
    out[#out + 1] = line
  end
  return table.concat(out, "\n")
end

local options = {
  gpt_char = { "--steps", "1" },
  gpt2 = { "--steps", "1", "--dtype", "f32" },
  mlp = { "--steps", "5", "--target", "0" },
  cnn = { "--steps", "2", "--train", "128", "--test", "64", "--target", "0" },
  moe = { "--steps", "1" },
  navier_stokes = { "--steps", "2", "--rounds", "1", "--points", "64", "--tolerance", "99" },
  pinn = { "--steps", "2", "--rounds", "1", "--points", "64", "--tolerance", "99" },
  resnet18 = { "--steps", "1", "--batch", "4", "--width", "8", "--image", "16", "--train", "16", "--test", "8", "--target", "0" },
  unet = { "--steps", "1", "--batch", "4", "--width", "8", "--samples", "2", "--denoise", "2", "--target", "-99" },
  seq2seq = { "--steps", "1", "--batch", "8", "--width", "32", "--train", "64", "--test", "2", "--target", "0" },
  gpt2_generate = { "tests/examples/gpt2_tiny", "--prompt", "1,2,3", "--tokens", "3" },
}
local list = io.popen "ls examples/*.lua"
for path in list:lines() do
  local file = path:match "([%w_]+)%.lua"
  local source = instrumented(text_of(path), file)
  if source:find("CHECK", 1, true) then strict(source, path, options[file] or {}) end
end
list:close()
if os.getenv "VERBOSE" then
  for name in pairs(compared) do io.stderr:write(name, ": same\n") end
  for name, why in pairs(refused) do io.stderr:write(name, ": ", (tostring(why):gsub("\n.*", "")), "\n") end
end
local n = 0
for _ in pairs(compared) do n = n + 1 end
n >= 10 --> true
