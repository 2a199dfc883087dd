-- GPT-2 inference from a safetensors file with Hugging Face's names.
--
--   tessera examples/gpt2_generate.lua FOLDER [--prompt 1,2,3] [--tokens 20]
--
-- FOLDER holds config.json and model.safetensors. The prompt is a list of token
-- ids. Generation is greedy with a key-value cache; the logits of the prompt and
-- the tokens are returned.

local tessera = require "tessera"
local op, nn = tessera.op, tessera.nn

local Block = nn.Module:extend "Block"
local GPT2 = nn.Module:extend "GPT2"

local folder, prompt, count = nil, { 0, 1, 2, 3 }, 20
do
  local i = 1
  while arg and arg[i] do
    if arg[i] == "--prompt" then
      prompt, i = {}, i + 1
      for id in arg[i]:gmatch("%d+") do prompt[#prompt + 1] = tonumber(id) end
    elseif arg[i] == "--tokens" then
      i = i + 1
      count = tonumber(arg[i])
    else
      folder = arg[i]
    end
    i = i + 1
  end
end
folder = folder or "tests/examples/gpt2_tiny"

-- Weights of linear layers are stored [in, out] in GPT-2.
local function project(x, w, b) return op.matmul(x, w, { bias = b }) end

function Block:init(state, prefix, config)
  self.heads, self.eps = config.n_head, config.layer_norm_epsilon or 1e-5
  for _, name in ipairs { "ln_1", "ln_2", "attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj" } do
    self[name .. ".weight"] = state[prefix .. name .. ".weight"]
    self[name .. ".bias"] = state[prefix .. name .. ".bias"]
  end
end

function Block:norm(x, name)
  return op.layernorm(x, self[name .. ".weight"], self[name .. ".bias"], { eps = self.eps })
end

function Block:linear(x, name) return project(x, self[name .. ".weight"], self[name .. ".bias"]) end

function Block:forward(x, cache)
  local b, s, e = unpack(x.shape)
  local qkv = self:linear(self:norm(x, "ln_1"), "attn.c_attn")
  local q, k, v = qkv:reshape(b, s, 3, self.heads, e / self.heads):permute(2, 0, 3, 1, 4):split { size = 1 }
  k, v = cache:append(k:squeeze(0), v:squeeze(0))
  local y = op.attention(q:squeeze(0), k, v, { causal = true })
  x = x + self:linear(y:permute(0, 2, 1, 3):reshape(b, s, e), "attn.c_proj")
  local h = op.gelu(self:linear(self:norm(x, "ln_2"), "mlp.c_fc"), { approximate = "tanh" })
  return x + self:linear(h, "mlp.c_proj")
end

function GPT2:init(state, config)
  local prefix = state["transformer.wte.weight"] and "transformer." or ""
  self.eps = config.layer_norm_epsilon or 1e-5
  self.wte, self.wpe = state[prefix .. "wte.weight"], state[prefix .. "wpe.weight"]
  self.ln_w, self.ln_b = state[prefix .. "ln_f.weight"], state[prefix .. "ln_f.bias"]
  self.blocks = nn.List()
  for i = 1, config.n_layer do
    self.blocks[i] = Block(state, ("%sh.%d."):format(prefix, i - 1), config)
  end
end

-- ids [B, S] of i64; caches holds one KVCache a block. Logits [B, S, vocabulary].
function GPT2:forward(ids, caches)
  local at = caches[1].length
  local positions = op.arange(at, at + ids.shape[2])
  local x = op.embedding(self.wte, ids) + op.embedding(self.wpe, positions)
  for i, block in ipairs(self.blocks) do x = block(x, caches[i]) end
  x = op.layernorm(x, self.ln_w, self.ln_b, { eps = self.eps })
  return op.matmul(x, self.wte:T())
end

local config = require("tessera.io").load_json(folder .. "/config.json")
local model = GPT2(tessera.load(folder .. "/model.safetensors"), config)
print(("GPT-2: %d layers, width %d, %d heads, %d parameters"):format(config.n_layer, config.n_embd,
  config.n_head, model:num_parameters()))

local caches = {}
for i = 1, config.n_layer do caches[i] = nn.KVCache() end
local ids = tessera.tensor({ prompt }, { dtype = "i64" })
local logits = model(ids, caches)
local first, out = logits, {}
local start = tessera.core.now()
for i = 1, count do
  local id = logits:select(1, -1):argmax { axis = -1 }
  out[i] = id:item()
  if i < count then logits = model(id:reshape(1, 1), caches) end
end
io.stderr:write(("%.1f tokens/s\n"):format(count / (tessera.core.now() - start)))
print("prompt  " .. table.concat(prompt, " "))
print("tokens  " .. table.concat(out, " "))
return { logits = first, tokens = tessera.tensor(out, { dtype = "i64" }) }
