-- Help says in words what every row of the operator table returns: its dtype rule, its shape rule.
local core = require "tessera.core"
local silent = {}
for _, row in ipairs(core.operators()) do
  local returns = core.help(row.name, 10000):match "returns%s+([^\n]*)" or ""
  if row.class ~= "compose" and row.class ~= "direct" and not returns:find ";" then silent[#silent + 1] = row.name end
end
table.concat(silent, " ") -->
