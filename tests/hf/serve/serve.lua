-- tessera --serve with small models of random weights: its interface (plain.py), and those who do not keep to it (hostile.py).
local tessera = require "tessera"
local core = tessera.core
local vectors = dofile "tests/hf/_vectors.lua"
local program = arg[-1] or "bin/tessera"

local function shell(command)
  local p = io.popen("{ " .. command .. "\n} 2>&1")
  local out = p:read "*a"
  p:close()
  return (out:gsub("\n$", ""))
end
local missing = shell(program .. " --serve /nosuch --port=0")
if missing:find "built without libevent" then return print "skipped: this program was built without libevent: --serve" end
if shell "python3 -c 'import http.client' && echo yes" ~= "yes" then return print "skipped: python3 is missing: --serve" end

local letters, vocabulary = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ,.:;<>!", {}
for i = 1, #letters do vocabulary[i] = ('"%s": %d'):format(letters:sub(i, i), i - 1) end
local function write(path, text)
  local f = assert(io.open(path, "w"))
  f:write(text)
  f:close()
end
local function folder(name)
  local v = vectors.read(name)
  if v.config.max_position_embeddings and name == "llama" then v.config.max_position_embeddings = 2048 end
  local path = vectors.folder(v.config, v.tensors)
  write(path .. "/tokenizer.json", ([[{"decoder": {"type": "Fuse"}, "model": {"type": "BPE", "vocab": {%s}, "merges": []}}]]):format(table.concat(vocabulary, ", ")))
  write(path .. "/chat_template.jinja", "{% for m in messages %}<{{ m.role[0] }}>{{ m.content }};{% endfor %}{% if add_generation_prompt %}<a>{% endif %}")
  return path
end

local llama, bert = folder "llama", folder "bert"
for _, name in ipairs { "plain", "hostile" } do
  local out = shell(("timeout 300 python3 tests/hf/serve/%s.py %s %s"):format(name, program, llama))
  assert(out == "ok", name .. ": " .. out)
end
local out = shell(("timeout 300 python3 tests/hf/serve/embeddings.py %s %s"):format(program, bert))
assert(out == "ok", out)
vectors.remove(llama)
vectors.remove(bert)

-- what is wrong with the command
missing --> tessera: --serve: /nosuch: there is no such file or folder
shell(program .. " --serve /nosuch --prot=1") --> tessera: --serve: unknown option '--prot'
-->   hint: did you mean '--port'?
shell(program .. " --serve /nosuch --port=70000") --> tessera: --serve: option '--port' must be a whole number in [0, 65535], not '70000'
shell(program .. " --serve /nosuch --host=1.2.3.4 --port=0"):match "cannot listen at 1.2.3.4, port 0: [^\n]*" --> cannot listen at 1.2.3.4, port 0: Cannot assign requested address
