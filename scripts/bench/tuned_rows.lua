-- What was measured by autotune.tune, as rows of jit/tune/tuned.def: kernels that got faster by more than `percent`.

local tessera = require "tessera"

return function(device, percent)
  local kind, measured, won = tessera.core.autotune_device(device), 0, 0
  for _, r in ipairs(tessera.core.autotune_records()) do
    local best, first
    for _, c in ipairs(r) do
      first = first or c
      if c.best then best = c end
    end
    if r.why then io.stderr:write(r.kernel, ": not measured, ", r.why, "\n") end
    if r.differing > 0 then io.stderr:write(r.kernel, ": ", r.differing, " candidates had other bits\n") end
    if best and best.us then
      measured = measured + 1
      if best ~= first and first.us > best.us * (1 + percent / 100) then
        won = won + 1
        print(('TUNED("%s", "%s", "%s", %.1f, %.1f)'):format(kind, r.kernel, best.choice, first.us, best.us))
      end
    end
  end
  io.stderr:write(("%d kernels measured, %d rows\n"):format(measured, won))
end
