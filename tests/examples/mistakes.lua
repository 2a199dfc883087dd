-- Options of examples that fit neither the task nor each other are told before anything is made or learned.
local program = arg and arg[-1] or "bin/tessera"
local function wrong(words)
  local p = io.popen(("%s examples/%s 2>&1; echo \"exit $?\""):format(program, words))
  local out = p:read "*a"
  p:close()
  assert(out:find "exit 1\n$", out)
  return ((out:match "\n(examples/shared/learn%.lua:[^\n]*)" or out:match "^[^\n]*"):gsub("^tessera: ", ""):gsub("^examples/[%w_/]+%.lua:%d*:? ?", ""))
end
wrong "trm.lua --mixer 2" --> option '--mixer' must be one of '1', '0', not '2'
wrong "hrm.lua --box 5" --> option '--box' must be one of '2', '3', not '5'
wrong "trm.lua --clues 20 --size tiny" --> --clues to --most are 20 to 8 of 16 cells
wrong "hrm.lua --clues 9 --most 4 --size tiny" --> --clues to --most are 9 to 4 of 16 cells
wrong "trm.lua --target 2 --size tiny" --> --target 2 is the part of the test at which training ends, 1 at most
wrong "spectral_moe.lua --n 7" --> --n must be even: n / 2 + 1 frequencies
wrong "graph_network.lua --degree 3" --> --degree must be even: half of the edges are begun by a member, half by others
wrong "graph_network.lua --told 5000":match "^%-%-told" --> --told
wrong "graph_network.lua --groups 20":match "^%-%-features" --> --features
wrong "unet.lua --width 5" --> --width must be a multiple of 8, the groups of its norms
wrong "unet.lua --image 7" --> --image must be a multiple of 4: it is halved 2 times
wrong "seq2seq.lua --width 5" --> --width must be a multiple of 4, the heads of attention
wrong "resnet18.lua --train 10 --steps 1" --> --batch 32, and there are 10 samples to learn from
wrong "cnn.lua --train 10" --> --train 10 is less than a batch of 64
wrong "seq2seq.lua --batch 0" --> --batch 0, and there are 8000 samples to learn from
wrong "resnet18.lua --dtype i32" --> option '--dtype' must be one of 'f64', 'f32', 'bf16', 'f16', not 'i32'
wrong "resnet18.lua --target 101" --> option '--target' must be a number in [0, 100], not '101'
