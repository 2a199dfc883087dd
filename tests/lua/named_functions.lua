-- Functions that are loaded when first named: the list has what the modules have, and loading one changes nothing else.
local tessera = require "tessera"
local op = tessera.op
local listed, before = require "tessera.named_functions", {}
for name, f in pairs(op) do before[name] = f end

local module_of = {}
for kind, modules in pairs(listed) do
  for module, names in pairs(modules) do
    for name in names:gmatch "%S+" do
      assert(not before[name], name .. " is an operator, too")
      assert(not module_of[name], name .. " is listed twice")
      module_of[name] = module
      local f = op[name]
      assert(f == require("tessera." .. module)[name], name .. " is not the module's")
      assert((rawget(tessera.core.methods, name) ~= nil) == (kind == "methods"), name .. " as a method")
    end
  end
end

-- What is in modules of nothing else is listed.
for module in pairs(listed.methods) do
  for name in pairs(require("tessera." .. module)) do
    assert(module_of[name] == module, ("%s.lua has %s, which is not listed"):format(module, name))
  end
end

for name, f in pairs(op) do
  assert(before[name] == f or module_of[name], name .. " came along, or changed")
end
