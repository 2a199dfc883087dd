-- Every function and layer of the library in Lua has a page, which names each of its options.
local prompt, tessera = require "tessera.prompt", require "tessera"
local got
prompt.page = function(text) got[#got + 1] = text end
local op, nn, optim, data = tessera.op, tessera.nn, tessera.optim, tessera.data

local function page(topic)
  got = {}
  prompt.help(topic)
  return table.concat(got)
end

local without = {}
for _, path in ipairs { "nn", "optim", "optim.schedule", "data", "graph", "image", "numerics", "einops", "profile", "autotune", "checkpoint" } do
  local part = tessera
  for word in path:gmatch "[^.]+" do part = part[word] end
  for name, v in pairs(part) do
    local text = page(path .. "." .. name)
    if (type(v) == "function" or (type(v) == "table" and rawget(v, "class"))) and (text:find "\n    function %(" or text:find ": function") then
      without[#without + 1] = path .. "." .. name
    end
  end
end
table.concat(without, " ") -->

-- Options are those that are named where one is unknown.
local p, sizes = op.ones { 2, 2 }, { Identity = false, Sequential = false, List = false, Module = false }
local missing, seen = {}, 0
local function look(path, call)
  local _, why = pcall(call, { [{}] = 1 })
  local list, text = tostring(why):match "unknown option.-options are ([^\n]*)", page(path)
  for option in (list or ""):gmatch "[%w_]+" do
    seen = seen + 1
    if not text:find("%f[%w_]" .. option .. "%f[^%w_]") then missing[#missing + 1] = path .. " " .. option end
  end
end
for name, make in pairs(optim) do
  if name:match "^%u" then look("optim." .. name, function(o) return make({ p }, o) end) end
end
for name, make in pairs(optim.schedule) do look("optim.schedule." .. name, make) end
for name, class in pairs(nn) do
  if sizes[name] == nil then
    for n = 0, 4 do -- as many sizes as the layer wants before its options
      local given = { 4, 4, 4, 4 }
      look("nn." .. name, function(o)
        given[n + 1] = o
        return class(unpack(given, 1, n + 1))
      end)
    end
  end
end
look("data.batches", function(o) return data.batches(p, o) end)
look("data.windows", function(o) return data.windows(p, o) end)
look("data.random_split", function(o) return data.random_split(p, { 1 }, o) end)
look("data.pad_sequence", function(o) return data.pad_sequence({ p }, o) end)
look("data.progress", function(o) return data.progress(3, o) end)
look("data.range", function(o) return data.range(3, o) end)
seen > 300 --> true
table.sort(missing)
table.concat(missing, "\n") -->

-- What a function is said to take, {bias = true, ..}, is what it takes: names, and values where they are given.
local options = require "tessera.options"
local literal = setmetatable({ ["true"] = true, ["false"] = false }, { __index = function(_, text)
  if text:find "^[%d.{-]" or text:find '^"' then
    local make = loadstring("return " .. text)
    local ok, v = pcall(setfenv, make or error, {})
    if make and ok then ok, v = pcall(v) end
    return make and ok and v or nil
  end
end })
local function shown(v) return type(v) == "table" and "{" .. table.concat(v, ", ") .. "}" or tostring(v) end
local function said_of(path) -- the table in "name(..., {...})", {name = text or false}
  local text, word = page(path):gsub("%s+", " "), path:match "[%w_]+$"
  for at in text:gmatch("()%f[%w_]" .. word .. "%s?[%({]") do
    local table_text = text:match("^[%w_]+%b()", at) or text:match("^[%w_]+%b{}", at)
    table_text = table_text and table_text:match "(%b{})[%])]*$"
    if table_text then
      local said, depth = {}, table_text:sub(2, -2):gsub("%b{}", function(s) return (s:gsub(",", "\1")) end)
      for item in (said and depth):gmatch "[^,]+" do
        local name, value = item:match "^%s*([%w_]+)%s*=?%s*(.-)%s*$"
        if name then said[name] = value ~= "" and value:gsub("\1", ",") or false end
      end
      return said
    end
  end
end
local differ, compared = {}, 0
local function compare(path)
  local kinds, defaults = options.known(path)
  local said = kinds and next(kinds) and said_of(path)
  for name in pairs(said and kinds or {}) do
    local value, default = said[name], defaults and defaults[name]
    if value == nil then
      differ[#differ + 1] = path .. " does not say " .. name
    else
      local v
      if value then v = literal[value] end
      compared = compared + (v ~= nil and 1 or 0)
      if value and default == nil and v ~= nil or default ~= nil and shown(v) ~= shown(default) then
        differ[#differ + 1] = ("%s: %s = %s, and is %s"):format(path, name, tostring(value), shown(default))
      end
    end
  end
end
for _, module in ipairs { "nn", "optim", "optim.schedule", "data", "graph", "profile" } do
  local part = tessera
  for word in module:gmatch "[^.]+" do part = part[word] end
  for name in pairs(part) do compare(module .. "." .. name) end
end
for _, list in pairs(require("tessera.named_functions").methods) do
  for name in list:gmatch "%S+" do compare("op." .. name) end
end
compared > 200 --> true
table.sort(differ)
table.concat(differ, "\n") -->
