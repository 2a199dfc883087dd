-- Windows of windows: views with any strides. Library of the tests.
local op = require("tessera.core").op
local M = {}

--- A view of zeros with these strides, three elements along each axis.
function M.strided(strides, dtype)
  local left = 1
  for _, s in ipairs(strides) do left = left + 2 * s end
  local t = op.zeros({ left }, { dtype = dtype })
  for i = 1, #strides - 1 do
    left = left - 2 * strides[i]
    t = t:unfold(i - 1, left, { step = strides[i] })
  end
  return t[(":,"):rep(#strides - 1) .. "::" .. strides[#strides]]
end

--- n strides without an overlap, which no order of trying them shows soon: 3^i counted modulo a
--- number, times a number, so that all sums of up to two of each differ.
function M.scattered(n)
  local list, s = {}, 100003
  for i = 1, n do list[i], s = s, s * 3 % (3 ^ n + 10) end
  return list
end

return M
