-- topk against the beginning of a sort: rows around the blocks in which they go by, few and many
-- results, equal numbers, rows in order (where all that comes is better) and in reverse.
local ts = require "tessera"
local op, rng = ts.op, ts.rng

local kinds = {
  random = function(n) return rng.normal({ n }, { seed = n, stream = 3 }) * 50 end,
  equal = function(n) return rng.randint({ n }, { low = 0, high = 7, seed = n, stream = 4 }):cast "f32" end,
  rising = function(n) return op.arange(n):cast "f32" end,
  falling = function(n) return -op.arange(n):cast "f32" end,
}
local n = 0
for _, dtype in ipairs { "f32", "f64", "bf16", "i32", "u8", "i64" } do
  for _, size in ipairs { 1, 5, 63, 2047, 2048, 2049, 5000, 20000 } do
    for _, k in ipairs { 1, 2, 32, 33, 64, 1000, size - 1, size } do
      for name, make in pairs(k >= 1 and k <= size and kinds or {}) do
        local x = op.clamp(make(size), dtype == "u8" and 0 or nil, dtype == "u8" and 255 or nil):cast(dtype)
        for _, largest in ipairs { true, false } do
          local value, place = op.topk(x, { k = k, largest = largest })
          local range, options = ("0:%d"):format(k), { descending = largest }
          local what = ("%s %s %d of %d"):format(dtype, name, k, size)
          assert(value:hash() == op.sort(x, options)[range]:clone():hash(), what)
          assert(place:hash() == op.argsort(x, options)[range]:clone():hash(), what)
          n = n + 1
        end
      end
    end
  end
end
print(n > 2000) --> true
