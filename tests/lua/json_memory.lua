-- JSON's library is opened when it is first needed, where memory may just have run out: an error, and the next one has it.
local core = require("tessera").core
local failed, left = 0, 0
for n = 1, 60 do
  core.fail_after(n)
  local fine, why = pcall(core.open_json)
  left = core.fail_after(0)
  if left > 0 then break end
  failed = failed + (not fine and tostring(why):find "memory" and 1 or 0)
end
failed > 0, left > 0 --> true, true
core.open_json().encode { 1, 2 } --> [1,2]
