-- Numbers beside tensors on a device: each call computes in the types of its own numbers, whatever
-- came before it. -0.0 is whole to the rules of types, 1.5 is not.
package.path = "tests/devices/?.lua;" .. package.path
local on = require "_families"
if not on then return end
local tessera = require "tessera"
local op = tessera.op
local wrong = {}
for _, d in ipairs { "i32", "i8", "u8", "bool", "f16", "f32", "f64" } do
  local x = op.ones({ 3 }, { dtype = d })
  local there = x:to(on.name)
  for _, f in ipairs { "eq", "ne", "lt", "ge", "add", "mul", "maximum", "div" } do
    for _, list in ipairs { { -0.0, 1.5 }, { 0, -0.0, 0.5, 1 }, { 1.5, -0.0, 2 ^ 24 + 1 } } do
      for _, v in ipairs(list) do
        for turn = 1, 2 do
          local function run(t) return turn == 1 and op[f](t, v) or op[f](v, t) end
          local fine, want = pcall(run, x)
          local good, got = pcall(run, there)
          if fine ~= good or (fine and want:hash() ~= got:hash()) then wrong[#wrong + 1] = ("%s %s %g"):format(f, d, v) end
        end
      end
    end
  end
end
assert(#wrong == 0, table.concat(wrong, "; "))
