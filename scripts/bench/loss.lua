-- The losses of examples/gpt2.lua beside those of PyTorch from the same weights, on the same tokens:
--
--   TESSERA_PEERS_PYTHON=python3 bin/tessera scripts/bench/loss.lua [device] [steps] [batch] [context]
--                                                                   [layers] [width] [heads] [rows]
--
-- Random weights come from loss_peer.py, in a folder below build/bench; the text is the GPL-3, by
-- character. PyTorch trains by autocast to bf16, and in f32 (with tf32 off) to show what rounding
-- alone does. Prints losses and the differences between the three curves.
local tessera = require "tessera"
local data = tessera.data

local values = { "cuda:0", "100", "8", "1024", "12", "768", "12", "50304" }
for i = 1, #values do values[i] = arg[i] or values[i] end
local device, steps, batch, context = unpack(values)
local python = os.getenv "TESSERA_PEERS_PYTHON" or "python3"
local folder = "build/bench/loss"

local function peer(what)
  local command = ("%s scripts/bench/loss_peer.py %s %s %s"):format(python, what, folder, table.concat(values, " "))
  if os.execute(command) ~= 0 then error("failed: " .. command, 0) end
end

os.execute("mkdir -p " .. folder)
peer "weights"

local ids, windows = {}, data.windows
function data.windows(...)
  local next_batch = windows(...)
  return function()
    local x, y = next_batch()
    ids[#ids + 1] = tessera.op.concat({ x, y:narrow(1, y.shape[2] - 1, 1) }, { axis = 1 })
    return x, y
  end
end
arg = { "--size", "small", "--init", folder, "--device", device, "--steps", steps, "--batch", batch, "--context",
  context }
local losses = dofile "examples/gpt2.lua"
tessera.save(folder .. "/tokens.safetensors", { tokens = tessera.op.stack(ids), ours = losses:to "cpu" })
peer "train"
