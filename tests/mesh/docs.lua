-- What docs/mesh.md says that its programs print is what they print.
local file = assert(io.open "docs/mesh.md")
local page = file:read "*a"
file:close()
local lines = { 'local tessera = require "tessera" local dist, op, rng, graph, nn, optim = tessera.dist, tessera.op, tessera.rng, tessera.graph, tessera.nn, tessera.optim' }
for block in page:gmatch "```lua\n(.-)```" do lines[#lines + 1] = "do\n" .. block .. "end" end
assert(#lines > 4)
local path = os.tmpname()
local script = assert(io.open(path, "w"))
script:write(table.concat(lines, "\n"), "\n")
script:close()
local pipe = io.popen(("%s scripts/run_test.lua %s 2>&1"):format(arg[-1] or "bin/tessera", path))
local said = pipe:read "*a"
pipe:close()
os.remove(path)
local checks = tonumber(said:match "checks (%d+) failed 0")
assert(checks and checks >= 11, said)
