-- Where somebody speaks: the voice activity detector of the Python package silero-vad, whose weights are
-- silero_vad/data/silero_vad_16k.safetensors in it (pip download --no-deps silero-vad, which is a zip archive).
--   tessera examples/voice_activity.lua silero_vad_16k.safetensors sound.raw    # i16 samples, 16000 a second
-- A window of 32 ms gives a probability; 4 ms before it and a state of an LSTM are all that goes on from one to the
-- next, so sound is followed as it comes. Returns {load, read, spans}.

local tessera = require "tessera"
local op = tessera.op

local RATE, WINDOW, CONTEXT, HOP, BINS, WIDTH = 16000, 512, 64, 128, 129, 128
local vad, Detector = {}, {}
Detector.__index = Detector

--- load(path): a detector with the weights of a safetensors file; it follows any number of sounds.
function vad.load(path) return setmetatable({ w = tessera.load(path) }, Detector) end

-- Magnitudes of a short Fourier transform, whose sines and cosines are weights: [b, 576] -> [b, 129, 4].
local function spectrum(w, x)
  local padded = op.pad(x, { pads = { 0, CONTEXT }, mode = "reflect" }):unsqueeze(1)
  local parts = op.conv1d(padded, w["stft_conv.weight"], { stride = HOP })
  return op.sqrt(parts:narrow(1, 0, BINS):square() + parts:narrow(1, BINS, BINS):square())
end

local function encode(w, x)
  for i, stride in ipairs { 1, 2, 2, 1 } do
    local name = "conv" .. i
    x = op.relu(op.conv1d(x, w[name .. ".weight"], w[name .. ".bias"], { stride = stride, padding = 1 }))
  end
  return x:squeeze(-1)
end

--- detector:step(window [, state]): window f32[b,512] of b sounds -> probabilities f32[b] that somebody speaks in it, and the
--- state for the window behind it.
function Detector:step(window, state)
  local w, b = self.w, window.shape[1]
  if not state then state = { context = op.zeros { b, CONTEXT }, h = op.zeros { b, WIDTH }, c = op.zeros { b, WIDTH } } end
  local x = op.concat({ state.context, window }, { axis = 1 })
  local bias = w["lstm_cell.bias_ih"] + w["lstm_cell.bias_hh"]
  local gates = op.linear(encode(w, spectrum(w, x)), w["lstm_cell.weight_ih"], bias)
  local _, h, c = op.lstm(gates:unsqueeze(0), w["lstm_cell.weight_hh"], state.h, state.c)
  local y = op.linear(op.relu(h), w["final_conv.weight"]:squeeze(-1), w["final_conv.bias"])
  return op.sigmoid(y):squeeze(1), { context = window:narrow(1, WINDOW - CONTEXT, CONTEXT), h = h, c = c }
end

--- detector:run(sound): sound f32[samples] from -1 to 1 -> probabilities of its windows, f32[windows]; the last one is filled
--- with silence.
function Detector:run(sound)
  local windows = math.ceil(sound.shape[1] / WINDOW)
  local x = op.pad(sound, { pads = { 0, windows * WINDOW - sound.shape[1] } }):reshape(windows, 1, WINDOW)
  local all, state = {}, nil
  for i = 1, windows do all[i], state = self:step(x[i - 1], state) end
  return op.concat(all, { axis = 0 })
end

--- Spans of speech in probabilities, as {first, last} seconds: they begin above `threshold` and end where it stays below it, less
--- 0.15, for 0.1 s.
function vad.spans(probabilities, threshold)
  threshold = threshold or 0.5
  local spans, begun, last, second = {}, nil, nil, WINDOW / RATE
  for i, p in ipairs(probabilities:totable()) do
    if p >= threshold then begun = begun or i - 1 end
    if begun and p >= threshold - 0.15 then last = i end
    if begun and (i - last) * second > 0.1 then
      spans[#spans + 1] = { begun * second, last * second }
      begun = nil
    end
  end
  if begun then spans[#spans + 1] = { begun * second, last * second } end
  return spans
end

--- read(path): a file of i16 samples as sound, f32[samples].
function vad.read(path)
  local file = assert(io.open(path, "rb"))
  local bytes = file:read "*a"
  file:close()
  return tessera.core.from_bytes(bytes, "i16", { math.floor(#bytes / 2) }):cast "f32" / 32768
end

local path, sound = ...
if type(path) == "string" and path:find "%.safetensors$" and sound then
  tessera.no_grad(function()
    for _, s in ipairs(vad.spans(vad.load(path):run(vad.read(sound)))) do print(("speech from %.2f s to %.2f s"):format(s[1], s[2])) end
  end)
end
return vad
