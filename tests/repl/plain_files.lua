-- Whatever is read by a name is a plain file, or a script from a pipe: folders, devices and pipes to which nobody writes are
-- errors at once, and nothing is read without an end.
local program = arg[-1] or "bin/tessera"
local folder = os.tmpname()
os.remove(folder)
os.execute(("mkdir %s && mkfifo %s/pipe && ln -s /dev/zero %s/zero"):format(folder, folder, folder))
for _, suffix in ipairs { "npy", "npz", "safetensors", "tile", "tgraph", "flight" } do
  os.execute(("cd %s && ln -s pipe pipe.%s && ln -s zero zero.%s"):format(folder, suffix, suffix))
end

-- Nothing is timed: what would not end is killed, and tells nothing.
local here = io.popen("pwd"):read()
local command = "timeout 60 " .. (program:find "^/" and program or here .. "/" .. program)
local function run(line)
  local p = io.popen(("cd %s && T='%s' bash -c '%s' 2>&1 < /dev/null"):format(folder, command, line))
  local text = p:read "*a"
  p:close()
  return (text:gsub("\n$", ""))
end

run "$T pipe" --> tessera: cannot read pipe: nobody writes to this pipe
run "$T zero" --> tessera: cannot read zero: not a plain file
run "$T ." --> tessera: cannot read .: Is a directory
run "$T /dev/tty" --> tessera: cannot read /dev/tty: not a plain file
assert(run "$T -p zero":find "^tessera: cannot read zero: not a plain file")
run "$T --debug-kernel zero.tile" --> tessera: cannot open zero.tile: not a plain file
run "$T --debug-kernel pipe.tile" --> tessera: cannot open pipe.tile: not a plain file
run "$T --debug-kernel zero" --> tessera: cannot read zero: not a plain file
run "$T --flight=zero.flight" --> tessera: --flight: zero.flight: not a plain file
run "$T --flight=pipe.flight" --> tessera: --flight: pipe.flight: not a plain file
run "$T < zero" --> tessera: cannot read standard input: it goes on after 64 MB; a script ends before
for _, call in ipairs { "dofile", "data.text", "graph.load" } do
  for _, name in ipairs { "pipe.tgraph", "zero.tgraph" } do
    local said = run(("$T -l tessera -e \"%s [[%s]]\""):format(call, name))
    assert(said:find("(command line):1: cannot ", 1, true) and (said:find "not a plain file" or said:find "nobody writes"), said)
  end
end
for _, suffix in ipairs { "npy", "npz", "safetensors" } do
  for _, name in ipairs { "pipe", "zero" } do
    assert(run(("$T -l tessera -e \"tessera.load [[%s.%s]]\""):format(name, suffix)):find "not a plain file", suffix)
  end
end
run("$T -e \"print(loadfile [[pipe]])\"") --> nil	cannot read pipe: nobody writes to this pipe

-- Pipes that somebody writes to, and what reads and reports of them have.
run "$T <(echo \"print(6 * 7)\")" --> 42
run "$T <(true)" -->
local said = run "$T <(echo \"x = 1\"; echo \"error [[here]]\")"
(said:gsub("/dev/fd/%d+", "pipe")) --> pipe:2: here
-->     error [[here]]
-->     ^
run "echo \"print(2)\" | $T /dev/stdin" --> 2
run "echo \"print(3)\" | $T -" --> 3
run "$T /dev/null" -->

os.execute("rm -r " .. folder)
