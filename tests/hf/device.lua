-- On a device models have the bits that they have on the CPU, with what they draw.
local tessera = require "tessera"
local vectors = dofile "tests/hf/_vectors.lua"

tessera.no_grad(function()
  for _, name in ipairs { "llama", "llama_yarn", "gemma2", "mixtral", "gpt_oss", "deepseek_v3", "mpnet", "t5", "whisper", "clip" } do
    local here, v = vectors.load(name)
    local there, ins = vectors.load(name, { device = "sim:0" }), {}
    for k, t in pairs(v.ins) do ins[k] = t:to "sim:0" end
    local a, b = here(v.ins), there(ins)
    assert(b.device == "sim:0" and vectors.same(a, b:to "cpu"), name)
    if here.generate and not here.encode then
      local o = { ids = { { 1, 2, 3 }, { 4, 5 } }, max_new_tokens = 4, eos = false, temperature = 1, repetition_penalty = 1.1 }
      assert(vectors.same(here:generate(o), there:generate(o)), name)
    end
  end
end)
