-- Help on everything that is public: a sentence at least, an example, and every option that is taken.
local tessera = require "tessera"
local core = tessera.core
local options = require "tessera.options"
local program = arg[-1] or "bin/tessera"

-- Names of the modules' functions and classes, and of methods of classes that are the class's own.
local names, hidden = {}, { class = true, parent = true, core = true, op = true, rng = true }
local function add(prefix, t, deep)
  for name, v in pairs(t) do
    local shown = type(name) == "string" and name:find "^%a[%w_]*$" and not hidden[name]
    if shown and (type(v) == "function" or (type(v) == "table" and not core.is_tensor(v))) then
      names[#names + 1] = prefix .. name
      if deep and type(v) == "table" then add(prefix .. name .. ".", v) end
    end
  end
end
add("tessera.", tessera)
for _, module in ipairs { "rng", "nn", "optim", "data", "graph", "numerics", "image", "autotune", "profile" } do
  add(module .. ".", tessera[module], true)
end
add("tessera.jit.", tessera.jit)
for _, modules in pairs(require "tessera.named_functions") do
  for _, list in pairs(modules) do
    for name in list:gmatch "%S+" do assert(core.op[name]) end
  end
end
add("op.", core.op)
table.sort(names)
assert(#names > 300, #names)

local path = os.tmpname()
local file = assert(io.open(path, "w"))
for _, name in ipairs(names) do file:write(("print '@@ %s'\n? %s\n"):format(name, name)) end
file:close()
local p = io.popen("COLUMNS=80 " .. program .. " -i < " .. path .. " 2>&1")
local all = p:read "*a"
p:close()
os.remove(path)

local texts, n = {}, 0
for name, text in (all .. "@@ "):gmatch "([%w_.]+)\n(.-)%f[@]@@ " do
  texts[name], n = text, n + 1
end
assert(n == #names, n)

for _, name in ipairs(names) do
  local text, word = texts[name], name:match "[%w_]+$"
  local body = text:match "\n(.*)$" or ""
  local _, words = body:gsub("%a%a+", "")
  assert(words >= 8 and not body:find "^%s*function %(" and not text:find "^no help", name .. ": bare help: " .. text)
  assert(text:find("^[%w_.:]*" .. word) , name .. ": " .. text)
  for option in pairs(options.known(name:gsub("^op%.", "")) or {}) do
    assert(text:find(option, 1, true), name .. ": option " .. option)
  end
  if not rawget(core.op, word) then
    local example = body:find "\n      [^ ]" -- that it runs says examples.lua
    local method = name:find "^nn%.%w+%.%w+$"
    assert(example or method, name .. ": no example: " .. text)
  end
end

-- What is loaded when it is named is listed; `jit` is tessera.jit, the global being LuaJIT's; what is not
-- there is told by its closest name, and names of other libraries by what is here.
local function asked(topic)
  local pipe = io.popen(("printf '? %%s\\n' '%s' | %s -i"):format(topic, program))
  local text = pipe:read("*a")
  pipe:close()
  return (text:gsub("%s+$", ""))
end
local listed = asked "tessera"
(listed:find "%f[%w]nn%f[%W]" and listed:find "%f[%w]jit%f[%W]" and listed:find "%f[%w]save%f[%W]") ~= nil --> true
asked "jit":match "^(.-)\n" --> tessera.jit
asked "jit.wiat" --> no help on 'tessera.jit.wiat'; did you mean 'wait'?
asked "nn.Linar" --> no help on 'nn.Linar'; did you mean 'Linear'?
asked "cat" --> no help on 'cat'; op.concat({a, b}, {axis = 0})
asked "x:cuda" --> no help on 'x:cuda'; x:to "cuda:0" moves it; tessera.devices() lists what there is

-- A word that is no name is looked for in names, options and texts.
local found = asked "warmup"
found:match "^[^\n]*" --> 'warmup' occurs in
found:find("  optim.schedule.cosine {warmup}: from lr to final", 1, true) ~= nil --> true
asked "nesterov":find("optim.SGD {nesterov}", 1, true) ~= nil --> true
asked "label smoothing":find("nn.CrossEntropyLoss", 1, true) ~= nil --> true
asked "bicubic":find("op.grid_sample", 1, true) ~= nil --> true
asked "cosine":match "\n([^:]*)" -->   optim.schedule.cosine
asked "num_layers" --> no help on 'num_layers'; as an option it is 'layers' here
asked "sofmax" --> no help on 'sofmax'; did you mean 'softmax'?
asked "nothing of that kind" --> no help on 'nothing of that kind'
