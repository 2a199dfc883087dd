-- GPT-OSS: attention with biases, sinks and every other layer a window; a mixture of experts with biases and clamped swiglu, whose
-- gate and up are neighbours. Matrices of experts are stored [inputs, outputs], or in MXFP4, [outputs, inputs], whose codes and
-- scales stay as they are, side by side.

local blocks = require "tessera.hf.blocks"
local core = require "tessera.core"
local decoder = require "tessera.hf.decoder"
local experts = require "tessera.hf.experts"
local llama = require "tessera.hf.llama"
local op = core.op

local Experts = blocks.define "GptOssExperts"

-- Blocks of 16 bytes with two codes each, and scales, as blocks of ours: the scale in front.
local function mxfp4(codes, scales)
  local all = op.concat({ scales:unsqueeze(-1), codes }, { axis = -1 })
  local e, rows, n = unpack(scales.shape)
  return all:reshape(e, rows, n * 17):bitcast "mxfp4"
end

local function want(self, name, n, inputs, outputs, quantized)
  if quantized then
    self:want(name, { n, outputs, inputs }, { from = { name .. "_blocks", name .. "_scales" },
      shapes = { { n, outputs, inputs / 32, 16 }, { n, outputs, inputs / 32 } }, join = mxfp4, apart = true })
  else
    self:want(name, { n, inputs, outputs })
  end
end

function Experts:init(c)
  local n, d, h = c.num_local_experts, c.hidden_size, c.intermediate_size
  self.experts, self.limit, self.alpha = n, c.swiglu_limit, c.swiglu_alpha
  self.turned = c.quantization_config ~= nil or c.experts_stacked
  if c.experts_stacked then -- GGUF, where gate and up stand apart
    for name, sizes in pairs { gate_proj = { h, d }, up_proj = { h, d }, down_proj = { d, h } } do
      self:want(name, { n, sizes[1], sizes[2] }, { from = { name .. ".weight" }, shapes = { { n, sizes[1], sizes[2] } }, split = true })
      self:want(name .. "_bias", { n, sizes[1] }, { from = { name .. ".bias" }, shapes = { { n, sizes[1] } } })
    end
    return
  end
  want(self, "gate_up_proj", n, d, 2 * h, self.turned)
  want(self, "down_proj", n, h, d, self.turned)
  self:want("gate_up_proj_bias", { n, 2 * h })
  self:want("down_proj_bias", { n, d })
end

-- A matrix of the experts that were chosen times x [.., inputs] or [.., k, inputs].
function Experts:chosen(name, x, index) return experts.of(self, name, x, index, self[name .. "_bias"]) end

-- Of gate and up: limited, and joined.
function Experts:swiglu(gate, up)
  gate, up = gate:clamp { max = self.limit }, up:clamp(-self.limit, self.limit)
  return gate * op.sigmoid(gate * self.alpha) * (up + 1)
end

local function neighbours(both)
  local shape = { unpack(both.shape) }
  shape[#shape], shape[#shape + 1] = shape[#shape] / 2, 2
  both = both:reshape(shape)
  return both:select(-1, 0), both:select(-1, 1)
end

function Experts:forward(x, weights, index)
  local apart = self.gate_proj_bias ~= nil
  if experts.in_blocks(self, apart and { "gate_proj", "up_proj", "down_proj" } or { "gate_up_proj", "down_proj" }) then
    local h
    if apart then
      h = self:swiglu(self:chosen("gate_proj", x, index), self:chosen("up_proj", x, index))
    else
      h = self:swiglu(neighbours(self:chosen("gate_up_proj", x, index)))
    end
    return op.moe_combine(self:chosen("down_proj", h, index), { weights = weights })
  end
  local rows, sizes, place, source = op.moe_dispatch(x, index, { experts = self.experts })
  local h
  if apart then
    h = self:swiglu(experts.product(rows, self.gate_proj, sizes, true, self.gate_proj_bias),
      experts.product(rows, self.up_proj, sizes, true, self.up_proj_bias))
  else
    h = self:swiglu(neighbours(experts.product(rows, self.gate_up_proj, sizes, self.turned, self.gate_up_proj_bias)))
  end
  return op.moe_combine(experts.product(h, self.down_proj, sizes, self.turned, self.down_proj_bias), place, source, weights)
end

local Mixture = blocks.define "GptOssMixture"

function Mixture:init(c)
  self.k = c.num_experts_per_tok
  self.router = blocks.Linear(c.hidden_size, c.num_local_experts, true)
  self.experts = Experts(c)
end

function Mixture:forward(x)
  local weights, index = op.router(self.router(x), { k = self.k, softmax = "after" })
  return self.experts(x, weights, index)
end

return {
  architectures = { GptOssForCausalLM = "logits", GptOssModel = "hidden" },
  needs = { "num_local_experts", "num_experts_per_tok", unpack(decoder.NEEDS) },
  defaults = { rms_norm_eps = 1e-5, max_position_embeddings = 131072, attention_bias = true, head_dim = 64, swiglu_limit = 7, swiglu_alpha = 1.702,
    sliding_window = 128, rope_theta = 150000 },
  prefix = "model", ignored = decoder.IGNORED,
  check = function(c)
    local q = c.quantization_config
    if q and q.quant_method ~= "mxfp4" then return { ("weights quantised by '%s' are not read, mxfp4 is"):format(tostring(q.quant_method)) } end
    return {}
  end,
  build = decoder.build("model", function(c)
    return llama.base(c, { bias = c.attention_bias, out_bias = c.attention_bias, sinks = true,
      window = function(i)
        if c.layer_types then return decoder.window(c, i) end
        return i % 2 == 0 and c.sliding_window or nil
      end,
      mlp = function() return Mixture(c) end })
  end),
}
