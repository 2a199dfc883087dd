-- Models as people have them. Each function stands in a file of the folder hf, which is loaded when it is first called.

local core = require "tessera.core"
local named = require "tessera.named"
local options = require "tessera.options"

local hf = {}

-- load(path, {dtype, device, strict = true, batch = 1, length, memory}): the model of a folder with config.json and
-- safetensors, whole or in shards, or of a GGUF file. Tensors lie over the file, and blocks stay blocks; dtype ("f32", "bf16",
-- "f16", "f64") converts them, device moves them. Before anything is loaded a plan is made, and what does not fit into memory, by
-- default what the machine has left, is an error that says what would. Families, missing and unexpected tensors that
-- are not known are errors that list all of them; strict = false leaves unexpected ones out (m.unexpected). The model is a module:
-- m.config, m.plan, m:parameters(), graph.module and so on. docs/models.md has what each family takes and gives.
--   local m = tessera.hf.load "SmolLM2"
--   local logits = m{ids = ids}
--   local tokens = m:generate{ids = ids, max_new_tokens = 20}
function hf.load(path, options) return require("tessera.hf.load").load(path, options) end

-- plan(path, {dtype, device, batch = 1, length, memory, cache_dtype, pages, page, chunk}): what hf.load would take: bytes of weights
-- (mapped: over the file), cache and scratch, whether they fit into memory and what would; prints as a table. With pages, or page,
-- the cache is that of hf.batch with these options for `batch` texts.
--   print(tessera.hf.plan("SmolLM2", {batch = 4, length = 8192}))
function hf.plan(path, options) return require("tessera.hf.load").plan(path, options) end

-- save_gguf(path, tensors [, metadata, {dtype, keep = {}}]): writes a GGUF file, whole or not at all. tensors is a table by name; metadata one
-- of strings, numbers (whole ones as u32, i32 or i64, others as f32, or f64 if that is another number), truth values, lists of these, and tensors
-- of one axis. Tensors stay as they are; with dtype (f32, f16, bf16, q4_0, q4_1, q5_0, q5_1, q8_0, iq4_nl, q4_k, q5_k, q6_k) those of two axes
-- and more are converted, all but those whose names match a pattern of keep, by the reference rules of these formats. Rows that are
-- no whole blocks of 256 take q5_0, q5_1 or q8_0 instead of q4_k, q5_k or q6_k; rows that are no whole blocks of 32 are an error.
--   tessera.hf.save_gguf("w.gguf", {w = w}, {["a.b"] = 1}, {dtype = "bf16"})
function hf.save_gguf(path, tensors, metadata, options) return require("tessera.hf.gguf_write").save(path, tensors, metadata, options) end

-- requantize(from, to, {dtype, keep = {}}): a GGUF file again with its matrices in dtype, as save_gguf has it. Blocks are read as
-- numbers first; metadata stays byte by byte, but for general.file_type.
--   tessera.hf.save_gguf("a.gguf", {w = w})
--   tessera.hf.requantize("a.gguf", "b.gguf", {dtype = "f16"})
function hf.requantize(from, to, options) return require("tessera.hf.gguf_write").requantize(from, to, options) end

-- families(): the names of the families, a list: what config.json calls model_type.
--   print(table.concat(tessera.hf.families(), " "))
function hf.families() return require("tessera.hf.families").names() end

-- generate(model, {ids, ..}): m:generate, with its options (docs/models.md), for a model of one's own: a module with config =
-- {vocab_size, eos_token_id, ..} that as m{ids = ..} gives logits [B, T, vocab_size] for tokens i64 [B, T]. One with m:encode(ids, {mask}) has
-- an encoder; what that gives comes back to it as m{decoder_ids, memory, mask}, and texts begin with config.decoder_start_token_id.
-- Without m:cache, which models of hf.load have, each step reads a text from its beginning. Gives the new tokens, i64 [texts, steps],
-- filled up with config.pad_token_id, and a list of what is known of each text: tokens, reason, and of beams score and beams.
--   local Bigram = nn.Module:extend "Bigram"
--   function Bigram:init()
--     self.next, self.config = nn.Embedding(8, 8), {vocab_size = 8}
--   end
--   function Bigram:forward(o) return self.next(o.ids) end
--   local tokens = tessera.hf.generate(Bigram(), {ids = {1, 2}, beams = 2})
function hf.generate(model, options) return require("tessera.hf.generate").of_own("hf.generate", model, options) end

-- stream(model, {ids, ..}): the same a step at a time: an iterator of the step, a list of tokens and a list of new texts.
--   local m = tessera.hf.load "SmolLM2"
--   for _, tokens in tessera.hf.stream(m, {ids = {1, 2}}) do
--     print(tokens[1])
--   end
function hf.stream(model, options) return require("tessera.hf.generate").of_own("hf.stream", model, options) end

-- batch(model, {max_batch = 8, length, pages, page = 32, chunk = 256, cache_dtype, share = true, tokenizer}): several texts of a
-- decoder that go on beside each other and come and end at any time, each with the tokens that m:generate gives it alone.
-- b:submit{ids = .., max_new_tokens = .., ..} gives a request: request.tokens, request.text, request.done, request.reason,
-- request:read(); b:step() brings every text one token further and reads `chunk` tokens of prompts, false if there is none; b:run()
-- steps until all have ended; b:cancel(request); b:statistics(). Keys and values lie in up to `pages` of `page` positions, by
-- default enough for max_batch texts of `length`, which a CPU makes as they are needed; texts that begin alike share pages
-- (share), layers with a window keep their window. Where pages are short, texts wait. CPUs and NVIDIA GPUs
-- read pages where they lie, the latter of 16 bits (tessera.jit.pages); others bring them together. cache_dtype: "f32", "bf16",
-- "f16", "f64", "fp8_e4m3", "fp8_e5m2", by default the type of the weights.
--   local m = tessera.hf.load "SmolLM2"
--   local b = tessera.hf.batch(m, {max_batch = 16, length = 4096})
--   local request = b:submit{ids = {1, 2, 3}, max_new_tokens = 20}
--   b:run()
--   print(table.concat(request.tokens, " "))
function hf.batch(model, options) return require("tessera.hf.batching.scheduler").new(model, options) end

-- tokenizer(path, {pattern, special}): the tokenizer of a folder with tokenizer.json, of such a file, of a GGUF file, or of a
-- vocabulary of tiktoken (.tiktoken); the last needs, unless its name is known, the pattern that divides text, and special
-- tokens with their ids. It gives the ids that the package tokenizers gives. Its methods, whose options docs/tokenizers.md has:
-- tok:encode(text, {pair, add_special_tokens, special_in_text, offsets, truncation, padding, tensors}) gives {ids, types, mask,
-- special}, tok:encode_batch(texts, ..) a list of these, or tensors; tok:decode(ids, {skip_special_tokens}) text again;
-- tok:stream{skip_special_tokens} a function of one id that gives what is new as whole characters; tok:token(id) and
-- tok:id(token) look into the vocabulary; #tok is its size.
--   local tok = tessera.hf.tokenizer "SmolLM2"
--   local e = tok:encode("Hello, world", {offsets = true})
--   print(tok:decode(e.ids))
function hf.tokenizer(path, options) return require("tessera.hf.tokenizer").load(path, options) end

-- chat_template(text_or_path): a conversation as the text that a model has learned, by a template of Jinja as published with models:
-- its text, a file (.jinja, .gguf, tokenizer_config.json), or a folder of a model. template:render{messages = .., tools = ..,
-- add_generation_prompt = .., bos_token = .., ..} gives the text that transformers makes of it, and a list of {from, to}, what
-- stood in generation blocks. messages, tools and documents are tables, or JSON whose names keep their order; hf.null is None.
-- tok:chat(messages, {tools, add_generation_prompt, ..}) of a tokenizer gives text and ids. docs/chat.md has what templates can do.
--   local template = tessera.hf.chat_template "{{ messages[0].content|trim }}"
--   print((template:render{messages = {{content = " Hello "}}}))
function hf.chat_template(text_or_path) return require("tessera.hf.chat_template").load(text_or_path) end

-- null: what is None in a template, where a variable of it is not merely missing
hf.null = setmetatable({}, { __tostring = function() return "null" end })

options.later("tessera.hf.load", "hf.load", "hf.plan")
options.later("tessera.hf.gguf_write", "hf.save_gguf", "hf.requantize")
options.later("tessera.hf.batching.scheduler", "hf.batch", "b:submit")
options.later("tessera.hf.tokenizer", "hf.tokenizer")
options.later("tessera.hf.generate", "hf.generate", "hf.stream")

core.keep_line(hf, true)
return named("tessera.hf", hf)
