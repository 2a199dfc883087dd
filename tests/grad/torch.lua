-- Gradients beside PyTorch's, stored by make_vectors.py.
local tessera = require "tessera"
local core = require "tessera.core"
local op = core.op
local stored = tessera.load "tests/grad/torch.safetensors"

local function worst(a, b)
  if not a then return b:abs():max():item() end
  assert(a.dtype == b.dtype and table.concat(a.shape, ",") == table.concat(b.shape, ","))
  return b.numel == 0 and 0 or (a - b):abs():max():item()
end

for i, c in ipairs(dofile "tests/grad/_torch.lua") do
  local function tensor(kind, k)
    local name = ("%d.%s%d"):format(i - 1, kind, k)
    local pairs_ = stored[name .. "c"]
    return pairs_ and op.complex(pairs_:select(-1, 0), pairs_:select(-1, 1)) or stored[name]
  end
  local inputs = {}
  for k = 1, c.n do inputs[k] = tensor("x", k - 1) end
  local grads = { core.vjp(c.row, inputs, c.options, { tensor("g", 0) }) }
  for k = 1, c.n do
    local off = worst(grads[k], tensor("d", k - 1))
    if not (off < 1e-12) then error(("%s, case %d: gradient of input %d is off by %g"):format(c.row, i, k - 1, off), 0) end
  end
end
