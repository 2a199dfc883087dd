-- The benchmark of meshes says at once what it does not know: kinds, numbers of devices, sections and what stands behind their colon.
local program = arg and arg[-1] or "bin/tessera"
local function said(words)
  local p = io.popen(("%s scripts/bench/mesh/ours.lua %s 2>&1"):format(program, words))
  local line = p:read "*l"
  p:close()
  return line
end
said "cqu 2 sums" --> there is no device 'cqu:0'
said "sim 9 sums" --> there is no device 'sim:8'
said "cpu x sums" --> the number of devices is a whole one from 1, not 'x'
said "cpu 0 sums" --> the number of devices is a whole one from 1, not '0'
said "cpu 2 summs" --> there is no section summs; there are bits, small, sums, moves, mlp, gpt, large, seven, oss, scale, and killed of mesh.sh
said "cpu 2 sums:x" --> section sums:x: behind the colon stands a whole number from 1
said "cpu 2 mlp:3" --> section mlp:3: it takes no number
said "cpu 2 bits:4" --> section bits:4: there are 2 devices

local function killed(words)
  local p = io.popen(("sh scripts/bench/mesh/killed.sh %s 2>&1"):format(words))
  local line = p:read "*l"
  p:close()
  return line
end
killed "cqu 2" --> section killed: processes have devices of cuda or cpu, not 'cqu'
killed "cpu 1" --> section killed: it takes two processes or more, not '1'
killed "cpu x" --> section killed: it takes two processes or more, not 'x'
