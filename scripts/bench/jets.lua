-- Derivatives of a network in its coordinates, with one reverse pass over its weights: collapsed jets, and nested
-- forward mode (the profile strict), on the same points, in turn. Beside it: jets_peer.py.
--   tessera scripts/bench/jets.lua [points] [width] [device] [dtype]
local tessera = require "tessera"
io.stdout:setvbuf "line" -- whoever ends it has what was measured
local op, nn, graph, numerics = tessera.op, tessera.nn, tessera.graph, tessera.numerics
local points, width = tonumber(arg and arg[1]) or 1024, tonumber(arg and arg[2]) or 64
local device, dtype = arg and arg[3] or "cpu", arg and arg[4] or "f32"
local o = { dtype = dtype }

tessera.rng.seed(1)
local net = nn.Sequential { nn.Linear(2, width, o), nn.Tanh(), nn.Linear(width, width, o), nn.Tanh(), nn.Linear(width, width, o),
  nn.Tanh(), nn.Linear(width, 1, o) }
if device ~= "cpu" then net:to(device) end
local x, y = tessera.rng.uniform({ points, 1 }, o):to(device), tessera.rng.uniform({ points, 1 }, o):to(device)

local function along(f, axis)
  return function(x, y) return (select(2, graph.jvp(f)(x, y, axis == "x" and 1, axis == "y" and 1))) end
end
local function derivative(f, letters)
  for axis in letters:gmatch "." do f = along(f, axis) end
  return f
end
local function residual(sets)
  return function(m, x, y)
    local total = 0
    for letters in sets:gmatch "%S+" do
      total = total + derivative(function(x, y) return m(op.concat({ x, y }, { axis = 1 })) end, letters)(x, y)
    end
    return total:square():mean()
  end
end

local now = os.getenv "CLOCK" == "cpu" and os.clock or tessera.core.now -- seconds
local function products(f)
  local n = 0
  for _ in f:ir("graph"):gmatch "= matmul" do n = n + 1 end
  return n
end
local function timed(f, profile)
  return numerics.profile(profile, function()
    local best = math.huge
    for _ = 1, 3 do
      local begun, loss = now(), f(net, x, y)
      loss:item()
      best = math.min(best, now() - begun)
    end
    return best
  end)
end

print(("%d points, width %d, %s, %s"):format(points, width, dtype, device))
for _, case in ipairs { { "Laplacian", "xx yy" }, { "slope of it", "xxx xyy" }, { "biharmonic", "xxxx xxyy yyxx yyyy" } } do
  local made = {}
  for _, profile in ipairs { "deterministic", "strict" } do
    made[profile] = numerics.profile(profile, function()
      local f = graph.value_and_grad(residual(case[2]))
      for _ = 1, 20 do f(net, x, y) end
      return f
    end)
  end
  if tessera.jit.wait then tessera.jit.wait() end
  local best = { deterministic = math.huge, strict = math.huge }
  for _ = 1, 5 do
    for profile, f in pairs(made) do best[profile] = math.min(best[profile], timed(f, profile)) end
  end
  print(("%-12s jets %8.3f ms (%d products)   nested %8.3f ms (%d products)   %.2f x"):format(case[1], best.deterministic * 1e3,
    products(made.deterministic), best.strict * 1e3, products(made.strict), best.strict / best.deterministic))
end
