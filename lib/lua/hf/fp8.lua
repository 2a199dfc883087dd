-- Rows of keys and values in 8 bits. Each row, the numbers of one head at one position, has a scale of its own: the least power of two
-- by which its greatest number is divided to fit the type. So a row's bits depend on nothing but the row, and what is read
-- again, number times scale, is exact in f32 and in bf16.

local core = require "tessera.core"
local op = core.op

local fp8 = {}

local MOST = { fp8_e4m3 = 448, fp8_e5m2 = 57344 }

--- What keys and values may be stored as.
fp8.kind = require("tessera.options").one_of("f64", "f32", "bf16", "f16", "fp8_e4m3", "fp8_e5m2")

--- Whether a dtype is one of these.
function fp8.is(dtype) return MOST[dtype] ~= nil end

--- Bytes of a row's scale.
fp8.scale_bytes = 4

--- narrow(x, dtype): x [.., D] as numbers of 8 bits, and their scales f32 [..].
function fp8.narrow(x, dtype)
  x = x:cast "f32"
  local top = x:abs():max { axis = -1, keepdims = true }
  local scale = op.where(top:gt(0), op.exp2(op.ceil(op.log2(top / MOST[dtype]))), 1)
  return (x / scale):cast(dtype), scale:squeeze { axis = -1 }
end

--- wide(q, scale, dtype): numbers again.
function fp8.wide(q, scale, dtype) return (q:cast "f32" * scale:unsqueeze(-1)):cast(dtype) end

return fp8
