-- hf.load: the model of a folder or file. First the family's model is declared, without its tensors; then what is missing,
-- unexpected or of another shape is told at once, and whether it fits; then the tensors take their places.

local core = require "tessera.core"
local blocks = require "tessera.hf.blocks"
local families = require "tessera.hf.families"
local files = require "tessera.hf.files"
local fp8 = require "tessera.hf.fp8"
local Mxfp4 = require "tessera.hf.mxfp4"
local options = require "tessera.options"
local same_shape = require "tessera.same_shape"

local load = {}

local shown = core.shown

-- ---- lists of names, in which layers stand as one

local MOST = 40

local function add(groups, name, text)
  local key = name:gsub("%.%d+%.", ".*."):gsub("%.%d+$", ".*") .. (text or "")
  local g = groups[key]
  if not g then
    g = { name = name, count = 0, text = text }
    groups[key], groups[#groups + 1] = g, g
  end
  if name < g.name then g.name = name end
  g.count = g.count + 1
end

local function listed(groups)
  table.sort(groups, function(a, b) return a.name < b.name end)
  local lines = {}
  for i, g in ipairs(groups) do
    if i > MOST then
      lines[#lines + 1] = ("    and %d more kinds"):format(#groups - MOST)
      break
    end
    lines[i] = ("    %s%s%s"):format(shown(g.name), g.text or "", g.count > 1 and (" and %d more of the kind"):format(g.count - 1) or "")
  end
  return table.concat(lines, "\n")
end

-- ---- what the model wants

local function joined(prefix, name) return prefix == "" and name or prefix .. "." .. name end

-- { {module, want, names in the file, shapes}, .. }; bare: names without the family's prefix.
local function wanted(model, prefix, bare)
  local list = {}
  local function in_file(name)
    if bare and name:sub(1, #prefix + 1) == prefix .. "." then return name:sub(#prefix + 2) end
    return name
  end
  model:apply(function(m, path)
    for _, w in ipairs(rawget(m, "_wants") or {}) do
      local names = {}
      for i, name in ipairs(w.from or { w.name }) do names[i] = in_file(joined(path, name)) end
      list[#list + 1] = { module = m, want = w, names = names, shapes = w.shapes or { w.shape }, path = joined(path, w.name) }
    end
  end)
  return list
end

local function shape_text(shape)
  local sizes = {}
  for i, d in ipairs(shape) do sizes[i] = type(d) == "number" and ("%.14g"):format(d) or "?" end
  return "[" .. table.concat(sizes, ",") .. "]"
end

-- Whether names of a file stand without the prefix.
local function is_bare(tensors, prefix)
  if not prefix then return false end
  for name in pairs(tensors) do
    if name:sub(1, #prefix + 1) == prefix .. "." then return false end
  end
  return true
end

local function is_ignored(family, name)
  for _, pattern in ipairs(family.ignored or {}) do
    if name:find(pattern) then return true end
  end
  return false
end

-- Faults of a list against the file's tensors: a text, or nil.
local function faults(list, tensors, family, strict)
  local missing, wrong, unexpected, used = {}, {}, {}, {}
  for _, e in ipairs(list) do
    for i, name in ipairs(e.names) do
      local t, shape = tensors[name], e.shapes[math.min(i, #e.shapes)]
      used[name] = true
      if not t then
        add(missing, name)
      elseif not same_shape(t.shape, shape) then
        add(wrong, name, (" is %s, and %s is wanted"):format(shape_text(t.shape), shape_text(shape)))
      end
    end
  end
  for name in pairs(tensors) do
    if not used[name] and not is_ignored(family, name) then add(unexpected, name) end
  end
  local parts = {}
  if missing[1] then parts[#parts + 1] = "tensors are missing:\n" .. listed(missing) end
  if wrong[1] then parts[#parts + 1] = "tensors have other shapes:\n" .. listed(wrong) end
  if unexpected[1] and strict then parts[#parts + 1] = "tensors are unexpected:\n" .. listed(unexpected) end
  if not parts[1] then return nil, unexpected end
  local hint = unexpected[1] and strict and not missing[1] and not wrong[1] and "\n  hint: {strict = false} leaves unexpected ones out" or ""
  return table.concat(parts, "\n  ") .. hint
end

-- ---- the tensors

local function is_float(dtype) return dtype:match "^[bf]" and dtype ~= "bool" or blocks.in_blocks(dtype) end

--- What a tensor of the file becomes: in another dtype, on a device.
local function placed(t, o)
  if o.dtype and t.dtype ~= o.dtype and is_float(t.dtype) then t = t:cast(o.dtype) end
  if o.device and t.device ~= o.device then t = t:to(o.device) end
  return t
end

local function put(module, name, t)
  if is_float(t.dtype) and not blocks.in_blocks(t.dtype) then
    module[name] = t
  else
    module:buffer(name, t)
  end
end

-- Codes and scales of MXFP4 apart, as products on a device read them.
local function put_apart(module, name, t, o)
  local codes, scales = t:apart()
  module:buffer(name .. "_blocks", placed(codes, o))
  module:buffer(name .. "_scales", placed(scales, o))
end

local function fill(list, tensors, o)
  local splits = o.device and not o.device:find "^cpu" and not o.dtype
  for _, e in ipairs(list) do
    local parts = {}
    for i, name in ipairs(e.names) do
      local t = tensors[name]
      if Mxfp4.is(t) and not (splits and e.want.split) then t = t:whole() end
      parts[i] = t
    end
    if Mxfp4.is(parts[1]) then
      put_apart(e.module, e.want.name, parts[1], o)
    elseif e.want.apart and not o.dtype then
      for i, name in ipairs(e.want.from) do e.module:buffer(name, placed(parts[i], o)) end
    else
      put(e.module, e.want.name, placed(e.want.join and e.want.join(unpack(parts)) or parts[1], o))
    end
  end
end

-- ---- the function

local is_size = options.kind("bytes, or a text as \"8 GiB\"", function(v) return type(v) == "number" and v > 0 or type(v) == "string" end)
local kinds = { dtype = options.one_of("f64", "f32", "bf16", "f16"), device = options.text, strict = options.flag,
  batch = options.whole { least = 1 }, length = options.whole { least = 1 }, memory = is_size }
local read = options.of("hf.load", kinds, { strict = true, batch = 1 })
local plan_kinds = { cache_dtype = fp8.kind, pages = options.whole { least = 1 }, page = options.whole { least = 1 },
  chunk = options.whole { least = 1 } }
for name, kind in pairs(kinds) do plan_kinds[name] = kind end
local read_plan = options.of("hf.plan", plan_kinds, { strict = true, batch = 1 })

-- Names of old files as they are called now.
local function renamed(tensors, rows)
  local named = {}
  for name, t in pairs(tensors) do
    for _, row in ipairs(rows) do name = name:gsub(row[1], row[2]) end
    named[name] = t
  end
  return named
end

-- Whether the file has a tensor, by its name with the prefix.
local function holder(tensors, prefix)
  return function(name)
    return tensors[name] ~= nil or prefix ~= nil and name:sub(1, #prefix + 1) == prefix .. "." and tensors[name:sub(#prefix + 2)] ~= nil
  end
end

-- The declared model and its list, checked against the file.
local function declared(path, o)
  local source = files.open(path)
  local family, gives = families.find(source.config, source.path)
  local count = 0
  for _ in pairs(source.tensors) do count = count + 1 end
  local c = families.config(family, source.config, source.path, count)
  if family.renames then source.tensors = renamed(source.tensors, family.renames) end
  local list, plan, why, unexpected
  local ok, model = pcall(function()
    local model = core.no_grad(family.build, c, gives, holder(source.tensors, family.prefix))
    model.config = c
    list = wanted(model, family.prefix or "", is_bare(source.tensors, family.prefix))
    why, unexpected = faults(list, source.tensors, family, o.strict)
    if not why then plan = require "tessera.hf.plan"(model, list, source, o) end
    return model
  end)
  if not ok then core.fail(("%s: %s"):format(shown(source.path), (tostring(model):gsub("^[^\n]-:%d+: ", "")))) end
  if why then core.fail(("%s (%s): %s"):format(shown(source.path), source.config.model_type, why)) end
  model.unexpected = {}
  for i, g in ipairs(unexpected) do model.unexpected[i] = g.name end
  return model, list, source, plan
end

--- What a model takes before it is loaded: ? hf.plan.
function load.plan(path, given)
  local o = read_plan(given)
  return (select(4, declared(path, o)))
end

--- ? hf.load.
function load.load(path, given)
  local o = read(given)
  local model, list, source, plan = declared(path, o)
  if not plan.fits then core.fail(tostring(plan)) end
  fill(list, source.tensors, o)
  model.plan, model.metadata, model.path = plan, source.metadata, source.path
  source = nil
  collectgarbage() -- of files with vocabularies
  return model:eval()
end

return load
