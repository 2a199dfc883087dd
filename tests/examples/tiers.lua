-- Every example gives the same bits by the VM alone, by compiled kernels and hot loops of whatever
-- repeats, and by the interpreter of Tile IR in their place; in each profile that promises it.
local tessera = require "tessera"
if not tessera.jit.status() then return print "skipped: nothing is compiled here" end
local program = arg and arg[-1] or "bin/tessera"

-- Less work where the whole takes long.
local options = {
  cnn = "--steps 2 --train 128 --test 64 --target 0",
  gpt2 = "--steps 1",
  gpt2_generate = "tests/examples/gpt2_tiny --prompt 1,2,3 --tokens 3",
  gpt_char = "--steps 1",
  graph_network = "--steps 1 --nodes 100",
  hrm = "--size tiny --steps 2",
  mlp = "--steps 5 --target 0",
  moe = "--steps 1",
  navier_stokes = "--steps 2 --rounds 1 --points 64 --tolerance 99 --dtype f64 --form vorticity",
  resnet18 = "--steps 1 --batch 2 --width 4 --image 16 --train 8 --test 4 --target 0",
  seq2seq = "--steps 1 --batch 4 --width 16 --layers 1 --train 16 --test 2 --target 0",
  unet = "--steps 1 --batch 2 --width 8 --image 8 --samples 2 --denoise 2 --target -99",
  pinn = "--steps 2 --rounds 1 --points 64 --tolerance 99 --dtype f64",
  spectral_moe = "--steps 1 --n 32 --width 8 --hidden 16 --batch 2",
  trm = "--size tiny --steps 2",
}
local ways = {
  { "the VM", "tessera.jit.off()" },
  { "kernels", "tessera.jit.eager(true) tessera.jit.traces(true)" },
  { "the interpreter", 'require("tessera.core").jit_interpret "block" tessera.jit.eager(true) tessera.jit.traces(true)' },
}
local slow = { gpt_char = true } -- a step of it in the interpreter takes minutes

-- Hashes of what an example returns; of one that returns nothing what it prints.
local function run(path, name, profile, how)
  local code = ('tessera.numerics.profile "%s" %s'):format(profile, how)
  local p = io.popen(("%s -l tessera -e '%s' --hash %s %s 2>/dev/null; echo \"exit $?\""):format(program, code, path,
    options[name] or ""))
  local text, hashes = p:read "*a", {}
  p:close()
  assert(text:match "exit 0%s*$", path .. ":\n" .. text)
  for line in text:gmatch "[^\n]+" do
    if line:match " %x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x$" then hashes[#hashes + 1] = line end
  end
  return hashes[1] and table.concat(hashes, "\n") or text
end

local n, list = 0, io.popen "ls examples/*.lua"
for path in list:lines() do
  local name = path:match "([%w_]+)%.lua"
  -- One of the profiles; LONG: both.
  for p, profile in ipairs { "strict", "deterministic" } do
    if n % 2 + 1 ~= p and not os.getenv "LONG" then goto next_profile end
    local want = run(path, name, profile, ways[1][2])
    for i = 2, slow[name] and 2 or 3 do
      local have = run(path, name, profile, ways[i][2])
      assert(have == want, ("%s, %s, by %s:\n%s\nnot\n%s"):format(name, profile, ways[i][1], have, want))
    end
    ::next_profile::
  end
  n = n + 1
end
list:close()
n >= 20 --> true
