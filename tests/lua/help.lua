-- Every function and layer of the library in Lua has a page, which names each of its options.
local write, got = io.write, {}
io.write = function(...)
  for _, s in ipairs { ... } do got[#got + 1] = s end
  return io.stdout
end
local prompt, tessera = require "tessera.prompt", require "tessera"
io.write = write
local op, nn, optim, data = tessera.op, tessera.nn, tessera.optim, tessera.data

local function page(topic)
  got = {}
  prompt.help(topic)
  return table.concat(got)
end

local without = {}
for _, path in ipairs { "nn", "optim", "optim.schedule", "data", "graph", "image", "numerics", "einops", "profile", "autotune" } do
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
