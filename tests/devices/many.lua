-- A machine with more GPUs than a process can have devices: the list says so, and so does an error for one that is beyond.
package.path = "tests/devices/?.lua;" .. package.path
local fake, dir, another = require "_fake"()
if not fake then return print "skipped: no C compiler" end
local code = [[
local list = tessera.devices()
print(#list, list[#list].name, list.missing.cuda)
for _, name in ipairs { "cuda:13", "cuda:99", "sim:0" } do
  local _, why = pcall(tessera.synchronize, name)
  print((why:gsub("^.-: there", "there"):gsub("known devices: .*", "")))
end
]]
local out = another("FAKE_COUNT=16", ("tessera = require \"tessera\" " .. code))
local lines = {}
for line in out:gmatch "[^\n]+" do lines[#lines + 1] = line end
lines[1] --> 15	cuda:12	16 GPUs are here, of which this process has 13: 15 devices are the most of one
lines[2] --> there is no device 'cuda:13': 16 GPUs are here, of which this process has 13: 15 devices are the most of one
lines[4] --> there is no device 'cuda:99': 16 GPUs are here, of which this process has 13: 15 devices are the most of one
lines[6] --> there is no device 'sim:0'
lines[7]:match "hint: .*" --> hint: there are 15 devices already, and a process has 15 at most
os.execute("rm -rf " .. dir)
