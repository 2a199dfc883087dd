-- The table of plans of large models (scripts/bench/mesh/plans.lua): models of their true sizes, on devices that are not there.
local function rows(...)
  local lines, print_before, arg_before = {}, print, arg
  arg = { ... }
  print = function(line) lines[#lines + 1] = line end
  local ok, why = pcall(dofile, "scripts/bench/mesh/plans.lua")
  print, arg = print_before, arg_before
  assert(ok, why)
  return lines
end
local lines = rows("2", "6")
#lines --> 4
local dense, mixture = lines[3], lines[4]
dense:match "^| 405B dense | 72 | dp9 tp8 | ZeRO%-3 | 9 x 8192 |" ~= nil --> true
mixture:match "^| gpt%-oss%-120b | 72 | dp9 ep8 | ZeRO%-3 | 72 x 4096 |" ~= nil --> true

-- 405.85 and 116.83 billion parameters, 12 bytes each with both moments. The mixture's norms, biases and heads are split over dp alone.
local function held(line) return tonumber(line:match "x %d+ | ([%d.]+) |") end
assert(math.abs(held(dense) - 405.853e9 * 12 / 72 / 1e9) < 0.5, dense)
assert(held(mixture) > 116.83e9 * 12 / 72 / 1e9 and held(mixture) < 1.3 * 116.83e9 * 12 / 72 / 1e9, mixture)
assert(dense:find "dp %d+ GB, tp %d+ GB" and mixture:find "dp%+ep", dense .. mixture)
