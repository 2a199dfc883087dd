-- Files of tensors: safetensors, NumPy's .npy and .npz, GGUF (hf/gguf.lua). Tensors of large files lie over them, mapped,
-- where their elements are ours; saved files appear whole or not at all. What a file says is believed
-- where it can be no other way: anything else is an error that says what and where.

local core = require "tessera.core"
local little = require "tessera.little_endian"
local options = require "tessera.options"
local io_ = {}
local number_of, bytes_of = little.number, little.bytes

local json -- opened when first needed
local function get_json()
  json = json or core.open_json()
  return json
end

-- What comes from files is shown as a terminal may have it.
local shown = core.shown
local function failed(path, what, ...)
  core.fail(("%s: %s"):format(shown(path), what:format(...)))
end

-- safetensors names of dtypes, both ways.
local to_st, from_st = {}, {}
local to_npy, from_npy = {}, {}
for _, d in ipairs(core.dtypes()) do
  to_st[d.name], from_st[d.safetensors] = d.safetensors, d.name
  if not d.npy:match("V") then to_npy[d.name], from_npy[d.npy:sub(2)] = d.npy, d.name end
end

-- Unsigned integers that we have no type of: what holds them, and their bytes.
local unsigned = { u2 = "i32", u4 = "i64", u8 = "i64", U16 = "i32", U32 = "i64", U64 = "i64" }
local width = { U16 = 2, U32 = 4, U64 = 8 }

local MAX_HEADER = 100 * 1024 * 1024 -- the format's own limit

-- The tensor, or an error that names the file and the entry.
local function tensor_of(path, what, map, method, ...)
  local ok, t = pcall(map[method], map, ...)
  if ok then return t end
  local text = tostring(t):gsub("^[^\n]-:%d+: ", "")
  failed(path, "%s%s", what, text)
end

local function is_size(v) return type(v) == "number" and v >= 0 and v % 1 == 0 and v < 2 ^ 53 end -- exactly what the text says

-- ---- safetensors: 8 bytes of header length, JSON, data

local function count_names(object)
  local n = 0
  for k, v in pairs(object) do
    if type(k) == "string" then n = n + 1 end
    if type(v) == "table" then n = n + count_names(v) end
  end
  return n
end

-- The first name that an object of the JSON text has twice, which its decoder does not tell. There
-- is none where the text has no more names than what was decoded.
local function find_twice(text, decoded)
  local names = 0
  for _ in text:gmatch '"%s*:' do names = names + 1 end
  if names == count_names(decoded) then return nil end
  local seen, depth, at = {}, 0, 1
  while true do
    local from, _, sign = text:find('(["{}%[%]])', at)
    if not from then return nil end
    at = from + 1
    if sign == '"' then
      repeat -- the string's end: a quote behind no backslash, or behind pairs of them
        local to = text:find('"', at, true)
        local slashes = #text:sub(at, to - 1):match "\\*$"
        at = to + 1
      until slashes % 2 == 0
      if seen[depth] and text:find("^%s*:", at) then
        local list, why = get_json().decode("[" .. text:sub(from, at - 1) .. "]")
        if not list then error(why, 0) end
        local name = list[1]
        if seen[depth][name] then return name end
        seen[depth][name] = true
      end
    elseif sign == "{" or sign == "[" then
      depth = depth + 1
      seen[depth] = sign == "{" and {} or false
    else
      seen[depth], depth = nil, depth - 1
    end
  end
end

-- decode of JSON in which no object has a name twice.
local function decode(path, text, where)
  local value, err, fraction = get_json().decode(text)
  if value == nil then return nil, shown(err) end
  local twice = type(value) == "table" and find_twice(text, value)
  if twice then failed(path, "'%s' stands twice %s", shown(twice), where) end
  return value, nil, fraction
end

local function is_list(t, n)
  if type(t) ~= "table" then return false end
  local count = 0
  for _ in pairs(t) do count = count + 1 end
  return count == #t and (not n or count == n)
end

local function check_entry(path, name, e, nbytes)
  local what = ("entry '%s'"):format(shown(name))
  if type(e) ~= "table" or not is_list(e.shape) or not is_list(e.data_offsets, 2) then
    failed(path, "%s has no dtype, shape and data_offsets", what)
  end
  local dtype = from_st[e.dtype] or unsigned[e.dtype]
  if not dtype then failed(path, "%s has the unknown dtype '%s'", what, shown(tostring(e.dtype))) end
  local first, last = e.data_offsets[1], e.data_offsets[2]
  if not is_size(first) or not is_size(last) or last < first or last > nbytes then
    failed(path, "%s lies outside the file: data_offsets are %s and %s of %.0f bytes", what, shown(tostring(first)),
      shown(tostring(last)), nbytes)
  end
  local n = 1
  for _, d in ipairs(e.shape) do
    if not is_size(d) then failed(path, "%s has a bad shape", what) end
    n = n * d
  end
  if n >= 2 ^ 53 then failed(path, "%s has a bad shape", what) end
  return { name = name, what = what, dtype = dtype, form = e.dtype, shape = e.shape, first = first, last = last }
end

-- All bytes belong to one tensor each.
local function check_places(path, list, nbytes)
  table.sort(list, function(a, b)
    if a.first ~= b.first then return a.first < b.first end
    return a.last < b.last
  end)
  local at, before = 0, nil
  for _, e in ipairs(list) do
    if e.first < at then failed(path, "%s overlaps %s", e.what, before.what) end
    if e.first > at then failed(path, "bytes %.0f to %.0f, before %s, belong to no tensor", at, e.first, e.what) end
    at, before = e.last, e
  end
  if at ~= nbytes then failed(path, "the last %.0f bytes belong to no tensor", nbytes - at) end
end

local function check_metadata(path, meta)
  if meta == nil then return {} end
  if type(meta) ~= "table" then failed(path, "__metadata__ is no table of strings") end
  for k, v in pairs(meta) do
    if type(k) ~= "string" or type(v) ~= "string" then failed(path, "__metadata__ is no table of strings") end
  end
  return meta
end

local read = {} -- by the file's kind

function read.safetensors(path, map)
  local size = map:size()
  if size < 8 then failed(path, "not a safetensors file: %d bytes", size) end
  local n = number_of(map:read(0, 8))
  if n > MAX_HEADER or n > size - 8 then
    failed(path, "not a safetensors file: its header would have %.0f bytes", n)
  end
  local text = map:read(8, n)
  local header, err, fraction = decode(path, text, "in the header")
  if header == nil then failed(path, "the header is no JSON: %s", err) end
  if text:sub(1, 1) ~= "{" then failed(path, "the header is no object of JSON that begins at once") end
  local list, base = {}, 8 + n
  for name, e in pairs(header) do
    if name ~= "__metadata__" then list[#list + 1] = check_entry(path, tostring(name), e, size - base) end
  end
  check_places(path, list, size - base)
  local meta = check_metadata(path, header.__metadata__)
  if fraction then failed(path, "a number of the header is %s", fraction:gsub("^(.-): (.*)", "%2: %1")) end
  local tensors = {}
  for _, e in ipairs(list) do
    local size = width[e.form]
    local t = tensor_of(path, e.what .. ": ", map, "tensor", e.dtype, e.shape, base + e.first, size, false, size ~= nil)
    local need = size and t.numel * size or t.nbytes
    if need ~= e.last - e.first then failed(path, "%s needs %.0f bytes and has %.0f", e.what, need, e.last - e.first) end
    tensors[e.name] = t
  end
  return tensors, meta
end

-- Names in the order in which they are written. JSON is UTF-8.
local function sorted_names(path, t)
  local names, key = {}, {}
  for k in pairs(t) do
    local name = type(k) == "number" and tostring(k) or k
    if type(name) ~= "string" then failed(path, "a name is a string, not a %s", type(name)) end
    if key[name] ~= nil then failed(path, "'%s' is the name of two", shown(name)) end
    if name:find "[\128-\255]" and not core.is_utf8(name) then failed(path, "the name '%s' is no UTF-8", shown(name)) end
    names[#names + 1], key[name] = name, k
  end
  table.sort(names)
  return names, key
end

-- tensors: a table by name. metadata: strings by name.
function io_.save_safetensors(path, tensors, metadata)
  if metadata ~= nil then options.argument("save", "the metadata", options.table, metadata) end
  local encode = get_json().encode
  local entries, parts, at = {}, { "" }, 0
  if type(tensors) ~= "table" then failed(path, "a table of tensors is needed, not a %s", type(tensors)) end
  if metadata and next(metadata) then
    local m = {}
    local names, key = sorted_names(path, metadata)
    for _, name in ipairs(names) do
      local value = metadata[key[name]]
      if type(value) == "table" or type(value) == "function" or core.is_tensor(value) then
        failed(path, "the metadata '%s' is a %s, not a string", shown(name), core.is_tensor(value) and "tensor" or type(value))
      end
      local text = tostring(value)
      if not core.is_utf8(text) then failed(path, "the metadata '%s' is no UTF-8", shown(name)) end
      m[#m + 1] = encode(name) .. ":" .. encode(text)
    end
    entries[1] = '"__metadata__":{' .. table.concat(m, ",") .. "}"
  end
  local names, key = sorted_names(path, tensors)
  for _, name in ipairs(names) do
    local t = tensors[key[name]]
    if not core.is_tensor(t) then failed(path, "'%s' is a %s, not a tensor", shown(name), type(t)) end
    if name == "__metadata__" then failed(path, "'__metadata__' is no name of a tensor: the format uses it") end
    local shape = {}
    for i, d in ipairs(t.shape) do shape[i] = ("%.0f"):format(d) end
    entries[#entries + 1] = ('%s:{"dtype":"%s","shape":[%s],"data_offsets":[%.0f,%.0f]}'):format(
      encode(name), to_st[t.dtype], table.concat(shape, ","), at, at + t.nbytes)
    parts[#parts + 1] = t
    at = at + t.nbytes
  end
  local header = "{" .. table.concat(entries, ",") .. "}"
  header = header .. (" "):rep(-#header % 8) -- data stays aligned
  if #header > MAX_HEADER then
    failed(path, "names and metadata take %.0f bytes, of which the format allows %.0f", #header, MAX_HEADER)
  end
  parts[1] = bytes_of(#header, 8) .. header
  core.write_file(path, parts)
end

-- ---- .npy: magic, version, header length, a Python dict, data

local function npy_header(path, what, map)
  local size = map:size()
  if size < 10 or map:read(0, 6) ~= "\147NUMPY" then failed(path, "%snot a .npy file", what) end
  local major, minor = map:read(6, 2):byte(1, 2)
  local bytes = major == 1 and 2 or 4
  if major < 1 or major > 3 or minor ~= 0 then failed(path, "%sunknown .npy version %d.%d", what, major, minor) end
  if size < 8 + bytes then failed(path, "%sthe header is cut off", what) end
  local n = number_of(map:read(8, bytes))
  if n > size - 8 - bytes then failed(path, "%sthe header is cut off", what) end
  return map:read(8 + bytes, n), 8 + bytes + n
end

local why_not = { O = "Python's objects", U = "text", S = "text", V = "records", M = "dates", m = "durations" }

-- Our dtype, bytes of an element (of a part, where complex), most significant byte first, unsigned.
local function npy_dtype(path, what, descr)
  local order, form = descr:match "^([<>=|]?)(%a%d+)$"
  local dtype = from_npy[form] or unsigned[form]
  if not dtype then
    local why = why_not[descr:match "^[<>=|]?(%a)"]
    failed(path, "%sdtype '%s' is not supported%s", what, shown(descr), why and ": it is " .. why or "")
  end
  local size = tonumber(form:sub(2)) / (form:sub(1, 1) == "c" and 2 or 1)
  return dtype, size, order == ">" and size > 1, unsigned[form] and not from_npy[form]
end

-- The header: a dict of Python's with descr, fortran_order and shape, each once. what: words in front of errors.
local function npy_fields(path, what, text)
  local at, fields = 1, {}
  local function wrong_at(place, why, ...)
    failed(path, "%sthe header, byte %d: %s", what, text:find("[^ \t\r\n]", place) or place, why:format(...))
  end
  local function wrong(...) wrong_at(at, ...) end
  local function accept(pattern)
    local from, to, word = text:find("^[ \t\r\n]*" .. pattern, at)
    if from then at = to + 1 end
    return from and (word or true)
  end
  local function need(pattern, why) return accept(pattern) or wrong("%s", why) end
  local read = {}
  function read.descr()
    if accept "%[" then failed(path, "%sthe dtype is a record, not a number", what) end
    return accept "'([^'\\]*)'" or accept '"([^"\\]*)"' or wrong "descr is no string"
  end
  function read.fortran_order()
    local before, word = at, accept "(%a+)"
    if word ~= "True" and word ~= "False" then wrong_at(before, "fortran_order is neither True nor False") end
    return word
  end
  function read.shape()
    need("%(", "shape is no tuple")
    local sizes, comma = {}, true
    while not accept "%)" do
      if not comma then wrong "',' or ')' is missing in shape" end
      local before = at
      local digits = need("(%d+)", "a size is no whole number")
      accept "L" -- Python 2
      if #digits > 1 and digits:sub(1, 1) == "0" then wrong_at(before, "a size begins with 0") end
      if not is_size(tonumber(digits)) then wrong_at(before, "the size %s is too large", digits) end
      sizes[#sizes + 1], comma = tonumber(digits), accept ","
    end
    if #sizes == 1 and not comma then wrong "shape is no tuple" end
    return sizes
  end
  need("{", "'{' is missing")
  local comma = true
  while not accept "}" do
    if not comma then wrong "',' or '}' is missing" end
    local before = at
    local key = accept "'([%w_]+)'" or need('"([%w_]+)"', "the name of a field is missing")
    if not read[key] then wrong_at(before, "there is no field '%s'", key) end
    if fields[key] then wrong_at(before, "%s stands twice in it", key) end
    need(":", "':' is missing")
    fields[key], comma = read[key](), accept ","
  end
  accept ""
  if at <= #text then wrong "text behind its end" end
  for _, key in ipairs { "descr", "fortran_order", "shape" } do
    if not fields[key] then failed(path, "%sthe header lacks %s", what, key) end
  end
  return fields
end

local function read_npy(path, what, map)
  local header, at = npy_header(path, what, map)
  local fields = npy_fields(path, what, header)
  local order, shape = fields.fortran_order, fields.shape
  local dtype, size, swapped, natural = npy_dtype(path, what, fields.descr)
  local n = 1
  for _, d in ipairs(shape) do n = n * d end
  local complex = dtype:find "^complex" and 2 or 1
  local all = map:size() - at
  if n * size * complex > all then failed(path, "%sits shape needs %.0f bytes, there are %.0f", what, n * size * complex, all) end
  local dims = shape
  if order == "True" then
    dims = {}
    for i = #shape, 1, -1 do dims[#dims + 1] = shape[i] end
  end
  local t = tensor_of(path, what, map, "tensor", dtype, dims, at, size, swapped, natural)
  if order ~= "True" then return t end
  local perm = {}
  for i = #shape, 1, -1 do perm[#perm + 1] = i - 1 end
  return t:permute(perm)
end

function read.npy(path, map) return read_npy(path, "", map) end

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

-- ---- .npz: a ZIP archive of .npy files. Its directory stands at the end.

local END, END64, AT64, ENTRY, LOCAL = "PK\5\6", "PK\6\6", "PK\6\7", "PK\1\2", "PK\3\4"
local TOO_LARGE = 0xffffffff -- the number stands in 64 bits elsewhere

local function zip_directory(path, map)
  local size = map:size()
  local from = math.max(0, size - 22 - 65535)
  local tail = map:read(from, size - from)
  local at
  for i = #tail - 21, 1, -1 do -- behind it a comment of any length
    if tail:sub(i, i + 3) == END and i + 21 + number_of(tail:sub(i + 20, i + 21)) == #tail then
      at = i
      break
    end
  end
  if not at then failed(path, "not a .npz file: it has no directory") end
  local function field(i, n) return number_of(tail:sub(at + i, at + i + n - 1)) end
  local count, nbytes, where = field(10, 2), field(12, 4), field(16, 4)
  local pointer = from + at - 1 - 20
  if (where == TOO_LARGE or count == 0xffff) and pointer >= 0 and map:read(pointer, 4) == AT64 then
    local there = number_of(map:read(pointer + 8, 8))
    if there + 56 > size or map:read(there, 4) ~= END64 then failed(path, "its directory is damaged") end
    local record = map:read(there, 56)
    count, nbytes, where = number_of(record:sub(33, 40)), number_of(record:sub(41, 48)), number_of(record:sub(49, 56))
  end
  if where + nbytes > size then failed(path, "its directory lies outside the file") end
  return map:read(where, nbytes), count
end

-- Sizes and the place that did not fit into 32 bits: an extra field.
local function widen(extra, packed, size, where)
  local at = 1
  while at + 3 <= #extra do
    local id, n = number_of(extra:sub(at, at + 1)), number_of(extra:sub(at + 2, at + 3))
    if id == 1 then
      local p = at + 4
      local function wide(v)
        if v ~= TOO_LARGE then return v end
        v, p = number_of(extra:sub(p, p + 7)), p + 8
        return v
      end
      size = wide(size)
      packed = wide(packed)
      return packed, size, wide(where)
    end
    at = at + 4 + n
  end
  return packed, size, where
end

-- A part of a mapped file, as a file.
local Part = {}
Part.__index = Part
function Part:size() return self.n end
function Part:inside(at, n)
  if at + n > self.n then core.fail(("bytes %.0f..%.0f lie outside it"):format(at, at + n)) end
  return self.from + at
end
function Part:read(at, n) return self.map:read(self:inside(at, n), n) end
function Part:tensor(dtype, shape, at, ...) return self.map:tensor(dtype, shape, self:inside(at, 0), ...) end

-- The archive's file as a map of its own, and where its bytes stand in the archive.
local function zip_member(path, map, e)
  if e.where + 30 > map:size() or map:read(e.where, 4) ~= LOCAL then failed(path, "%s is not where the directory says", e.what) end
  local head = map:read(e.where, 30)
  local long = number_of(head:sub(27, 28))
  local at = e.where + 30 + long + number_of(head:sub(29, 30))
  if at > map:size() or map:read(e.where + 30, long) ~= e.name then
    failed(path, "%s has another name where it stands", e.what)
  end
  if at + e.packed > map:size() then failed(path, "%s lies outside the file", e.what) end
  e.from, e.to = e.where, at + e.packed
  if e.method == 0 then
    if e.packed ~= e.size then failed(path, "%s has two sizes", e.what) end
    return setmetatable({ map = map, from = at, n = e.size }, Part)
  end
  if e.method ~= 8 then failed(path, "%s is packed by method %d; NumPy uses 8", e.what, e.method) end
  return tensor_of(path, e.what .. ": ", map, "inflate", at, e.packed, e.size, e.crc)
end

function read.npz(path, map)
  if map:size() < 22 then failed(path, "not a .npz file: %d bytes", map:size()) end
  local directory, count = zip_directory(path, map)
  local tensors, at, list = {}, 1, {}
  for _ = 1, count do
    local function field(i, n) return number_of(directory:sub(at + i, at + i + n - 1)) end
    if directory:sub(at, at + 3) ~= ENTRY or #directory < at + 45 then failed(path, "its directory is damaged") end
    local long, extra, comment = field(28, 2), field(30, 2), field(32, 2)
    local name = directory:sub(at + 46, at + 45 + long)
    local e = { name = name, what = ("'%s'"):format(shown(name)), method = field(10, 2), crc = field(16, 4) }
    if field(8, 2) % 2 == 1 then failed(path, "%s is encrypted", e.what) end
    e.packed, e.size, e.where = widen(directory:sub(at + 46 + long, at + 45 + long + extra), field(20, 4), field(24, 4), field(42, 4))
    name = name:match "^(.*)%.npy$"
    if not name then failed(path, "%s is no .npy file", e.what) end
    if tensors[name] then failed(path, "%s stands twice in it", e.what) end
    tensors[name] = read_npy(path, e.what .. ": ", zip_member(path, map, e))
    list[#list + 1] = e
    at = at + 46 + long + extra + comment
  end
  if at ~= #directory + 1 then failed(path, "its directory has more than its %.0f files", count) end
  table.sort(list, function(a, b) return a.from < b.from end)
  for i = 2, #list do
    if list[i].from < list[i - 1].to then failed(path, "%s overlaps %s", list[i].what, list[i - 1].what) end
  end
  return tensors
end

function read.gguf(path, map)
  local tensors, meta = require("tessera.hf.gguf").read(path, map)
  return tensors, meta
end

-- ---- by the file's name

local function extension(what, path)
  if type(path) ~= "string" then
    core.fail(("%s: a path is needed, not %s"):format(what, path == nil and "nothing" or "a " .. type(path)))
  end
  local ext = path:match("%.(%w+)$")
  if ext ~= "npy" and ext ~= "safetensors" and not (what == "load" and (ext == "npz" or ext == "gguf")) then
    failed(path, "the name must end in %s", what == "load" and ".safetensors, .npy, .npz or .gguf" or ".safetensors or .npy")
  end
  return ext
end

local function closing(map, ...)
  map:close() -- what is read from it lives on
  return ...
end

-- The metadata's entry that says how a file's tensors stand in tables, and what stands beside them.
local STRUCTURE = "tessera.structure"

local function nested_value(path, tensors, meta)
  local text = meta and meta[STRUCTURE]
  if not text then return tensors, meta end
  local what, err = decode(path, text, "in the structure")
  if what == nil then failed(path, "the structure is no JSON: %s", err) end
  local value = require("tessera.nested").unflatten(what, tensors, function(why) failed(path, "the structure is damaged: %s", why) end)
  meta[STRUCTURE] = nil
  return value, meta
end

-- A tensor from .npy; a table of tensors by name from .npz; from .safetensors that, or what
-- tessera.save was given, and the metadata; from .gguf tensors and metadata.
function io_.load(path)
  local kind, map = extension("load", path), core.map_file(path)
  if kind == "gguf" then return closing(map, read.gguf(path, map)) end
  return nested_value(path, closing(map, read[kind](path, map)))
end

function io_.save(path, value, metadata)
  if extension("save", path) == "npy" then
    if metadata ~= nil then failed(path, "an .npy file holds no metadata") end
    return io_.save_npy(path, value)
  end
  if core.is_tensor(value) then value = { tensor = value } end
  if type(metadata) == "table" and metadata[STRUCTURE] then failed(path, "the metadata '%s' says how tensors stand in tables", STRUCTURE) end
  local nested = require "tessera.nested"
  if type(value) == "table" and nested.is_needed(value) then
    local tensors, text = nested.flatten(value, get_json().encode, function(...) failed(path, ...) end)
    local more = { [STRUCTURE] = text }
    if metadata ~= nil then
      for k, v in pairs(options.argument("save", "the metadata", options.table, metadata)) do more[k] = v end
    end
    value, metadata = tensors, more
  end
  return io_.save_safetensors(path, value, metadata)
end

-- JSON files, such as a model's config.json.
function io_.load_json(path)
  local value, err = decode(path, core.read_file(path, "load_json"), "in an object")
  if value == nil then failed(path, "no JSON: %s", err) end
  return value
end

return io_
