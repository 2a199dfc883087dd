-- Options of a script from its command line: tessera.arguments. What a script takes follows from what it uses when nothing is given,
-- and --help shows how its file begins.

local core = require "tessera.core"
local options = require "tessera.options"
local words = require "tessera.arguments.words"

-- All values that an option may have unasked: the usual one, or those of a list, and those of sizes.
local function known_values(name, usual, sizes)
  local list = {}
  local function put(v)
    for _, each in ipairs(type(v) == "table" and v or { v }) do list[#list + 1] = each end
  end
  put(usual[name])
  for _, size in pairs(sizes) do put(size[name]) end
  return list
end

-- ">.png": a file that is written in the end, so it is looked at in the beginning whether it can be.
local function written(ending)
  local k = options.kind("the name of a file to write" .. (ending ~= "" and ", " .. ending or ""), function(v)
    return type(v) == "string" and #v > #ending and v:sub(#v - #ending + 1) == ending
  end)
  k.is_written = true
  return k
end

local function need_writable(name, path, fail)
  local was = io.open(path, "rb")
  if was then was:close() end
  local file, why = io.open(path, "ab")
  if not file then fail(("%s: cannot be written: %s"):format(words.spelt(name), core.shown(why, 300))) end
  file:close()
  if not was then os.remove(path) end
end

local FLOAT = options.one_of("f64", "f32", "bf16", "f16") -- a model's numbers

-- "97%": a percentage, of which the number is usual.
local function percentage(v) return type(v) == "string" and tonumber((v:match "^(%d+%.?%d*)%%$")) or nil end

-- false stands for "nothing, if it is not given": a text, or a number where a size has one. Whole numbers are counts, not below 0; what is 0, "none",
-- may be any part as well.
local function kind_of(name, usual, sizes)
  if type(usual[name]) == "table" then
    if usual[name][1] == false then return options.flag end
    return options.one_of(unpack(usual[name]))
  end
  local is_number, is_count, most = false, true, 0
  for _, v in ipairs(known_values(name, usual, sizes)) do
    if type(v) == "number" then
      is_number, is_count, most = true, is_count and v >= 0 and (v == math.huge or v % 1 == 0), math.max(most, v)
    end
  end
  if is_number then return is_count and most > 0 and options.whole { least = 0 } or options.number { least = is_count and 0 or nil } end
  if percentage(usual[name]) then return options.number { least = 0, most = 100 } end
  if type(usual[name]) == "string" and usual[name]:sub(1, 1) == ">" then return written(usual[name]:sub(2)) end
  if name == "dtype" then return FLOAT.holds(usual.dtype) and FLOAT or options.dtype end
  return options.text
end

local function names_of(t)
  local list = {}
  for name in pairs(t) do list[#list + 1] = name end
  table.sort(list)
  return list
end

-- The comment with which a script begins.
local function beginning(source)
  local lines = {}
  for _, line in ipairs(require("tessera.comments").lines_of(source) or {}) do
    local text = line:match "^%-%-%s?(.*)$"
    if text then lines[#lines + 1] = text elseif not line:find "^#!" then break end
  end
  return table.concat(lines, "\n")
end

local function pairs_of(given)
  local list = {}
  for i, word in ipairs(given) do
    word = tostring(word)
    list[i] = { word:find "^%-%-?%a" ~= nil, word }
  end
  return list
end

-- Devices that are not there are told of before anything is done for them.
local function need_devices(names, from, fail)
  local before = core.default_device()
  for name in names:gmatch "[^,]+" do
    local ok, why = pcall(core.default_device, name)
    if not ok then fail(("%s: %s; --device cpu is always there"):format(from, (tostring(why):gsub("^%S-:%d+: ", "")))) end
    core.default_device(before)
  end
end

return function(usual, sizes, given, source)
  options.argument("arguments", "usual", options.table, usual)
  options.argument("arguments", "sizes", options.table, sizes)
  local script = source:match "^@(.*)$" or "the script"
  local function fail(text) error(script .. ": " .. text, 0) end

  local kinds, defaults = {}, {}
  for name in pairs(usual) do kinds[name] = kind_of(name, usual, sizes) end
  local has_sizes = next(sizes) ~= nil
  if has_sizes then
    local names = names_of(sizes)
    kinds.size = options.one_of(unpack(names))
    if not kinds.size.holds(usual.size) then
      core.fail(("arguments: usual.size is %s, which is none of the sizes: %s"):format(usual.size and "'" .. tostring(usual.size) .. "'" or "missing",
        table.concat(names, ", ")))
    end
  end

  local list, wants_help = pairs_of(given), false
  for i = #list, 1, -1 do
    if list[i][2] == "--help" or list[i][2] == "-h" then
      wants_help = true
      table.remove(list, i)
    end
  end
  local own, texts = words.read(list, kinds, { fail = fail, others = { "help" } })
  if texts[1] then
    fail(("'%s' belongs to no option\n  hint: %s"):format(core.shown(texts[1], 60), next(kinds) and "options are --name value; with --help it lists them" or
      "it has no options"))
  end

  local size = has_sizes and sizes[own.size or usual.size] or {}
  for name, v in pairs(usual) do
    if type(v) == "table" then v = v[1] end
    if kinds[name].is_written then v = false end
    v = percentage(v) or v
    if size[name] ~= nil then v = size[name] end
    defaults[name] = v
  end
  if wants_help then
    local shown = {}
    for name, v in pairs(defaults) do shown[name] = v ~= false and v or nil end
    print(beginning(source))
    if next(kinds) then print("\noptions:\n" .. words.help(kinds, shown)) end
    os.exit(0)
  end

  local o = {}
  for name, v in pairs(defaults) do
    if own[name] ~= nil then o[name] = own[name] else o[name] = v end
  end
  for name, kind in pairs(kinds) do
    if kind.is_written and own[name] then need_writable(name, own[name], fail) end
  end
  if has_sizes then o.size = own.size or usual.size end
  if type(o.device) == "string" then
    need_devices(o.device, own.device and "--device" or own.size and "--size " .. own.size or "device", fail)
  end
  return o
end
