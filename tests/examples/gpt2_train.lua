-- Training GPT-2 gives the losses that PyTorch gives (make_gpt2_train.py): in f32 within what
-- other orders of additions make of it, with bf16 products within the noise of bf16.
local tessera = require "tessera"
local folder = "tests/examples/gpt2_tiny"
local expected = tessera.load(folder .. "/training.safetensors")
local data, print_ = tessera.data, print
local windows, progress = data.windows, data.progress

local function train(dtype)
  local at = -1
  data.windows = function()
    return function()
      at = at + 1
      local ids = expected.tokens[at]
      return ids:narrow(1, 0, 32), ids:narrow(1, 1, 32)
    end
  end
  data.progress = function() return { update = function() end, finish = function() end } end
  print = function() end
  arg = { "--init", folder, "--steps", "30", "--batch", "4", "--context", "32", "--dtype", dtype }
  local losses = dofile "examples/gpt2.lua"
  print, data.windows, data.progress = print_, windows, progress
  return losses
end

local function distance(x, y) return (x - y):abs():max():item() end
local f32, bf16 = train "f32", train "bf16"
-- It learns: the noise alone is worth 1.4.
f32[0]:item() > 4.7, f32[29]:item() < 4.2 --> true, true
distance(f32, expected.f32) < 2e-4 --> true
-- PyTorch's own two curves differ by this.
local noise = distance(expected.f32, expected.bf16)
noise < 0.05, distance(bf16, expected.bf16) < 2 * noise, distance(bf16, f32) < 2 * noise --> true, true, true
