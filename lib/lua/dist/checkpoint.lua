-- tessera.checkpoint: what a training has, kept in folders that are whole or not there.
--
--   checkpoint.save("runs", {model = model:state_dict(), opt = opt:state_dict()}, {step = 100, keep = 3, async = true})
--   local state = checkpoint.load("runs", {like = {model = model:state_dict(), opt = opt:state_dict()}})
--
-- A checkpoint is a folder with a .safetensors file for each device that has elements (any reader of such files reads it), a
-- manifest (lib/lua/dist/manifest.lua) and, last of all, a mark that it is complete. lib/commit.h says how it becomes whole,
-- vm/core/snapshot.h how it is written beside the program.

local boxes = require "tessera.dist.boxes"
local core = require "tessera.core"
local little = require "tessera.little_endian"
local manifest = require "tessera.dist.manifest"
local named = require "tessera.named"
local nested = require "tessera.nested"
local options = require "tessera.options"

local checkpoint = {}
local encode, failed, shown = manifest.encode, manifest.failed, core.shown

local to_st, from_st, nbytes_of = {}, {}, {}
for _, d in ipairs(core.dtypes()) do to_st[d.name], from_st[d.safetensors], nbytes_of[d.name] = d.safetensors, d.name, d.nbytes or 1 end

local DATA = "checkpoint.data" -- under which the positions in data stand
local ALIGN = 64

local PATH = options.kind("a path", function(v) return type(v) == "string" and v ~= "" and not v:find "%z" end)
local NAME = options.kind("a name of letters, digits, '-', '_' and '.', which is no step's", function(v)
  return type(v) == "string" and #v <= 100 and v:find "^%w[%w_.-]*$" ~= nil and not v:find "^step%-%d+$"
end)
local COUNT = options.whole { least = 1 }
local STEP = options.whole { least = 0 }
local DATA_KIND = options.kind("data.batches, or a table of them", function(v) return type(v) == "table" and not core.is_tensor(v) end)

-- ---- positions in data

-- What each of the batches says of itself, or is told.
local function each_of(batches, f)
  if type(batches.state_dict) == "function" then return f(batches) end
  local out = {}
  for key, b in pairs(batches) do
    if type(b) ~= "table" or type(b.state_dict) ~= "function" then
      core.fail(("checkpoint: data must be %s, and has a %s at '%s'"):format(DATA_KIND.text, type(b), shown(tostring(key))))
    end
    out[key] = f(b, key)
  end
  return out
end

-- ---- what is saved

-- The parts that are written of a tensor: {tensor, name, runs}, equal ones once.
local function parts_of(name, t)
  local layout = core.mesh_layout_of(t)
  if not layout then return { { t = t, name = name, runs = boxes.of(nil, t.shape)[1].key } } end
  local summed = boxes.summed(layout)
  if summed ~= layout then t = core.mesh_move(t, summed) end
  local tensors, seen, out = core.mesh_parts(t), {}, {}
  for _, box in ipairs(boxes.of(summed, t.shape, #tensors)) do
    local part = tensors[box.part + 1]
    if not seen[box.key] and part.numel > 0 then
      if core.world().size > 1 then part = core.mesh_bring(core.mesh_layout_facts(summed), box.part, part) end
      out[#out + 1] = { t = part, name = ("%s@%d"):format(name, box.part), runs = box.key }
      seen[box.key] = true
    end
  end
  return out
end

local function file_of(device) return (device:find ":" and device:gsub(":", "-") or device .. "-0") .. ".safetensors" end

-- All parts, by file; how they stand in it follows from their sizes of elements and names.
local function sort_parts(path, tensors)
  local names, files, by_name = {}, {}, {}
  for name in pairs(tensors) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    local whole = { name = name, t = tensors[name], parts = parts_of(name, tensors[name]) }
    names[name] = whole
    for _, p in ipairs(whole.parts) do
      local file = file_of(p.t.device)
      if not by_name[file] then
        by_name[file] = { name = file, parts = {}, seen = {} }
        files[#files + 1] = by_name[file]
      end
      local f = by_name[file]
      if f.seen[p.name] then failed(path, "'%s' is the name of two", shown(p.name)) end
      f.seen[p.name], f.parts[#f.parts + 1], p.file, p.whole = true, p, file, whole
    end
  end
  table.sort(files, function(a, b) return a.name < b.name end)
  for _, f in ipairs(files) do
    table.sort(f.parts, function(a, b)
      local na, nb = nbytes_of[a.t.dtype], nbytes_of[b.t.dtype]
      if na ~= nb then return na > nb end
      return a.name < b.name
    end)
  end
  return names, files
end

local function sizes_text(shape)
  local out = {}
  for i, n in ipairs(shape) do out[i] = ("%.0f"):format(n) end
  return "[" .. table.concat(out, ",") .. "]"
end

-- The front of a safetensors file, and the place of each part. Metadata says which box a part is.
local function write_header(f, name)
  local meta = { '"checkpoint":' .. encode(name) }
  local entries, at = {}, 0
  for _, p in ipairs(f.parts) do
    if p.name ~= p.whole.name then
      meta[#meta + 1] = encode(p.name) .. ":" .. encode(p.runs .. " of " .. sizes_text(p.whole.t.shape))
    end
    entries[#entries + 1] = ('%s:{"dtype":"%s","shape":%s,"data_offsets":[%.0f,%.0f]}'):format(encode(p.name), to_st[p.t.dtype],
      sizes_text(p.t.shape), at, at + p.t.nbytes)
    p.offset, at = at, at + p.t.nbytes
  end
  local text = '{"__metadata__":{' .. table.concat(meta, ",") .. "}," .. table.concat(entries, ",") .. "}"
  text = text .. (" "):rep(-(#text + 8) % ALIGN)
  f.header = little.bytes(#text, 8) .. text
  for _, p in ipairs(f.parts) do p.offset = p.offset + #f.header end
  f.bytes = at + #f.header
end

-- The manifest: texts with digests between them.
local function write_manifest(front, names, files, state)
  local out, texts, pieces, number = {}, {}, {}, {}
  local function put(...) out[#out + 1] = (...):format(select(2, ...)) end
  local function digest(piece)
    texts[#texts + 1], pieces[#pieces + 1], out = table.concat(out), piece, {}
  end
  local n = 0
  for _, f in ipairs(files) do
    for _, p in ipairs(f.parts) do
      n = n + 1
      number[p] = n
    end
  end
  put("%s,\n\"state\":", front)
  out[#out + 1] = state
  put(",\n\"files\":{")
  for i, f in ipairs(files) do
    put('%s\n%s:{"bytes":%.0f,"header":%d,"xxh64":"%s"}', i > 1 and "," or "", encode(f.name), f.bytes, #f.header, core.digest(f.header))
  end
  put "},\n\"tensors\":{"
  for i, name in ipairs(names) do
    local whole = names[name]
    put('%s\n%s:{"dtype":"%s","shape":%s,"parts":[', i > 1 and "," or "", encode(name):gsub("%%", "%%%%"), to_st[whole.t.dtype],
      sizes_text(whole.t.shape))
    for k, p in ipairs(whole.parts) do
      out[#out + 1] = ('%s{"file":%s,"name":%s,"runs":%s,"offset":%.0f,"bytes":%.0f,"xxh64":"'):format(k > 1 and "," or "",
        encode(p.file), encode(p.name), p.runs, p.offset, p.t.nbytes)
      digest(number[p])
      put '"}'
    end
    put "]}"
  end
  put "}}\n"
  texts[#texts + 1] = table.concat(out)
  return texts, pieces
end

-- Folders that are not needed once this one is there: older ones of its name, and of steps all but the newest.
local function superseded(list, name, step, keep)
  local out, steps, seen = {}, step and 1 or 0, { [name] = true }
  for i = #list, 1, -1 do
    local e = list[i]
    local again = seen[e.name]
    seen[e.name] = true
    if e.step and not again then steps = steps + 1 end
    if again or (keep and e.step and steps > keep) then out[#out + 1] = e.folder end
  end
  return out
end

-- ---- one that is written
local Saving = {}
local facts = { error = 1, folder = 2, seconds = 3, held = 4, bytes = 5 }

function Saving.__index(h, key)
  if Saving[key] then return Saving[key] end
  local s = rawget(h, "saving")
  if key == "done" then return s:done() end
  if key == "path" then
    local folder = select(2, s:facts())
    return folder and h.dir .. "/" .. folder
  end
  if facts[key] then return (select(facts[key], s:facts())) end
end

-- In a job of several processes rank 0 writes, and all wait for it together; then others know as much.
local Other = {}

function Other.__index(h, key) return Other[key] end

function Other.__tostring(h) return ("checkpoint %s in %s is written by rank 0"):format(h.name, shown(h.dir)) end

local function settle(h, said)
  local why = said:match "^error (.*)"
  if why then core.fail(why) end
  h.path, h.done = said, true
  return h
end

function Other:wait() return self.done and self or settle(self, core.world_tell("", "checkpoint")) end

function Saving.__tostring(h)
  if not h.done then return ("checkpoint %s in %s is being written"):format(h.name, shown(h.dir)) end
  if h.error then return ("checkpoint %s: %s"):format(h.name, h.error) end
  return ("checkpoint %s: %.3g MB in %.3g s"):format(shown(h.path), h.bytes / 1e6, h.seconds)
end

-- wait(): until it is written; its error is raised. Gives the saving itself.
function Saving:wait()
  local saving = rawget(self, "saving")
  if core.world().size == 1 or rawget(self, "told") then
    saving:wait()
    return self
  end
  rawset(self, "told", true)
  local ok, why = pcall(saving.wait, saving)
  core.world_tell(ok and self.path or "error " .. tostring(why), "checkpoint")
  if not ok then error(why, 0) end
  return self
end

-- What an earlier one has written is there for all.
local function settled()
  core.checkpoint_settle()
  if core.world().size > 1 then core.world_tell("", "checkpoint") end
end

-- ---- exports

local read_save = options.of("checkpoint.save", { step = STEP, name = NAME, async = options.flag, keep = COUNT, data = DATA_KIND },
  { async = false })

-- save(dir, state, {step, name, async = false, keep, data}): writes a checkpoint into the folder dir: tables in tables of
-- tensors, numbers, strings and booleans. Tensors may be on any device, or spread over a mesh: each device's part goes into a
-- file of its own, equal parts once. It is called by its step (one more than the last, if none is given) or its name, and
-- appears whole or not at all. With it go the state of the random generator and, of data, the positions of data.batches. keep
-- = n removes all steps but the newest n, when this one is there; names stay. Gives a saving: its path, bytes and seconds.
--
-- With async it is written beside the program, from what tensors hold now, and save returns at once: saving:wait() waits,
-- saving.done asks, saving.held are the seconds that the program was held up. An error is raised by wait or the next save, or
-- told when the program ends, which waits. It takes as much memory again as the state. In a job of several processes all call it;
-- rank 0 writes, to which the parts of others go.
--   local state = {model = model:state_dict(), epoch = 3}
--   checkpoint.save("runs", state, {step = 100, keep = 3})
--   local saving = checkpoint.save("runs", {w = w}, {async = true})
--   print(saving:wait().path)
function checkpoint.save(dir, state, given)
  options.argument("checkpoint.save", "the folder", PATH, dir)
  local o = read_save(given)
  if type(state) ~= "table" or core.is_tensor(state) then
    core.fail(("checkpoint.save: the state must be a table, not %s"):format(core.is_tensor(state) and "a tensor" or
      state == nil and "nothing" or "a " .. type(state)) .. "\n  hint: {model = model:state_dict(), opt = opt:state_dict()}")
  end
  if o.step and o.name then core.fail "checkpoint.save: options step and name exclude each other" end
  settled()
  local list, why = manifest.list(dir, true)
  if not list then failed(dir, "cannot be read: %s", why) end
  local serial, step = 0, o.step
  for _, e in ipairs(list) do serial = math.max(serial, e.serial) end
  if not step and not o.name then
    step = 1
    for _, e in ipairs(list) do step = math.max(step, (e.step or 0) + 1) end
  end
  local name = o.name or manifest.name_of_step(step)
  local function wrong(...) failed("checkpoint.save", ...) end
  local tensors, text = nested.flatten(state, encode, wrong)
  local front = ('{"format":"tessera.checkpoint","version":%d,"tessera":%s,"name":%s%s,"saved":"%s"'):format(manifest.VERSION,
    encode(core.version), encode(name), step and (',"step":%.0f'):format(step) or "", os.date "!%Y-%m-%dT%H:%M:%SZ")
  local seed, stream = core.rng_state()
  front = front .. (',"random":["%.17g","%.17g"]'):format(seed, stream)
  if o.data then
    local more, said = nested.flatten({ [DATA] = each_of(o.data, function(b) return b:state_dict() end) }, encode, wrong)
    for key, t in pairs(more) do
      if tensors[key] then wrong("'%s' is the name of two", key) end
      tensors[key] = t
    end
    front = front .. ',"data":' .. said
  end
  local names, files = sort_parts("checkpoint.save", tensors)
  local job, flat = { dir = dir, name = name, mark = manifest.mark(serial + 1), files = {} }, {}
  for i, f in ipairs(files) do
    write_header(f, name)
    job.files[i] = { name = f.name, header = f.header, npiece = #f.parts }
    for _, p in ipairs(f.parts) do flat[#flat + 1] = p.t end
  end
  job.manifest, job.pieces = write_manifest(front:gsub("%%", "%%%%"), names, files, text)
  job.remove = superseded(list, name, step, o.keep)
  local h = { dir = dir, name = name, step = step }
  if core.world().rank > 0 then
    setmetatable(h, Other)
  else
    h.saving = core.checkpoint_save(job, flat, o.async)
    setmetatable(h, Saving)
  end
  return core.world().size > 1 and not o.async and h:wait() or h
end

-- list(dir): the whole checkpoints in a folder, oldest first: {name, step, path}; without a step where they were saved by name.
--   for _, c in ipairs(checkpoint.list "runs") do print(c.name, c.step) end
function checkpoint.list(dir)
  options.argument("checkpoint.list", "the folder", PATH, dir)
  local list, why = manifest.list(dir)
  if not list then failed(dir, "cannot be read: %s", why) end
  for i, e in ipairs(list) do list[i] = { name = e.name, step = e.step, path = dir .. "/" .. e.folder } end
  return list
end

-- latest(dir): the newest whole checkpoint, as in checkpoint.list, or nil.
--   local last = checkpoint.latest "runs"
function checkpoint.latest(dir)
  local list = checkpoint.list(dir)
  return list[#list]
end

-- ---- loading

-- The files of a checkpoint, opened and looked at when they are needed.
local Source = {}
Source.__index = Source

function Source:open(name)
  local path = self.path .. "/" .. name
  if self.maps[name] then return self.maps[name], path end
  local said = self.m.files[name]
  local ok, map = pcall(core.map_file, path)
  if not ok then
    core.fail(tostring(map):gsub("^[^\n]-:%d+: ", "") .. "\n  hint: a file of the checkpoint is missing; checkpoint.list(dir) names the others")
  end
  if map:size() ~= said.bytes then
    failed(path, "damaged: it has %.0f bytes, of %.0f that were written", map:size(), said.bytes)
  end
  if core.digest(map:read(0, said.header)) ~= said.xxh64 then failed(path, "damaged: its header is another one") end
  self.maps[name] = map
  return map, path
end

-- A part's tensor, over the file; its digest is looked at once.
function Source:part(name, p)
  if self.parts[p] then return self.parts[p] end
  local map, path = self:open(p.file)
  local dtype = self.m.tensors[name].dtype
  local ok, t = pcall(map.tensor, map, from_st[dtype] or failed(path, "'%s' has the unknown dtype '%s'", shown(name), shown(dtype)),
    boxes.shape(p.runs), p.offset)
  if not ok then failed(path, "'%s': %s", shown(p.name), tostring(t):gsub("^[^\n]-:%d+: ", "")) end
  if t.nbytes ~= p.bytes or core.digest(t) ~= p.xxh64 then
    failed(path, "damaged: '%s' has other bytes than were written\n  hint: checkpoint.list(dir) names the other checkpoints", shown(p.name))
  end
  self.parts[p] = t
  return t
end

-- What has these runs of a tensor, on the CPU, in memory of its own.
function Source:box(name, runs)
  local said, key = self.m.tensors[name], boxes.text(runs)
  local same
  for _, p in ipairs(said.parts) do
    if boxes.text(p.runs) == key then same = p end
  end
  if same then return self:part(name, same):clone() end
  local t, found = core.op.empty(boxes.shape(runs), { dtype = from_st[said.dtype] }):to "cpu", 0
  for _, p in ipairs(said.parts) do
    if boxes.touch(p.runs, runs) then found = found + boxes.copy(p.runs, self:part(name, p), runs, t) end
  end
  if found ~= t.numel then failed(self.path .. "/" .. manifest.FILE, "'%s' has elements in no part, or in two", shown(name)) end
  return t
end

local function on(t, device) return t.device == device and t or t:to(device) end

-- A tensor as it lies in another one, or on the CPU.
function Source:tensor(name, like)
  local said = self.m.tensors[name]
  local layout = like and core.mesh_layout_of(like)
  if not layout then
    local t = self:box(name, boxes.of(nil, said.shape)[1].runs)
    return like and on(t, like.device) or t
  end
  layout = boxes.summed(layout)
  local devices, made, parts = {}, {}, {}
  local mesh = core.mesh_layout_facts(layout)
  for i, p in ipairs(core.mesh_parts(like)) do devices[i], parts[i] = p and p.device, false end
  for _, box in ipairs(boxes.of(layout, said.shape, #devices)) do
    local i = box.part + 1
    if core.mesh_is_away(mesh, box.part) then
      parts[i] = core.mesh_away(boxes.shape(box.runs), like.dtype)
    else
      made[box.key] = made[box.key] or self:box(name, box.runs)
      parts[i] = on(made[box.key], devices[i]):clone() -- a copy on another device is none of its own
    end
  end
  return core.mesh_join(layout, parts, said.shape)
end

-- What tables have: tensors by path, as nested.flatten names them.
local function tensors_of(value, path, out)
  local n, count = #value, 0
  for _ in pairs(value) do count = count + 1 end
  for k, v in pairs(value) do
    local word = type(k) == "number" and (n == count and ("%d"):format(k - 1) or ("%.17g"):format(k)) or tostring(k)
    local name = path == "" and word or path .. "." .. word
    if core.is_tensor(v) then
      out[name] = v
    elseif type(v) == "table" and not v.is_module then
      tensors_of(v, name, out)
    end
  end
  return out
end

local MOST_TOLD = 20

local function type_text(dtype, shape) return ("%s[%s]"):format(dtype, table.concat(shape, ",")) end

-- All that keeps a checkpoint from lying as another state does.
local function compare(path, m, leaves, like)
  local told = {}
  for name, leaf in pairs(leaves) do
    local said, t = m.tensors[leaf.name], like[name]
    local here = said and type_text(from_st[said.dtype] or said.dtype, said.shape)
    local there = t and type_text(t.dtype, t.shape)
    if not t then
      told[#told + 1] = ("%s: %s in the checkpoint, and nothing in like"):format(shown(name), here)
    elseif here ~= there then
      told[#told + 1] = ("%s: %s in the checkpoint, %s in like"):format(shown(name), here, there)
    end
  end
  for name, t in pairs(like) do
    if not leaves[name] then told[#told + 1] = ("%s: nothing in the checkpoint, %s in like"):format(shown(name), type_text(t.dtype, t.shape)) end
  end
  if #told == 0 then return end
  table.sort(told)
  local n = #told
  for i = n, MOST_TOLD + 1, -1 do told[i] = nil end
  if n > MOST_TOLD then told[#told + 1] = ("and %d more"):format(n - MOST_TOLD) end
  failed(path, "%d tensor%s differ%s:\n  %s", n, n > 1 and "s" or "", n == 1 and "s" or "", table.concat(told, "\n  "))
end

local Leaf = {} -- stands for a tensor

local function leaves_of(value, path, out)
  local n, count = #value, 0
  for _ in pairs(value) do count = count + 1 end
  for k, v in pairs(value) do
    local word = type(k) == "number" and (n == count and ("%d"):format(k - 1) or ("%.17g"):format(k)) or tostring(k)
    local name = path == "" and word or path .. "." .. word
    if getmetatable(v) == Leaf then
      out[name] = { name = v.name, table = value, key = k }
    elseif type(v) == "table" then
      leaves_of(v, name, out)
    end
  end
  return out
end

-- Tables as they were saved, with Leafs for tensors.
local function skeleton(path, m, what)
  local stand_ins = setmetatable({}, { __index = function(_, name) return m.tensors[name] and setmetatable({ name = name }, Leaf) end })
  return nested.unflatten(what, stand_ins, function(why) failed(path, "the state is damaged: %s", why) end)
end

-- All leaves replaced by their tensors; one that stood at two places stands at both again.
local function fill(source, leaves, like)
  local loaded, names = {}, {}
  for name in pairs(leaves) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    local leaf = leaves[name]
    local target = like and like[name]
    local id = leaf.name .. " " .. tostring(target)
    loaded[id] = loaded[id] or source:tensor(leaf.name, target)
    leaf.table[leaf.key] = loaded[id]
  end
end

local function choose(dir, o)
  local list, why = manifest.list(dir)
  if not list then failed(dir, "cannot be read: %s", why) end
  local name = o.name or o.step and manifest.name_of_step(o.step)
  if #list == 0 then failed(dir, "there is no whole checkpoint\n  hint: checkpoint.latest(dir) is nil then") end
  if not name then return list[#list] end
  local words = {}
  for i, e in ipairs(list) do
    if e.name == name then return e end
    words[i] = e.step and tostring(e.step) or "'" .. e.name .. "'"
  end
  failed(dir, "there is no checkpoint %s\n  hint: there are %s", o.step or "'" .. o.name .. "'", table.concat(words, ", "))
end

local read_load = options.of("checkpoint.load", { step = STEP, name = options.text, like = options.table, rng = options.flag, data = DATA_KIND },
  { rng = false })

-- load(dir, {step, name, like, rng = false, data}): the state of the newest whole checkpoint in a folder, or of a step or name,
-- and what it is: {name, step, path}. Tensors come to the CPU, or, with like, to where the tensors of that state are: another
-- mesh, more or fewer devices, another layout, the same bits. Where a tensor has another dtype or shape there, or is missing,
-- that is an error that lists all of them. Only what is needed is read, and its digests are looked at: what is damaged is an
-- error that names the file. rng sets the random generator to where it was; data puts data.batches to their positions.
--   local like = {model = model:state_dict()}
--   checkpoint.save("runs", like, {data = batches})
--   local how = {like = like, rng = true, data = batches}
--   local state, which = checkpoint.load("runs", how)
--   model:load_state_dict(state.model)
function checkpoint.load(dir, given)
  options.argument("checkpoint.load", "the folder", PATH, dir)
  local o = read_load(given)
  if o.step and o.name then core.fail "checkpoint.load: options step and name exclude each other" end
  settled()
  local entry = choose(dir, o)
  local m = manifest.read(dir, entry)
  local path = dir .. "/" .. entry.folder
  local source = setmetatable({ m = m, path = path, maps = {}, parts = {} }, Source)
  local where = path .. "/" .. manifest.FILE
  local state = skeleton(where, m, m.state)
  local leaves, like = leaves_of(state, "", {}), o.like and tensors_of(o.like, "", {})
  if like then compare(path, m, leaves, like) end
  if o.data and not m.data then failed(path, "it has no positions of data\n  hint: checkpoint.save(dir, state, {data = batches})") end
  fill(source, leaves, like)
  local positions
  if o.data then
    local box = skeleton(where, m, m.data)
    fill(source, leaves_of(box, "", {}))
    positions = box[DATA]
  end
  for _, map in pairs(source.maps) do map:close() end
  if positions then
    each_of(o.data, function(b, key)
      local p = key == nil and positions or positions[key]
      if not p then failed(path, "it has no position of data '%s'", shown(tostring(key))) end
      b:load_state_dict(p)
    end)
  end
  if o.rng then core.rng_state(tonumber(m.random[1]), tonumber(m.random[2])) end
  return require "tessera.state"(state), { name = entry.name, step = entry.step, path = path }
end

return named("tessera.checkpoint", checkpoint)
