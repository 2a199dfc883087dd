-- What tests of the tiers share: running the program, sampling its answers.
local M = {}
M.program = arg and arg[-1] or "bin/tessera"

--- Output, standard error included, and the exit status of a shell command.
function M.shell(command)
  local p = io.popen("{ " .. command .. "; } 2>&1; echo \"exit $?\"")
  local out = p:read "*a"
  p:close()
  local status = tonumber(out:match "exit (%d+)%s*$")
  return out:gsub("exit %d+%s*$", ""), status
end

--- The program on a chunk of Lua, with options before and environment in front.
function M.run(code, options, environment)
  local name = os.tmpname()
  local file = assert(io.open(name, "w"))
  file:write(code)
  file:close()
  local out, status = M.shell(("%s %s %s %s"):format(environment or "", M.program, options or "", name))
  os.remove(name)
  return out, status
end

--- A directory of its own for f, removed afterwards.
function M.directory(f)
  local name = M.shell("mktemp -d"):gsub("%s", "")
  local ok, why = pcall(f, name)
  M.shell("rm -rf '" .. name .. "'")
  if not ok then error(why, 0) end
end

return M
