-- Files of tensors: safetensors and NumPy's .npy. Loaded tensors lie over the
-- mapped file; saved files appear whole or not at all.

local core = require "tessera.core"
local io_ = {}

local json -- opened when first needed
local function get_json()
  json = json or core.open_json()
  return json
end

local function failed(path, what, ...)
  error(("%s: %s"):format(path, what:format(...)), 0)
end

-- safetensors names of dtypes, both ways.
local to_st, from_st = {}, {}
local to_npy, from_npy = {}, {}
for _, d in ipairs(core.dtypes()) do
  to_st[d.name], from_st[d.safetensors] = d.safetensors, d.name
  if not d.npy:match("V") then to_npy[d.name], from_npy[d.npy] = d.npy, d.name end
end
from_npy["|i1"], from_npy["<i1"], from_npy["<u1"] = "i8", "i8", "u8"

local MAX_HEADER = 100 * 1024 * 1024 -- the format's own limit

local function little_endian(s)
  local v = 0
  for i = #s, 1, -1 do v = v * 256 + s:byte(i) end
  return v
end

local function bytes_of(v, n)
  local out = {}
  for i = 1, n do
    out[i] = string.char(v % 256)
    v = math.floor(v / 256)
  end
  return table.concat(out)
end

-- ---- safetensors: 8 bytes of header length, JSON, data

local function check_entry(path, name, e, nbytes)
  if type(e) ~= "table" or type(e.shape) ~= "table" or type(e.data_offsets) ~= "table" then
    failed(path, "entry '%s' has no dtype, shape and data_offsets", name)
  end
  local dtype = from_st[e.dtype]
  if not dtype then failed(path, "entry '%s' has the unknown dtype '%s'", name, tostring(e.dtype)) end
  local first, last = e.data_offsets[1], e.data_offsets[2]
  if type(first) ~= "number" or type(last) ~= "number" or first < 0 or last < first or last > nbytes then
    failed(path, "entry '%s' lies outside the file", name)
  end
  local n = 1
  for _, d in ipairs(e.shape) do
    if type(d) ~= "number" or d < 0 or d % 1 ~= 0 then failed(path, "entry '%s' has a bad shape", name) end
    n = n * d
  end
  if n > 2 ^ 53 then failed(path, "entry '%s' has a bad shape", name) end
  return dtype, first, last
end

function io_.load_safetensors(path)
  local map = core.map_file(path)
  local size = map:size()
  if size < 8 then failed(path, "not a safetensors file: %d bytes", size) end
  local n = little_endian(map:read(0, 8))
  if n > MAX_HEADER or n > size - 8 then
    failed(path, "not a safetensors file: its header would have %.0f bytes", n)
  end
  local header, err = get_json().decode(map:read(8, n))
  if type(header) ~= "table" then failed(path, "the header is no JSON: %s", tostring(err or "not an object")) end
  local tensors, base = {}, 8 + n
  for name, e in pairs(header) do
    if name ~= "__metadata__" then
      local dtype, first, last = check_entry(path, tostring(name), e, size - base)
      local ok, t = pcall(map.tensor, map, dtype, e.shape, base + first)
      if not ok then failed(path, "entry '%s': %s", name, tostring(t)) end
      if t.nbytes ~= last - first then
        failed(path, "entry '%s' needs %.0f bytes and has %.0f", name, t.nbytes, last - first)
      end
      tensors[name] = t
    end
  end
  local meta = header.__metadata__
  return tensors, type(meta) == "table" and meta or {}
end

local function sorted_keys(t)
  local keys = {}
  for k in pairs(t) do keys[#keys + 1] = k end
  table.sort(keys)
  return keys
end

-- tensors: a table by name. metadata: strings by name.
function io_.save_safetensors(path, tensors, metadata)
  local encode = get_json().encode
  local entries, parts, at = {}, { "" }, 0
  if metadata and next(metadata) then
    local m = {}
    for _, k in ipairs(sorted_keys(metadata)) do
      m[#m + 1] = encode(k) .. ":" .. encode(tostring(metadata[k]))
    end
    entries[1] = '"__metadata__":{' .. table.concat(m, ",") .. "}"
  end
  for _, name in ipairs(sorted_keys(tensors)) do
    local t = tensors[name]
    if not core.is_tensor(t) then failed(path, "'%s' is a %s, not a tensor", tostring(name), type(t)) end
    local shape = {}
    for i, d in ipairs(t.shape) do shape[i] = ("%.0f"):format(d) end
    entries[#entries + 1] = ('%s:{"dtype":"%s","shape":[%s],"data_offsets":[%.0f,%.0f]}'):format(
      encode(tostring(name)), to_st[t.dtype], table.concat(shape, ","), at, at + t.nbytes)
    parts[#parts + 1] = t
    at = at + t.nbytes
  end
  local header = "{" .. table.concat(entries, ",") .. "}"
  header = header .. (" "):rep(-#header % 8) -- data stays aligned
  parts[1] = bytes_of(#header, 8) .. header
  core.write_file(path, parts)
end

-- ---- .npy: magic, version, header length, a Python dict, data

local function npy_header(path, map)
  local size = map:size()
  if size < 10 or map:read(0, 6) ~= "\147NUMPY" then failed(path, "not a .npy file") end
  local major = map:read(6, 1):byte()
  local width = major == 1 and 2 or 4
  if major < 1 or major > 3 or size < 8 + width then failed(path, "unknown .npy version %d", major) end
  local n = little_endian(map:read(8, width))
  if n > size - 8 - width then failed(path, "the header is cut off") end
  return map:read(8 + width, n), 8 + width + n
end

function io_.load_npy(path)
  local map = core.map_file(path)
  local header, at = npy_header(path, map)
  local descr = header:match("['\"]descr['\"]%s*:%s*['\"]([^'\"]+)['\"]")
  local order = header:match("['\"]fortran_order['\"]%s*:%s*(%a+)")
  local sizes = header:match("['\"]shape['\"]%s*:%s*%(([%d%s,L]*)%)")
  if not (descr and order and sizes) then failed(path, "the header lacks descr, fortran_order or shape") end
  local dtype = from_npy[descr] or from_npy[(descr:gsub("^=", "<"))]
  if not dtype then failed(path, "dtype '%s' is not supported", descr) end
  local shape = {}
  for d in sizes:gmatch("%d+") do shape[#shape + 1] = tonumber(d) end
  if order ~= "True" then return map:tensor(dtype, shape, at) end
  local reversed, perm = {}, {}
  for i = #shape, 1, -1 do
    reversed[#reversed + 1] = shape[i]
    perm[#perm + 1] = i - 1
  end
  return map:tensor(dtype, reversed, at):permute(perm)
end

function io_.save_npy(path, t)
  if not core.is_tensor(t) then failed(path, "a %s is not a tensor", type(t)) end
  local descr = to_npy[t.dtype]
  if not descr then failed(path, "NumPy has no dtype for %s; cast to f32 first", t.dtype) end
  local shape = {}
  for i, d in ipairs(t.shape) do shape[i] = ("%.0f"):format(d) end
  local header = ("{'descr': '%s', 'fortran_order': False, 'shape': (%s%s), }"):format(
    descr, table.concat(shape, ", "), #shape == 1 and "," or "")
  header = header .. (" "):rep(-(#header + 11) % 64) .. "\n"
  core.write_file(path, { "\147NUMPY\1\0" .. bytes_of(#header, 2) .. header, t })
end

-- ---- by the file's name

local function extension(path)
  local ext = path:match("%.(%w+)$")
  if ext ~= "npy" and ext ~= "safetensors" then
    failed(path, "the name must end in .safetensors or .npy")
  end
  return ext
end

-- A tensor from .npy; a table of tensors by name, and the metadata, from .safetensors.
function io_.load(path)
  if extension(path) == "npy" then return io_.load_npy(path) end
  return io_.load_safetensors(path)
end

function io_.save(path, value, metadata)
  if extension(path) == "npy" then return io_.save_npy(path, value) end
  if core.is_tensor(value) then value = { tensor = value } end
  return io_.save_safetensors(path, value, metadata)
end

-- JSON files, such as a model's config.json.
function io_.load_json(path)
  local f = assert(io.open(path, "rb"))
  local text = f:read("*a")
  f:close()
  local value, err = get_json().decode(text)
  if value == nil then failed(path, "no JSON: %s", tostring(err)) end
  return value
end

return io_
