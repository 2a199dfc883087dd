-- What captured functions give over virtual CPU devices lies where the mesh says, and meets tensors of these devices in calls.
local program = arg and arg[-1] or "bin/tessera"
local code = [[
local mesh = dist.Mesh { axes = { "dp" }, devices = dist.range(2) }
local x, y = dist.replicate(op.ones { 4, 4 }, mesh), op.ones { 4, 4 }
local rows = dist.shard(y, mesh, { "dp" })
local function loop(a)
  return (op.while_loop(function(d) return d:sum():lt(40) end, function(d) return d + x end, a))
end
local function places(t)
  local list = {}
  for i, part in ipairs(t:parts()) do list[i] = part.device end
  return table.concat(list, " ")
end
for name, f in pairs { add = function(a) return a + x end, loop = loop, sum = function(a) return (a * 2 + x):sum { axis = 0 } end } do
  for _, a in ipairs { y, x, rows } do
    local z = graph.module(name, f)(a)
    assert(places(z) == "cpu:0 cpu:1", name .. ": " .. places(z))
    assert(((z + x):gather():to "cpu" - (f(a) + x):gather():to "cpu"):abs():max():item() == 0, name)
  end
end
print "fine"
]]
local name = os.tmpname()
local file = io.open(name, "w")
file:write(code)
file:close()
local p = io.popen(("%s --devices=cpu:2 -l tessera %s 2>&1"):format(program, name))
p:read "*l" --> fine
p:close()
os.remove(name)
