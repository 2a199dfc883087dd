-- A generator of random choices with a seed of its own: programs depend on nothing else.
--
--   local R = dofile "tests/fuzz/programs/_random.lua"(seed)
--   R(5)                  1 to 5
--   R:chance(0.3)         true in 3 of 10 cases
--   R:pick(list)          an element
--   R:weighed{a = 3, b = 1}   "a" three times as often as "b"
local bit = require "bit"
local Random = {}
Random.__index = Random

-- Marsaglia's multiply-with-carry, two halves of 16 bits.
local function step(self)
  self.a = 36969 * bit.band(self.a, 0xffff) + bit.rshift(self.a, 16)
  self.b = 18000 * bit.band(self.b, 0xffff) + bit.rshift(self.b, 16)
  return bit.bxor(bit.lshift(self.a, 16), bit.band(self.b, 0xffff)) % 4294967296
end

function Random:__call(n) return step(self) % n + 1 end
function Random:chance(p) return step(self) < p * 4294967296 end
function Random:pick(list) return list[self(#list)] end
function Random:between(low, high) return low + self(high - low + 1) - 1 end

function Random:weighed(weights)
  local names, sum = {}, 0
  for name, w in pairs(weights) do
    names[#names + 1] = name
    sum = sum + w
  end
  table.sort(names)
  local at = step(self) / 4294967296 * sum
  for _, name in ipairs(names) do
    at = at - weights[name]
    if at < 0 then return name end
  end
  return names[#names]
end

function Random:shuffle(list)
  for i = #list, 2, -1 do
    local j = self(i)
    list[i], list[j] = list[j], list[i]
  end
  return list
end

return function(seed)
  local self = setmetatable({ a = (seed * 7919 + 521288629) % 4294967291 + 1,
    b = (seed * 104729 + 362436069) % 4294967279 + 1 }, Random)
  for _ = 1, 8 do step(self) end
  return self
end
