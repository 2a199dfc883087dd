-- A tensor of a GGUF file in MXFP4 before it is one of ours. Its blocks have 17 bytes, a scale and 16 bytes of codes, of which the
-- first 16 stand below the others; ours are neighbours. So it cannot lie over the file: it is made when somebody takes it, whole, or
-- as codes and scales apart, as products on devices read them.

local core = require "tessera.core"
local op = core.op

local Mxfp4 = {}
Mxfp4.__index = Mxfp4

local BLOCK, NBYTES = 32, 17
local PIECE = 2 ^ 26 -- bytes of the file at once

--- later(raw, shape): of bytes u8 [n] of the file. It has the fields shape, dtype, ndim, numel, nbytes, device of a tensor.
function Mxfp4.later(raw, shape)
  return setmetatable({ raw = raw, shape = shape, dtype = "mxfp4", ndim = #shape, numel = raw.numel / NBYTES * BLOCK, nbytes = raw.numel,
    device = raw.device }, Mxfp4)
end

--- Whether it is such a tensor.
function Mxfp4.is(t) return getmetatable(t) == Mxfp4 end

-- Scales [n, 1] and codes [n, 16] of blocks [n, 17].
local function parts(blocks)
  local codes = blocks:narrow(1, 1, 16)
  local all = op.concat({ codes:bitwise_and(15), codes:shift_right(4) }, { axis = 1 }):reshape(blocks.shape[1], 16, 2)
  return blocks:narrow(1, 0, 1), all:select(2, 0):bitwise_or(all:select(2, 1):shift_left(4))
end

-- f(scales, codes) of all blocks, piece by piece: lists of what it gives.
local function of_pieces(self, f)
  local blocks = self.raw:reshape(self.raw.numel / NBYTES, NBYTES)
  local n, step, lists = blocks.shape[1], math.floor(PIECE / NBYTES), {}
  for at = 0, n - 1, step do
    for i, t in ipairs { f(parts(blocks:narrow(0, at, math.min(step, n - at)))) } do
      lists[i] = lists[i] or {}
      table.insert(lists[i], t)
    end
  end
  return unpack(lists)
end

local function joined(list, shape)
  return (#list == 1 and list[1] or op.concat(list, { axis = 0 })):reshape(shape)
end

local function with_last(self, ...)
  local shape = { unpack(self.shape, 1, self.ndim - 1) }
  for _, d in ipairs { ... } do shape[#shape + 1] = d end
  return shape
end

--- The tensor.
function Mxfp4:whole()
  if self.numel == 0 then return op.zeros(self.shape):cast "mxfp4" end
  local list = of_pieces(self, function(scales, codes) return op.concat({ scales, codes }, { axis = 1 }) end)
  return joined(list, with_last(self, self.shape[self.ndim] / BLOCK * NBYTES)):bitcast "mxfp4"
end

--- Codes u8 [.., blocks, 16] and scales u8 [.., blocks].
function Mxfp4:apart()
  local codes, scales = of_pieces(self, function(scales, codes) return codes, scales:contiguous() end)
  local n = self.shape[self.ndim] / BLOCK
  return joined(codes, with_last(self, n, 16)), joined(scales, with_last(self, n))
end

return Mxfp4
