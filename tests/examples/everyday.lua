-- A training step of ResNet-18, of the diffusion U-Net and of the encoder with a decoder beside PyTorch's in float64
-- (everyday/make.py): loss, gradient of each parameter and running statistics, in f64 but for rounding, in f32 to 1e-5 of
-- each gradient.
local tessera = require "tessera"
local op = tessera.op
local vectors = dofile "tests/hf/_vectors.lua"
local KEPT = 24

local function numbers(name, ...)
  local n = 1
  for _, d in ipairs { ... } do n = n * d end
  return vectors.weight(name, { n }):cast "f64":reshape { ... } * 4
end
local function whole(name, most, ...) return ((numbers(name, ...) + 1) / 2 * most):floor():cast "i64" end
local function tokens(name, words, batch, most)
  local ids, length = whole(name, words - 3, batch, most) + 3, whole(name .. ".length", most, batch) + 1
  return op.where(op.arange(most):lt(length:unsqueeze(1)), ids, 0)
end

local function kept(t)
  local stride = math.max(1, math.floor(t.numel / KEPT))
  local index = op.arange(math.min(KEPT, math.ceil(t.numel / stride))) * stride
  return t:flatten():take(index):cast "f64"
end

local function sorted(list)
  table.sort(list, function(a, b) return a[1] < b[1] end)
  return list
end

-- What is furthest off, and where.
local function compare(case, model, dtype, loss_of, ...)
  local want = tessera.load("tests/examples/everyday/" .. case .. ".safetensors")
  tessera.no_grad(function()
    for _, f in ipairs(model:tensors()) do f.tensor:copy_(vectors.weight(f.name, f.tensor.shape)) end
  end)
  model:to(dtype):train()
  local args = { ... }
  for i, t in ipairs(args) do args[i] = t.dtype == "f64" and t:cast(dtype) or t end
  local loss = loss_of(model, unpack(args))
  loss:backward()
  local worst, place, at = math.abs(loss:item() / want.loss:item() - 1), "loss", 0
  local function near(name, have, known, norm)
    local off = ((have - known):square():sum():sqrt() / norm):item()
    if not (off <= worst) then worst, place = off, name end
  end
  for i, p in ipairs(sorted(model:named_parameters())) do
    local g = kept(p[2].grad)
    local known, norm = want.gradients:narrow(0, at, g.numel), want.norms[i - 1]
    near(p[1], g, known, known:square():sum():sqrt():maximum(norm * math.sqrt(g.numel / p[2].numel)))
    near(p[1] .. "'s norm", p[2].grad:cast "f64":square():sum():sqrt(), norm, norm)
    at = at + g.numel
  end
  assert(at == want.gradients.numel, case)
  local statistics = {}
  for name, t in pairs(model:state_dict()) do
    if name:find "running_" then statistics[#statistics + 1] = { name, t } end
  end
  for i, s in ipairs(sorted(statistics)) do statistics[i] = kept(s[2]) end
  if want.statistics then
    near("statistics", op.concat(statistics), want.statistics, want.statistics:square():sum():sqrt())
  else
    assert(#statistics == 0, case)
  end
  local most = dtype == "f64" and 1e-11 or 1e-5
  if os.getenv "VERBOSE" then io.stderr:write(("%s %s: %.2g, %s\n"):format(case, dtype, worst, place)) end
  assert(worst <= most, ("%s in %s: %s is off by %.2g"):format(case, dtype, place, worst))
end

-- An example's own functions, of a run that trains nothing.
local function example(name, ...)
  local before, print_, progress = arg, print, tessera.data.progress
  arg, print = { "--steps", "0", ... }, function() end
  tessera.data.progress = function() return { update = function() end, finish = function() end } end
  local ok, result = pcall(dofile, "examples/" .. name .. ".lua")
  arg, print, tessera.data.progress = before, print_, progress
  return assert(ok and result, result)
end

local resnet = example("resnet18", "--train", "64", "--test", "32", "--target", "0")
local unet = example("unet", "--samples", "0")
local seq2seq = example("seq2seq", "--train", "64", "--test", "0")

for _, dtype in ipairs { "f64", "f32" } do
  -- Of so many numbers one is so near to 0 that in f32 it may lie beyond it, where relu's derivative is another.
  if dtype == "f64" then
    compare("resnet18", tessera.no_grad(resnet.ResNet, { width = 64, image = 32, classes = 10 }), dtype, resnet.loss_of, numbers("x", 4, 3, 32, 32),
      whole("y", 10, 4))
  end
  compare("resnet18_pooled", tessera.no_grad(resnet.ResNet, { width = 16, image = 72, classes = 11 }), dtype, resnet.loss_of, numbers("x", 3, 3, 72, 72),
    whole("y", 11, 3))
  compare("unet", tessera.no_grad(unet.UNet, { image = 16, width = 24, times = { 1, 2, 2 }, blocks = 1, attend = 4, groups = 8, dropout = 0 }), dtype,
    unet.loss_of, numbers("x", 3, 3, 16, 16), whole("t", 1000, 3), numbers("e", 3, 3, 16, 16) * 2)
  compare("seq2seq", tessera.no_grad(seq2seq.Translator, { width = 32, layers = 2 }), dtype, seq2seq.loss_of, tokens("ids", 32, 6, 9), tokens("out", 34, 6, 12))
end
