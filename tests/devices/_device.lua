-- Which device the tests of this folder use: DEV in the environment ("cuda", "cuda:1", "sim"),
-- else the simulated one.
local tessera = require "tessera"
local wanted = os.getenv "DEV" or "sim"
if wanted == "" or wanted == "fake" then wanted = "sim" end
local M = { kind = wanted:match "^%a+" }
if M.kind == "opencl" then require "_opencl" end
tessera.core.jit_later(false) -- kernels are what is tested
local ok, why = pcall(function() return tessera.op.ones(1):to(wanted).device end)
-- A driver may be missing. A device that is there and fails is an error, as is a word that names none.
local missing = not ok and tessera.devices().missing[M.kind or ""]
if missing then M.skipped = "skipped: " .. missing:gsub("\n.*", "")
elseif not ok then error(why, 0)
else M.name = why end

-- By the row of its code: whether it has the matrix unit for which all of 16 bits has kernels, of which those that are
-- for it alone are the CPU's elsewhere (gradients of attention, grouped products, choices of a schedule); whether launches are
-- of many runs.
for _, d in ipairs(tessera.devices()) do
  if d.name == M.name then M.unit, M.together, M.target = d.mma, d.together, d.target end
end

-- Sums of a matrix unit are another chain than the CPU's: 16-bit products agree within a
-- rounding or two, and in f32, if that is what is asked of 16-bit operands, within those of the
-- chain. Elsewhere, and on a device that is simulated, the bits do.
local narrow = { bf16 = 2 ^ -7, f16 = 2 ^ -10 }
function M.same(got, want, operands)
  if got:hash() == want:hash() then return true end
  local eps = narrow[want.dtype]
  for _, x in ipairs(operands or {}) do
    if want.dtype == "f32" and x and narrow[x.dtype] then eps = 2 ^ -18 end
  end
  if M.kind == "sim" or not eps or got.dtype ~= want.dtype then return false end
  local op = tessera.op
  local x, y = op.cast(got:to "cpu", "f32"), op.cast(want, "f32")
  local function most(t) return op.max(op.abs(t)):item() end
  return most(x - y) <= 2 * eps * most(y)
end
return M
