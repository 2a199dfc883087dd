-- Every example runs to its end: each checks its own result.
local tessera = arg and arg[-1] or "bin/tessera"
local list = io.popen("ls examples/*.lua")
local n = 0
for path in list:lines() do
  local options = path:match "gpt_char" and "--steps 2" or ""
  local p = io.popen(("%s %s %s 2>&1; echo \"exit $?\""):format(tessera, path, options))
  local out = p:read("*a")
  p:close()
  assert(out:match("exit 0%s*$"), path .. ":\n" .. out)
  n = n + 1
end
list:close()
n >= 10 --> true
