-- GPT-2 inference gives what the transformers library gives (make_gpt2.py).
local tessera = require "tessera"
local folder = "tests/examples/gpt2_tiny"
local expected = tessera.load(folder .. "/expected.safetensors")
local ids = table.concat(expected.prompt:totable(), ",")
arg = { folder, "--prompt", ids, "--tokens", "20" }
local print_ = print
print = function() end
local result = dofile("examples/gpt2_generate.lua")
print = print_

local error_ = (result.logits:squeeze(0) - expected.logits):abs():max():item()
assert(error_ <= 1e-5 * expected.logits:abs():max():item(), "logits differ by " .. error_)
result.tokens:eq(expected.tokens):all():item() --> true

-- Cached decoding equals the whole computation, to the bit: rows of a product do
-- not know their neighbours.
result.logits.shape[2] --> 10
