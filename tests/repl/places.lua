-- Errors name a line of the program, never one of the library alone.
local tessera = arg[-1] or "bin/tessera"
local script = os.tmpname()

-- What a script of these lines says, without its own name, and without the calls.
local function says(text, how)
  local f = assert(io.open(script, "w"))
  f:write('local tessera = require "tessera"\nlocal op, graph, nn, optim = tessera.op, tessera.graph, tessera.nn, tessera.optim\n', text, "\n")
  f:close()
  local p = io.popen(("%s %s %s 2>&1"):format(tessera, how or "", script))
  local out = p:read "*a"
  p:close()
  return (out:gsub(script:gsub("%p", "%%%0"), "{F}"):gsub("\nstack traceback.*", ""):gsub("\n *%^ *", "")
    :gsub("\n$", ""):gsub("\n    [^\n]*", "", 1))
end

says "local x = op.zeros{1}\ngraph.module('g', function(a, b) a:add_(1) return a + b end)(x, x)" --> {F}:4: g: two arguments share elements, and one of them is changed in place
says "local y = op.map(function(x) return x * 2 end, 5)" --> {F}:3: op.map: a tensor, or tensors in a table, are needed
says "local f = op.recursive(function(self, n) return self(n) end)\nprint(f(op.ones{1}))" --> {F}:4: op.recursive: recursion deeper than 10000 calls
-- What a function of the library stumbles over is told with its name.
says "\nlocal l = nn.Linear('a', 2)" --> {F}:4: Linear: inputs must be a whole number >= 0, not 'a'
says "local b = nn.PReLU()\nb.weight = 5\nb(op.ones{2})" --> {F}:5: b: attempt to index local 'w' (a number value)
says "tessera.data.batches(op.zeros{3}, 5)" --> {F}:3: data.batches: options are a table, as {batch = ...}, not 5
says "nn.LayerNorm(3, 'x')" --> {F}:3: LayerNorm: option 'eps' must be a number >= 0, not 'x'
-->   hint: 1e-05 if it is not given
says "optim.AdamW(nn.Linear(2, 2), {lr = 1})" --> {F}:3: AdamW: a list of parameters is needed, not a module
-->   hint: optim.AdamW(model:parameters(), ...)
says "optim.LBFGS(nn.Linear(2, 2))" --> {F}:3: LBFGS: a list of parameters is needed, not a module
-->   hint: optim.LBFGS(model:parameters(), ...)
says "optim.SGD({})" --> {F}:3: SGD: the list of parameters is empty
says "graph.export(5, 'a.dot')" --> {F}:3: graph.export: a captured function is needed, as graph.module makes it, not a number
-- A recursion without an end: of some stacks the last call leaves no room to look at them.
says("local function r() return 1 + r() end\nr()", "--no-jit"):match "stack overflow" --> stack overflow
local function overflows(code)
  local p = io.popen(("%s -e '%s' 2>&1"):format(tessera, code))
  local out = p:read "*a"
  p:close()
  return out:gsub("\nstack traceback.*", ""):gsub("\n *%^", ""):gsub("\n    [^\n]*", "", 1):gsub("\n$", "")
end
local first = {}
for n = 0, 5 do
  local text = overflows(("jit.off() local function r(%sz) return 1 + r() end r()"):format(("a, "):rep(n)))
  first[text:match "^[^\n]*"] = true
end
(next(first)), next(first, (next(first))) --> (command line):1: stack overflow, nil
-- Of many calls the first and the last are shown, however many there are.
local function depth(n)
  local f = assert(io.open(script, "w"))
  f:write(("local function r(n) if n == 0 then error 'deep' end return 1 + r(n - 1) end\nr(%d)\n"):format(n))
  f:close()
  local p = io.popen(("%s --no-jit %s 2>&1"):format(tessera, script))
  local out = p:read "*a"
  p:close()
  local _, lines = out:gsub("\n    [^\n]*: in ", "")
  return lines, out:match "%((%d+) more%)"
end
depth(12), (depth(13)) --> 14, 14
depth(20) --> 14, 8
depth(5000) --> 14, 4988
os.remove(script)

-- Names of other libraries on a module, and what Lua's own errors about tensors mean.
says "nn.Linear(2, 2):cuda()" --> {F}:3: attempt to call method 'cuda' (a nil value)
-->   hint: model:to "cuda:0" moves it; tessera.devices() lists what there is
says "for _, row in ipairs(op.ones{2, 2}) do end" --> {F}:3: bad argument #1 to 'ipairs' (table expected, got userdata)
-->   hint: rows of a tensor are x[0] to x[#x - 1], or {x:unbind()}
says "local n = op.ones{2}:numel()" --> {F}:3: attempt to call method 'numel' (a number value)
-->   hint: it is a value, not a function: x.numel
