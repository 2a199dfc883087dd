-- tessera --generate PATH "text": the text goes on, and what is new is written as it comes.

local core = require "tessera.core"
local common = require "tessera.hf.cli.common"
local hf = require "tessera.hf"
local options = require "tessera.options"

local generate = { usage = 'tessera --generate PATH [options] ["text"]', about = "The text, or what standard input has, goes on.",
  many = { stop = true }, files = { json_schema = true, grammar = true } }

local DRAFT = options.kind('the path of a smaller model, or "ngram"', function(v) return type(v) == "string" and v ~= "" end)

function generate.kinds()
  local kinds, defaults, theirs = common.generate_kinds()
  kinds.draft, defaults.max_new_tokens = DRAFT, 200
  return kinds, defaults, theirs
end

function generate.run(path, o, texts)
  if #texts > 1 then core.fail(("%d texts are given, and one goes on\n  hint: in quotes spaces are part of a text"):format(#texts)) end
  local of_load, rest = common.split(o)
  local m, tok = common.decoder(path, of_load)
  local ids = tok:encode(texts[1] or common.input()).ids
  if #ids == 0 then core.fail "an empty text has no tokens with which it begins" end
  rest.ids, rest.tokenizer = ids, tok
  if m.encode then rest.ids = { ids } end
  if rest.draft and rest.draft ~= "ngram" then rest.draft = hf.load(rest.draft, of_load) end
  if rest.beams then
    rest.tokenizer = nil
    common.write(tok:decode(select(2, m:generate(rest))[1].tokens))
  else
    for _, _, new in m:stream(rest) do common.write(new[1]) end
  end
  common.write "\n"
end

return generate
