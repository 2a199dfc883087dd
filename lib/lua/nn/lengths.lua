-- Lengths of sequences, as layers and losses take them: a list of whole numbers, or a tensor of them.
--
--   local l = lengths("LSTM", "lengths", given, batch, steps)      -- i64[batch], each 0 to steps

local core = require "tessera.core"
local options = require "tessera.options"

local LIST = options.list(options.whole { least = 0 })

return function(what, name, v, batch, most)
  local function wrong(shown, hint)
    core.fail(("%s: %s is %s, and has to be %d whole numbers, a list or a tensor%s"):format(what, name, shown, batch,
      hint and "\n  hint: " .. hint or ""))
  end
  if type(v) == "table" and not core.is_tensor(v) then
    if not LIST.holds(v) then wrong "a list of something else" end
    if #v ~= batch then wrong(("a list of %d"):format(#v)) end
    v = #v > 0 and core.tensor(v, { dtype = "i64" }) or core.op.zeros({ 0 }, { dtype = "i64" })
  end
  if not core.is_tensor(v) then wrong(v == nil and "nothing" or "a " .. type(v)) end
  if v.ndim ~= 1 or v.shape[1] ~= batch or v.dtype:match "^[fcb]" then
    wrong(core.type_text(v), v.dtype:match "^f" and 'x:cast("i64")')
  end
  if batch > 0 and not core.capturing() and (v:max():item() > most or v:min():item() < 0) then
    core.fail(("%s: %s lie between 0 and %d, not %s"):format(what, name, most, core.display(v, 60):gsub("\n.*", "")))
  end
  return v
end
