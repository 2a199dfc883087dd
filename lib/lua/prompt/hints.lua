-- The signature that is shown under a call while it is typed: that of help. Nothing of the user's runs: names are looked up in
-- the library, and by rawget in what the program made.

local core = require "tessera.core"
local console = require "tessera.console"

local MOST = 400
local known, count = {}, 0 -- by path: the value it was, and its signature

local function library(name)
  if name == "tessera" then return require "tessera" end
  for _, global in ipairs(console.globals()) do
    if global == name then
      local fine, value = pcall(function() return require("tessera")[name] end)
      if fine and value then return value end
      fine, value = pcall(require, "tessera." .. name)
      return fine and value or nil
    end
  end
end

-- A field by rawget, through metatables whose __index is a table; parts of the library by their name.
local function field(t, name)
  for _ = 1, 8 do
    if type(t) ~= "table" then return nil end
    local v = rawget(t, name)
    if v ~= nil then return v end
    local meta = getmetatable(t)
    if type(meta) ~= "table" then return nil end
    if type(rawget(meta, "parts")) == "table" and meta.parts[name] then return t[name] end
    t = rawget(meta, "__index")
  end
end

local function at(path)
  local value
  for name in path:gmatch "[^.:]+" do
    if value == nil then
      value = rawget(_G, name)
      if value == nil then value = library(name) end
    else
      value = field(value, name)
    end
    if value == nil then return nil end
  end
  return value
end

-- "(a, b)" of the first line of its comment, or of its definition.
local function arguments(path, f)
  local comments = require "tessera.comments"
  local args, comment = comments.of_function(f)
  comment = comment or comments.of_name((path:gsub(":", ".")))
  local word = path:match "[%w_]+$"
  return args or comment and table.concat(comment, " "):match("^[%w_.:]-%f[%w_]" .. word .. "(%b())")
end

local function options_text(path)
  local kinds = require("tessera.options").known((path:gsub(":", ".")))
  local names = {}
  for name in pairs(kinds or {}) do names[#names + 1] = name end
  table.sort(names)
  return names[1] and "   {" .. table.concat(names, ", ") .. "}" or ""
end

local function text_of(path, value)
  local f = value
  if type(value) == "table" and not core.is_tensor(value) then
    local meta = getmetatable(value)
    f = rawget(value, "new") or rawget(value, "init") or rawget(value, "body")
    if not f and type(meta) == "table" then f = rawget(meta, "__call") end
  end
  if type(f) ~= "function" then return "" end
  local operator = require("tessera.function_name").operator(f)
  if operator and not path:find ":" then return "" end -- C's table knows it
  local args = arguments(path, f)
  return args and path .. args .. options_text(path) or ""
end

--- "nn.Linear(inputs, outputs)" of "nn.Linear"; "" where nothing is known.
return function(path)
  local value = at(path)
  if value == nil then return "" end
  local k = known[path]
  if not k or not rawequal(k.value, value) then
    if count >= MOST then known, count = {}, 0 end
    k = setmetatable({ value = value, text = text_of(path, value) }, { __mode = "v" })
    known[path], count = k, count + 1
  end
  return k.text
end
