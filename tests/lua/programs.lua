-- Programs of the benchmark: captured ones have the bits of eager ones, and both the numbers of PyTorch, which began
-- from the same weights (scripts/bench/program_peer.py) and computed in float64, whatever the program computes in.
--
-- What is compared is the mean loss of three steps: rounded once it is half a unit of its type off (2^-24, 2^-53 of it),
-- and what was rounded before averages out, so four units are allowed. Measured: half a unit in f32 (PyTorch's own f32
-- 0.9), two in f64.
package.path = "scripts/bench/?.lua;" .. package.path
local program = require "program"
local F32, F64 = 2 ^ -24, 2 ^ -53

local function agrees(name, torch, unit)
  local _, eager = program.set_up(name, false)
  local _, captured = program.set_up(name, true)
  local near = not torch or math.abs(eager - torch) <= 4 * unit * torch
  return eager == captured and near or ("%.17g eagerly, %.17g captured"):format(eager, captured)
end

agrees("mlp", 2.3031937239272731, F32) --> true
agrees("gru", 2.3077421371289195, F32) --> true
agrees("unet", 0.70236929459482056, F32) --> true
agrees("gcn", 1.9532271823464864, F32) --> true
agrees("nbody", 0.78892818419852162, F32) --> true
agrees("ode", 6.1142027722177659, F64) --> true
agrees("kalman", 1.4215898689841178, F64) --> true
agrees("gaussian_process", 51.157290461468428, F64) --> true
agrees("heat", 0.49865899718898038, F64) --> true
-- Random numbers are other ones there.
agrees "vae" --> true
agrees "gan" --> true
agrees "word2vec" --> true
agrees "reinforce" --> true
