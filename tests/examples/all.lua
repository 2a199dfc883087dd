-- Every example runs to its end: each checks its own result.
local tessera = arg and arg[-1] or "bin/tessera"
-- Less work where the whole takes long.
local name = os.tmpname()
local options = {
  cnn = "--steps 400 --train 6000 --test 500 --target 88",
  gpt2 = "--steps 2",
  gpt_char = "--steps 2",
  gpt_oss = "--steps 60 --tokens 24",
  hrm = "--size tiny --steps 120 --every 40",
  moe = "--steps 8",
  navier_stokes = "--steps 20 --rounds 60 --points 600 --width 20 --tolerance 0.06 --picture " .. name .. "4.png",
  resnet18 = "--steps 120 --train 2000 --test 300 --target 55 --picture " .. name .. "2.png",
  seq2seq = "--steps 200 --train 4000 --test 40 --target 80",
  unet = "--steps 120 --ema 0.95 --samples 16 --denoise 20 --target 0 --picture " .. name .. "3.png",
  pinn = "--steps 300 --rounds 2 --points 256 --tolerance 0.1 --picture " .. name .. ".png",
  spectral_moe = "--steps 300",
  trm = "--steps 400 --every 400", -- 95 in 100 puzzles
}
local list = io.popen("ls examples/*.lua")
local n = 0
for path in list:lines() do
  local small = options[path:match "([%w_]+)%.lua"] or ""
  local p = io.popen(("%s %s %s 2>&1; echo \"exit $?\""):format(tessera, path, small))
  local out = p:read("*a")
  p:close()
  assert(out:match("exit 0%s*$"), path .. ":\n" .. out)
  n = n + 1
end
list:close()
n >= 10 --> true
for _, number in ipairs { "", "2", "3", "4" } do
  assert(require "tessera".data.text(name .. number .. ".png"):sub(2, 4) == "PNG")
  os.remove(name .. number .. ".png")
end
os.remove(name)
