-- What is said of a device that is not there: why, and which ones are, also those that are made when named.
local tessera = require "tessera"
local x = tessera.op.ones { 2 }
local _, without = pcall(x.to, x, "nosuch:0")
local gpu = without:find "cuda:0" ~= nil

local function said(name)
  local _, why = pcall(x.to, x, name)
  return (why:gsub("^.-: there", "there"))
end
said "nosuch:0":match "hint: known devices: cpu:0, null:0.*sim:0, sim:1" ~= nil --> true
said "simm:0":match "did you mean 'sim:0'%?" --> did you mean 'sim:0'?
said "CPU":match "did you mean 'cpu:0'%?" --> did you mean 'cpu:0'?
said "cpu:7":match "hint: (.-);" --> tessera --devices=cpu:8 makes it
said "cpu:14":match "hint: (.*)" --> cpu:13 is the last one that there can be
said "sim:8":match "hint: (.*)" --> sim:7 is the last one that there can be
said "cpu:x":match "did you mean 'cpu:0'%?" --> did you mean 'cpu:0'?
said(("x"):rep(500)):match "hint: known devices: cpu:0" --> hint: known devices: cpu:0
said "a\27[2J":match "\27" --> nil
for _, name in ipairs { "gpu", "GPU:0", "cdua:0", "cuda0" } do
  assert(said(name):find(gpu and "did you mean 'cuda:0'?" or "hint: sim:0 simulates one", 1, true), said(name))
end
-- Those that were named are on the list once.
x:to "sim:1"
select(2, said "nosuch:0":gsub("sim:0", "")) --> 1
tessera.device "nosuch" --! there is no device 'nosuch'
tessera.op.ones({ 2 }, { device = "nosuch" }) --! there is no device 'nosuch'
tessera.tensor({ 2 }, { device = "nosuch" }) --! there is no device 'nosuch'
