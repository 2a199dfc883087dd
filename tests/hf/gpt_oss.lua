-- GPT-OSS with its experts in MXFP4 on a device, in bf16 on the matrix unit: a text has the same tokens alone, beside others and whatever
-- stands beside it, in captured steps, and no product goes to the CPU; drawn weights are the same on all devices.
local tessera = require "tessera"
local drawn = require "tessera.hf.drawn"
local config = { model_type = "gpt_oss", hidden_size = 64, intermediate_size = 64, head_dim = 64, num_attention_heads = 2, num_key_value_heads = 1,
  num_hidden_layers = 2, vocab_size = 96, num_local_experts = 4, num_experts_per_tok = 2, sliding_window = 8, max_position_embeddings = 256,
  quantization_config = { quant_method = "mxfp4" } }

tessera.no_grad(function()
  local m, bytes, read = drawn.model(config, { device = "sim:0", std = 0.5 })
  assert(bytes > read and read > 0)
  local host = drawn.model(config, { std = 0.5 })
  for name, t in pairs(host:state_dict()) do assert(t:hash() == m:state_dict()[name]:to("cpu"):hash(), name) end
  local experts = m.model.layers[1].mlp.experts
  assert(experts.gate_up_proj_blocks.dtype == "u8" and experts.gate_up_proj_blocks.nbytes == 4 * 128 * 32)

  local prompts = { { 5, 17, 60, 3, 9, 42 }, { 7, 2 }, { 11, 59, 4, 30 } }
  local all = m:generate { ids = prompts, max_new_tokens = 17, eos = false }
  for i, prompt in ipairs(prompts) do
    local one = m:generate { ids = { prompt }, max_new_tokens = 17, eos = false }
    assert(table.concat(one[0]:totable(), " ") == table.concat(all[i - 1]:totable(), " "), "text " .. i)
  end
  assert(rawget(m, "_steps"), "no captured step")
end)
