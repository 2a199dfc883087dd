-- Derivatives of derivatives of fields.
local check = dofile "tests/grad/_check.lua"
local R = check.random

for _, how in ipairs { { "fd", "periodic" }, { "fd", "edge" }, { "spectral", "periodic" } } do
  local function with(t) t.method, t.boundary = how[1], how[2] return t end
  for order = 1, 2 do
    check("d", { R { 2, 5 } }, with { order = order, spacing = 0.5 })
    check("d", { R { 6, 2 } }, with { order = order, axis = 0 })
  end
  check("divergence", { R { 2, 4, 5 } }, with { spacing = { 0.5, 2 } })
  check("divergence", { R { 1, 6 } }, with {})
  check("curl", { R { 2, 4, 5 } }, with {})
  check("curl", { R { 3, 4, 4, 4 } }, with { spacing = { 1, 0.5, 2 } }, { second = false })
  check("laplacian", { R { 5, 4 } }, with { spacing = { 0.5 } })
  check("laplacian", { R { 2, 5, 4 } }, with { axes = { -1 } })
end

check("trapezoid", { R { 2, 5 } }, { dx = 0.25 })
check("trapezoid", { R { 4, 3 }, R { 4 } }, { axis = 0 })
check("trapezoid", { R { 2, 4, 3 }, R { 4, 1 } }, { axis = 1 })
check("trapezoid", { check.complex { 3, 4 }, R { 3, 4 } })
check("trapezoid", { R { 2, 1 } })
