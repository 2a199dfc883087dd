-- What a function writes into at indices, and was given away, is written in place, on the CPU and on devices; it is copied where
-- somebody else has it, and an index out of range leaves it as it was. Attention of one query by positions that a device has is one
-- kernel, with the bits of the mask that it is written as.
local tessera = require "tessera"
local op, graph = tessera.op, tessera.graph

local B, H, T, D = 2, 2, 64, 64
local function step(x, rows, cache)
  local index = rows:unsqueeze(-1):unsqueeze(-1):broadcast_to { B, H, 1, D }:contiguous()
  local all = op.scatter(cache[1], index, x, { axis = 2 })
  return all:cast("f32"):sum { axis = 2 }, rows + 1, { all }
end

tessera.no_grad(function()
  for _, device in ipairs { "cpu", "sim:0" } do
    local x = op.normal({ B, H, 1, D }, { seed = 1, dtype = "bf16", device = device })
    local rows = tessera.tensor({ { 3 }, { 5 } }, { dtype = "i64", device = device })
    local f, cache = graph.module("step", step, { donate = { 3 } }), { op.zeros({ B, H, T, D }, { dtype = "bf16", device = device }) }
    local other, want, sum, _ = rows, { cache[1]:clone() }, nil, nil
    for i = 1, 6 do
      sum, rows, cache = f(x, rows, cache)
      local plain
      plain, other, want = step(x, other, want)
      assert(sum:to("cpu"):hash() == plain:to("cpu"):hash() and cache[1]:to("cpu"):hash() == want[1]:to("cpu"):hash(), device .. " " .. i)
    end
    assert(f:ir("bytecode"):find "into r2", device .. " copies what it was given")
    local kept, view = cache[1]:clone(), cache[1]:narrow(2, 0, 4) -- somebody looks at it
    local before = view:to("cpu"):hash()
    _, rows, cache = f(x, tessera.tensor({ { 1 }, { 2 } }, { dtype = "i64", device = device }), cache)
    assert(view:to("cpu"):hash() == before and kept:narrow(2, 0, 4):to("cpu"):contiguous():hash() == before, device)
    before = cache[1]:to("cpu"):hash()
    local ok, why = pcall(function()
      local y = f(x, tessera.tensor({ { 1 }, { T } }, { dtype = "i64", device = device }), cache)
      return y:to("cpu"):sum():item()
    end)
    assert(not ok and why:find "scatter", why)
    if device == "cpu" then assert(cache[1]:hash() == before) end
  end

  tessera.jit.eager(true)
  local function drawn(shape, seed, dtype) return op.normal(shape, { seed = seed, dtype = dtype or "bf16", device = "sim:0" }) end
  for _, window in ipairs { false, 8 } do
    for _, sunk in ipairs { false, true } do
      local q, k, v = drawn({ 3, 4, 1, 64 }, 1), drawn({ 3, 2, 136, 64 }, 2), drawn({ 3, 2, 136, 64 }, 3)
      local at = tessera.tensor({ { 0 }, { 17 }, { 135 } }, { dtype = "i64", device = "sim:0" })
      local sink = sunk and drawn({ 4 }, 4, "f32") or nil
      local function f(q_, k_, v_, at_)
        local keys = op.arange(136):to(at_.device):unsqueeze(0)
        local seen = keys:le(at_)
        if window then seen = seen:logical_and(keys:gt(at_ - window)) end
        return op.attention(q_, k_, v_, seen:unsqueeze(1):unsqueeze(1), sink, {})
      end
      local g, y = graph.module("g", f), nil
      for _ = 1, 3 do y = g(q, k, v, at) end
      local text = ("window %s sink %s"):format(window, sunk)
      assert(g:ir("tile"):find "%%last: i64", text)
      assert(y:to("cpu"):hash() == f(q, k, v, at):to("cpu"):hash(), text)
      for i, n in ipairs { 1, 18, 136 } do -- as it is without what lies behind
        local function own(t) return t:narrow(0, i - 1, 1):narrow(2, 0, n):contiguous() end
        local alone = op.attention(q:narrow(0, i - 1, 1):contiguous(), own(k), own(v), nil, sink, { causal = true, window = window or nil })
        assert(alone:to("cpu"):hash() == y:narrow(0, i - 1, 1):contiguous():to("cpu"):hash(), text .. " " .. n)
      end
    end
  end
  tessera.jit.eager(false)
end)
