-- Tensors on a real GPU, where there is one. tests/devices/driver/cuda_test.c with the argument "real"
-- does the same below Lua: 1 GiB copies, out of memory, two streams, a kernel.
package.path = "tests/devices/?.lua;" .. package.path
local tessera = require "tessera"
local op = tessera.op
local list = tessera.devices()
local name
for _, d in ipairs(list) do name = name or d.name:match "^cuda:%d+$" end

-- With or without: the CPU works, and what is missing has a sentence.
(op.ones(3) + 1):sum():item() --> 6
op.ones(3):to "cuda:99" --! there is no device 'cuda:99'
op.ones(3):to "cud" --! there is no device 'cud'
tessera.synchronize() -->
tessera.synchronize "cud" --! there is no device 'cud'

-- All of the memory and more: the error says what was live; then it all comes back.
local function exhaust()
  local keep, why = {}
  for i = 1, 1000 do
    local x = op.empty and op.empty({ 2 ^ 28 }) or op.zeros { 2 ^ 28 }
    local ok, e = pcall(x.to, x, name)
    if not ok then why = e break end
    keep[i] = e
    if i > 24 then why = "skipped: the GPU is too large for this host" break end
  end
  keep = nil
  collectgarbage()
  assert(why and (why:find "bytes live in" or why:find "skipped"), why)
  assert(op.ones({ 2 ^ 28 }, { dtype = "f32" }):to(name)[5]:item() == 1)
end

if name then
  require "_cuda"(name, 2 ^ 30)
  if os.getenv "TESSERA_TEST_LONG" then exhaust() end
  print("skipped: that there is no GPU")
else
  print("skipped: " .. list.missing.cuda:gsub("\n.*", ""))
  op.ones(3):to "cuda:0" --! there is no device 'cuda:0':
end
