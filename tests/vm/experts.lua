-- Products of the experts that tokens chose have the bits of linear of each row alone, in blocks of every type, and with codes and
-- scales of mxfp4 apart; a choice of no expert is zeros.
local tessera = require "tessera"
local op, graph = tessera.op, tessera.graph
local T = tessera.tensor

local function normal(shape, stream, dtype) return op.normal(shape, { seed = 3, stream = stream }):cast(dtype or "f32") end
local function index_of(list) return T(list, { dtype = "i64" }) end

--- Codes and scales of blocks of mxfp4.
local function apart(w)
  local e, n, k = unpack(w.shape)
  local bytes = w:bitcast("u8"):reshape(e, n, k / 32, 17)
  return bytes:narrow(-1, 1, 16):contiguous():reshape(e, n, k / 2), bytes:select(-1, 0):contiguous()
end

local EXPERTS, OUT, CHOICES = 5, 13, { { 4, 0 }, { 2, 4 }, { -1, 2 }, { 0, 5 }, { 4, 2 }, { 1, 1 }, { 4, 3 } }
local index = index_of(CHOICES)
for _, d in ipairs(tessera.core.dtypes()) do
  if d.block > 1 then
    local k = d.block == 32 and 96 or 256
    local w = normal({ EXPERTS, OUT, k }, 1):cast(d.name)
    for _, dtype in ipairs { "f32", "bf16", "f64" } do
      local bias = normal({ EXPERTS, OUT }, 2, dtype)
      for _, x in ipairs { normal({ #CHOICES, k }, 4, dtype), normal({ #CHOICES, 2, k }, 5, dtype) } do
        local y, plain = op.experts_linear(x, w, index, bias), op.experts_linear(x, w, index)
        assert(table.concat(y.shape, " ") == "7 2 13" and y.dtype == dtype)
        for t, row in ipairs(CHOICES) do
          for j, e in ipairs(row) do
            local one = x[t - 1]
            if x.ndim == 3 then one = one[j - 1] end
            local name = ("%s %s: choice %d of token %d"):format(d.name, dtype, j, t)
            if e >= 0 and e < EXPERTS then
              local own = w:bitcast("u8"):select(0, e):bitcast(d.name)
              assert(y[t - 1][j - 1]:hash() == op.linear(one, own, bias[e]):hash(), name)
              assert(plain[t - 1][j - 1]:hash() == op.linear(one, own):hash(), name)
            else
              assert(y[t - 1][j - 1]:hash() == op.zeros({ OUT }, { dtype = dtype }):hash(), name)
            end
          end
        end
        if d.name == "mxfp4" then
          local codes, scales = apart(w)
          assert(op.experts_linear(x, codes, index, bias, scales):hash() == y:hash(), "codes and scales " .. dtype)
        end
      end
    end
  end
end

-- Captured; gradients of x and of the bias are those of products one by one.
local w, bias, x = normal({ EXPERTS, OUT, 64 }, 1):cast "mxfp4", normal({ EXPERTS, OUT }, 2), normal({ 3, 64 }, 4)
local three = index_of { { 4, 0 }, { 2, 4 }, { -1, 2 } }
local f = graph.module(function(x_, i) return op.experts_linear(x_, w, i, bias):sum { axis = 1 } end)
f(x, three):hash() == op.experts_linear(x, w, three, bias):sum({ axis = 1 }):hash() --> true

local codes, scales = apart(w)
local function written(x_, b)
  local all, sum = op.concat({ scales:unsqueeze(-1), codes:reshape(EXPERTS, OUT, 2, 16) }, { axis = -1 }):reshape(EXPERTS, OUT, 34):bitcast("mxfp4"):cast "f32", 0
  for t, row in ipairs { { 4, 0 }, { 2, 4 }, { -1, 2 } } do
    for _, e in ipairs(row) do
      if e >= 0 then sum = sum + op.linear(x_[t - 1], all[e], b[e]):square():sum() end
    end
  end
  return sum
end
local function near(a, b) return ((a - b):abs():max() / b:abs():max()):item() < 1e-5 end
local gx, gb = graph.grad(written, { 1, 2 })(x, bias)
for _, how in ipairs { { w }, { codes, scales } } do
  local hx, hb = graph.grad(function(x_, b) return op.experts_linear(x_, how[1], three, b, how[2]):square():sum() end, { 1, 2 })(x, bias)
  assert(near(hx, gx) and near(hb, gb))
end
-- Rows of each choice have gradients of their own.
local each = graph.grad(function(x_) return op.experts_linear(x_, w, three, bias):square():sum() end)(x:unsqueeze(1):expand(3, 2, 64):contiguous())
near(each:sum { axis = 1 }, gx) --> true

-- Nothing, and mistakes.
op.experts_linear(op.zeros { 0, 64 }, w, op.zeros({ 0, 2 }, { dtype = "i64" })).shape --> {0, 2, 13}
op.experts_linear(x, codes, three) --! w must be stored in blocks, not u8[5,13,32]
op.experts_linear(x, w:cast "f32", three) --! w must be stored in blocks, not f32[5,13,64]
op.experts_linear(x, w, three, bias, scales) --! codes and scales are u8
op.experts_linear(x, codes, three, bias, scales:narrow(-1, 0, 1)) --! a scale for 32 numbers of each row is needed
op.experts_linear(x, w, three, bias:T()) --! bias must be [5,13], a number for each row of each w, not f32[13,5]
op.experts_linear(x, w, three:cast "f32") --! index must be integers, not f32
op.experts_linear(x, w, index) --! index [.., k] does not fit x [.., in] or [.., k, in]
op.experts_linear(x:narrow(-1, 0, 32), w, three) --! x [.., in] does not fit w [experts, out, in]
