-- Words of the command line as options, by the kinds that functions of the library check them by: --max-new-tokens=20 is
-- max_new_tokens = 20. A word that stands behind "=" or as the next one is a number, true or false, or a text, whichever the option
-- takes first.

local core = require "tessera.core"
local options = require "tessera.options"

local words = {}

--- The name of an option as a word.
function words.spelt(name) return "--" .. name:gsub("_", "-") end

-- {top_k = 5} as --top-k 5; nil where it is something else.
local function table_as_words(text, kinds)
  local list = {}
  for part in (text:sub(2, -2) .. ","):gmatch "([^,]*)," do
    local name, value = part:match "^%s*([%a_]+) = ([^%s{}]+)%s*$"
    if not name or not kinds[name] then return nil end
    list[#list + 1] = words.spelt(name) .. " " .. value
  end
  return table.concat(list, " ")
end

--- What a function of the library says of its options, as whoever gave them as words knows them.
function words.told(text, kinds)
  text = text:gsub("'([%a_]+)'", function(name) return kinds[name] and "'" .. words.spelt(name) .. "'" or nil end)
  return (text:gsub("%b{}", function(t) return table_as_words(t, kinds) end))
end

local function numbers(text)
  local list = {}
  for part in (text .. ","):gmatch "([^,]*)," do
    local n = tonumber(part)
    if not n then return nil end
    list[#list + 1] = n
  end
  return list
end

-- "504:-1,7:2.5" as {[504] = -1, [7] = 2.5}.
local function pairs_of(text)
  local map = {}
  for part in (text .. ","):gmatch "([^,]*)," do
    local key, value = part:match "^%s*(%d+)%s*:%s*(.-)%s*$"
    if not key or not tonumber(value) then return nil end
    map[tonumber(key)] = tonumber(value)
  end
  return map
end

local FLAGS = { ["true"] = true, ["false"] = false }

-- What the text is for a kind; the text itself where it is nothing that the kind takes.
local function value_of(kind, text)
  local n = text:find "^%s*[-+%d.]" and tonumber(text)
  if n and kind.holds(n) then return n end
  if FLAGS[text] ~= nil and kind.holds(FLAGS[text]) then return FLAGS[text] end
  if kind.holds(text) then return text end
  for _, read in ipairs { numbers, pairs_of } do
    local v = read(text)
    if v and kind.holds(v) then return v end
  end
  return text
end

-- Flags alone stand without a value: of what may be true among others it would be a guess whether the next word belongs to it.
local function is_needy(kind) return kind ~= options.flag end

local function unknown(word, kinds, others)
  local list = {}
  for name in pairs(kinds) do list[#list + 1] = words.spelt(name) end
  for _, name in ipairs(others) do list[#list + 1] = "--" .. name end
  table.sort(list)
  local guess = #word > 3 and core.suggest(word, list)
  local known = options.elsewhere(word:gsub("^%-+", ""):gsub("%-", "_"), kinds, words.spelt)
  return ("unknown option '%s'\n  hint: %s"):format(core.shown(word, 60), known or guess and ("did you mean '%s'?"):format(guess) or "with --help it lists its options")
end

--- read(given, kinds, {many, others, files, fail}): given are pairs {is_option, word}; gives options by name, and the texts that are no options.
--- many: names that may stand several times, which then are a list; files: those that are a file's text behind "@"; others: options of
--- the program, which may have been meant; fail: what tells the user, core.fail otherwise.
function words.read(given, kinds, rules)
  local found, texts, i, fail = {}, {}, 1, rules.fail or core.fail
  while given[i] do
    local is_option, word = given[i][1], given[i][2]
    if not is_option then
      texts[#texts + 1] = word
    else
      local name, value = word:match "^%-%-([^=]+)=(.*)$"
      name = name or word:match "^%-%-(.+)$"
      local own = name and not name:find "_" and name:gsub("%-", "_")
      local kind = own and kinds[own]
      if not kind then fail(unknown(word:match "^[^=]*", kinds, rules.others or {})) end
      if not value and is_needy(kind) then
        i = i + 1
        if not given[i] then fail(("option '%s' needs a value: %s"):format(words.spelt(own), kind.text)) end
        value = given[i][2]
      end
      local v = true
      if value then
        local file = rules.files and rules.files[own] and value:match "^@(.+)$"
        v = value_of(kind, file and core.read_file(file, words.spelt(own)) or value)
      end
      if not kind.holds(v) then
        local better = options.better(kind, v)
        fail(("option '%s' must be %s, not '%s'%s"):format(words.spelt(own), kind.text, core.shown(tostring(v), 60),
          better and "\n  hint: " .. better or ""))
      end
      if found[own] ~= nil and not (rules.many and rules.many[own]) then fail(("option '%s' is given twice"):format(words.spelt(own))) end
      if found[own] == nil then
        found[own] = v
      else
        if type(found[own]) ~= "table" then found[own] = { found[own] } end
        table.insert(found[own], v)
      end
    end
    i = i + 1
  end
  return found, texts
end

--- The options as lines of help, in the order of the alphabet.
function words.help(kinds, defaults)
  local list, lines = {}, {}
  for name in pairs(kinds) do list[#list + 1] = name end
  table.sort(list)
  for i, name in ipairs(list) do
    local default = defaults[name]
    lines[i] = ("  %-24s %s%s"):format(words.spelt(name), kinds[name].text, default ~= nil and ("; %s if not given"):format(tostring(default)) or "")
  end
  return table.concat(lines, "\n")
end

return words
