-- Memory that runs out at each allocation of reading, encoding and decoding in turn, and Ctrl-C at each look: an error, and the
-- same results afterwards.
local tessera = require "tessera"
local core = tessera.core
local of_json = require("tessera.hf.tokenizer").of_json

local file = [[{"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Replace", "pattern": {"Regex": "x+"}, "content": "yy"},
    {"type": "BertNormalizer", "lowercase": true}]},
  "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": "\\p{Han}|\\w+"}, "behavior": "Isolated"},
    {"type": "Metaspace", "replacement": "_"}]},
  "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "_": 3, "?": 4}, "merges": ["a b"], "unk_token": "?"},
  "decoder": {"type": "Metaspace", "replacement": "_"}, "added_tokens": [{"id": 9, "content": "<é>"}]}]]

local function run()
  local tok = of_json(file)
  local e = tok:encode("ab ab<é>xxxx 你好 e\204\129abab", { offsets = true })
  return table.concat(e.ids, " ") .. "|" .. tok:decode(e.ids)
end
local want = run()

local function memory(how)
  local n, failed = 0, 0
  repeat
    n = n + 1
    core.fail_after(n, how)
    local ok, got = pcall(run)
    local left = core.fail_after(0)
    if ok then assert(got == want, got) else
      failed = failed + 1
      assert(tostring(got):find "memory", got)
    end
    assert(run() == want)
  until left ~= -1
  return failed
end
memory "once" > 50 --> true
memory "on" > 50 --> true

local long, tok, looks, hit = ("ab ab "):rep(3000) .. "é", of_json(file), 0, 0
local function work() return #tok:encode(long, { offsets = true }).ids end
local whole = work()
repeat
  looks = looks + 1
  core.interrupt_after(looks, "looks")
  local ok, got = pcall(work)
  core.interrupt_after(0)
  if ok then assert(got == whole) else
    hit = hit + 1
    assert(tostring(got):find "interrupted", got)
  end
until ok or looks > 100
hit > 10 --> true
work() == whole --> true
