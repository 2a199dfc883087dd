-- Examples that train give the same bits operator by operator as captured, under the strict
-- profile.
local tessera = arg and arg[-1] or "bin/tessera"

local function hashes(before, script)
  local p = io.popen(("%s -e '%s' --hash %s 2>&1"):format(tessera, before, script))
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
  "examples/cnn.lua --steps 3 --train 256 --test 64 --target 0" } do
  assert(hashes(STRICT, script) == hashes(EAGER, script), script)
end
