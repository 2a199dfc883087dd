-- Folders of checkpoints and their manifests: what stands in manifest.json and in the mark, written and read. What is
-- read is believed where it can be no other way: anything else is an error that says which file.
--
--   {"format":"tessera.checkpoint","version":1, "name":.., "step":.., "serial":..,
--    "state": how tensors stand in tables (lib/lua/nested.lua),
--    "files": {"cpu-0.safetensors": {"bytes":.., "header":.., "xxh64": of the header}},
--    "tensors": {"w": {"dtype":"F32", "shape":[8,6], "parts": [
--      {"file":.., "name":"w@0", "runs":[[[0,4]],[[0,6]]], "offset": in the file, "bytes":.., "xxh64":..}]}}}
--
-- A part has of each axis of the whole the runs [first, count], one behind the other; all parts together have every element
-- once.

local core = require "tessera.core"
local manifest = {}

manifest.FILE, manifest.MARK, manifest.VERSION = "manifest.json", "complete", 1
local HEAD = "tessera.checkpoint 1\n"
local shown = core.shown

function manifest.failed(path, what, ...) core.fail(("%s: %s"):format(shown(path), what:format(...))) end
local failed = manifest.failed

local json
function manifest.encode(v)
  json = json or core.open_json()
  return json.encode(v)
end

-- ---- folders

local function read_mark(dir, name)
  local ok, text = pcall(core.read_file, dir .. "/" .. name .. "/" .. manifest.MARK, "checkpoint")
  if not ok then return nil end
  local serial, digest = text:match "^tessera%.checkpoint 1\nserial (%d+)\nmanifest (%x+)\n$"
  if not serial or #digest ~= 16 then return nil end
  return tonumber(serial), digest
end

--- The text of a mark, to which the digest of the manifest is added.
function manifest.mark(serial) return HEAD .. ("serial %.0f\n"):format(serial) end

function manifest.name_of_step(step) return ("step-%08.0f"):format(step) end
local function step_of(name) return tonumber(name:match "^step%-(%d+)$") end

--- The whole checkpoints of a folder, {name, folder, step, serial, digest}, oldest first; nil and why where it cannot be
--- read. A folder with more than one of a name has the later ones as name~1 and so on: the last one counts.
function manifest.list(dir, all)
  local names, why, missing = core.checkpoint_names(dir)
  if not names then return missing and {} or nil, why end
  local list, newest = {}, {}
  for _, folder in ipairs(names) do
    local serial, digest = read_mark(dir, folder)
    if serial then
      local name = folder:gsub("~%d+$", "")
      list[#list + 1] = { name = name, folder = folder, step = step_of(name), serial = serial, digest = digest }
    end
  end
  table.sort(list, function(a, b) return a.serial < b.serial end)
  if all then return list end
  local seen, out = {}, {}
  for i = #list, 1, -1 do
    if not seen[list[i].name] then table.insert(out, 1, list[i]) end
    seen[list[i].name] = true
  end
  return out
end

-- ---- reading

local function is_count(v) return type(v) == "number" and v >= 0 and v % 1 == 0 and v < 2 ^ 53 end

local function check_part(path, what, p, shape, files)
  local function bad(why) failed(path, "%s: %s", what, why) end
  if type(p) ~= "table" or type(p.file) ~= "string" or not files[p.file] then bad "a part lies in no file" end
  if type(p.name) ~= "string" or type(p.xxh64) ~= "string" then bad "a part has no name and digest" end
  if not is_count(p.offset) or not is_count(p.bytes) then bad "a part has no place" end
  if type(p.runs) ~= "table" or #p.runs ~= #shape then bad "a part has other axes" end
  for d, runs in ipairs(p.runs) do
    if type(runs) ~= "table" then bad "a part has other axes" end
    for _, r in ipairs(runs) do
      if type(r) ~= "table" or not is_count(r[1]) or not is_count(r[2]) or r[1] + r[2] > shape[d] then
        bad "a part lies outside"
      end
    end
  end
end

-- All that load relies on.
local function check(path, m)
  if type(m) ~= "table" or m.format ~= "tessera.checkpoint" then failed(path, "no manifest of a checkpoint") end
  if m.version ~= manifest.VERSION then
    failed(path, "version %s of the format, and %d is read here", shown(tostring(m.version)), manifest.VERSION)
  end
  if type(m.files) ~= "table" or type(m.tensors) ~= "table" or type(m.state) ~= "table" then failed(path, "parts are missing") end
  for name, f in pairs(m.files) do
    if type(f) ~= "table" or not is_count(f.bytes) or not is_count(f.header) or name:find "/" then
      failed(path, "file '%s' is described wrongly", shown(name))
    end
  end
  for name, t in pairs(m.tensors) do
    local what = ("tensor '%s'"):format(shown(name))
    if type(t) ~= "table" or type(t.shape) ~= "table" or type(t.dtype) ~= "string" or type(t.parts) ~= "table" then
      failed(path, "%s is described wrongly", what)
    end
    for _, n in ipairs(t.shape) do
      if not is_count(n) then failed(path, "%s has a bad shape", what) end
    end
    for _, p in ipairs(t.parts) do check_part(path, what, p, t.shape, m.files) end
  end
end

--- The manifest of one of manifest.list.
function manifest.read(dir, entry)
  local path = dir .. "/" .. entry.folder .. "/" .. manifest.FILE
  local text = core.read_file(path, "checkpoint.load")
  if core.digest(text) ~= entry.digest then
    failed(path, "damaged: its digest is not that of the mark\n  hint: checkpoint.list(dir) names the others")
  end
  json = json or core.open_json()
  local m, why = json.decode(text)
  if m == nil then failed(path, "no JSON: %s", shown(why)) end
  check(path, m)
  return m
end

return manifest
