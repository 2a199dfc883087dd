-- What stands at a path: a folder with config.json and safetensors, whole or in shards, or a GGUF file. Tensors lie over
-- the mapped files.

local core = require "tessera.core"
local io_ = require "tessera.io"

local files = {}

local shown = core.shown

-- Texts of a list that a GGUF file's metadata may have here: vocabularies have a hundred thousand, which every collection of garbage would
-- look at; who makes a tokenizer reads them from the file.
local LONGEST_LIST = 1000

local EISDIR = 21 -- on Linux

local function exists(path)
  local f = io.open(path, "rb")
  if f then f:close() end
  return f ~= nil
end
files.exists = exists

local function fail(path, what, ...) core.fail(("%s: %s"):format(shown(path), what:format(...))) end

-- A folder can be opened and not be read, whatever is in it.
local function is_folder(path)
  local f = io.open(path, "rb")
  local what = f and select(3, f:read(1))
  if f then f:close() end
  return what == EISDIR
end
files.is_folder = is_folder

--- The error of a path at which nothing can be read; nothing where something can.
function files.need(path)
  local f, why = io.open(path, "rb")
  if f then return f:close() end
  if why:find "No such file" then
    local hint = path:find "^[%w._-]+/[%w._-]+$" and
      "\n  hint: a path of this machine is needed; models are not fetched, so a name of the Hugging Face hub has to be downloaded first" or ""
    fail(path, "there is no such file or folder%s", hint)
  end
  core.fail("cannot open " .. (why:gsub("^.*: ", shown(path) .. ": ")))
end

--- Whether a file begins as one of GGUF, whatever its name.
function files.is_gguf(path)
  if path:find "%.gguf$" then return true end
  local f = io.open(path, "rb")
  local magic = f and f:read(4)
  if f then f:close() end
  return magic == "GGUF"
end

local SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"

local function is_file_name(name)
  return type(name) == "string" and name:find "%.safetensors$" and not name:find "[/\\%z]" and not name:find "^%."
end

-- Tensors of all shards that the index names; what a shard lacks, or a shard that is missing, is said at once.
local function sharded(folder, index)
  local map = type(index) == "table" and index.weight_map
  if type(map) ~= "table" then fail(folder .. "/" .. INDEX, "weight_map is missing") end
  local shards, names, missing = {}, {}, {}
  for name, shard in pairs(map) do
    if not is_file_name(shard) then fail(folder .. "/" .. INDEX, "'%s' is no name of a file beside it", shown(tostring(shard))) end
    if not shards[shard] then
      shards[shard] = true
      names[#names + 1] = shard
    end
  end
  table.sort(names)
  for _, shard in ipairs(names) do
    if not exists(folder .. "/" .. shard) then missing[#missing + 1] = shard end
  end
  if missing[1] then fail(folder, "%d of %d shards are missing: %s", #missing, #names, table.concat(missing, ", ")) end
  local tensors, lost = {}, {}
  for _, shard in ipairs(names) do
    for name, t in pairs(io_.load(folder .. "/" .. shard)) do
      if tensors[name] then fail(folder, "'%s' stands in two shards", shown(name)) end
      tensors[name] = t
    end
  end
  for name, shard in pairs(map) do
    if not tensors[name] then lost[#lost + 1] = ("%s (in %s)"):format(shown(tostring(name)), shard) end
  end
  table.sort(lost)
  if lost[1] then fail(folder, "shards lack tensors of the index: %s", table.concat(lost, ", ")) end
  return tensors
end

-- An error of a file that is there and may not be read.
local function need_readable(path)
  local f, why = io.open(path, "rb")
  if f then f:close() elseif not why:find "No such file" and not why:find "Not a directory" then files.need(path) end
end
files.need_readable = need_readable

local function folder(path)
  local config = path .. "/config.json"
  if not exists(config) then
    files.need(path)
    need_readable(config)
    if not is_folder(path) then
      local beside = path:match "^(.*)/[^/]*$" or "."
      fail(path, "a file that is none of GGUF%s", exists(beside .. "/config.json") and ("\n  hint: the folder is given: hf.load \"%s\""):format(shown(beside)) or
        "\n  hint: a model is a folder with config.json and " .. SINGLE .. ", or a GGUF file")
    end
    fail(path, "there is no config.json\n  hint: a folder of a model has config.json and %s, or the file is one of GGUF", SINGLE)
  end
  local source = { path = path, kind = "safetensors", config = io_.load_json(config) }
  if type(source.config) ~= "table" then fail(config, "it holds no object") end
  if exists(path .. "/" .. INDEX) then
    source.tensors = sharded(path, io_.load_json(path .. "/" .. INDEX))
  elseif exists(path .. "/" .. SINGLE) then
    source.tensors = io_.load(path .. "/" .. SINGLE)
  else
    need_readable(path .. "/" .. SINGLE)
    local other = exists(path .. "/pytorch_model.bin") and "; pytorch_model.bin is a pickle, which is not read" or ""
    fail(path, "there is neither %s nor %s%s", SINGLE, INDEX, other)
  end
  return source
end

--- {path, kind, config, tensors}: the configuration as config.json has it, tensors by name. Of GGUF as they are named in
--- safetensors (gguf_models.lua), and its metadata.
function files.open(path)
  if type(path) ~= "string" or path == "" then core.fail(("hf.load: a path is needed, not %s\n  hint: hf.load \"folder\", or a GGUF file"):format(path == "" and "''" or type(path) == "nil" and "nothing" or "a " .. type(path)))
  end
  if files.is_gguf(path) then
    local map = core.map_file(path)
    local tensors, meta = require("tessera.hf.gguf").read(path, map, { most = LONGEST_LIST, later = true })
    map:close()
    return require("tessera.hf.gguf_models").source(path, tensors, meta)
  end
  return folder((path:gsub("(.)/+$", "%1")))
end

return files
