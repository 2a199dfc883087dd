-- Heat spreading on a periodic plate: explicit steps with the Laplacian, against the
-- exact solution by Fourier transform.

local tessera = require "tessera"
local op = tessera.op

local N, STEPS, DT, DIFFUSION = 128, 800, 1e-5, 1
local h = 1 / N
local x = op.arange(N):cast("f64") * h
local X, Y = x:unsqueeze(1), x:unsqueeze(0)
local start = op.exp(((X - 0.5):square() + (Y - 0.5):square()) * -80)

local u = start
for _ = 1, STEPS do
  u = u + op.laplacian(u, { spacing = { h } }) * (DT * DIFFUSION)
end

-- Every wave decays by itself: e^(-(2 pi k)^2 D t).
local k = op.concat { op.arange(N / 2), op.arange(-N / 2, 0) }:cast("f64") * (2 * math.pi)
local decay = op.exp((k:unsqueeze(1):square() + k:unsqueeze(0):square()) * (-DIFFUSION * DT * STEPS))
local exact = op.ifft2(op.fft2(start) * decay):real()

local difference = (u - exact):abs():max():item()
print(("after %g s: hottest point %.4f (was %.4f), heat kept to %.1e, error %.1e"):format(DT * STEPS,
  u:max():item(), start:max():item(), math.abs((u:sum() - start:sum()):item()), difference))
assert(difference < 1e-3)
return { u }
