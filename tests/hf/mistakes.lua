-- What somebody new gives to models: paths of nothing, tokens that are none, options without an effect. Each is said at once, where it
-- is, and nothing is begun.
local tessera = require "tessera"
local hf = tessera.hf
local vectors = dofile "tests/hf/_vectors.lua"

local folder = os.tmpname()
os.remove(folder)
hf.load(folder) --! there is no such file or folder
hf.plan(folder) --! there is no such file or folder
hf.tokenizer(folder) --! there is no such file or folder
hf.chat_template(folder) --! there is no such file or folder
hf.load "owner/model-of-a-hub" --! hint: a path of this machine is needed
hf.load "tests/hf" --! there is no config.json
hf.load "tests/hf/mistakes.lua" --! a file that is none of GGUF
hf.tokenizer "tests/hf/mistakes.lua" --! is no tokenizer by its name
hf.load() --! a path is needed, not nothing
hf.load "" --! a path is needed, not ''
hf.load {} --! a path is needed, not a table

-- A GGUF file is known by its beginning.
local file = os.tmpname()
os.rename(file, file .. ".gguf")
hf.save_gguf(file .. ".gguf", { w = tessera.tensor { 1, 2 } }, { ["general.architecture"] = "none" })
os.rename(file .. ".gguf", file)
hf.load(file) --! none
os.remove(file)

local m = vectors.load "llama"
local ids, V = { 1, 2, 3 }, m.config.vocab_size
m:generate { ids = "a text" } --! hint: ids = tok:encode
m:generate("a text", { beams = 2 }) --! hint: m, tok = hf.load ".."; m:generate{ids = tok:encode ".."}
m:generate { ids = { "a text" } } --! text 1 is a string
m:generate { ids = {} } --! not an empty table
m:generate { ids = { 1, -1 } } --! token 2 of text 1 is -1, and has to be a whole number
m:generate { ids = { { 1 }, { 1.5 } } } --! token 1 of text 2 is 1.5
m:generate { ids = { V } } --! and has to be a whole number from 0 to
m:generate { prompt = "a text" } --! hint: ids = tok:encode
m:generate { ids = ids, temp = 1 } --! it is 'temperature' here
m:generate { ids, max_new_tokens = 1 } --! hint: options stand by name, as {ids = ...}
m:generate "a text" --! hint: m, tok = hf.load
m.generate { ids = ids } --! it is called without the model
m:generate { ids = ids, top_p = 0.9 } --! option 'top_p' does nothing at temperature 0
m:generate { ids = ids, length_penalty = 2 } --! option 'length_penalty' does nothing without 'beams'
m:generate { ids = ids, draft_tokens = 2 } --! option 'draft_tokens' does nothing without 'draft'
m:generate { ids = ids, draft = "n-gram" } --! hint: draft = "ngram"
m:generate { ids = ids, draft = "folder" } --! hint: draft = hf.load "folder"
m:generate { ids = ids, tokenizer = "folder" } --! hint: hf.tokenizer "folder"
m:generate { ids = ids, eos = V } --! option 'eos': token
m:generate { ids = ids, pad = V } --! option 'pad': token
m:generate { ids = ids, logit_bias = { [V] = 1 } } --! option 'logit_bias': token
m:generate { ids = ids, json = true, regex = "a" } --! a text is held to one of them
m:generate { ids = ids, length = 4, max_new_tokens = 2 } --! length is 4, and 3 tokens and 2 new ones need 5 positions
m:generate { ids = ids, max_new_tokens = 1e12 } --! are left
m:stream { ids = ids, top_k = 2 } --! m:stream: option 'top_k' does nothing
m:generate({ ids = ids, top_p = 0.9, temperature = 0, max_new_tokens = 1 }).shape --> {1, 1}
m:generate { ids = tessera.tensor { ids } } --! tokens are f32[1,3], and have to be whole numbers
m:generate({ ids = tessera.tensor({ ids }, { dtype = "i64" }), max_new_tokens = 2 }):totable()[1][1] == m:generate({ ids = ids, max_new_tokens = 1 }):item() --> true

m "a text" --! hint: ids = tok:encode("..", {tensors = true}).ids
m { ids = ids, mask = ids, types = ids, special = ids } --! hint: m{ids = e.ids, mask = e.mask}
m { ids = ids } --! hint: ids = tessera.tensor({{1, 2, 3}}, {dtype = "i64"})
m { ids } --! hint: options stand by name, as {ids = ...}
vectors.load "bert" { ids = ids } --! hint: ids = tessera.tensor

-- A share of nothing leaves the greatest.
local sampling = require "tessera.hf.sampling"
sampling.filter(tessera.tensor { { 1, 3, 2 } }, { temperature = 1, top_p = 0 }):totable() --> {{-inf, 3, -inf}}

-- Options are known of any model's method.
local options = require "tessera.options"
options.known "model:generate" == options.known "m:generate" --> true
options.known "model:generate".top_p ~= nil --> true
options.known "m:stream".top_p ~= nil --> true
options.known "tessera.hf.batch".max_batch ~= nil --> true

-- Layers that are alike stand once.
tostring(m):match "0 to %d+: %d+ x Layer%(" ~= nil --> true

-- Batches.
tessera.hf.batch "folder" --! hint: hf.batch(hf.load "folder")
local b = tessera.hf.batch(m, { max_batch = 2, length = 16 })
b.step() --! b:step: it is called without the batch
b.submit { ids = ids } --! hint: b:submit, with a colon
b:submit { ids = ids, beams = 2 } --! hint: m:generate{beams = ..} takes it
b:submit { ids = ids, length = 2 } --! hint: hf.batch(m, {length = ..}) takes it
b:submit { ids = ids, pad = 2 } --! unknown option 'pad'
