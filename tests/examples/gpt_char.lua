-- The character GPT: a run that stops and is resumed, and a run on one thread, give the bits
-- of one that does neither; it learns.
local tessera = arg and arg[-1] or "bin/tessera"
local name = os.tmpname()
local ck = name .. ".safetensors"

local function run(options)
  local p = io.popen(("%s %s 2>&1; echo \"exit $?\""):format(tessera, options))
  local out = p:read("*a")
  p:close()
  assert(out:match("exit 0%s*$"), out)
  return out
end

local function hashes(text)
  local list = {}
  for line in text:gmatch("[^\n]+") do
    if line:match(" f32%[.*%] %x+$") then list[#list + 1] = line end
  end
  return table.concat(list, "\n"), #list
end

local script = "examples/gpt_char.lua --steps 4"
local whole, count = hashes(run("--hash " .. script))
count --> 53
run(script .. " --stop 2 --checkpoint " .. ck):match("test loss") --> test loss
hashes(run("--hash " .. script .. " --resume --checkpoint " .. ck)) == whole --> true
hashes(run("--threads 1 --hash " .. script)) == whole --> true
os.remove(ck)
os.remove(name)
