-- Small real nets of Python packages beside what PyTorch makes of them (make_small.py): examples/voice_activity.lua with silero-vad's
-- weights, examples/forecast.lua with fracast's of 32 and of 8 bits.
local tessera = require "tessera"
local op = tessera.op

local function found(path)
  local p = io.popen("ls build/python/lib/python3*/site-packages/" .. path .. " 2>/dev/null")
  local line = p:read "*l"
  p:close()
  if not line then print("skipped: build/python has no " .. path .. " (make python)") end
  return line
end
local function near(x, y, most)
  local off = (x - y):abs():max():item()
  assert(off <= most, "differs by " .. off)
end

local path = found "silero_vad/data/silero_vad_16k.safetensors"
if path then
  tessera.no_grad(function()
    local known = tessera.load "tests/hf/real/silero.safetensors"
    local vad = dofile "examples/voice_activity.lua"
    local detector = vad.load(path)
    local sound = known.sound:cast "f32" / 32768
    local file = os.tmpname()
    local f = assert(io.open(file, "wb"))
    f:write(known.sound:bytes())
    f:close()
    assert(vad.read(file):hash() == sound:hash(), "a file has other samples")
    os.remove(file)
    local p = detector:run(sound)
    near(p, known.probabilities, 1e-5)
    -- Window by window, as sound comes, and two sounds at once: the same bits, and the state of the other runtime.
    local state, y
    local windows = op.pad(sound, { pads = { 0, -sound.shape[1] % 512 } }):reshape(-1, 1, 512)
    for i = 0, windows.shape[1] - 1 do
      y, state = detector:step(op.concat({ windows[i], windows[i] * 0.5 }, { axis = 0 }), state)
      assert(y[0]:item() == p[i]:item(), "beside another sound a window has other bits")
    end
    near(state.h:narrow(0, 0, 1), known.h, 1e-5)
    near(state.c:narrow(0, 0, 1), known.c, 1e-4)
    local spans = vad.spans(p)
    assert(#spans >= 1 and spans[#spans][2] == 30 * 512 / 16000)
  end)
end

local int8 = found "fracast/weights/model.int8.safetensors"
if int8 then
  tessera.no_grad(function()
    local known = tessera.load "tests/hf/real/fracast.safetensors"
    local forecast = dofile "examples/forecast.lua"
    for name, file in pairs { fp32 = int8:gsub("%.int8", ""), w8 = int8 } do
      local net = forecast.load(file)
      local y = net:forecast(known.series)
      near(y, known[name], 1e-5)
      near(net:forecast(known.series:narrow(0, 0, 1), 100), known[name .. "_long"], 1e-5)
      assert(op.all(op.eq(net:forecast(known.series:narrow(0, 1, 1)), y:narrow(0, 1, 1))):item(), "alone a series has other bits")
    end
    assert(not pcall(function() forecast.load(int8):forecast(known.series:narrow(1, 0, 7)) end))
  end)
end
