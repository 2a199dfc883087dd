-- Weights in blocks on a device: casts, rows of tables and products have the CPU's bits, of few rows and of many, and none of
-- them goes to the CPU.
local tessera = require "tessera"
local op = tessera.op
local device = "sim:0"
tessera.jit.later(false)

local function same(a, b, what) assert(a:hash() == b:to("cpu"):hash(), what) end

tessera.no_grad(function()
  for _, d in ipairs { "mxfp4", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "iq4_nl", "q4_k", "q5_k", "q6_k" } do
    local n, k = 70, 512
    local w = op.normal({ n, k }, { seed = 3 }):cast(d)
    local there, before = w:to(device), tessera.jit.device().fallback
    for _, to in ipairs { "f32", "bf16", "f16" } do same(w:cast(to), there:cast(to), d .. " to " .. to) end
    for _, more in ipairs { 1, 3, 71 } do -- one kernel, whatever there was first
      local wide = op.normal({ more, 1024 }, { seed = more }):cast(d)
      same(wide:cast "f32", wide:to(device):cast "f32", d .. " of other sizes")
    end
    for _, m in ipairs { 1, 3, 20 } do
      for _, dtype in ipairs { "f32", "bf16" } do
        local x, bias = op.normal({ m, k }, { seed = m }):cast(dtype), op.normal({ n }, { seed = 9 }):cast(dtype)
        same(op.linear(x, w, bias), op.linear(x:to(device), there, bias:to(device)), ("%s: %d rows of %s"):format(d, m, dtype))
        same(op.linear(x, w), op.linear(x:to(device), there), ("%s: %d rows of %s without bias"):format(d, m, dtype))
      end
    end
    local ids = tessera.tensor({ { 3, 1, 60 } }, { dtype = "i64" })
    local function rows(table_, index) return op.embedding(table_:bitcast "u8", index):bitcast(d):cast "f32" end
    same(rows(w, ids), rows(there, ids:to(device)), d .. ": rows of bytes")
    for _, index in ipairs { ids, tessera.tensor({ -1, 69, 0, -70 }, { dtype = "i32" }), tessera.tensor(5, { dtype = "u8" }) } do
      same(op.embedding(w, index), op.embedding(there, index:to(device)), d .. ": rows of a table")
    end
    assert(tessera.jit.device().fallback == before, d .. " goes to the CPU")
  end

  -- A scale that is no number, and one below all normal ones.
  local odd = tessera.tensor({ { 0xff, 0x12, unpack({}) } }, { dtype = "u8" })
  local block = op.concat({ odd, op.full({ 1, 15 }, 0x7b, { dtype = "u8" }), op.zeros({ 1, 1 }, { dtype = "u8" }),
    op.full({ 1, 16 }, 0x9a, { dtype = "u8" }) }, { axis = 1 }):bitcast "mxfp4"
  local y, z = block:cast "f32", block:to(device):cast("f32"):to "cpu"
  assert(y:isnan():eq(z:isnan()):all():item() and y:narrow(1, 32, 32):contiguous():hash() == z:narrow(1, 32, 32):contiguous():hash())

  -- No row of the table.
  local q = op.zeros({ 4, 32 }):cast("q8_0"):to(device)
  local ok, why = pcall(function() return op.embedding(q, tessera.tensor({ 4 }, { dtype = "i64" }):to(device)):to "cpu" end)
  assert(not ok and tostring(why):find "index 4 is out of range for axis 0 of q8_0%[4,32%], of size 4", why)
end)
