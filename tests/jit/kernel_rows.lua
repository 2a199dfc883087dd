-- Every pointwise operator is a method of tiles, with the operator's bits, of every type that the
-- operator takes: integers and booleans become floats where the operator's do.
local tessera = require "tessera"
local op, core, rng = tessera.op, tessera.core, tessera.rng
rng.seed(3)
local N = 40

local function draw(dtype)
  local x = rng.normal { N }
  if dtype == "bool" then return x:gt(0) end
  if dtype:find "^[iu]" then return rng.randint({ N }, { low = 1, high = 7 }):cast(dtype) end
  return (x:abs() * 0.5 + 0.1):cast(dtype) -- inside of what every function is defined on
end

-- And far out, on both sides: what a row does there is its own.
local function far(dtype) return (op.arange(N) * 3.25 - 60):cast(dtype) end

local made = {}
local function kernel_of(row, x, result)
  local inputs, names, loads = {}, {}, {}
  for i, v in ipairs(x) do
    names[i], inputs["x" .. i] = "x" .. i, v.dtype .. "[N]"
    loads[i] = ("x%d:load({i}, 16, e)"):format(i)
  end
  local body = loadstring(("return function(t, %s, y)\nlocal e = {edge = true}\nfor i in t:parallel(0, t.N, 16) do y:store({i}, %s:%s(%s), e) end end"):format(
    table.concat(names, ", "), loads[1], row, table.concat(loads, ", ", 2)))()
  made[row] = true
  return op.kernel(row .. "_" .. x[1].dtype, inputs, { y = result .. "[N]" }, body)
end

for _, row in ipairs(core.family "pointwise") do
  local nin = core.tile_result(row)
  assert(nin, row .. " is no method of tiles")
  for _, dtype in ipairs { "f32", "f64", "i32", "i64", "u8", "bool", "f32 far", "f64 far" } do
    local x, float = {}, dtype:match "(.*) far"
    for i = 1, nin do x[i] = float and (i == 1 and far(float) or draw(float)) or draw(dtype) end
    if row == "where" then x[1] = draw "bool" end
    local ok, want = pcall(function() return op[row](unpack(x)) end)
    if ok and not want.dtype:find "^complex" then
      local got = kernel_of(row, x, want.dtype)(unpack(x))
      if got:hash() ~= want:hash() then error(row .. " of " .. dtype .. " differs from the operator") end
    end
  end
  assert(made[row] or row == "complex", row .. " was not tried")
end

-- A condition chooses, as a method of the builder and of the condition.
local x = rng.normal { N }
local choose = op.kernel("choose", { x = "f32[N]" }, { y = "f32[N]", z = "f32[N]" }, function(t, x, y, z)
  for i in t:parallel(0, t.N, 8) do
    local a = x:load({ i }, 8)
    y:store({ i }, t:where(a:gt(0), a, 0))
    z:store({ i }, a:gt(0):where(a, -a))
  end
end)
local y, z = choose(x)
print(y:hash() == x:relu():hash(), z:hash() == x:abs():hash()) --> true	true

local function wrong(body) op.kernel("wrong", { x = "f32[N]" }, { y = "f32[N]" }, body)(x) end
wrong(function(t, x, y) y:store({ 0 }, x:load({ 0 }, 8):sofplus()) end)  --! did you mean 'softplus'?
wrong(function(t, x, y) y:store({ 0 }, x:load({ 0 }, 8):softmax()) end)  --! of operators a tile has those of one element
