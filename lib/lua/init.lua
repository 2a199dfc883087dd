-- The module tessera: operators and the library around them.
local core = require "tessera.core"

local tessera = {
  op = core.op,
  tensor = core.tensor,
  is_tensor = core.is_tensor,
  version = core.version,
}

tessera.rng = {}
for _, row in ipairs(core.operators()) do
  if row.family == "random" then tessera.rng[row.name] = core.op[row.name] end
end

return tessera
