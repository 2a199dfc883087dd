-- What the prompt does beside reading: showing values, help, and the commands.
-- Every ":name argument" is the function prompt.name(argument).
local core = require "tessera.core"
local console = require "tessera.console"

local prompt = {}

local getmetatable, ipairs, next, pairs, pcall, print, rawget, tonumber, tostring, type =
  getmetatable, ipairs, next, pairs, pcall, print, rawget, tonumber, tostring, type
local concat, sort, floor = table.concat, table.sort, math.floor
local write, error, select, loadstring = io.write, error, select, loadstring
local getinfo = debug.getinfo

-- What the prompt itself finds wrong in a command.
local said
local function fail(text)
  said = text
  error(text, 0)
end

-- ---- values

local MOST_ITEMS, MOST_LINES, LONGEST_STRING, DEEPEST = 100, 24, 1000, 2

local escapes = {["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t", ["\\"] = "\\\\", ['"'] = '\\"'}

local function quote(s)
  local cut = #s > LONGEST_STRING and s:sub(1, LONGEST_STRING) or s
  cut = cut:gsub('[%c\\"]', function(c) return escapes[c] or ("\\%03d"):format(c:byte()) end)
  cut = core.shown(cut, 10000)
  if #s > LONGEST_STRING then return ('"%s"... (%d bytes)'):format(cut, #s) end
  return '"' .. cut .. '"'
end

local function function_text(f)
  local info = getinfo(f, "S")
  return info.what == "C" and "function" or ("function (%s:%d)"):format(info.short_src, info.linedefined)
end

local function number_text(n)
  if n ~= n then return "nan" end
  return ("%.14g"):format(n)
end

local function is_name(key) return type(key) == "string" and key:find("^[%a_][%w_]*$") end

-- The text of x on one line; tensors by type and shape alone inside tables.
local inline

local function sorted_keys(t, from)
  local keys = {}
  for k in pairs(t) do
    if not (type(k) == "number" and k >= 1 and k < from and k == floor(k)) then
      keys[#keys + 1] = k
    end
  end
  sort(keys, function(a, b)
    local ta, tb = type(a), type(b)
    if ta ~= tb then return ta < tb end
    if ta == "number" or ta == "string" then return a < b end
    return tostring(a) < tostring(b)
  end)
  return keys
end

-- The entries of a table as texts: positions first, then "key = value".
local function entries(t, depth, most, seen)
  local list, n = {}, 0
  local length = #t
  for i = 1, length do
    if n == most then break end
    n = n + 1
    list[n] = inline(rawget(t, i), depth + 1, seen)
  end
  local keys = sorted_keys(t, length + 1)
  for _, k in ipairs(keys) do
    if n >= most then break end
    n = n + 1
    local name = is_name(k) and k or ("[%s]"):format(inline(k, DEEPEST, seen))
    list[n] = name .. " = " .. inline(rawget(t, k), depth + 1, seen)
  end
  local left = length + #keys - n
  if left > 0 then list[n + 1] = ("... %d more"):format(left) end
  return list
end

local function own_text(x)
  local meta = getmetatable(x)
  if type(meta) ~= "table" or not rawget(meta, "__tostring") then return nil end
  local ok, text = pcall(tostring, x)
  return ok and text or nil
end

local function tensor_type(x)
  local shape = x.shape
  for i, n in ipairs(shape) do shape[i] = ("%.0f"):format(n) end
  return x.dtype .. "[" .. concat(shape, ",") .. "]"
end

function inline(x, depth, seen)
  local kind = type(x)
  if kind == "string" then return quote(x) end
  if kind == "number" then return number_text(x) end
  if kind == "function" then return function_text(x) end
  if core.is_tensor(x) then return tensor_type(x) end
  if kind ~= "table" then return tostring(x) end
  local text = own_text(x)
  if text then return text end
  if seen[x] or depth > DEEPEST then return next(x) == nil and "{}" or "{...}" end
  seen[x] = true
  text = "{" .. concat(entries(x, depth, 12, seen), ", ") .. "}"
  seen[x] = nil
  return text
end

local function cut_to(text, width)
  text = text:gsub("\n", " ")
  if #text <= width or width < 8 then return text end
  local cut = text:sub(1, width - 3)
  return cut:gsub("[\194-\244][\128-\191]*$", "") .. "..."
end

local function table_text(t, width)
  local seen = {[t] = true}
  local list = entries(t, 1, MOST_ITEMS, seen)
  local line = "{" .. concat(list, ", ") .. "}"
  if #line <= width and not line:find "\n" then return line end
  local lines = {"{"}
  -- Short values share lines; a list with long ones, or with names, has one on each.
  local names = next(t) ~= nil and #t == 0
  if names then
    list = entries(t, 1, MOST_LINES, seen)
    for _, e in ipairs(list) do lines[#lines + 1] = cut_to("  " .. e, width) end
  else
    local row = " "
    for i, e in ipairs(list) do
      e = " " .. cut_to(e, width - 4) .. (i < #list and "," or "")
      if #row + #e > width and row ~= " " then
        lines[#lines + 1], row = row, " "
      end
      row = row .. e
    end
    lines[#lines + 1] = row
    if #lines > MOST_LINES then
      local hidden = #lines - MOST_LINES
      for i = #lines, MOST_LINES + 1, -1 do lines[i] = nil end
      lines[#lines + 1] = ("  ... %d more lines"):format(hidden)
    end
  end
  lines[#lines + 1] = "}"
  return concat(lines, "\n")
end

--- The text that the prompt shows for a value.
function prompt.text(x, width)
  width = width or console.width()
  if core.is_tensor(x) then return core.display(x, width) end
  if type(x) == "table" then return own_text(x) or table_text(x, width) end
  if type(x) == "string" and x:find "\n." then
    return (x:gsub("\n$", ""):gsub("[^\n]+", function(line) return core.shown(line, 4 * #line + 1) end)) -- a text, as of f:ir
  end
  return inline(x, 1, {})
end

--- Prints values as the prompt shows them.
function prompt.show(...)
  local width = console.width()
  for i = 1, select("#", ...) do
    local x = select(i, ...)
    local write_text = type(x) == "table" and prompt.say or prompt.page
    write_text(prompt.text(x, width) .. "\n")
  end
end

--- What an input gave: kept as Out[number], and shown.
function prompt.keep(silenced, number, ...)
  require("tessera.prompt.values").keep(number, (...))
  if not silenced then prompt.show(...) end
end

--- Writes a text, by pages where it is longer than the terminal.
function prompt.page(text) require("tessera.prompt.pager").page(text) end

--- The same of words for people, whose lines break between words where they are longer than the terminal.
function prompt.say(text) prompt.page(prompt.json and text or require("tessera.prompt.pager").broken(text)) end

-- ---- help: operators from the table, everything else from the comment above
-- its definition

-- A comment as a page: its paragraphs in lines of the terminal's width, what is indented as it is.
local INDENT = 4
local function page(lines, width)
  local out, words = {}, {}
  local function close()
    if words[1] then out[#out + 1] = (" "):rep(INDENT) .. core.wrapped(concat(words, " "), INDENT, INDENT, width) end
    words = {}
  end
  for _, line in ipairs(lines) do
    if line:find "^%S" then
      words[#words + 1] = line
    else
      close()
      out[#out + 1] = (" "):rep(INDENT) .. line .. "\n"
    end
  end
  close()
  return concat(out)
end

-- The signature and the comment of a function, and its options.
local function function_help(name, f, width)
  local comments = require "tessera.comments"
  local args, comment = comments.of_function(f)
  comment = comment or comments.of_name(name)
  if not comment and name:find "^nn%.%w+%.%w+$" then -- a method has its own, or that of all modules
    local _, common = comments.of_function(require("tessera.module")[name:match "%w+$"])
    comment = common
  end
  args = args or comment and concat(comment, " "):match("^[%w_.:]-%f[%w_]" .. name:match "[%w_]*$" .. "(%b())") or not comment and "(...)" or ""
  local listed = comments.options(name, width)
  return name .. args .. "\n" .. page(comment or { function_text(f) }, width) .. (listed ~= "" and "\n" .. listed or "")
end

local function columns(names, width)
  local out, row = {}, " "
  for _, name in ipairs(names) do
    if #row + #name + 1 > width then
      out[#out + 1], row = row, " "
    end
    row = row .. " " .. name
  end
  out[#out + 1] = row
  return concat(out, "\n") .. "\n"
end

-- The comment that opens an embedded module's file.
local function module_comment(name, width)
  local text = console.text("=tessera." .. name)
  local out = {}
  for line in (text or ""):gmatch "([^\n]*)\n" do
    local words = line:match "^%-%-%s?(.*)$"
    if not words then break end
    out[#out + 1] = words
  end
  return page(out, width)
end

local function table_help(name, t, width)
  local meta = getmetatable(t)
  local class = type(rawget(t, "class")) == "string"
  local make = rawget(t, "new") or rawget(t, "init")
  if not make and not class then make = type(meta) == "table" and rawget(meta, "__call") or rawget(t, "__call") end
  local text
  if type(make) == "function" then
    text = function_help(name, make, width)
  elseif class then -- as its modules begin, without arguments
    text = name .. "()\n" .. page(require("tessera.comments").of_name(name) or {}, width)
  else
    local own = name:find "%." and require("tessera.comments").of_name(name)
    text = name .. "\n" .. (own and page(own, width) or module_comment((name:gsub("^tessera%.", "")), width))
  end
  local names = {}
  local functions = type(make) == "function"
  for part in pairs(type(meta) == "table" and meta.parts or {}) do -- loaded when they are named
    if rawget(t, part) == nil then names[#names + 1] = part end
  end
  for k, v in pairs(t) do
    functions = functions or type(v) == "function"
    if is_name(k) and k:sub(1, 1) ~= "_" and v ~= make and not (class and (k == "class" or k == "parent")) then
      names[#names + 1] = k
    end
  end
  sort(names)
  functions = functions or class
  if not functions then return prompt.text(t, width) .. "\n" end
  return text .. columns(names, width)
end

local function value_help(name, value, width)
  if type(value) == "function" then
    local op = require("tessera.function_name").operator(value)
    local text, found = core.help(op or "", width)
    return op and found and text or function_help(op and "op." .. op or name, value, width)
  end
  if core.is_tensor(value) then
    return tensor_type(value) .. ": x: and Tab lists the methods; ? name explains one\n"
  end
  if type(value) == "table" then return table_help(name, value, width) end
end

-- A part or a function of the library, which is loaded by being named; nil if it has none of that name.
local function of_library(name)
  local ok, value = pcall(function() return require("tessera")[name] end)
  return ok and value or nil
end

-- "tessera.save" of "save", "graph.training_step" of "training_step", and the value.
local function member_of_module(name)
  local value = rawget(require "tessera", name)
  if value ~= nil then return "tessera." .. name, value end
  for _, module in ipairs(console.globals()) do
    local t = of_library(module)
    value = module ~= "op" and type(t) == "table" and rawget(t, name)
    if value then return module .. "." .. name, value end
  end
  return name, nil
end

-- The value at a path like "nn.Linear", from the library or the globals.
local function at_path(path)
  local value = nil
  for name in path:gmatch "[^%.:]+" do
    if value == nil then
      local loaded = rawget(_G, name)
      if loaded == nil then
        for _, global in ipairs(console.globals()) do
          if global == name and name ~= "help" then
            loaded = name == "tessera" and require "tessera" or of_library(name)
            if not loaded then
              local ok, part = pcall(require, "tessera." .. name)
              loaded = ok and part or nil
            end
          end
        end
      end
      value = loaded
    elseif type(value) == "table" then
      value = value[name]
    else
      return nil
    end
    if value == nil then return nil end
  end
  return value
end

local general = {
  "? name tells more about any of these, of a module's functions, of your own; ? word where a word occurs.",
  "Lua with tensors: an expression's value is shown, ';' at the end keeps it quiet, _ is the last value. " ..
    "Tab completes; Up and Ctrl-R search the history; Ctrl-C stops.",
}
local general_example = [[

  x = op.arange(6):reshape(2, 3)   y = x:mean{axis = 0}   x[0], x["0:2, -1"]
]]

local function command_list(width)
  local names, parts, heading = {}, {}, "%-14s%s"
  for name in pairs(prompt.commands) do names[#names + 1] = name end
  sort(names)
  parts[1] = heading:format("modules", core.wrapped(concat(console.globals(), " "), 14, 14, width))
  parts[2] = heading:format("commands", core.wrapped(":" .. concat(names, " :"), 14, 14, width))
  parts[3] = "\n"
  for _, words in ipairs(general) do parts[#parts + 1] = core.wrapped(words, 0, 0, width) end
  return concat(parts) .. general_example
end

local function usage(name)
  local arguments = prompt.arguments[name]
  return (":%s%s"):format(name, arguments and " " .. arguments or "")
end

local function command_help(name, width)
  local more, example = prompt.lists[name], prompt.examples[name]
  return ("%s\n    %s%s%s"):format(usage(name), core.wrapped(prompt.commands[name], INDENT, INDENT, width),
    more and more(width) or "", example and ("\n  example  %s\n"):format(example) or "")
end

-- What is said where there is no help: a close name of the table it was looked for in, what is here for a name of
-- another library, or where a word occurs. text: what was said so far.
local function no_help(topic, text, width)
  local named = require "tessera.named"
  local parent, word = topic:match "^(.+)[.:]([^.:]+)$"
  if parent then
    local ok, t = pcall(at_path, parent)
    local tensor = parent == "x" or ok and core.is_tensor(t)
    local meta = ok and type(t) == "table" and getmetatable(t)
    local class = type(meta) == "table" and rawget(meta, "__index")
    local kind = tensor and "tensor" or require("tessera.captured").is_kernel(t) and "kernel" or parent
    local hint = named.hint(kind, word, ok and type(t) == "table" and t or {},
      type(class) == "table" and class or {}):gsub("\n  hint: ", "; ")
    local method = tensor and hint == "" and core.suggest(word)
    if method then hint = ("; did you mean '%s'?"):format(method) end
    return ("no help on '%s'%s\n"):format(topic, hint)
  end
  for _, title in ipairs { "op", "tensor", "nn", "optim", "rng", "graph", "data", "tessera", "module" } do
    local known = core.elsewhere(title, topic)
    if known then return ("no help on '%s'; %s\n"):format(topic, known) end
  end
  local option = core.elsewhere("option", topic)
  if option and not option:find " " then
    return ("no help on '%s'; as an option it is '%s' here\n"):format(topic, option:gsub("|", "' or '"))
  end
  local found = require("tessera.topics").search(topic, width)
  if found == "" then return text end
  return text:find "did you mean" and text .. found or ("'%s' occurs in\n"):format(topic) .. found
end

--- help(topic): an operator ("softmax"), a module's function ("nn.Linear"), a
--- command (":time"), "dtypes", "marks", or any function or table.
function prompt.help(topic)
  local width = console.width()
  local text
  if topic == nil or topic == "" then
    text = core.help("", width) .. command_list(width)
  elseif type(topic) ~= "string" then
    text = value_help("value", topic, width) or prompt.text(topic, width) .. "\n"
  elseif topic:sub(1, 1) == ":" and prompt.commands[topic:sub(2)] then
    text = command_help(topic:sub(2), width)
  else
    local found
    topic = topic:gsub("^jit%f[%W]", "tessera.jit") -- the global is LuaJIT's own
    text, found = core.help((topic:gsub("^x:", "")), width)
    if not found then
      local ok, value = pcall(at_path, topic)
      if ok and value == nil then ok, value = pcall(at_path, "op." .. topic) end
      if not ok then value = nil end
      if value == nil and not topic:find "[.:]" then topic, value = member_of_module(topic) end
      local page = value == nil and require("tessera.topics").pages[topic]
      local more = page and page(width) or value ~= nil and value_help(topic, value, width)
      text, found = more or text, more
      if not found and prompt.commands[topic] then
        text = command_help(topic, width)
      elseif not found then
        text = no_help(topic, text, width)
      end
    end
  end
  prompt.page(text)
end

-- ---- commands

prompt.commands = {
  help = "help on an operator, a function or a command; alone: the list",
  quit = "leaves, as Ctrl-D does",
  devices = "the devices and what they hold",
  device = "where new tensors are made: auto, cpu, cuda:0, ..; a name sets it",
  threads = "threads of the CPU; a number sets them, 0: one for each processor",
  time = "runs an expression repeatedly and tells the time of one run",
  mem = "memory of tensors and of Lua",
  load = "runs a Lua file and keeps its globals",
  reset = "forgets the globals made at the prompt",
}

prompt.arguments = {help = "[topic]", quit = "[code]", device = "[name]", threads = "[n]", time = "expression", load = "file"}

prompt.examples = {time = ":time x:matmul(x)", load = ":load model.lua"}

-- An error that shows how the command is written.
local function wrong(name, text, ...) fail(text:format(...) .. "\n  usage: " .. usage(name)) end

--- Leaves the prompt with an exit code.
function prompt.quit(code)
  local number = code == nil and 0 or tonumber(tostring(code):match "^%d+$")
  if not number or number > 255 then
    wrong("quit", ":quit takes an exit code from 0 to 255, not '%s'", tostring(code))
  end
  console.quit(number)
end

-- What `:command --json` prints instead of text; the others' text is its lines.
prompt.data = {}

function prompt.data.devices()
  local list = {}
  local devices = require("tessera").devices()
  for i, d in ipairs(devices) do list[i] = {name = d.name, text = d.text, live_bytes = d.live, most_bytes = d.peak} end
  for kind, why in pairs(devices.missing) do list[#list + 1] = {kind = kind, name_reason = why} end
  return list
end

--- Prints the devices.
function prompt.devices() print(tostring(require("tessera").devices())) end

--- Sets and prints the device of new tensors.
function prompt.device(name) print(prompt.data.device(name).device) end

--- Sets and prints the number of threads.
function prompt.threads(n)
  local now = prompt.data.threads(n).threads
  print(now .. (now == 1 and " thread" or " threads"))
end

function prompt.data.mem()
  collectgarbage()
  local m = core.memory()
  return {tensors_bytes = m.live, most_bytes = m.peak, kept_bytes = m.cached, lua_bytes = collectgarbage "count" * 1024}
end

--- Prints what tensors and Lua hold, after a collection.
function prompt.mem()
  collectgarbage()
  local m = core.memory()
  print(("tensors  %s now, %s at most, %s kept for reuse"):format(
    require("tessera.units").size(m.live), require("tessera.units").size(m.peak), require("tessera.units").size(m.cached)))
  print(("Lua      %s"):format(require("tessera.units").size(collectgarbage "count" * 1024)))
end

--- Runs a file.
function prompt.load(path)
  if not path or path == "" then wrong("load", ":load takes a file") end
  local home = os.getenv "HOME"
  path = path:gsub('^["\'](.*)["\']$', "%1")
  if home then path = path:gsub("^~/", function() return home .. "/" end) end
  local f, why = loadfile(path)
  if not f then fail(why) end
  return f()
end

--- Forgets the globals made since the prompt began.
function prompt.reset()
  local names, initial = {}, console.initial()
  if not initial then return end
  for k in pairs(_G) do
    if not initial[k] then names[#names + 1] = k end
  end
  for _, k in ipairs(names) do _G[k] = nil end
  require("tessera.prompt.values").forget()
  collectgarbage()
end

local reading = require "tessera.prompt.functions"(prompt, wrong)
require "tessera.prompt.edit"(prompt, wrong, reading)
require "tessera.prompt.commands"(prompt, wrong)
require "tessera.debug.prompt"(prompt, wrong)

local function nearest(name)
  local names = {}
  for known in pairs(prompt.commands) do names[#names + 1] = known end
  sort(names)
  for _, known in ipairs(names) do
    if known:sub(1, #name) == name then return known end
  end
  return core.suggest(name, names)
end

-- Commands whose text is another program's, options and all.
local raw = {shell = true}

--- What ":name rest" does; the prompt calls it.
function prompt.command(name, rest)
  if name == "q" or name == "exit" then name = "quit" end
  prompt.json, said = nil, nil
  local options = require "tessera.prompt.options"
  local text, given = rest, {}
  if not raw[name] then text, given = options.take(rest) end
  prompt.json = given.json
  local f = prompt.commands[name] and prompt[name]
  if not f then
    if name == "" then fail "a command's name stands behind ':'; :help lists them" end
    local guess = nearest(name)
    fail(("there is no command ':%s'%s"):format(
      name, guess and "; did you mean ':" .. guess .. "'?" or "; :help lists them"))
  end
  options.check(given, function(...) wrong(name, ":%s " .. (...), name, select(2, ...)) end)
  if text ~= "" and not prompt.arguments[name] then wrong(name, ":%s takes nothing, not '%s'", name, text) end
  if given.json then return prompt.print_json(name, text) end
  local needed = prompt.arguments[name] and not prompt.arguments[name]:find "^%["
  if text == "" and needed then return prompt.page(command_help(name, console.width())) end
  if text == "" then return f() end
  return f(text)
end

--- Whether the last command's error was told as JSON, as it has --json; the prompt asks.
function prompt.told(interrupted)
  if not prompt.json then return false end
  write(require "tessera.prompt.json"(require "tessera.prompt.error"(interrupted, said)), "\n")
  return true
end

return prompt
