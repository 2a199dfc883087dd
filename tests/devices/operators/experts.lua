-- Products of experts in blocks on a device: a column a thread has the CPU's bits; the matrix unit, which takes bf16 rows and codes
-- of mxfp4 with scales beside them, those of linear there with the numbers in bf16, whatever rows stand beside a row.
local tessera = require "tessera"
local op = tessera.op
local device = "sim:0"
tessera.jit.later(false)

local function normal(shape, stream, dtype) return op.normal(shape, { seed = 3, stream = stream }):cast(dtype or "f32") end
local function apart(w)
  local e, n, k = unpack(w.shape)
  local bytes = w:bitcast("u8"):reshape(e, n, k / 32, 17)
  return bytes:narrow(-1, 1, 16):contiguous():reshape(e, n, k / 2), bytes:select(-1, 0):contiguous()
end
local function same(a, b, what) assert(a:hash() == b:to("cpu"):hash(), what) end

tessera.no_grad(function()
  local index = tessera.tensor({ { 4, 0 }, { 2, 4 }, { -1, 2 }, { 0, 5 }, { 4, 2 } }, { dtype = "i64" })
  for _, d in ipairs { "mxfp4", "q4_0", "q8_0", "q6_k" } do
    local w, before = normal({ 5, 70, 256 }, 1):cast(d), tessera.jit.device().fallback
    for _, dtype in ipairs { "f32", "bf16", "f16" } do
      local bias = normal({ 5, 70 }, 2, dtype)
      for _, x in ipairs { normal({ 5, 256 }, 4, dtype), normal({ 5, 2, 256 }, 5, dtype) } do
        same(op.experts_linear(x, w, index, bias), op.experts_linear(x:to(device), w:to(device), index:to(device), bias:to(device)), d .. " " .. dtype)
        same(op.experts_linear(x, w, index), op.experts_linear(x:to(device), w:to(device), index:to(device)), d .. " " .. dtype .. " without bias")
        if d == "mxfp4" then
          local codes, scales = apart(w) -- 70 columns are no tile of the unit
          same(op.experts_linear(x, w, index, bias),
            op.experts_linear(x:to(device), codes:to(device), index:to(device), bias:to(device), scales:to(device)), "codes and scales " .. dtype)
        end
      end
    end
    assert(tessera.jit.device().fallback == before, d .. " goes to the CPU")
  end

  -- The unit.
  local EXPERTS, OUT = 4, 64
  for _, k in ipairs { 288, 32, 512 } do
    local w = normal({ EXPERTS, OUT, k }, 1):cast "mxfp4"
    local codes, scales = apart(w)
    local bias = normal({ EXPERTS, OUT }, 2, "bf16"):to(device)
    local numbers, before = w:cast("bf16"):to(device), tessera.jit.device().fallback
    codes, scales = codes:to(device), scales:to(device)
    for _, tokens in ipairs { 1, 3, 7, 40 } do
      local list = {}
      for t = 1, tokens do list[t] = { (t * 7) % EXPERTS, t % 3 == 0 and -1 or (t * 5 + 1) % EXPERTS } end
      local at = tessera.tensor(list, { dtype = "i64" }):to(device)
      local shared, own = normal({ tokens, k }, 4, "bf16"):to(device), normal({ tokens, 2, k }, 5, "bf16"):to(device)
      for _, x in ipairs { shared, own } do
        local y, bare = op.experts_linear(x, codes, at, bias, scales):to "cpu", op.experts_linear(x, codes, at, { scales = scales }):to "cpu"
        for t, row in ipairs(list) do
          for j, e in ipairs(row) do
            local one = (x.ndim == 3 and x[t - 1][j - 1] or x[t - 1]):unsqueeze(0)
            local name = ("%d of k, %d tokens: choice %d of token %d"):format(k, tokens, j, t)
            if e < 0 then
              assert(y[t - 1][j - 1]:hash() == op.zeros({ OUT }, { dtype = "bf16" }):hash(), name)
            else
              assert(bare[t - 1][j - 1]:hash() == op.linear(one, numbers[e]):to("cpu")[0]:hash(), name)
              assert(y[t - 1][j - 1]:hash() == op.linear(one, numbers[e], bias[e]):to("cpu")[0]:hash(), name .. " with bias")
            end
          end
        end
      end
    end
    assert(tessera.jit.device().fallback == before, "the unit's goes to the CPU")
  end
end)
