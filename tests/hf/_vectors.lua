-- The models of tests/hf/vectors: their weights, which are a function of names and places as vectors/make.py has it, in folders that
-- hf.load reads.
local tessera = require "tessera"
local core, op = tessera.core, tessera.op
local vectors, json = {}, core.open_json()

local function crc32(text)
  local crc = 0xFFFFFFFF
  for i = 1, #text do
    crc = bit.bxor(crc, text:byte(i))
    for _ = 1, 8 do crc = bit.bxor(bit.rshift(crc, 1), bit.band(0xEDB88320, -bit.band(crc, 1))) end
  end
  return bit.bnot(crc) % 2 ^ 32
end

local MASK = 0xFFFFFFFF

function vectors.weight(name, shape)
  local n, fan = 1, 1
  for i, d in ipairs(shape) do
    n = n * d
    if i > 1 then fan = fan * d end
  end
  if #shape == 2 then fan = shape[2] end
  local h = (op.arange(n):cast "i64" + crc32(name)):bitwise_and(MASK)
  h = (h * 2654435761):bitwise_and(MASK)
  h = h:bitwise_xor(h:shift_right(15))
  h = (h * 2246822519):bitwise_and(MASK)
  h = h:bitwise_xor(h:shift_right(13))
  local u = h:cast "f64" / 2 ^ 32 - 0.5
  if #shape < 2 then
    u = u * 0.5 + ((name:find "weight$" or name:find "running_var$") and 1 or 0)
  else
    u = u * (3 / math.sqrt(fan))
  end
  return u:cast("f32"):reshape(shape)
end

--- {config, tensors by name, known: inputs and outputs} of a model.
function vectors.read(name)
  local stored, about = tessera.load("tests/hf/vectors/" .. name .. ".safetensors")
  local tensors = {}
  for word, shape in pairs(json.decode(about.tensors)) do tensors[word] = vectors.weight(word, shape) end
  local ins, outs = {}, {}
  for word, t in pairs(stored) do
    local side, own = word:match "^(%a+)%.(.*)$"
    if side == "in" then ins[own] = t else outs[own] = t end
  end
  return { config = json.decode(about.config), tensors = tensors, ins = ins, outs = outs }
end

--- A folder with a model; the caller removes it.
function vectors.folder(config, tensors)
  local path = os.tmpname()
  os.remove(path)
  os.execute("mkdir -p " .. path)
  local f = assert(io.open(path .. "/config.json", "w"))
  f:write(json.encode(config))
  f:close()
  if tensors then tessera.save(path .. "/model.safetensors", tensors) end
  return path
end

function vectors.remove(path) os.execute("rm -rf " .. path) end

--- The model of vectors/NAME, what stood there, and its inputs and outputs.
function vectors.load(name, options)
  local v = vectors.read(name)
  local path = vectors.folder(v.config, v.tensors)
  local ok, model = pcall(tessera.hf.load, path, options)
  vectors.remove(path)
  if not ok then error(name .. ": " .. tostring(model), 0) end
  return model, v
end

--- The largest distance of y from x, beside the largest number of x.
function vectors.distance(y, x)
  assert(table.concat(y.shape, ",") == table.concat(x.shape, ","), "shapes " .. table.concat(y.shape, ",") .. " and " .. table.concat(x.shape, ","))
  return ((y:cast "f64" - x:cast "f64"):abs():max() / x:cast("f64"):abs():max()):item()
end

function vectors.same(a, b) return op.all(op.eq(a, b)):item() and table.concat(a.shape, ",") == table.concat(b.shape, ",") end

return vectors
