-- Programs of the benchmark: captured ones have the bits of eager ones, and both the numbers of PyTorch, which began
-- from the same weights (scripts/bench/program_peer.py).
package.path = "scripts/bench/?.lua;" .. package.path
local program = require "program"

local function agrees(name, torch)
  local _, eager = program.set_up(name, false)
  local _, captured = program.set_up(name, true)
  local near = not torch or math.abs(eager - torch) < 1e-5 * torch
  return eager == captured and near or ("%.17g eagerly, %.17g captured"):format(eager, captured)
end

agrees("mlp", 2.303193728129069) --> true
agrees("gru", 2.307742118834496) --> true
agrees("unet", 0.7023693124453226) --> true
agrees("gcn", 1.9532272815704346) --> true
agrees("nbody", 0.7889281789975181) --> true
agrees("ode", 6.114202772217766) --> true
agrees("kalman", 1.4215898689841178) --> true
agrees("gaussian_process", 51.15729046146845) --> true
agrees("heat", 0.4986589971889804) --> true
-- Random numbers are other ones there.
agrees "vae" --> true
agrees "gan" --> true
agrees "word2vec" --> true
agrees "reinforce" --> true
