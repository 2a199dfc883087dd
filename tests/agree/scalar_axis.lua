-- Axis 0 or -1 of what has no axes, in every row with an axis: as PyTorch, that of a row of one element,
-- eagerly, captured, with gradients, on a device. Rows that refuse it are those of PyTorch, or not in it.
local tessera = require "tessera"
local core = require "tessera.core"
local op, graph = tessera.op, tessera.graph

-- What a row needs besides x, and as what x is taken.
local index = tessera.tensor(0, { dtype = "i64" })
local beside = { gather = { index }, index_select = { index }, scatter = { index, tessera.tensor(5) }, scatter_add = { index, tessera.tensor(5) },
  index_add = { index, tessera.tensor(5) }, linear_scan = { tessera.tensor(3) }, cosine_similarity = { tessera.tensor(3) },
  softmax_grad = { tessera.tensor(3) }, log_softmax_grad = { tessera.tensor(3) } }
local options = { topk = { k = 1 }, kthvalue = { k = 1 }, quantile = { q = 0.5 }, quantiles = { q = { 0.5 } }, unfold = { size = 1 }, roll = { shift = { 1 } },
  repeat_interleave = { count = 2 }, split = { size = { 1 } }, chunk = { chunks = 1 }, narrow = { start = 0, length = 1 }, select = { index = 0 },
  fold = { length = 1 }, repeat_counts = {}, norm = {} }
-- A new axis is wanted, or another number of operands, or PyTorch refuses scalars too, or has no such row.
local apart = { concat = true, stack = true, unsqueeze = true, repeat_counts = true, cross = true }

local function called(row, x, axis, kind)
  local o = { axis = kind == "ints" and { axis } or axis }
  for k, v in pairs(options[row] or {}) do o[k] = v end
  local args = { x, unpack(beside[row] or {}) }
  args[#args + 1] = o
  return { op[row](unpack(args)) }
end

local wrong, no = {}, {}
local function expect(ok, what) if not ok then wrong[#wrong + 1] = what end end
local function near(a, b) return a == b or (a ~= a and b ~= b) or math.abs(a - b) < 1e-6 end

local ran = 0
for _, row in ipairs(core.operators()) do
  local kind = (" " .. row.attrs):match " axis:(%w+)"
  if kind and not apart[row.name] and not row.inputs:match "^$" then
    local fits = pcall(called, row.name, tessera.tensor(2), 0, kind)
    if not fits then
      no[#no + 1] = row.name
    else
      for _, axis in ipairs { 0, -1 } do
        local y = called(row.name, tessera.tensor(2), axis, kind)
        local z = graph.module(function(x) return unpack(called(row.name, x, axis, kind)) end)
        local captured = { z(tessera.tensor(2)) }
        for i, v in ipairs(y) do
          if row.name ~= "unfold" and row.name ~= "repeat_interleave" then
            expect(v.ndim == 0 or v.numel == 1, row.name .. " has axes")
          end
          expect(v:hash() == captured[i]:hash(), row.name .. " captured")
        end
        expect(not pcall(called, row.name, tessera.tensor(2), axis == 0 and 1 or -2, kind), row.name .. " takes axis 1")
        ran = ran + 1
      end
    end
  end
end
table.sort(no)
table.concat(no, " ") --> chunk d dct diff fft fold idct ifft irfft narrow repeat_interleave rfft roll select split trapezoid unbind
ran > 60 --> true
table.concat(wrong, "; ") -->

-- The values, as PyTorch 2 gives them for torch.tensor(2.) and dim = 0 or -1.
local s = tessera.tensor(2)
local values = { sum = 2, mean = 2, prod = 2, min = 2, max = 2, argmin = 0, argmax = 0, var = 0, std = 0, norm = 2, logsumexp = 2, count_nonzero = 1, nansum = 2,
  nanmean = 2, softmax = 1, log_softmax = 0, cumsum = 2, cumprod = 2, logcumsumexp = 2, sort = 2, argsort = 0, cummax = 2, cummin = 2, median = 2, flip = 2,
  squeeze = 2, topk = 2, kthvalue = 2, quantile = 2, gather = 2, index_select = 2, scatter = 5, scatter_add = 7, index_add = 7, cosine_similarity = 1 }
for row, v in pairs(values) do
  local kind = row == "flip" and "ints"
  for _, axis in ipairs { 0, -1 } do
    local y = called(row, s, axis, kind)[1]
    expect(y.ndim == 0 and near(y:item(), v), row)
  end
end
op.all(s, { axis = 0 }) --> true bool[]
op.sum(s, { axis = -1, keepdims = true }) --> 2. f32[]
s:transpose(0, -1) --> 2. f32[]
op.sum(s, { axis = { 0, -1 } }) --! axis 0 is out of range for f32[]
op.sum(s, { axis = 1 }) --! of a scalar it is 0 or -1
table.concat(wrong, "; ") -->

-- Gradients, on the tape and of graphs.
for row, slope in pairs { sum = 1, mean = 1, prod = 1, max = 1, softmax = 0, cumsum = 1, logsumexp = 1, sort = 1, topk = 1, norm = 1, flip = 1, gather = 1 } do
  local function f(x) return (called(row, x, -1, row == "flip" and "ints")[1]) end
  local x = tessera.tensor(2)
  x.requires_grad = true
  f(x):backward()
  expect(near(x.grad:item(), slope), row .. " backward")
  expect(near(graph.grad(f)(tessera.tensor(2)):item(), slope), row .. " grad")
end
table.concat(wrong, "; ") -->
