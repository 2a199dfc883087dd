-- Experts of language models: rows of each times its own matrices. In files they stand one by one; here each kind of matrix is one
-- tensor [experts, inputs, outputs]. Those of GGUF, and MXFP4, lie as in the file, [experts, outputs, inputs], and blocks stay
-- blocks, of which products read those that somebody chose (op.experts_linear).

local blocks = require "tessera.hf.blocks"
local op = require("tessera.core").op

local experts = {}

local Experts = blocks.define "Experts"

local function turned_stack(...) return op.stack({ ... }, { axis = 0 }):T():contiguous() end

-- A kind of matrix [outputs, inputs] of all experts.
local function want(self, name, n, outputs, inputs, stacked)
  if stacked then return self:want(name, { n, outputs, inputs }, { from = { name .. ".weight" }, shapes = { { n, outputs, inputs } }, split = true }) end
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

--- Rows by expert times its matrix w: [experts, inputs, outputs], or turned [experts, outputs, inputs]. bias [experts, outputs].
function experts.product(rows, w, sizes, turned, bias)
  local y = op.grouped_matmul(rows, turned and w:T() or w, sizes)
  if not bias then return y end
  return y + op.grouped_matmul(op.ones_like(rows:narrow(-1, 0, 1)), bias:unsqueeze(1), sizes)
end

--- What the experts of index [.., k] make of x [.., inputs] or [.., k, inputs]: [.., k, outputs]. w [experts, outputs, inputs], in blocks or
--- as numbers, which stand beside blocks where their rows are no whole ones.
function experts.chosen(x, w, index, bias)
  if blocks.in_blocks(w.dtype) then return op.experts_linear(x, w, index, bias) end
  local shape, count = { unpack(index.shape) }, index.numel
  shape[#shape + 1] = x.shape[x.ndim]
  if x.ndim == index.ndim then x = x:unsqueeze(-2):expand(shape) end
  local rows, sizes, place, source = op.moe_dispatch(x:reshape(count, x.shape[x.ndim]), index:reshape(count, 1), { experts = w.shape[1] })
  local y = op.moe_combine(experts.product(rows, w, sizes, true, bias), place, source)
  shape[#shape] = w.shape[2]
  return y:reshape(shape)
end

--- Whether one of a module's matrices of experts is stored in blocks, whole or as codes and scales.
function experts.in_blocks(module, names)
  for _, name in ipairs(names) do
    local w = module[name]
    if w == nil or blocks.in_blocks(w.dtype) then return true end
  end
  return false
end

--- experts.chosen of a module's matrix, however it is stored.
function experts.of(module, name, x, index, bias)
  local codes = module[name .. "_blocks"]
  if codes then return op.experts_linear(x, codes:flatten(2), index, bias, module[name .. "_scales"]) end
  return experts.chosen(x, module[name], index, bias)
end

--- Tokens x [.., width] by their choices index [.., k] and weights [.., k].
function Experts:forward(x, weights, index)
  if experts.in_blocks(self, self.names) then
    local function chosen(y, i) return experts.of(self, self.names[i], y, index) end
    local y = chosen(self.activation(chosen(x, 1)) * chosen(x, 2), 3)
    return op.moe_combine(y, { weights = weights })
  end
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
