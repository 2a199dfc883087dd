-- Tokenizers beside the package tokenizers, on one thread, in processor time: tessera scripts/bench/tokenizers.lua FOLDER [TEXT]
-- with tokenizer.json files (any names) in the folder; the text is divided at empty lines, and by default documents and sources of this repository.
-- PYTHON: a python3 that has the package, else that of `make python`.
local tessera = require "tessera"
local folder, path = arg[1], arg[2]
if not folder then error("a folder with tokenizer.json files is needed", 0) end
local python = os.getenv "PYTHON" or "build/python/bin/python3"
if not path then
  path = os.tmpname()
  os.execute("cat README.md docs/*.md lib/lua/*.lua lib/lua/*/*.lua vm/*/*.c jit/*/*.c > " .. path)
end
local file = assert(io.open(path, "rb"))
local texts, nbytes = {}, 0
local all, at = file:read "*a", 1
while at do
  local from, to = all:find("\n\n", at, true)
  local text = all:sub(at, from and from - 1)
  if text ~= "" then texts[#texts + 1], nbytes = text, nbytes + #text end
  at = to and to + 1
end
file:close()

print(("%-28s %10s %12s %12s %7s"):format("MB/s", "tokens", "tokenizers", "Tessera", "times"))
for name in io.popen("ls " .. folder .. "/*.json"):lines() do
  local tok = tessera.hf.tokenizer(name)
  local best, count = math.huge, 0
  for _ = 1, 3 do
    collectgarbage()
    local start = os.clock()
    count = 0
    for i = 1, #texts do count = count + #tok:encode(texts[i], { padding = false, truncation = false }).ids end
    best = math.min(best, os.clock() - start)
  end
  local pipe = io.popen(("%s scripts/bench/tokenizers_peer.py %s %s 2>/dev/null"):format(python, name, path))
  local theirs, seconds = (pipe:read "*l" or ""):match "(%d+) (%S+)"
  pipe:close()
  seconds = tonumber(seconds)
  print(("%-28s %10d %12s %12.1f %7s%s"):format(name:match "([^/]*)%.json$", count, seconds and ("%.1f"):format(nbytes / seconds / 1e6) or "-",
    nbytes / best / 1e6, seconds and ("%.1f"):format(seconds / best) or "-", theirs and tonumber(theirs) ~= count and "  other tokens: " .. theirs or ""))
end
