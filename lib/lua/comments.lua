-- What stands in the library's, or a program's, source about a function: the comment above its definition,
-- or, of functions that are made by others or are C's, above the line that names them; and the options that
-- it takes, as they are checked.

local core = require "tessera.core"
local console = require "tessera.console"
local options = require "tessera.options"

local comments = {}

local function source_of(source)
  local kept = console.text(source)
  if kept or source:sub(1, 1) ~= "@" then return kept end
  local ok, text = pcall(core.read_file, source:sub(2))
  return ok and text or nil
end

local function lines_of(source)
  local text, lines = source_of(source), {}
  if not text then return nil end
  for line in (text:gsub("\n$", "") .. "\n"):gmatch "([^\n]*)\r?\n" do lines[#lines + 1] = line end
  return lines
end

--- The lines of a chunk's text, "@model.lua" or "=input 3"; nil where it is not known, or of no plain file.
comments.lines_of = lines_of

local function above(lines, at)
  local comment = {}
  for i = at - 1, 1, -1 do
    local words = lines[i]:match "^%s*%-%-%-?%s?(.*)$"
    if not words or words:find "^%-%-%-%- " then break end -- a heading
    table.insert(comment, 1, words)
  end
  return comment[1] and comment
end

--- The arguments "(a, b)" and the comment, a list of lines, of a Lua function; nil of C's. Of one that another
--- function made and described (options.described) the comment says the arguments.
function comments.of_function(f)
  f = require("tessera.captured").method(f)
  local info = debug.getinfo(f, "S")
  local lines = info.what ~= "C" and lines_of(info.source)
  if not lines then return nil end
  local place = options.place_of(f)
  if place then return nil, above(lines_of(place.source) or {}, place.line) end
  return (lines[info.linedefined] or ""):match "function[^%(]*(%b())" or "(...)", above(lines, info.linedefined)
end

-- Lines that give something a name, those first that most surely do: define "word", define_conv("word", ..);
-- word = ..; function optim.word(..).
local naming = { "^%s*define[%w_]*%(?%s*\"WORD\"", "^local WORD%s*=", "^%s*[%w_.]-%f[%w_]WORD%s*=",
  "^%s*function%s+[%w_.:]-%f[%w_]WORD%f[^%w_]" }

--- The comment of a name such as "optim.SGD" in the module's own source: a list of lines.
function comments.of_name(path)
  local module, word = path:match "([%w_]+)%.([%w_]+)$"
  if not module then return nil end
  if module == "schedule" then module = "optim" end
  if module == "rng" then module = "tessera" end
  local lines = lines_of(module == "tessera" and "=tessera" or "=tessera." .. module)
  for _, pattern in ipairs(naming) do
    pattern = pattern:gsub("WORD", word)
    for i, line in ipairs(lines or {}) do
      local comment = line:find(pattern) and above(lines, i)
      if comment then return comment end
    end
  end
end

--- The kinds of the options that a function at a path takes; nil if that is not known. One that is loaded when it is
--- named is loaded.
function comments.kinds(path)
  local name = path:match "^op%.([%w_]+)$"
  if name then pcall(function() return require("tessera.core").op[name] end) end
  return (options.known(path))
end

--- The options of a name, as lines: each with what it has to be, and its value where none is given.
function comments.options(path, columns)
  local kinds, defaults = options.known(path)
  local list, width = {}, 12
  for name in pairs(kinds or {}) do
    list[#list + 1] = name
    width = math.max(width, #name + 2)
  end
  table.sort(list)
  local function shown(v)
    if type(v) ~= "table" then return tostring(v) end
    return "{" .. table.concat(v, ", ") .. "}"
  end
  for i, name in ipairs(list) do
    local kind, default = kinds[name], defaults and defaults[name]
    local text = kind.text .. (kind.needed and ", needed" or default ~= nil and " = " .. shown(default) or ", optional")
    list[i] = ("  %-9s%s%s"):format(i == 1 and "options" or "", name .. (" "):rep(width - #name),
      require("tessera.core").wrapped(text, 11 + width, 11 + width, columns))
  end
  return table.concat(list)
end

return comments
