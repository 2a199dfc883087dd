-- Tables of rows by index, and their sums. Loaded by nn.

local core = require "tessera.core"
local options = require "tessera.options"
local op, rng = core.op, core.op
local need, SIZE, FLAG, DTYPE = options.argument, options.whole { least = 0 }, options.flag, options.dtype

-- A table of which one row begins as zeros and stays so.
local function new_table(self, name, count, width, o)
  self.count, self.width = need(name, "count", SIZE, count), need(name, "width", SIZE, width)
  self.padding_idx, self._told = o.padding_idx, options.told(name, o, "count", count, "width", width)
  if o.padding_idx and o.padding_idx >= count then
    core.fail(("%s: padding_idx %d is no row of %d"):format(name, o.padding_idx, count))
  end
  local weight = rng.normal({ count, width }, { dtype = o.dtype })
  if o.padding_idx then weight = op.where(op.arange(count):eq(o.padding_idx):unsqueeze(1), op.zeros({}, { dtype = weight.dtype }), weight) end
  self.weight = weight
end

-- Rows by index; the padding row gets no gradient.
local function rows_of(self, index)
  local y = op.embedding(self.weight, index)
  if not self.padding_idx then return y, nil end
  local padding = index:eq(self.padding_idx):unsqueeze(-1)
  return op.where(padding, y:detach(), y), padding
end

return function(nn)
  local Embedding = nn.Module:extend "Embedding"
  nn.Embedding = Embedding
  local read = options.placed("Embedding", { padding_idx = SIZE, dtype = DTYPE }, { dtype = "f32" }, { "padding_idx", "dtype" })

  -- Embedding(count, width, {padding_idx, dtype = "f32"}): rows of the table weight [count, width] by index,
  -- op.embedding; they begin normal. The row padding_idx begins as zeros and gets no gradient.
  --   y = nn.Embedding(10, 4)(op.arange(6):reshape(2, 3))   -- f32[2,3,4]
  function Embedding:init(count, width, ...) new_table(self, "Embedding", count, width, read(...)) end

  function Embedding:forward(index) return (rows_of(self, index)) end

  local Bag = nn.Module:extend "EmbeddingBag"
  nn.EmbeddingBag = Bag
  local MODE = options.one_of("sum", "mean", "max")
  local read_bag = options.placed("EmbeddingBag", { mode = MODE, padding_idx = SIZE, include_last_offset = FLAG, dtype = DTYPE },
    { mode = "mean", include_last_offset = false, dtype = "f32" }, { "mode", "padding_idx", "include_last_offset", "dtype" })
  local read_call = options.of("EmbeddingBag", { weights = options.tensor })

  -- EmbeddingBag(count, width, {mode = "mean", padding_idx, include_last_offset = false, dtype = "f32"}):
  -- the sum, mean or maximum of rows of the table weight [count, width]. bag(index), index [bags, n], or
  -- bag(index, offsets), index a vector and offsets where its bags begin; with include_last_offset the
  -- last offset is the end of the last bag. {weights = w}, in the shape of index, weighs the rows of a sum.
  -- Rows padding_idx do not count; a bag with nothing in it is 0.
  --   bag = nn.EmbeddingBag(10, 4, {mode = "sum"})
  --   y = bag(op.arange(6):reshape(2, 3))      -- f32[2,4]
  --   y = bag(op.arange(6), op.arange(2) * 2)  -- f32[2,4]: rows 0 and 1, rows 2 to 5
  function Bag:init(count, width, ...)
    local o = read_bag(...)
    new_table(self, "EmbeddingBag", count, width, o)
    self.mode, self.include_last_offset = o.mode, o.include_last_offset
  end

  -- Bag of each element of a vector of n: how many offsets stand at or before it, less one.
  local function bags_of(offsets, n)
    local begins = op.scatter_add(op.zeros({ n + 1 }, { dtype = "i64", device = offsets.device }), offsets:cast "i64",
      op.ones_like(offsets:cast "i64"), { axis = 0 })
    return begins:cumsum { axis = 0 }:narrow(0, 0, n) - 1
  end

  function Bag:forward(index, offsets, given)
    if given == nil and type(offsets) == "table" and not core.is_tensor(offsets) then offsets, given = nil, offsets end
    local weights, mode = read_call(given).weights, self.mode
    if offsets ~= nil then need("EmbeddingBag", "offsets", options.tensor, offsets) end
    if not core.is_tensor(index) or index.ndim ~= (offsets and 1 or 2) then
      core.fail(("EmbeddingBag: the index is %s, and has to be [bags, n], or a vector with offsets"):format(
        core.is_tensor(index) and core.type_text(index) or type(index)))
    end
    if weights and mode ~= "sum" then core.fail(("EmbeddingBag: weights are for mode = 'sum', not '%s'"):format(mode)) end
    local rows, padding = rows_of(self, index)
    if weights then rows = rows * weights:unsqueeze(-1) end
    local bags, ids
    if offsets then
      bags = offsets.shape[1] - (self.include_last_offset and 1 or 0)
      ids = bags_of(self.include_last_offset and offsets:narrow(0, 0, bags) or offsets, index.shape[1])
    else
      bags = index.shape[1]
      ids = op.arange(bags, { device = index.device }):unsqueeze(1):expand(bags, index.shape[2]):reshape(-1)
      rows = rows:reshape(-1, self.width)
      padding = padding and padding:reshape(-1, 1)
    end
    local function reduce(x, how) return op.segment_reduce(x, ids, bags, { mode = how }) end
    local zero = op.zeros({}, { dtype = rows.dtype, device = rows.device })
    local counted = op.ones({ rows.shape[1], 1 }, { dtype = rows.dtype, device = rows.device })
    if padding then counted = op.where(padding, zero, counted) end
    local count = reduce(counted, "sum")
    if mode == "max" then
      if padding then rows = op.where(padding, zero - math.huge, rows) end
      return op.where(count:gt(0), reduce(rows, "max"), zero)
    end
    if padding then rows = op.where(padding, zero, rows) end
    local sum = reduce(rows, "sum")
    return mode == "mean" and sum / op.maximum(count, 1) or sum
  end
end
