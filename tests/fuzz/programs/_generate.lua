-- Writes programs: bin/tessera --no-jit --threads=1 tests/fuzz/programs/_generate.lua FOLDER FIRST
-- COUNT [kind,kind..]
-- FOLDER/n.lua for each seed n. A program is a function of its seed, and of what runs.
local here = "tests/fuzz/programs/"
local Random, Writer = dofile(here .. "_random.lua"), dofile(here .. "_writer.lua")
local functions = dofile(here .. "_functions.lua")
local function captured(how) return function(W) return functions(W, how) end end
local kinds = { loops = dofile(here .. "_loops.lua"), mixed = captured "mixed",
  control = captured "control", exact = captured "exact", sizes = captured "sizes",
  gradients = dofile(here .. "_gradients.lua"), training = dofile(here .. "_training.lua"),
    rows = dofile(here .. "_rows.lua"), model = dofile(here .. "_model.lua"),
  definitions = dofile(here .. "_definitions.lua") }
local weights = { loops = 22, mixed = 16, control = 9, exact = 12, sizes = 8, gradients = 10,
  training = 5, rows = 9, model = 8, definitions = 3 }

local core = require "tessera.core"
local folder, first, count, only = arg[1], tonumber(arg[2]), tonumber(arg[3]), arg[4]
if only then
  local some = {}
  for word in only:gmatch "[^,]+" do some[word] = assert(weights[word], "no kind is " .. word) end
  weights = some
end
local prelude = ""
for _, name in ipairs { "_prelude.lua", "_checks.lua" } do
  local file = assert(io.open(here .. name))
  prelude = prelude .. file:read "*a" .. "\n"
  file:close()
end

-- What a program may leave behind in this process.
local rows = {}
for name, f in pairs(core.op) do rows[name] = f end
local function restore()
  for name, f in pairs(rows) do rawset(core.op, name, f) end
  core.profile "deterministic"
end

for seed = first, first + count - 1 do
  local R = Random(seed)
  local kind = R:weighed(weights)
  local W = Writer(R, prelude)
  if W.trace then os.remove(W.trace) end
  core.seed(seed)
  local fine, why = pcall(kinds[kind], W)
  restore()
  local out = assert(io.open(("%s/%d.lua"):format(folder, seed), "w"))
  if not fine then
    io.stderr:write(("seed %d (%s): %s\n"):format(seed, kind, tostring(why)))
    out:write("-- no program: ", tostring(why):gsub("\n", " "), "\n")
  else
    out:write(("-- Program %d, %s.\n"):format(seed, kind), prelude, "\n-- ---- the program\n", W:text(),
      "io.stdout:flush()\n")
  end
  out:close()
  if seed % 8 == 0 then collectgarbage() end
end
