-- Kernels are the same, word for word, whether they were ever profiled or not: their code in a program that never asked
-- for a profile, and in one that made theirs.
package.path = "tests/devices/?.lua;" .. package.path
local device = require "_device"
local name = device.name
if not name then return print(device.skipped) end
if not require("tessera").core.jit() then return print "skipped: nothing is compiled here" end
local ffi = require "ffi"
ffi.cdef "int setenv(const char *, const char *, int);"
ffi.C.setenv("TESSERA_CACHE", "off", 1)

local program = [[
local tessera = require "tessera"
local core, op, rng = tessera.core, tessera.op, tessera.rng
core.jit_later(false)
local name, profiled = "NAME", PROFILED
local function N(dtype, ...) return rng.normal({ ... }, { seed = 1, stream = 1 }):cast(dtype):to(name) end
local x, a, q = N("f32", 40, 256), N("bf16", 256, 128), N("bf16", 1, 2, 128, 64)
local z, v = op.complex(N("f32", 4, 256), N("f32", 4, 256)), N("f32", 2000)
local calls = {
  { op.softmax, x }, { function(m) return m:matmul(m:T()) end, a }, { op.fft, z }, { op.sort, v },
  { function(m) return op.attention(m, m, m, { causal = true }) end, q },
  { function(m) return op.attention_grad(m, m, m, nil, nil, m, m) end, q },
}
local function texts()
  local out = {}
  for _, call in ipairs(calls) do
    core.jit_show "asm"
    call[1](unpack(call, 2))
    out[#out + 1] = core.jit_show()
  end
  return out
end
if profiled then
  texts()
  for _, call in ipairs(calls) do require("tessera.kernel.profile").run(unpack(call)) end
end
for i, text in ipairs(texts()) do
  assert(#text > 1000 and text:find "%.entry" and not text:find "tessera_marks" and not text:find "%%clock", i)
  io.write(text)
end
]]

local function run(profiled)
  local path = os.tmpname()
  local f = assert(io.open(path, "w"))
  f:write((program:gsub("NAME", name):gsub("PROFILED", tostring(profiled))))
  f:close()
  local pipe = io.popen("bin/tessera " .. path .. " 2>&1")
  local text = pipe:read "*a"
  pipe:close()
  os.remove(path)
  return text
end


local never, after = run(false), run(true)
assert(#never > 50000 and never:find "%.target sm_", never:sub(1, 1000))
assert(never == after, "other code after a profile")
