-- A model of a configuration whose weights are drawn, where there is no file: for examples, benchmarks, and training from the start.

local core = require "tessera.core"
local families = require "tessera.hf.families"
local op = core.op

local drawn = {}

local SOME = 2 ^ 28 -- numbers that stand beside the codes that become of them

-- Codes of 4 bits, each as likely, some experts at a time; scales of 2^-8, with which numbers are about as large as others are here.
local function codes_of(shape, draw, device)
  local n, rows, k = unpack(shape)
  local codes = op.zeros({ n, rows, k / 32, 16 }, { dtype = "u8", device = device })
  local some = math.max(1, math.floor(SOME / (rows * k)))
  for e = 0, n - 1, some do
    local part = codes:narrow(0, e, math.min(some, n - e))
    part:copy_((draw("uniform", part.shape, { high = 256 })):cast "u8")
  end
  return codes, op.full({ n, rows, k / 32 }, 119, { dtype = "u8", device = device })
end

--- model(config, {device, dtype = "bf16", std = 0.02, seed = 1}): the model, and two numbers: bytes of its weights, and of those that a
--- token reads. Matrices are normal numbers, weights of norms 1, other vectors 0 (sinks, in f32, as biases); experts that the
--- configuration has in MXFP4 are codes and scales. A tensor's numbers are a function of the seed and its place among all (Philox).
function drawn.model(config, o)
  o = o or {}
  local device, dtype, std, stream = o.device, o.dtype or "bf16", o.std or 0.02, 0
  local family, gives = families.find(config, "the configuration")
  local c = families.config(family, config, "the configuration", math.huge)
  local model = core.no_grad(family.build, c, gives, function() return true end)
  model.config = c
  local function draw(name, shape, options)
    stream = stream + 1
    options.seed, options.stream, options.device = o.seed or 1, stream, device
    return op[name](shape, options)
  end
  local bytes, read = 0, 0
  local function count(path, part, ...)
    for _, t in ipairs { ... } do
      bytes = bytes + t.nbytes
      if not path:find "embed" or c.tie_word_embeddings then read = read + t.nbytes * part end
    end
  end
  model:apply(function(m, path)
    for _, w in ipairs(rawget(m, "_wants") or {}) do
      if w.apart then
        local codes, scales = codes_of(w.shape, draw, device)
        m:buffer(w.from[1], codes)
        m:buffer(w.from[2], scales)
        count(path, c.num_experts_per_tok / c.num_local_experts, codes, scales)
      else
        local t
        if #w.shape > 1 then
          t = draw("normal", w.shape, { std = std, dtype = dtype })
        else
          t = op.full(w.shape, w.name == "weight" and 1 or 0, { dtype = w.name == "sinks" and "f32" or dtype, device = device })
        end
        m[w.name] = t
        local part = #w.shape == 3 and c.num_experts_per_tok and c.num_experts_per_tok / w.shape[1] or 1
        count(path, part, t)
      end
      collectgarbage()
    end
  end)
  return model:eval(), bytes, read
end

return drawn
