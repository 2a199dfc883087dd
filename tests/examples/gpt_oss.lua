-- GPT-OSS: what it learns, and a step of the true model's kind on a simulated device, whose weights are drawn there.
local program = arg and arg[-1] or "bin/tessera"
local function told(options)
  local p = io.popen(("%s examples/gpt_oss.lua %s 2>&1"):format(program, options))
  local out = p:read "*a"
  p:close()
  return out
end
local out = told "--steps 60 --tokens 20"
assert(out:find "logits of transformers: off by %d" and out:find "MXFP4: the ", out)
out = told "--size small --device sim:0 --tokens 18"
assert(out:find "round 2: .-tokens of the first text: [%d ]+\n$", out)
assert(told("--size huge"):find("option '--size' must be one of '120b', '20b', 'small', 'tiny', not 'huge'", 1, true))
assert(told("--sise tiny"):find("unknown option '--sise'\n  hint: did you mean '--size'?", 1, true))
