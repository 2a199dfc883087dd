local tessera = require "tessera"
local op, rng = tessera.op, tessera.rng
local path = os.tmpname()
os.remove(path)

-- Every dtype survives, to the bit; views are saved by their elements.
local st = path .. ".safetensors"
local all = { ["a view"] = op.arange(12):reshape(3, 4):T(), scalar = tessera.tensor(3), empty = op.zeros { 0, 2 } }
for _, d in ipairs(tessera.core.dtypes()) do
  if d.block == 1 then all[d.name] = (rng.normal({ 3, 5 }, { seed = 1, stream = 2 }) * 3):cast(d.name) end
end
tessera.save(st, all, { step = 7, note = "\"quoted\"" })
local back, meta = tessera.load(st)
for name, t in pairs(all) do
  assert(back[name].dtype == t.dtype and back[name]:hash() == t:hash(), name)
end
meta.step --> 7
meta.note --> "quoted"

-- Blocks, too.
for _, d in ipairs(tessera.core.dtypes()) do
  if d.block > 1 then
    local x = rng.normal({ 3, 2 * d.block }, { seed = 3 }):cast(d.name)
    tessera.save(path .. "b.safetensors", { x = x })
    local y = tessera.load(path .. "b.safetensors").x
    assert(y.dtype == d.name and y:bytes() == x:bytes(), d.name)
  end
end
os.remove(path .. "b.safetensors")

-- In-place operators on loaded tensors leave the file alone.
back.f32:mul_(0)
local again = tessera.load(st)
again.f32:hash() == all.f32:hash() --> true

-- Saving over a loaded file is safe: the old bytes live on until released.
tessera.save(st, { f32 = again.f32 + 1 })
again.f32:hash() == all.f32:hash() --> true

local npy = path .. ".npy"
for _, d in ipairs { "bool", "u8", "i8", "i16", "i32", "i64", "f16", "f32", "f64", "complex64", "complex128" } do
  tessera.save(npy, all[d])
  local t = tessera.load(npy)
  assert(t.dtype == d and t:hash() == all[d]:hash(), d)
end
tessera.save(npy, tessera.tensor(5))
tessera.load(npy).shape --> {}
tessera.save(npy, all.bf16) --! NumPy has no dtype for bf16

tessera.save(path .. ".bin", all) --! must end in .safetensors or .npy
tessera.save(st, { x = print }) --! 'x' is a function, which no file holds
tessera.save("/nonexistent/x.npy", all.f32) --! No such file or directory
tessera.load("/nonexistent.npy") --! cannot open /nonexistent.npy

-- A failed save leaves the old file.
pcall(tessera.save, st, { x = print })
tessera.load(st).f32:hash() == (all.f32 + 1):hash() --> true
os.remove(st)
os.remove(npy)
