-- Writes docs/library.md from what stands above the functions and classes of the library and from the options that they
-- check: layers, losses, optimisers, schedules, data.
--   bin/tessera scripts/docs_library.lua [path]      -- "-": standard output
require "tessera"
local options = require "tessera.options"
local topics = require "tessera.topics"

local out = {}
local function put(...) out[#out + 1] = (...):format(select(2, ...)) end

-- Characters that Markdown would take for marks.
local function plain(text)
  text = text:gsub("`", "\\`"):gsub("<(%a)", "\\<%1"):gsub("%]%(", "]\\(")
  text = text:gsub("_", "\\_")
  return (text:gsub("%*", "\\*"))
end

local function value_text(v)
  if type(v) == "table" then return "{" .. table.concat(v, ", ") .. "}" end
  return type(v) == "string" and '"' .. v .. '"' or tostring(v)
end

local function put_options(path)
  local kinds, defaults = options.known(path)
  local names = {}
  for name in pairs(kinds or {}) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    local kind, default = kinds[name], defaults and defaults[name]
    put("- option `%s`: %s%s", name, plain(kind.text),
      kind.needed and ", needed" or default ~= nil and (", default `%s`"):format(value_text(default)) or "")
  end
end

local function put_topic(topic)
  local about = topics.about(topic)
  put("### %s", topic.path)
  put("")
  put("    %s", (about.signature:gsub("%%", "%%%%")))
  put("")
  for _, paragraph in ipairs(about.text) do
    put("%s", plain(paragraph))
    put("")
  end
  put_options(topic.path)
  if about.examples[1] then
    if out[#out] ~= "" then put("") end
    for _, line in ipairs(about.examples) do out[#out + 1] = "    " .. line end
  end
  if out[#out] ~= "" then put("") end
end

-- ---- sections
local LOSS = function(t) return t.path:find "Loss$" ~= nil end
local ATTENTION = function(t) return t.path:find "ttention" or t.path:find "Transformer" or t.path:find "KVCache" or t.path == "nn.MLP" end
local CONV = function(t) return t.path:find "Conv" or t.path:find "Pool" or t.path:find "pool" or t.path:find "Fold$" or t.path:find "Unfold" end
local NORM = function(t) return t.path:find "Norm" or t.path:find "Dropout" end
local RECURRENT = { ["nn.RNN"] = true, ["nn.LSTM"] = true, ["nn.GRU"] = true, ["nn.RNNCell"] = true, ["nn.LSTMCell"] = true, ["nn.GRUCell"] = true }
local CONTAINER = { ["nn.Sequential"] = true, ["nn.List"] = true, ["nn.Module"] = true, ["nn.Identity"] = true }

local sections = {
  { "Containers", "What modules stand in. Methods of all modules: `? nn.Module`.", "nn", function(t) return CONTAINER[t.path] end },
  { "Convolutions and pools", "Over one, two or three axes of space.", "nn", CONV },
  { "Recurrent layers", "Over steps of sequences.", "nn", function(t) return RECURRENT[t.path] end },
  { "Attention", "Attention, and what is built of it.", "nn", ATTENTION },
  { "Norms and dropout", "What keeps activations in order.", "nn", NORM },
  { "Losses", "As layers, with PyTorch's names; most are operators, too: `docs/operators.md`.", "nn", LOSS },
  { "Other layers", "Linear layers, embeddings, activations, changes of places.", "nn", function() return true end },
  { "Optimisers", "They change parameters in place: `opt:step()`, or `graph.training_step(model, loss, opt)`. All have " ..
    "`zero_grad`, `add_param_group`, `set_rate`, `state_dict` and `load_state_dict`.", "optim", function() return true end },
  { "Schedules", "Learning rates as functions of the step, with `state_dict` and `load_state_dict`.", "optim.schedule", function() return true end },
  { "Checkpoints", "What a training goes on from (`docs/checkpoints.md`).", "checkpoint", function() return true end },
  { "Models", "Models as people have them (`docs/models.md`, `docs/tokenizers.md`).", "hf", function() return true end },
  { "Data", "Text, batches, sequences, progress.", "data", function() return true end },
}

-- Where a heading is found; of several that give one, the later are counted.
local anchors = {}
local function anchor(heading)
  local word = heading:lower():gsub("[^%w%- _]", ""):gsub(" ", "-")
  anchors[word] = (anchors[word] or -1) + 1
  return anchors[word] > 0 and word .. "-" .. anchors[word] or word
end

local function reference()
  local taken, of = {}, {}
  for i, section in ipairs(sections) do
    of[i] = {}
    for _, topic in ipairs(topics.of(section[3])) do
      if not taken[topic.path] and section[4](topic) then
        taken[topic.path] = true
        table.insert(of[i], topic)
      end
    end
  end
  put("# Layers, losses, optimisers, data")
  put("")
  put("What the library in Lua has for training. Made by `make docs` from its sources, `lib/lua`: edit these, not this file. At")
  put("the prompt, `? nn.Linear` shows the same, and `? word` where a word occurs.")
  put("")
  put("What has to be given stands by place, options in a table behind it: `nn.Linear(3, 2, {bias = false})`. Where options have an")
  put("order, they may stand by place too: `nn.Linear(3, 2, false)`.")
  put("")
  put("## Contents")
  put("")
  for i, section in ipairs(sections) do
    local names = {}
    for k, topic in ipairs(of[i]) do names[k] = ("[%s](#%s)"):format(topic.path:match "[%w_]+$", anchor(topic.path)) end
    put("- [%s](#%s): %s", section[1], anchor(section[1]), table.concat(names, " "))
  end
  put("")
  for i, section in ipairs(sections) do
    put("## %s", section[1])
    put("")
    put("%s", section[2])
    put("")
    for _, topic in ipairs(of[i]) do put_topic(topic) end
  end
  return (table.concat(out, "\n"):gsub("\n+$", "\n"))
end

local path = arg[1] or "docs/library.md"
local text = reference()
local file = path == "-" and io.stdout or assert(io.open(path, "w"))
file:write(text)
if file ~= io.stdout then file:close() end
