-- Graphs in files: graph.export and graph.load. Loaded by graph.

local core = require "tessera.core"
local fail = core.fail

local FORMS = { dot = "dot", json = "json", tgraph = "graph" }

local Loaded = {}
Loaded.__index = Loaded

function Loaded:__call(...)
  local n, given = #self.types, select("#", ...)
  if given ~= n then fail(("%s: %d tensors are needed, not %d"):format(self.name, n, given)) end
  return self.graph:run({ ... })
end
function Loaded:ir(level) return self.graph:text(level == "concrete" and "graph" or tostring(level or "graph")) end
function Loaded:rewrites() return self.graph:text("rewrites") end
function Loaded:stats() return self.graph:stats() end
function Loaded:__tostring()
  return ("graph %s(%s)"):format(self.name, table.concat(self.types, ", "))
end
core.keep_line(Loaded, true)

return function(graph)
  --- Writes a function's graph: of its last call as "x.dot" for Graphviz and "x.json"; as
  --- "x.tgraph", which graph.load reads, with symbols for sizes that have differed. Captured
  --- tensors become further parameters.
  --   local f = graph.module("f", op.tanh)
  --   f(op.ones{3})
  --   graph.export(f, "f.tgraph")
  function graph.export(f, path)
    local form = FORMS[tostring(path):match "%.(%w+)$" or ""]
    if not form then fail(("graph.export: '%s' does not end in .dot, .json or .tgraph"):format(tostring(path))) end
    if type(f) ~= "table" or not f.ir then
      fail(("graph.export: a captured function is needed, as graph.module makes it, not a %s"):format(type(f)))
    end
    core.write_file(path, { f:ir(form) })
    return path
  end

  --- A graph from a .tgraph file, or from its text, as a function: its parameters in order, those that were
  --- captured last. sizes gives values to symbols, {B = 8}.
  --   local text = "graph @f(%x: f32[3]) -> %y {\n%y = tanh %x : f32[3]\n}"
  --   local f = graph.load(text)      -- or graph.load "f.tgraph"
  --   print(f(op.ones{3}))
  function graph.load(path, sizes)
    if type(path) ~= "string" then fail("graph.load: a path or the text of a graph is needed, not a " .. type(path)) end
    local name = core.shown(path)
    local text = path
    if path:find "^%s*graph%s+@" or path:find "^%s*//" or path:find "\n" then
      name = "text"
    else
      text = core.read_file(path, "graph.load")
    end
    local g, types, called = core.graph_load(text, sizes)
    if not g then fail(("graph.load: %s: %s"):format(name, types)) end
    return core.keep_line(setmetatable({ graph = g, types = types, name = called }, Loaded))
  end
end
