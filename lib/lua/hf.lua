-- Models as people have them. Each function stands in a file of the folder hf, which is loaded when it is first called.

local core = require "tessera.core"
local named = require "tessera.named"

local hf = {}

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

core.keep_line(hf, true)
return named("tessera.hf", hf)
