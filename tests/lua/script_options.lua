-- Options of a script from its command line (tessera.arguments): values by what is usual, sizes, --help, and what is wrong.
local tessera = require "tessera"
local program = arg and arg[-1] or "bin/tessera"
local path = os.tmpname()
local file = io.open(path, "w")
file:write [[
-- What the script does.
--
--   usage

local tessera = require "tessera"
local o = tessera.arguments({ size = "small", steps = 100, device = "cpu", save = false, picture = ">.png", batch = false, resume = { false, true },
  dtype = { "f32", "bf16" }, target = 0.5, share = "90%",
  stop = math.huge }, { small = { batch = 4 }, gpu = { steps = 1000, batch = 64, device = "cuda:99" } })
local names = {}
for name, value in pairs(o) do names[#names + 1] = name .. "=" .. tostring(value) end
table.sort(names)
print(table.concat(names, " "))
]]
file:close()

local function run(words)
  local p = io.popen(("%s %s %s 2>&1; echo \"exit $?\""):format(program, path, words or ""))
  local out = p:read("*a"):gsub(path:gsub("%p", "%%%0"), "SCRIPT")
  p:close()
  return (out:gsub("exit 0\n$", ""):gsub("\n$", ""))
end

run() --> batch=4 device=cpu dtype=f32 picture=false resume=false save=false share=90 size=small steps=100 stop=inf target=0.5
run "--share 97.5 --steps=3 --resume --save x.npy --target -9 --dtype bf16 --batch 2" --> batch=2 device=cpu dtype=bf16 picture=false resume=true save=x.npy share=97.5 size=small steps=3 stop=inf target=-9
run "--size gpu --device sim:0" --> batch=64 device=sim:0 dtype=f32 picture=false resume=false save=false share=90 size=gpu steps=1000 stop=inf target=0.5

-- An error is a line and a hint, without the library's places.
local function wrong(words)
  local out = run(words)
  assert(out:find "exit 1$" and not out:find "traceback", out)
  return out:match "^tessera: SCRIPT: ([^\n]*)", out:match "\n  hint: ([^\n]*)"
end
wrong "--stpes 3" --> unknown option '--stpes', did you mean '--steps'?
wrong "--steps abc" --> option '--steps' must be a whole number >= 0, not 'abc', nil
wrong "--steps -1" --> option '--steps' must be a whole number >= 0, not '-1', nil
wrong "--steps 2.5" --> option '--steps' must be a whole number >= 0, not '2.5', nil
wrong "--steps nan" --> option '--steps' must be a whole number >= 0, not 'nan', nil
wrong "--steps" --> option '--steps' needs a value: a whole number >= 0, nil
wrong "--steps --resume" --> option '--steps' must be a whole number >= 0, not '--resume', nil
wrong "--batch many" --> option '--batch' must be a whole number >= 0, not 'many', nil
wrong "--size huge" --> option '--size' must be one of 'gpu', 'small', not 'huge', nil
wrong "--share 101" --> option '--share' must be a number in [0, 100], not '101', nil
wrong "--dtype f16" --> option '--dtype' must be one of 'f32', 'bf16', not 'f16', did you mean 'bf16'?
wrong "--steps 1 --steps 2" --> option '--steps' is given twice, nil
wrong "here" --> 'here' belongs to no option, options are --name value; with --help it lists them
select(2, wrong "--device foo:0"):match "[^;]*$" -->  --device cpu is always there
wrong("--size gpu"):match "^%-%-size gpu: there is no device 'cuda:99'" --> --size gpu: there is no device 'cuda:99'
wrong("--device foo:0"):match "^[^;]*" --> --device: there is no device 'foo:0'

-- What is written in the end is looked at first, and not made.
wrong "--picture /nope/a.png" --> --picture: cannot be written: /nope/a.png: No such file or directory, nil
wrong "--picture a.xyz" --> option '--picture' must be the name of a file to write, .png, not 'a.xyz', nil
run("--picture " .. path .. ".png"):match "picture=(%S+)" --> SCRIPT.png
io.open(path .. ".png") == nil --> true

-- --help: how the file begins, and options with what they are for the size that is named.
local help = run "--help --size gpu"
help:match "^(.-)\n\noptions" == "What the script does.\n\n  usage" --> true
help:match "%-%-batch +([^\n]*)" --> a whole number >= 0; 64 if not given
help:match "%-%-save +([^\n]*)" --> a string
help:match "%-%-dtype +([^\n]*)" --> one of 'f32', 'bf16'; f32 if not given

-- A script without options refuses all; where arguments are asked for in a function or at the prompt, too.
arg = { "--steps", "3" }
tessera.arguments({ steps = 1 }).steps --> 3
arg = { "3" }
tessera.arguments() --! '3' belongs to no option
arg = nil
next(tessera.arguments()) --> nil
tessera.arguments(3) --! arguments: usual must be a table, not 3
tessera.arguments({ size = "big" }, { small = {} }) --! arguments: usual.size is 'big', which is none of the sizes: small
tessera.arguments({ steps = 1 }, { small = {} }) --! arguments: usual.size is missing, which is none of the sizes: small
os.remove(path)
