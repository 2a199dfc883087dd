-- Random strings over many vocabularies beside the package tokenizers of scripts/python.sh: LONG=1 or FUZZ_COUNT=strings of each
-- (a million by default), VOCABULARIES=a folder with more tokenizer.json, and .gguf files beside their .inp and .out; ONE=a name.
package.path = "tests/text/?.lua;" .. package.path
local tessera = require "tessera"
local compare = require "_compare"
local count = tonumber(os.getenv "FUZZ_COUNT" or "") or os.getenv "LONG" and 1000000
local own = io.popen("ls -d build/python/lib/python3*/site-packages/tokenizers 2>/dev/null"):read "*l"
local python = os.getenv "PYTHON" or own and "build/python/bin/python3"
local folder, one = os.getenv "VOCABULARIES", os.getenv "ONE" or ""

if not count or not python then
  print("skipped: " .. (not count and "takes hours; LONG=1 or FUZZ_COUNT=strings" or "the package tokenizers is not in build/python"))
else
  local json = tessera.core.open_json()
  local of_json = require("tessera.hf.tokenizer").of_json
  local path = os.tmpname()
  local names = {}
  for name in io.popen(python .. " tests/text/fuzz.py list"):lines() do names[#names + 1] = name end
  assert(#names > 70)
  for name in io.popen(("ls %s 2>/dev/null"):format(folder and folder .. "/*.json" or "/nowhere")):lines() do names[#names + 1] = name end
  local seed = tonumber(os.getenv "FUZZ_SEED" or "") or 1
  for _, name in ipairs(names) do
    if name:find(one, 1, true) then
      local tok, n
      n = 0
      local pipe = io.popen(("RUST_BACKTRACE=0 %s tests/text/fuzz.py %s %d %d %s 2>/dev/null"):format(python, name, seed, count, path))
      for line in pipe:lines() do
        if not tok then
          local file = assert(io.open(path, "rb"))
          tok = of_json(file:read "*a", name)
          file:close()
        end
        local why = compare.case(tok, json.decode(line))
        assert(not why, name .. ": " .. tostring(why))
        n = n + 1
      end
      pipe:close()
      assert(n > count / 2, name .. ": the package gave too few strings")
    end
  end
  os.remove(path)
  for name in io.popen(("ls %s 2>/dev/null"):format(folder and folder .. "/*.gguf.inp" or "/nowhere")):lines() do
    local text = assert(io.open(name, "rb")):read "*a"
    local tok, wanted, i = tessera.hf.tokenizer((name:gsub("%.inp$", ""))), {}, 0
    for line in io.lines((name:gsub("inp$", "out"))) do wanted[#wanted + 1] = (line:gsub("^%s+", ""):gsub("%s+$", ""):gsub("%s+", " ")) end
    for s in text:gmatch "(.-)\n__ggml_vocab_test__\n" do
      i = i + 1
      local got = table.concat(tok:encode(s, { add_special_tokens = false, special_in_text = false }).ids, " ")
      assert(got == wanted[i], ("%s: %q is\n  %s\nnot\n  %s"):format(name, s, got, wanted[i]))
    end
  end
end
