-- All scenarios under one kind of upset: some points of each, or all (FUZZ_COUNT: up to so many).
local core = require "tessera.core"
local scenarios, upset = require "_scenarios", require "_upset"
local all = tonumber(os.getenv "FUZZ_COUNT")
local only = os.getenv "UPSET" -- scenarios whose names contain it

local rise = os.getenv "LONG" and 1.3 or 1.6

-- The first points are those of making things ready, where little has been tested.
local function some(n) return n < 8 and n + 1 or math.floor(n * rise) end
local function each(n) return n + 1 end

return function(kind)
  local points, wrong = 0, {}
  if all then core.arena_single(true) end
  for _, s in ipairs(scenarios) do
    if not only or s.name:find(only, 1, true) then
      local n, bad = upset.walk(s, kind, all and each or some, all or 3000)
      points = points + n
      for _, text in ipairs(bad) do wrong[#wrong + 1] = text end
    end
  end
  if all then io.stderr:write(("%s: %d points\n"):format(kind, points)) end
  return #wrong == 0 and "all is well" or table.concat(wrong, "\n")
end
