-- The mixture of experts learns the same on one device as over a mesh, with experts that do not divide among devices, and with
-- a capacity.
local program = arg and arg[-1] or "bin/tessera"
local function told(options)
  local p = io.popen(("%s examples/moe.lua --steps 6 %s 2>&1"):format(program, options))
  local out = p:read "*a"
  p:close()
  assert(out:find "\nweights %x+ %x+\n", out)
  return out
end
for _, capacity in ipairs { "", "--capacity 1" } do
  local alone = told(capacity)
  for _, mesh in ipairs { "--ep 2", "--ep 3", "--dp 2 --ep 2" } do assert(told(mesh .. " " .. capacity) == alone, mesh) end
  assert((alone:match "(%d+) choices dropped" == "0") == (capacity == ""))
end
