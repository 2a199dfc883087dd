-- tok:chat of folders: which template, which special tokens, the ids; templates of templates/, written from the formats as they are
-- published, beside texts written by hand.
local tessera = require "tessera"
local hf = tessera.hf
local json = tessera.core.open_json()

local dir = os.tmpname()
os.remove(dir)
local function folder(files)
  os.execute("rm -rf " .. dir .. " && mkdir " .. dir)
  for name, text in pairs(files) do
    local f = assert(io.open(dir .. "/" .. name, "wb"))
    f:write(text)
    f:close()
  end
  return dir
end
local function read(path)
  local f = assert(io.open(path, "rb"))
  local s = f:read "*a"
  f:close()
  return s
end

-- A tokenizer of bytes with special tokens.
local function tokenizer(special)
  local added, vocab, n = {}, {}, 0
  for b = 32, 126 do
    if b ~= 32 then vocab[#vocab + 1], n = json.encode(string.char(b)) .. ": " .. n, n + 1 end
  end
  for _, s in ipairs { "Ġ", "Ċ" } do vocab[#vocab + 1], n = json.encode(s) .. ": " .. n, n + 1 end
  for i, s in ipairs(special) do
    added[i] = ('{"id": %d, "content": %s, "special": true, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false}'):format(n, json.encode(s))
    n = n + 1
  end
  return ([[{"added_tokens": [%s], "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true}, "decoder": {"type": "ByteLevel"},
    "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}], "pair": [],
      "special_tokens": {"<s>": {"id": "<s>", "ids": [%d], "tokens": ["<s>"]}}}, "model": {"type": "BPE", "vocab": {%s}, "merges": []}}]]):format(
    table.concat(added, ", "), n - #special, table.concat(vocab, ", "))
end

local hello = { { role = "user", content = "Hi" } }
local SPECIAL = { "<s>", "</s>", "<|end|>" }

-- ---- where a template stands
local tok = hf.tokenizer(folder { ["tokenizer.json"] = tokenizer(SPECIAL), ["tokenizer_config.json"] = [[{"bos_token": {"content": "<s>", "lstrip": false},
  "eos_token": "</s>", "unk_token": null, "chat_template": "{{ bos_token }}{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}"}]] })
local text, ids, places = tok:chat(hello)
text --> <s>Hi</s>
-- Special tokens of the text are tokens, and none is put in front once more.
table.concat(ids, " ") == table.concat({ tok:id "<s>", tok:id "H", tok:id "i", tok:id "</s>" }, " ") --> true
#places --> 0
(hf.tokenizer(dir .. "/tokenizer.json"):chat(hello)) --> <s>Hi</s>
(tok:chat(hello, { bos_token = "<>" })) --> <>Hi</s>
(tok:chat(hello, { template = "{{ messages[0].role }}" })) --> user
tok:chat(hello, { add_generation_promt = true }) --! did you mean 'add_generation_prompt'?
tok:chat() --! messages are needed
tostring((hf.chat_template(dir))):match "chat template .*: %d+ bytes" ~= nil --> true

-- Several templates of names; a file beside the configuration comes first.
local named = [[{"chat_template": [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "{{ tools[0].name }}"}]}]]
tok = hf.tokenizer(folder { ["tokenizer.json"] = tokenizer(SPECIAL), ["tokenizer_config.json"] = named })
(tok:chat(hello)) --> plain
(tok:chat(hello, { tools = { { name = "f" } } })) --> f
tok = hf.tokenizer(folder { ["tokenizer.json"] = tokenizer(SPECIAL), ["tokenizer_config.json"] = named,
  ["chat_template.jinja"] = "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}\n{% endfor %}" })
text, ids, places = tok:chat { { role = "user", content = "a" }, { role = "assistant", content = "bc" } }
text --> abc
places --> {{1, 1}, {2, 3}}

tok = hf.tokenizer(folder { ["tokenizer.json"] = tokenizer(SPECIAL) })
tok:chat(hello) --! there is no chat template beside the tokenizer
tok = hf.tokenizer(folder { ["tokenizer.json"] = tokenizer(SPECIAL), ["tokenizer_config.json"] = "{" })
tok:chat(hello) --! no JSON
tok = hf.tokenizer(folder { ["tokenizer.json"] = tokenizer(SPECIAL), ["tokenizer_config.json"] = '{"chat_template": [1]}' })
tok:chat(hello) --! 'chat_template' is no text, and no list of named ones
tok = hf.tokenizer(folder { ["tokenizer.json"] = tokenizer(SPECIAL), ["chat_template.jinja"] = "a\n{{ x" })
tok:chat(hello) --! chat_template.jinja: line 2
tok = hf.tokenizer(folder { ["tokenizer.json"] = tokenizer(SPECIAL), ["chat_template.jinja"] = "{{ raise_exception('no ' ~ messages[0].role) }}" })
tok:chat(hello) --! line 1: no user

-- ---- the formats of models
local weather = { { type = "function", ["function"] = { name = "get_weather", description = "Weather.", parameters = { type = "object",
  properties = { city = { type = "string", description = "Which city" }, days = { type = "integer" } }, required = { "city" } } } } }
local asked = { { role = "system", content = "Be brief." }, { role = "user", content = "Hi" }, { role = "assistant", content = "Yes?" }, { role = "user", content = "Bye " } }
local called = { { role = "user", content = "Rain?" }, { role = "assistant", content = "", tool_calls = { { id = "123456789", type = "function", ["function"] = { name = "get_weather", arguments = { city = "Rom" } } } } },
  { role = "tool", tool_call_id = "123456789", name = "get_weather", content = "dry" } }

local function render(name, messages, o)
  o = o or {}
  o.messages, o.now = messages, 1766600000
  o.bos_token, o.eos_token = o.bos_token or "<s>", "</s>"
  return (hf.chat_template("tests/text/templates/" .. name .. ".jinja"):render(o))
end
local function same(got, want) assert(got == want, "\n" .. got .. "\nnot\n" .. want) end
local PROMPT = { add_generation_prompt = true }

same(render("llama3", asked, PROMPT), "<s><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>" ..
  "<|start_header_id|>assistant<|end_header_id|>\n\nYes?<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n")
same(render("llama3", called), "<s><|start_header_id|>user<|end_header_id|>\n\nRain?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n" ..
  '{"name": "get_weather", "parameters": {"city": "Rom"}}<|eot_id|><|start_header_id|>ipython<|end_header_id|>\n\ndry<|eot_id|>')
local _, generated = hf.chat_template "tests/text/templates/llama3.jinja":render { messages = asked, bos_token = "" }
#generated --> 1

same(render("qwen", asked, PROMPT), "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYes?<|im_end|>\n<|im_start|>user\nBye <|im_end|>\n<|im_start|>assistant\n")
same(render("qwen", called, { add_generation_prompt = true, enable_thinking = false }), "<|im_start|>user\nRain?<|im_end|>\n<|im_start|>assistant\n<tool_call>\n" ..
  '{"name": "get_weather", "arguments": {"city": "Rom"}}\n</tool_call><|im_end|>\n<|im_start|>user\n<tool_response>\ndry\n</tool_response><|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n')
same(render("qwen", { { role = "user", content = "a" }, { role = "assistant", content = "<think>\nhm\n</think>\n\nb" } }, { tools = { { name = "f" } } }),
  '<|im_start|>system\n# Tools\n\n<tools>\n{"name": "f"}\n</tools><|im_end|>\n<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n<think>\nhm\n</think>\n\nb<|im_end|>\n')

same(render("gemma", asked, { add_generation_prompt = true, bos_token = "<bos>" }), "<bos><start_of_turn>user\nBe brief.\n\nHi<end_of_turn>\n<start_of_turn>model\nYes?<end_of_turn>\n<start_of_turn>user\nBye<end_of_turn>\n<start_of_turn>model\n")
same(render("gemma", { { role = "user", content = { { type = "image" }, { type = "text", text = " What?" } } } }), "<s><start_of_turn>user\n<start_of_image>What?<end_of_turn>\n")
render("gemma", { hello[1], hello[1] }) --! it is the turn of assistant

same(render("mistral", asked), "<s>[INST] Hi[/INST] Yes?</s>[INST] Be brief.\n\nBye [/INST]")
same(render("mistral", called), '<s>[INST] Rain?[/INST][TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Rom"}, "id": "123456789"}]</s>[TOOL_RESULTS] {"content": "dry", "call_id": "123456789"}[/TOOL_RESULTS]')
same(render("mistral", hello, { tools = { { type = "function", ["function"] = { name = "f" } } } }), '<s>[AVAILABLE_TOOLS] [{"type": "function", "function": {"name": "f"}}][/AVAILABLE_TOOLS][INST] Hi[/INST]')

same(render("phi", asked, PROMPT), "<|system|>\nBe brief.<|end|>\n<|user|>\nHi<|end|>\n<|assistant|>\nYes?<|end|>\n<|user|>\nBye <|end|>\n<|assistant|>\n")
same(render("phi", { { role = "system", content = "S", tools = "[]" } }), "<|system|>\nS<|tool|>[]<|/tool|><|end|>\n</s>")

local facts = "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: 2024-06\nCurrent date: " .. os.date("%Y-%m-%d", 1766600000) ..
  "\n\nReasoning: %s\n\n# Valid channels: analysis, commentary, final. Channel must be included for every message.%s<|end|>"
same(render("harmony", asked, { add_generation_prompt = true, reasoning_effort = "high" }), facts:format("high", "") .. "<|start|>developer<|message|># Instructions\n\nBe brief.<|end|>" ..
  "<|start|>user<|message|>Hi<|end|><|start|>assistant<|channel|>final<|message|>Yes?<|end|><|start|>user<|message|>Bye <|end|><|start|>assistant")
same(render("harmony", called, { add_generation_prompt = true, tools = weather }), facts:format("medium", "\nCalls to these tools must go to the commentary channel: 'functions'.") ..
  "<|start|>developer<|message|># Tools\n\n## functions\n\nnamespace functions {\n\n// Weather.\ntype get_weather = (_: {\n// Which city\ncity: string,\ndays?: number,\n}) => any;\n\n} // namespace functions<|end|>" ..
  '<|start|>user<|message|>Rain?<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city": "Rom"}<|call|>' ..
  '<|start|>functions.get_weather to=assistant<|channel|>commentary<|message|>"dry"<|end|><|start|>assistant')
same(render("harmony", { { role = "user", content = "a" }, { role = "assistant", thinking = "hm", content = "b" } }), facts:format("medium", "") ..
  "<|start|>user<|message|>a<|end|><|start|>assistant<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>b<|return|>")

os.execute("rm -rf " .. dir)
