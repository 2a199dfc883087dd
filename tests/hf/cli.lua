-- Commands of the program for models, with small models of random weights whose vocabulary are letters: options, errors, conversations,
-- each pooling.
local tessera = require "tessera"
local core, op = tessera.core, tessera.op
local vectors = dofile "tests/hf/_vectors.lua"
local program = arg[-1] or "bin/tessera"
local json = core.open_json()

local letters, vocabulary = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ,.:;<>!", {}
for i = 1, #letters do vocabulary[i] = ('"%s": %d'):format(letters:sub(i, i), i - 1) end
local tokenizer = ([[{"decoder": {"type": "Fuse"}, "model": {"type": "BPE", "vocab": {%s}, "merges": []}}]]):format(table.concat(vocabulary, ", "))

local function write(path, text)
  local f = assert(io.open(path, "w"))
  f:write(text)
  f:close()
end

-- A folder with the model of vectors/NAME and what else is given.
local function folder(name, files, config)
  local v = vectors.read(name)
  for k, x in pairs(config or {}) do v.config[k] = x end
  local path = vectors.folder(v.config, v.tensors)
  write(path .. "/tokenizer.json", tokenizer)
  for file, text in pairs(files or {}) do
    if file:find "/" then os.execute("mkdir -p " .. path .. "/" .. file:match "^(.*)/") end
    write(path .. "/" .. file, text)
  end
  return path
end

local function shell(command)
  local p = io.popen("{ " .. command .. "\n} 2>&1; echo \"exit $?\"")
  local out = p:read "*a"
  p:close()
  return (out:gsub("exit 0\n$", ""):gsub("\n$", ""))
end

local template = "{% for m in messages %}<{{ m.role[0] }}>{{ m.content }};{% endfor %}{% if add_generation_prompt %}<a>{% endif %}"
local llama = folder("llama", { ["chat_template.jinja"] = template })
local function run(words) return (shell(program .. " " .. words:gsub("{L}", llama)):gsub(llama:gsub("%p", "%%%0"), "{L}")) end

-- ---- text that goes on: what m:generate gives
local m, tok = tessera.hf.load(llama), tessera.hf.tokenizer(llama)
local function alone(text, o)
  o.ids, o.tokenizer = tok:encode(text).ids, tok
  return select(2, m:generate(o))[1].text
end
run "--generate {L} abc --max-new-tokens=6 --eos=false" == alone("abc", { max_new_tokens = 6, eos = false }) --> true
local drawn = alone("abc", { max_new_tokens = 6, eos = false, seed = 4, temperature = 2, top_k = 20 })
run "--generate {L} --max-new-tokens 6 --seed 4 --temperature=2 --top-k 20 --eos false -- abc" == drawn --> true
run "--threads=1 --generate={L} abc --logit-bias='3:100' --max-new-tokens=4 --no-jit" --> dddd
run "--generate {L} --regex='[a-c]{3}' --max-new-tokens=9 abc":match "^[a-c][a-c][a-c]$" ~= nil --> true
local grammar = os.tmpname()
write(grammar, 'root ::= "yes" | "no"')
run("--generate {L} --grammar=@" .. grammar .. " --max-new-tokens=9 abc"):match "^yes$" or "no" --> no
os.remove(grammar)

-- what is wrong
run "--generate {L} abc --max-new-token=6" --> tessera: --generate: unknown option '--max-new-token'
-->   hint: did you mean '--max-new-tokens'?
--> exit 1
run "--generate {L} abc --thread=6" --> tessera: --generate: unknown option '--thread'
-->   hint: did you mean '--threads'?
--> exit 1
run "--generate {L} abc --max_new_tokens=6" --> tessera: --generate: unknown option '--max_new_tokens'
-->   hint: did you mean '--max-new-tokens'?
--> exit 1
run "--generate {L} abc -q" --> tessera: --generate: unknown option '-q'
-->   hint: with --help it lists its options
--> exit 1
run "--generate {L} abc --top-p=2" --> tessera: --generate: option '--top-p' must be a number in [0, 1], not '2'
--> exit 1
run "--generate {L} abc --seed" --> tessera: --generate: option '--seed' needs a value: a whole number, or a list of them, one for each text
--> exit 1
run "--generate {L} abc --seed=1 --seed=2" --> tessera: --generate: option '--seed' is given twice
--> exit 1
run "--generate {L} abc def" --> tessera: --generate: 2 texts are given, and one goes on
-->   hint: in quotes spaces are part of a text
--> exit 1
run "--generate /nosuch abc" --> tessera: --generate: /nosuch: there is no such file or folder
--> exit 1
run "--generate {L} abc --grammar=@/nosuch":match "[^\n]*" --> tessera: --generate: cannot open /nosuch: No such file or directory
run "--generate" --> tessera: option '--generate' needs a value
-->   hint: tessera --help lists the options
--> exit 1
run "--generate {L} --chat {L}" --> tessera: --generate is a command already, and there is one
-->   hint: tessera --help lists the options
--> exit 1
run "--generate {L} -i" --> tessera: --generate does not go together with -i
--> exit 1
run "--genrate {L}" --> tessera: unknown option '--genrate'
-->   hint: did you mean '--generate'?
--> exit 1
run "--generate {L} --help":match "^[^\n]*" --> usage: tessera --generate PATH [options] ["text"]
run "--generate --help" == run "--generate {L} --help" --> true
run "--chat=-h" == run "--chat {L} -h" --> true
run "--generate {L} abc --top-k 5" --> tessera: --generate: option '--top-k' does nothing at temperature 0, where the greatest logit is taken
-->   hint: --temperature 1 --top-k 5, or --temperature 0 as well
--> exit 1
run "--generate {L} abc --min-new-tokens=6 --max-new-tokens=4" --> tessera: --generate: option '--min-new-tokens' is 6, and '--max-new-tokens' 4
--> exit 1
run "--generate {L} abc --early-stopping never" --> tessera: --generate: option '--early-stopping' does nothing without '--beams'
-->   hint: leave it out, or give --beams ..
--> exit 1
run "--generate {L} abc --num-beams=2" --> tessera: --generate: unknown option '--num-beams'
-->   hint: it is '--beams' here
--> exit 1
run "--generate {L} abc --cache-dtype=bf17" --> tessera: --generate: option '--cache-dtype' must be one of 'f64', 'f32', 'bf16', 'f16', 'fp8_e4m3', 'fp8_e5m2', not 'bf17'
-->   hint: did you mean 'bf16'?
--> exit 1
run "--generate {L} --help":match "%-%-max%-new%-tokens +([^\n]*)" --> a whole number >= 1; 200 if not given
run "--generate {L} abc > /dev/full":match "cannot write standard output" --> cannot write standard output

-- ---- conversations
local function chat(lines, words) return run(("--chat {L} --max-new-tokens=4 %s <<'END'\n%s\nEND"):format(words or "", lines)) end
local function answer(text) return alone(text, { max_new_tokens = 4, eos = false }) end
local one = answer "<u>hello;<a>"
local two = answer("<u>hello;<a>" .. one .. ";<u>you;<a>")
local NOTE = "tessera: the answer ends after 4 tokens, by its length"
chat("hello\n\nyou", "--eos=false") == table.concat({ one, NOTE, two, NOTE }, "\n") --> true
chat("hello\n/clear\nhello", "--eos=false") == table.concat({ one, NOTE, one, NOTE }, "\n") --> true
chat("/system be\nhello", "--eos=false") == answer "<s>be;<u>hello;<a>" .. "\n" .. NOTE --> true
chat("hello", "--eos=false --system=be") == answer "<s>be;<u>hello;<a>" .. "\n" .. NOTE --> true
chat("//hello", "--eos=false"):match "^[^\n]*" == answer "<u>/hello;<a>" --> true
chat "/quit\nhello" --> 
chat "/clera" --> tessera: --chat: unknown command '/clera'
-->   hint: did you mean '/clear'?
--> exit 1
chat "/save" --> tessera: --chat: /save: a file is needed
--> exit 1
chat("hello", "--length=12") --> tessera: --chat: the conversation has 12 tokens, and there is room for 12
-->   hint: /clear begins a new one, --length=.. makes room
--> exit 1
chat("hello", "--beams=2"):match "[^\n]*" --> tessera: --chat: unknown option '--beams'
chat("hello", "there"):match "[^\n]*" --> tessera: --chat: 'there' is no option
local saved = os.tmpname()
chat("hello\n/save " .. saved, "--eos=false")
json.decode(io.open(saved):read "*a")[2].content == one --> true
os.remove(saved)
os.remove(llama .. "/chat_template.jinja")
chat("hello"):match "^[^\n]*" --> tessera: --chat: tok:chat: there is no chat template beside the tokenizer of {L}/tokenizer.json
chat("hello", "--eos=false --template='{{ messages[0].content }}'"):match "^[^\n]*" == answer "hello" --> true

-- ---- vectors of texts
local bert = folder "bert"
local function embed(path, words)
  local out = shell(("%s --embed %s %s"):format(program, path, words))
  local list = {}
  for line in out:gmatch "[^\n]+" do list[#list + 1] = assert(json.decode(line), out) end
  return core.tensor(list)
end
local e, etok = tessera.hf.load(bert), tessera.hf.tokenizer(bert)
local function hidden(model, text)
  return core.no_grad(function() return ((model { ids = core.tensor({ etok:encode(text).ids }, { dtype = "i64" }), hidden = model.cache_sizes and true or nil })) end)
end
local function near(a, b) return (a - b):abs():max():item() < 1e-5 end
local x = hidden(e, "hello"):select(0, 0)
near(embed(bert, "hello"):select(0, 0), x:mean { axis = 0 }) --> true
near(embed(bert, "--batch=2 hello abcdefgh"):select(0, 0), x:mean { axis = 0 }) --> true
near(embed(bert, "--length=3 hello"):select(0, 0), hidden(e, "hel"):select(0, 0):mean { axis = 0 }) --> true

local function pooled(mode, unit)
  local files = { ["1_Pooling/config.json"] = ('{"word_embedding_dimension": 32, "pooling_mode_%s": true}'):format(mode),
    ["modules.json"] = ('[{"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"}, ' ..
      '{"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}%s]'):format(unit and
      ', {"idx": 2, "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}' or "") }
  local path = folder("bert", files)
  local y = embed(path, "--batch=2 hello abcdefgh"):select(0, 0)
  vectors.remove(path)
  return y
end
local weights = op.arange(1, 6):cast("f32"):reshape(5, 1)
near(pooled "cls_token", x:select(0, 0)) --> true
near(pooled "lasttoken", x:select(0, 4)) --> true
near(pooled "max_tokens", x:max { axis = 0 }) --> true
near(pooled "mean_sqrt_len_tokens", x:sum { axis = 0 } / math.sqrt(5)) --> true
near(pooled "weightedmean_tokens", (x * weights):sum { axis = 0 } / 15) --> true
local mean = x:mean { axis = 0 }
near(pooled("mean_tokens", true), mean / op.norm(mean)) --> true
local other = folder("bert", { ["modules.json"] = '[{"path": "2_Dense", "type": "sentence_transformers.models.Dense"}]' })
shell(program .. " --embed " .. other .. " a"):match "the module 'Dense' is not known" --> the module 'Dense' is not known
vectors.remove(other)
-- Of a model that reads from left to right too.
near(embed(llama, "--batch=2 hello abcdefgh"):select(0, 0), hidden(m, "hello"):select(0, 0):mean { axis = 0 }) --> true
run("--generate " .. bert .. " abc"):match "gives no text\n[^\n]*" --> gives no text
-->   hint: tessera --embed is for models of its kind
run("--embed " .. bert .. " --length=1000 abc"):match "a length of [^\n]*" --> a length of 1000 tokens, and the model has 40 positions
run("--embed {L} ''"):match "[^\n]*" --> tessera: --embed: an empty text has no tokens, and so no vector

vectors.remove(llama)
vectors.remove(bert)
