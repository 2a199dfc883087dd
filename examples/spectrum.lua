-- The spectrogram of a chirp: a tone that rises from 200 to 1800 Hz within a second.

local tessera = require "tessera"
local op = tessera.op

local RATE, FRAME = 8000, 256
local t = op.arange(RATE):cast("f32") / RATE
local signal = op.sin((t * 200 + t:square() * 800) * (2 * math.pi))
local S = op.stft(signal, { frame = FRAME, hop = 100 })
local power = S:abs():square()

local ramp = " .:-=+*#%@"
local shown = op.log10(power["0:64:2, ::1"] + 1e-6)
shown = ((shown - shown:min()) / (shown:max() - shown:min()) * (#ramp - 1)):floor():flip { axis = { 0 } }
for _, row in ipairs(shown:totable()) do
  local line = {}
  for i, v in ipairs(row) do line[i] = ramp:sub(v + 1, v + 1) end
  print(table.concat(line))
end

-- The loudest frequency of a frame, against the chirp's own at that time.
local peak = power:argmax { axis = 0 }:cast("f32") * (RATE / FRAME)
local at = op.arange(peak.shape[1]):cast("f32") * (100 / RATE)
local error_ = (peak - (at * 1600 + 200)):abs()["5:-5"]:max():item()
print(("loudest frequency within %.0f Hz of the chirp's"):format(error_))
assert(error_ < 2 * RATE / FRAME)

local back = op.istft(S, { frame = FRAME, hop = 100, length = RATE - 200 })
assert((back - signal:narrow(0, 0, RATE - 200)):abs():max():item() < 1e-4)
