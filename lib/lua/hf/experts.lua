-- Experts of language models: rows of each times its own matrices. In files they stand one by one; here each kind of matrix is one
-- tensor [experts, inputs, outputs]. Those of GGUF, and MXFP4, lie as in the file, [experts, outputs, inputs], and blocks stay
-- blocks: then each expert that has rows is a product of its own, as many as somebody chose.

local blocks = require "tessera.hf.blocks"
local core = require "tessera.core"
local op = core.op

local experts = {}

local Experts = blocks.define "Experts"

local function turned_stack(...) return op.stack({ ... }, { axis = 0 }):T():contiguous() end

-- A kind of matrix [outputs, inputs] of all experts.
local function want(self, name, n, outputs, inputs, stacked)
  if stacked then return self:want(name, { n, outputs, inputs }, { from = { name .. ".weight" }, shapes = { { n, outputs, inputs } } }) end
  local from, shapes = {}, {}
  for e = 1, n do from[e], shapes[e] = ("%d.%s.weight"):format(e - 1, name), { outputs, inputs } end
  self:want(name, { n, inputs, outputs }, { from = from, shapes = shapes, join = turned_stack })
end

--- Experts{experts, width, hidden, activation, names = {gate, up, down}, stacked}: down(activation(gate(x)) * up(x)) of each.
function Experts:init(o)
  self.experts, self.names, self.stacked = o.experts, o.names or { "gate_proj", "up_proj", "down_proj" }, o.stacked
  self.activation = blocks.activation(o.activation)
  want(self, self.names[1], o.experts, o.hidden, o.width, o.stacked)
  want(self, self.names[2], o.experts, o.hidden, o.width, o.stacked)
  want(self, self.names[3], o.experts, o.width, o.hidden, o.stacked)
end

--- Rows by expert times its matrix w: [experts, inputs, outputs], or turned [experts, outputs, inputs], also in blocks.
--- bias [experts, outputs].
function experts.product(rows, w, sizes, turned, bias)
  local y
  if blocks.in_blocks(w.dtype) and not core.capturing() then
    local bytes, parts, at = w:bitcast "u8", {}, 0
    for e, n in ipairs(sizes:totable()) do
      if n > 0 then
        parts[#parts + 1] = op.linear(rows:narrow(0, at, n), bytes:select(0, e - 1):bitcast(w.dtype), bias and bias:select(0, e - 1))
        at = at + n
      end
    end
    return op.concat(parts, { axis = 0 })
  end
  if blocks.in_blocks(w.dtype) then w = w:cast(rows.dtype == "f64" and "f32" or rows.dtype) end
  y = op.grouped_matmul(rows, turned and w:T() or w, sizes)
  if not bias then return y end
  return y + op.grouped_matmul(op.ones_like(rows:narrow(-1, 0, 1)), bias:unsqueeze(1), sizes)
end

--- Whether a model has experts that stay blocks. Its calls ask which experts somebody chose, so they are made one by one: a captured
--- one would make numbers of all of them.
function experts.in_blocks(model)
  for _, field in ipairs(model:tensors()) do
    if blocks.in_blocks(field.tensor.dtype) and field.tensor.ndim > 2 then return true end
  end
  return false
end

--- Tokens x [.., width] by their choices index [.., k] and weights [.., k].
function Experts:forward(x, weights, index)
  local rows, sizes, place, source = op.moe_dispatch(x, index, { experts = self.experts })
  local function times(y, i) return experts.product(y, self[self.names[i]], sizes, self.stacked) end
  local y = times(self.activation(times(rows, 1)) * times(rows, 2), 3)
  return op.moe_combine(y, place, source, weights)
end
experts.Experts = Experts

-- ---- the layer of mixtral and qwen

local Mixture = blocks.define "Mixture"

--- Mixture{experts, k, width, hidden, activation, names, stacked, normed, shared}: gate, a linear layer, chooses k experts a token
--- by softmax, whose weights sum to 1 if normed. shared: width of an expert that all tokens go to, with a gate.
function Mixture:init(o)
  self.k, self.normed = o.k, o.normed
  self.gate = blocks.Linear(o.width, o.experts)
  self.experts = Experts(o)
  if o.shared then
    self.shared_expert = blocks.GatedMLP(o.width, o.shared, o.activation)
    self.shared_expert_gate = blocks.Linear(o.width, 1)
  end
end

function Mixture:forward(x)
  local logits = self.gate(x):cast(x.dtype == "f64" and "f64" or "f32")
  local weights, index = op.router(logits, { k = self.k, softmax = self.normed and "after" or "before" })
  local y = self.experts(x, weights, index)
  if not self.shared_expert then return y end
  return y + op.sigmoid(self.shared_expert_gate(x)) * self.shared_expert(x)
end
experts.Mixture = Mixture

return experts
