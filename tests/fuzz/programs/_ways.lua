-- The ways in which a program runs, and running it: one process each, so that a crash is one program's.
local M = {}
M.program = arg and arg[-1] or "bin/tessera"

local function shell(command)
  local pipe = io.popen("{ " .. command .. "; } 2>&1; echo \"exit $?\"")
  local out = pipe:read "*a"
  pipe:close()
  local status = tonumber(out:match "exit (%d+)%s*$")
  return out:gsub("exit %d+%s*$", ""), status
end
M.shell = shell

--- Ways as {name, options, WAY, cache, device}; the first one is the reference. Those that share a
--- cache come in the order in which they fill it: the second one finds it warm. device: of a GPU that
--- is there, or nil.
function M.all(device)
  local list = { { "reference", "--no-jit --threads=1", "vm" } }
  M.beside = device
  if device then
    list[#list + 1] = { "eager on " .. device, "", "eager", device }
    list[#list + 1] = { "plain on " .. device, "", "plain", device }
    return list
  end
  local function add(...) list[#list + 1] = { ... } end
  add("plain", "", "plain")
  add("eager", "--threads=1", "eager")
  add("warm, 2 threads", "--threads=2", "eager")
  add("traces", "--threads=2", "traces")
  add("interpreted, explicit", "--threads=1", "interp")
  add("interpreted, blocks", "--threads=1", "block")
  add("VM, 2 threads", "--no-jit --threads=2", "vm")
  add("LuaJIT off", "-joff --threads=1", "eager")
  add("sim:0", "", "eager", "sim:0")
  for _, isa in ipairs { "avx2", "base" } do
    local _, status = shell(("%s --isa=%s -e 'x = 1'"):format(M.program, isa))
    if status == 0 then
      add(isa, "--threads=2 --isa=" .. isa, "eager")
      add("VM, " .. isa, "--no-jit --threads=1 --isa=" .. isa, "vm")
    end
  end
  return list
end

--- The shell command of a program in a way.
function M.command(way, path, cache)
  local how = way[3] == "block" and "WAY=interp FORM=block" or "WAY=" .. way[3]
  local beside = M.beside and " BESIDE=" .. M.beside or ""
  return ("%s DEV=%s%s TESSERA_CACHE=%s timeout -k 1 %d %s %s %s"):format(how, way[4] or "", beside, cache,
    M.limit or 30, M.program, way[2], path)
end

--- Runs {path, way, out} in order, `jobs` lists of them at a time.
function M.run(lists, cache, jobs)
  local pipes, next_one = {}, 1
  local function start(list)
    local script = os.tmpname()
    local file = assert(io.open(script, "w"))
    for _, r in ipairs(list) do
      file:write(("%s >%s 2>&1; echo \"exit $?\" >>%s\n"):format(M.command(r.way, r.path, cache), r.out,
        r.out))
    end
    file:close()
    return { pipe = io.popen("sh " .. script .. " 2>&1"), script = script }
  end
  for i = 1, math.min(jobs, #lists) do pipes[i], next_one = start(lists[i]), i + 1 end
  local at = 1
  while pipes[at] do
    pipes[at].pipe:read "*a"
    pipes[at].pipe:close()
    os.remove(pipes[at].script)
    if lists[next_one] then
      pipes[#pipes + 1] = start(lists[next_one])
      next_one = next_one + 1
    end
    at = at + 1
  end
end

--- What a program printed, without what names the device or an address.
function M.output(path, way)
  local file = io.open(path, "rb")
  if not file then return "nothing" end
  local text = file:read "*a"
  file:close()
  if way[4] then text = text:gsub(" " .. way[4]:gsub("%p", "%%%0"), "") end
  return (text:gsub("0x%x%x%x%x%x%x+", "0x"))
end

--- Indices that a device has made are told of when somebody waits for it: a program that ends by one ends
--- later there, or in another line. Gives what to compare with the reference.
function M.told(want, got, way)
  local late = "%.lua:%d+: [%w_]+: [^\n]* is out of range[^\n]*"
  return way[4] and want:find(late) and got:find "is out of range" and want or got
end

return M
