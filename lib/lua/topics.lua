-- What there is to know about: the public names of the library, with what stands above each in its source, split into
-- signature, text and examples; and the search over them, by words of names, of options and of first sentences.
--
--   for _, t in ipairs(topics.of "nn") do print(t.path, topics.about(t).signature) end
--   topics.search("warmup", 80)      -- the lines that `? warmup` shows

local comments = require "tessera.comments"
local core = require "tessera.core"
local options = require "tessera.options"
local topics = {}

-- Parts of the library with functions and classes.
topics.modules = { "nn", "optim", "optim.schedule", "data", "checkpoint", "graph", "rng", "image", "hf", "numerics", "profile", "autotune", "jit" }

-- Words that are no names: what the prompt shows for them, in lines of a width.
topics.pages = {
  marks = function(width) return require("tessera.profile.marks").text(width) end,
}

local function is_topic(name, v)
  if type(name) ~= "string" or not name:find "^%a[%w_]*$" or core.is_tensor(v) then return false end
  return type(v) == "function" or (type(v) == "table" and type(rawget(v, "class")) == "string")
end

--- The topics of a part, {path, value}, by name: classes and functions of a module, or those functions of op that are
--- made of operators, "op".
function topics.of(module)
  local list = {}
  if module == "op" then
    for _, modules in pairs(require "tessera.named_functions") do
      for _, names in pairs(modules) do
        for name in names:gmatch "%S+" do list[#list + 1] = { path = "op." .. name, value = core.op[name] } end
      end
    end
  else
    local part = require "tessera"
    for word in module:gmatch "[^.]+" do part = part[word] end
    for name, v in pairs(part) do
      if is_topic(name, v) then list[#list + 1] = { path = (module == "jit" and "tessera." or "") .. module .. "." .. name, value = v } end
    end
  end
  table.sort(list, function(a, b) return a.path < b.path end)
  return list
end

--- What is said about a topic: its signature, the text as a list of paragraphs, the examples as a list of lines.
function topics.about(topic)
  local path, v = topic.path, topic.value
  local make = v
  if type(v) == "table" then make = rawget(v, "init") or nil end
  local args, comment
  if make then args, comment = comments.of_function(make) end
  comment = comment or comments.of_name(path) or {}
  local text, examples, open = {}, {}, false
  for _, line in ipairs(comment) do
    if line:find "^%s" or line == "" then
      if line ~= "" then examples[#examples + 1] = line:match "^%s?%s?(.*)$" end
      open = false
    else
      if open then text[#text] = text[#text] .. " " .. line else text[#text + 1] = line end
      open = true
    end
  end
  local word = type(v) == "table" and v.class or path:match "[%w_]+$"
  local first = text[1] or ""
  local head, rest = first:match("^[%w_.]-%f[%w_]" .. word .. "(%b()):%s*(.*)$")
  if not head then head, rest = first:match("^[%w_.]-%f[%w_]" .. word .. "(%b{}):%s*(.*)$") end
  if head then text[1] = rest end
  return { signature = path .. (head or args or "(...)"), text = text, examples = examples }
end

-- Up to the first full stop, without what stands behind a colon before it at length.
local function first_sentence(text)
  local s = text or ""
  local stop = s:find "%.%s+%u" or s:find "%.$"
  return stop and s:sub(1, stop - 1) or s
end

-- All topics with what is searched in them, made once.
local index
local function indexed()
  if index then return index end
  index = {}
  for _, row in ipairs(core.operators()) do
    local names = {}
    for name in row.attrs:gmatch "([%a_][%w_]*):" do names[#names + 1] = name end
    index[#index + 1] = { path = "op." .. row.name, options = names, text = first_sentence(row.help), all = row.help }
  end
  local modules = { "op", unpack(topics.modules) }
  for _, module in ipairs(modules) do
    for _, topic in ipairs(topics.of(module)) do
      local names = {}
      for name in pairs(options.known(topic.path:gsub("^op%.", "")) or {}) do names[#names + 1] = name end
      table.sort(names)
      local text = topics.about(topic).text
      index[#index + 1] = { path = topic.path, options = names, text = first_sentence(text[1]), all = table.concat(text, " ") }
    end
  end
  return index
end

-- How well a word fits: its own name, a part of it, an option, a word of the first sentence, or of all; nil: not.
local function fit(entry, word)
  local name = entry.path:match("[%w_]+$"):lower()
  if name == word then return 1 end
  if entry.path:lower():find(word, 1, true) then return 2 end
  for _, option in ipairs(entry.options) do
    if option:lower():find(word, 1, true) then return 3, option end
  end
  local pattern = "%f[%w]" .. word:gsub("%p", "%%%0")
  if entry.text:lower():find(pattern) then return 4 end
  if entry.all:lower():find(pattern) then return 5 end
end

local MOST = 16

--- Lines for what has all the words, best first: "" for nothing.
function topics.search(words, width)
  local found = {}
  for _, entry in ipairs(indexed()) do
    local worst, by
    for word in words:lower():gmatch "%S+" do
      local rank, option = fit(entry, word)
      if #word < 3 then rank = nil end
      worst = rank and worst ~= false and math.max(worst or 0, rank) or false
      by = option or by
    end
    if worst then found[#found + 1] = { entry = entry, rank = worst, option = by } end
  end
  table.sort(found, function(a, b)
    if a.rank ~= b.rank then return a.rank < b.rank end
    return a.entry.path < b.entry.path
  end)
  local lines = {}
  for i = 1, math.min(#found, MOST) do
    local f = found[i]
    local line = ("  %s%s: %s"):format(f.entry.path, f.option and " {" .. f.option .. "}" or "", f.entry.text)
    if #line > width and width > 8 then line = line:sub(1, width - 3):gsub("[\194-\244][\128-\191]*$", ""):gsub("%s+$", "") .. "..." end
    lines[i] = line .. "\n"
  end
  if #found > MOST then lines[#lines + 1] = ("  and %d more\n"):format(#found - MOST) end
  return table.concat(lines)
end

return topics
