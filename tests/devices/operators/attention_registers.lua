-- Attention by AMD's matrix units has registers for what a lane holds: nothing is spilled, on targets of either
-- wave, however the last blocks are cut.
local tessera = require "tessera"
local op, graph = tessera.op, tessera.graph
if not tessera.jit.status() then return print "skipped: nothing is compiled here" end

local function attention(size, s, t, options)
  local q, k = op.zeros({ 1, 2, s, size }):cast "bf16", op.zeros({ 1, 1, t, size }):cast "bf16"
  local f = graph.module("attention", function(x, y) return op.attention(x, y, y, nil, nil, options) end)
  f(q, k)
  return f
end
local function spills(f, target)
  local text, most = f:ir("asm", { target = target }), nil
  assert(text:find "v_wmma" or text:find "v_mfma", target .. ": no unit")
  for n in text:gmatch "vgpr_spill_count: (%d+)" do most = math.max(most or 0, tonumber(n)) end
  return most
end
local narrow, wide = attention(64, 128, 256, { causal = true }), attention(128, 70, 200, { causal = true })
for _, target in ipairs { "gfx1100", "gfx11-generic", "gfx1200", "gfx942" } do
  spills(narrow, target) --> 0
  spills(wide, target)   --> 0
end
spills(attention(128, 70, 200, { causal = true, window = 50 }), "gfx1200") --> 0
