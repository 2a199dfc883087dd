-- GGUF files written (version 3): metadata, tensors as they are, or their matrices by the reference rules as blocks or in narrower
-- floats; and a file again with other types, whose metadata stays byte by byte.

local core = require "tessera.core"
local gguf = require "tessera.hf.gguf"
local options = require "tessera.options"
local quantize = require "tessera.hf.quantize"

local write = {}

local shown = core.shown
local ALIGNMENT = 32
local U32, I32, F32, BOOL, STRING, ARRAY, I64, F64 = 4, 5, 6, 7, 8, 9, 11, 12
local ELEMENT = { u8 = 0, i8 = 1, i16 = 3, i32 = I32, f32 = F32, bool = BOOL, i64 = I64, f64 = F64 }

local number_of, block_of, nbytes_of = {}, {}, {}
for number, dtype in pairs(gguf.types) do number_of[dtype] = number end
number_of.mxfp4 = nil -- its elements stand in another order there
for _, d in ipairs(core.dtypes()) do block_of[d.name], nbytes_of[d.name] = d.block, d.nbytes end

-- What a file is said to be by most of its matrices.
local FILE_TYPE = { f32 = 0, f16 = 1, q4_0 = 2, q4_1 = 3, q8_0 = 7, q5_0 = 8, q5_1 = 9, q4_k = 14, q5_k = 16, q6_k = 18, iq4_nl = 25, bf16 = 32 }
-- Rows that are no multiple of 256 take a format of 32 with about as many bits, as llama.cpp has it.
local OF_32 = { q4_k = "q5_0", q5_k = "q5_1", q6_k = "q8_0" }

local function dtypes()
  local list = {}
  for name in pairs(FILE_TYPE) do list[#list + 1] = name end
  table.sort(list)
  return list
end

local read = {}
for _, what in ipairs { "save_gguf", "requantize" } do
  read[what] = options.of("hf." .. what, { dtype = options.one_of(unpack(dtypes())), keep = options.list(options.text) }, { keep = {} })
end

local function failed(path, why, ...) core.fail(("%s: %s"):format(shown(path), why:format(...))) end

local whole = require("tessera.little_endian").bytes
local function text(s) return whole(#s, 8) .. s end
local function bytes_of(v, dtype) return core.tensor({ v }, { dtype = dtype }):bytes() end

-- ---- metadata
-- A number as u32, i32 or i64 if it is whole, else as f32, or f64 where that is another number.
local function number(v)
  if type(v) == "cdata" then return I64, bytes_of(v, "i64") end
  if v % 1 ~= 0 or v ~= v or math.abs(v) == math.huge then
    local narrow = bytes_of(v, "f32")
    if core.from_bytes(narrow, "f32", {}):item() == v or v ~= v then return F32, narrow end
    return F64, bytes_of(v, "f64")
  end
  if v >= 0 and v < 2 ^ 32 then return U32, whole(v, 4) end
  if v >= -2 ^ 31 and v < 0 then return I32, bytes_of(v, "i32") end
  return I64, bytes_of(v, "i64")
end

local value

local function list_value(path, name, v)
  if #v == 0 then failed(path, "the metadata '%s' is an empty list, whose type nobody knows", shown(name)) end
  local kind, parts
  if type(v[1]) == "number" then
    local wide = "i32"
    for _, x in ipairs(v) do
      if type(x) ~= "number" then failed(path, "the metadata '%s' is a list of several types", shown(name)) end
      if x % 1 ~= 0 then wide = "f32" elseif math.abs(x) >= 2 ^ 31 and wide == "i32" then wide = "i64" end
    end
    return ARRAY, whole(ELEMENT[wide], 4) .. whole(#v, 8) .. core.tensor(v, { dtype = wide }):bytes()
  end
  parts = {}
  for i, x in ipairs(v) do
    local own, bytes = value(path, name, x)
    if kind and own ~= kind then failed(path, "the metadata '%s' is a list of several types", shown(name)) end
    kind, parts[i] = own, bytes
  end
  return ARRAY, whole(kind, 4) .. whole(#v, 8) .. table.concat(parts)
end

function value(path, name, v)
  local t = type(v)
  if core.is_tensor(v) then
    if v.ndim ~= 1 or not ELEMENT[v.dtype] then
      failed(path, "the metadata '%s' is %s, and has to be one axis of numbers", shown(name), core.type_text(v))
    end
    return ARRAY, whole(ELEMENT[v.dtype], 4) .. whole(v.numel, 8) .. v:bytes()
  elseif t == "number" or t == "cdata" then
    return number(v)
  elseif t == "boolean" then
    return BOOL, v and "\1" or "\0"
  elseif t == "string" then
    return STRING, text(v)
  elseif t == "table" then
    return list_value(path, name, v)
  end
  failed(path, "the metadata '%s' is a %s; there are strings, numbers, truth values and lists of them", shown(name), t)
end

local function sorted(path, what, t)
  local names = {}
  for name in pairs(t) do
    if type(name) ~= "string" then failed(path, "names of %s are strings, not a %s", what, type(name)) end
    names[#names + 1] = name
  end
  table.sort(names)
  return names
end

-- ---- tensors
-- The dtype that a tensor has in the file: matrices of floats or blocks are converted, vectors stay.
local function dtype_for(path, name, t, o)
  local own = t.dtype
  local kept = not o.dtype or t.ndim < 2 or not (own:match "^b?f%d" or block_of[own] > 1)
  for _, pattern in ipairs(o.keep) do kept = kept or name:find(pattern) ~= nil end
  if kept then
    if not number_of[own] then failed(path, "'%s' is %s, which GGUF does not hold", shown(name), core.type_text(t)) end
    return own
  end
  local d, k = o.dtype, t.shape[t.ndim]
  if k % block_of[d] ~= 0 then d = OF_32[d] or d end
  if k % block_of[d] ~= 0 then
    failed(path, "'%s' has rows of %d, which are no whole blocks of %s\n  hint: keep = {..} names tensors that stay", shown(name), k, d)
  end
  return d
end

local PIECE = 2 ^ 22 -- numbers of a tensor that are converted at once

local function converted(path, name, t, dtype)
  local x = t:to "cpu":cast "f32"
  if not quantize.has(dtype) then return x:cast(dtype) end
  if not core.op.all(core.op.isfinite(x)):item() then failed(path, "'%s' has numbers that are not finite, which no block holds", shown(name)) end
  return quantize.blocks(x, dtype)
end

-- Adds the parts of a tensor in the file: itself, or functions that convert a piece of its first axis when its turn comes, so that no more
-- than this is in memory. done is called by the last one.
local function add_parts(parts, path, name, t, dtype, done)
  if t.dtype == dtype or t.numel == 0 then
    parts[#parts + 1] = function()
      done()
      return t.dtype == dtype and t or ""
    end
    return
  end
  local n = t.shape[1]
  local step = math.max(1, math.floor(PIECE / (t.numel / n)))
  local own = t.dtype
  local stored = block_of[own] > 1 and t:bitcast "u8" or t -- blocks have no parts
  for at = 0, n - 1, step do
    parts[#parts + 1] = function()
      if at + step >= n then done() end
      return converted(path, name, stored:narrow(0, at, math.min(step, n - at)):contiguous():bitcast(own), dtype)
    end
  end
end

-- A function of how many tensors are done that tells it on a terminal, if all of them take longer than half a second.
local function waiting(path, n)
  local start, bar = core.now(), nil
  return function(i)
    if not bar and i < n and core.is_terminal(2) and core.now() - start > 0.5 then
      bar = require("tessera.data").progress(n, { label = shown(path), unit = "tensors" })
    end
    if not bar then return end
    bar:update(i)
    if i == n then bar:finish() end
  end
end

-- head: bytes of the metadata, in count entries.
local function write_all(path, names, tensors, count, head, o)
  local infos, at, dtype, sizes = {}, 0, {}, {}
  for i, name in ipairs(names) do
    local t = tensors[name]
    if not core.is_tensor(t) then failed(path, "'%s' is a %s, not a tensor", shown(name), type(t)) end
    if t.ndim > 4 then failed(path, "'%s' is %s, and GGUF has four axes at most", shown(name), core.type_text(t)) end
    dtype[i] = dtype_for(path, name, t, o)
    local dims = {}
    for a = t.ndim, 1, -1 do dims[#dims + 1] = whole(t.shape[a], 8) end
    infos[i] = text(name) .. whole(t.ndim, 4) .. table.concat(dims) .. whole(number_of[dtype[i]], 4) .. whole(at, 8)
    local last = t.shape[t.ndim] or 1
    local rows = last == 0 and 0 or t.numel / last
    sizes[i] = rows * last / block_of[dtype[i]] * nbytes_of[dtype[i]]
    at = math.ceil((at + sizes[i]) / ALIGNMENT) * ALIGNMENT
  end
  local header = "GGUF" .. whole(3, 4) .. whole(#names, 8) .. whole(count, 8) .. head .. table.concat(infos)
  local parts = { header .. ("\0"):rep(-#header % ALIGNMENT) }
  local bar = waiting(path, #names)
  for i, name in ipairs(names) do
    add_parts(parts, path, name, tensors[name], dtype[i], function() bar(i) end)
    if sizes[i] % ALIGNMENT ~= 0 then parts[#parts + 1] = ("\0"):rep(-sizes[i] % ALIGNMENT) end
  end
  core.write_file(path, parts)
end

local function check_path(what, path)
  if type(path) ~= "string" or not path:find "%.gguf$" then
    core.fail(("hf.%s: the name of a file that ends in .gguf is needed, not %s"):format(what, type(path) == "string" and "'" .. shown(path) .. "'" or type(path)))
  end
end

--- ? hf: save_gguf.
function write.save(path, tensors, metadata, given)
  check_path("save_gguf", path)
  local o = read.save_gguf(given)
  if type(tensors) ~= "table" or core.is_tensor(tensors) then failed(path, "a table of tensors by name is needed, not a %s", type(tensors)) end
  if metadata ~= nil then options.argument("hf.save_gguf", "the metadata", options.table, metadata) end
  local head, names = {}, sorted(path, "metadata", metadata or {})
  for i, name in ipairs(names) do
    if name == "general.alignment" then failed(path, "'general.alignment' is not chosen: tensors stand at multiples of %d", ALIGNMENT) end
    local kind, bytes = value(path, name, metadata[name])
    head[i] = text(name) .. whole(kind, 4) .. bytes
  end
  write_all(path, sorted(path, "tensors", tensors), tensors, #names, table.concat(head), o)
end

--- ? hf: requantize.
function write.requantize(from, path, given)
  check_path("requantize", from)
  check_path("requantize", path)
  local o = read.requantize(given)
  if not o.dtype then core.fail "hf.requantize: dtype is not given\n  hint: hf.requantize(from, to, {dtype = \"q8_0\"})" end
  local map = core.map_file(from)
  local tensors, meta, stands = gguf.read(from, map)
  local head = map:read(stands.from, stands.to - stands.from)
  map:close()
  local alignment = meta["general.alignment"] or ALIGNMENT
  if alignment > ALIGNMENT or ALIGNMENT % alignment ~= 0 then
    failed(from, "tensors stand at multiples of %.0f there, and are written at those of %d", alignment, ALIGNMENT)
  end
  local at = stands.places["general.file_type"]
  if at and head:sub(at - stands.from + 1, at - stands.from + 4) == whole(U32, 4) then
    local i = at - stands.from + 4
    head = head:sub(1, i) .. whole(FILE_TYPE[o.dtype], 4) .. head:sub(i + 5)
  end
  write_all(path, stands.names, tensors, stands.count, head, o)
end

return write
