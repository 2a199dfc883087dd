-- Configurations in which a value is another one: a model, or an error with the file's name; never a long wait.
local tessera = require "tessera"
local vectors = dofile "tests/hf/_vectors.lua"
local json = tessera.core.open_json()

local values = { -1, 0, 1e9, 1.5, "x", { 3 }, {}, true }
local tried, good = 0, 0
for _, name in ipairs { "llama_llama3", "gemma3", "gpt2", "phi3_longrope", "gpt_neox", "qwen2_moe", "gpt_oss", "deepseek_v3", "bert_classes",
  "t5_gated", "vit", "clip", "whisper", "resnet" } do
  local v = vectors.read(name)
  local path = vectors.folder(v.config, v.tensors)
  local function try(config)
    local f = assert(io.open(path .. "/config.json", "w"))
    f:write(json.encode(config))
    f:close()
    local ok, why = pcall(tessera.hf.load, path)
    tried = tried + 1
    good = good + (ok and 1 or 0)
    local told = ok or tostring(why):find(path, 1, true) or tostring(why):find "it does not fit"
    assert(told, name .. ": " .. json.encode(config) .. "\n" .. tostring(why))
  end
  local function walk(t)
    for k, x in pairs(t) do
      for i, value in ipairs(values) do
        if (i + tried) % 3 == 0 then -- of each key some
          t[k] = value
          try(v.config)
        end
      end
      t[k] = nil
      try(v.config)
      t[k] = x
      if type(x) == "table" then walk(x) end
    end
  end
  walk(v.config)
  vectors.remove(path)
end
good > 0 and good < tried --> true
