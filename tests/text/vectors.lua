-- Small vocabularies of every model, normalizer, pre-tokenizer, post-processor and decoder beside the package tokenizers
-- (vectors.py made them).
package.path = "tests/text/?.lua;" .. package.path
local tessera = require "tessera"
local compare = require "_compare"
local of_json = require("tessera.hf.tokenizer").of_json

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read "*a"
  file:close()
  return text
end

local json = tessera.core.open_json()
local function file_of(line) return line:match '"file":(.*),"cases":%[{' end

local wrong, vocabularies, cases = {}, 0, 0
for line in read("tests/text/vectors.jsonl"):gmatch "[^\n]+" do
  local all = json.decode(line)
  local tok = of_json(file_of(line), all.name)
  vocabularies = vocabularies + 1
  for _, c in ipairs(all.cases) do
    local why = compare.case(tok, c)
    cases = cases + 1
    if why then wrong[#wrong + 1] = all.name .. ": " .. why end
  end
end
table.concat(wrong, "\n") -->
vocabularies --> 36
cases > 300 --> true
