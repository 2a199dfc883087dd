-- What a captured function over a mesh runs: each device has a graph of its own in each stage, and between two stages
-- devices send each other what the next one needs. So what commands and f:ir, f:tiles, f:choose .. show and change are the
-- kernels of these pieces. Pieces that are alike share a name, s1 of stage 1 (s1.2 where parts of a stage differ, from part
-- 2 on), and a kernel is "s1/0", the first of s1.

local core = require "tessera.core"
local inspect = require "tessera.dist.inspect"
local units = require "tessera.units"

local pieces = {}
local Pieces = {}
Pieces.__index = Pieces

local WHOLE = { captured = true, rewrites = true, graph = true, concrete = true, dot = true, json = true, places = true }

--- Whether a level is of the whole function, before it is cut.
function pieces.is_whole(level) return WHOLE[level] == true end

--- Of a specialisation of the function called name; nil where it is of no mesh.
function pieces.of(name, special)
  local list, outside = special.graph:pieces()
  if list == nil then return nil end
  local p = setmetatable({ name = name, graph = special.graph, list = list or {}, cut = list ~= false, outside = outside }, Pieces)
  local rows = {}
  for _, row in ipairs(p.list) do rows[row.stage] = (rows[row.stage] or 0) + 1 end
  for _, row in ipairs(p.list) do
    row.label = rows[row.stage] == 1 and "s" .. row.stage or ("s%d.%d"):format(row.stage, row.parts[1])
  end
  return p
end

-- Of a function with loops and the like: why it has no stages of its own, and lines on those whose functions do not run in
-- pieces.
local function outside_text(p)
  local names, lines, seen = {}, {}, {}
  for _, n in ipairs(p.outside) do
    local name = n.place ~= "" and n.what .. " at " .. n.place or n.what
    if n.why and not seen[name] then lines[#lines + 1] = ("%s runs as a call of its own: %s"):format(name, n.why) end
    if not n.why and not seen[name] then names[#names + 1] = name end
    seen[name] = true
  end
  local first = #names > 0 and ("its loops and branches (%s) run round by round on its mesh; their functions, and what stands between them, in pieces"):format(table.concat(names, ", ")) or
    "what stands between calls runs on its mesh in pieces"
  return first, lines
end

--- The error of what needs pieces, where there are none.
function Pieces:need(what)
  if not self.cut then
    core.fail(("%s: %s has no kernels of its own: %s that are made when a round first runs\n" ..
      "  hint: a round as a function of its own has kernels to show and choose; :profile %s(..) shows what runs"):format(what, self.name, (outside_text(self)), self.name))
  end
  return self
end

--- The first of the pieces that are alike, as a function; the list of all.
function Pieces:first(row) return self.graph:piece(row.at[1]) end
function Pieces:all(row)
  local list = {}
  for i, at in ipairs(row.at) do list[i] = self.graph:piece(at) end
  return list
end

local function names(p)
  local list = {}
  for _, row in ipairs(p.list) do list[#list + 1] = row.label .. "/0" end
  return table.concat(list, ", ")
end

--- "s1/2": the row, and "2"; nil: the only one.
function Pieces:find(kernel)
  if kernel == nil and #self.list == 1 then return self.list[1], nil end
  local label, rest = tostring(kernel):match "^(s%d[%d.]*)/(.+)$"
  for _, row in ipairs(self.list) do
    if row.label == label then return row, rest end
  end
  if #self.list == 1 and not label then return self.list[1], tostring(kernel) end
  if kernel == nil then
    core.fail(("%s runs in pieces on its mesh: which of its kernels is meant must be said, such as %s"):format(self.name, names(self)))
  end
  core.fail(("%s runs in pieces on its mesh: there is no kernel %s%s"):format(self.name, core.shown(tostring(kernel), 40),
    #self.list > 0 and "; kernels are such as " .. names(self) .. ": :tiles lists them" or ""))
end

-- "// group 0: matmul" is kernel s1/0.
local function with_label(text, label)
  return (("\n" .. text):gsub("\n([/;#]+ group )", "\n%1" .. label .. "/"):sub(2))
end

local function of_devices(row)
  local n = #row.devices
  return n == 1 and row.devices[1] or ("%s .. %s, %d alike"):format(row.devices[1], row.devices[n], n)
end

local function sent_line(s)
  return ("// %s over %s, %s: %s -> %s%s%s%s\n"):format(s.kind, table.concat(s.axes, ","), units.size(s.bytes), s.from, s.to,
    s.operator ~= "" and ", for " .. s.operator or "", s.place ~= "" and " at " .. s.place or "",
    s.begins < s.stage and ("; it starts in front of stage %d"):format(s.begins) or "")
end

-- Calls sent(row) and piece(row), in the order in which they run.
local function each(p, sent, piece)
  local at = 1
  local function upto(stage)
    while p.sent_list[at] and p.sent_list[at].stage <= stage do
      sent(p.sent_list[at])
      at = at + 1
    end
  end
  p.sent_list = p.list.sent or {}
  for _, row in ipairs(p.list) do
    upto(row.stage)
    piece(row)
  end
  upto(math.huge)
end

-- On its mesh, and on what is sent beside what is computed.
local function remarks_of(p)
  local list = {}
  for _, r in ipairs(inspect.remarks(p.list.mesh)) do list[#list + 1] = r end
  for line in (p.list.remarks or ""):gmatch "[^\n]+" do list[#list + 1] = line end
  return list
end

-- A text of parts: the mesh, stages with what `of(row)` gives, and what is sent between them.
local function text_of(p, of)
  if not p.cut then
    local first, lines = outside_text(p)
    local said = { ("// %s: %s; :profile shows what runs\n"):format(p.name, first) }
    for _, line in ipairs(lines) do said[#said + 1] = "// " .. line .. "\n" end
    return table.concat(said)
  end
  local out = { ("// %s on %s: what its devices run, stage by stage\n"):format(p.name, tostring(p.list.mesh)) }
  for _, r in ipairs(remarks_of(p)) do out[#out + 1] = ("// remark: %s\n"):format(r) end
  each(p, function(s) out[#out + 1] = sent_line(s) end, function(row)
    out[#out + 1] = ("// stage %d on %s: kernels %s/..\n"):format(row.stage, of_devices(row), row.label)
    out[#out + 1] = of(row)
  end)
  return table.concat(out)
end

--- The text of a level, or of one kernel at it.
function Pieces:text(level, target, kernel)
  if kernel then
    local row, rest = self:need("f:ir"):find(kernel)
    return with_label(self:first(row):kernel_text(level, rest, false, target), row.label)
  end
  return text_of(self, function(row) return with_label(self:first(row):text(level, target), row.label) end)
end

--- The text of one kernel as the passes make it, or as it runs.
function Pieces:kernel_text(level, kernel, usual)
  local row, rest = self:need("f:diff"):find(kernel)
  return with_label(self:first(row):kernel_text(level, rest, usual), row.label)
end

-- ---- facts
local Facts = {}
function Facts.__tostring(all)
  return text_of(all.of, function(row) return tostring(all.shown[row]) end)
end
local hidden = setmetatable({}, { __mode = "k" }) -- what the text is made of, which is no field
Facts.__index = function(all, key) return hidden[all] and hidden[all][key] end

local function rename(told, label)
  for _, k in ipairs(type(told.kernels) == "table" and told.kernels or {}) do k.group = ("%s/%d"):format(label, k.group) end
  for _, f in ipairs(told.functions or {}) do
    for _, g in ipairs(f.groups) do
      g.group = ("%s/%d"):format(label, g.group)
      for _, r in ipairs(g.reads) do r.from = ("%s/%d"):format(label, r.from) end
    end
  end
  return told
end

--- "tiles", "why" and levels of kernels as a table: stages, each with the table of a captured function, and what is sent.
function Pieces:facts(level, target)
  local told = { ["function"] = self.name, level = level, mesh = tostring(self.list.mesh or ""), stages = {}, sent = {},
    remarks = self.cut and remarks_of(self) or {} }
  if not self.cut then
    local lines
    told.mesh = nil
    told.mesh_reason, lines = outside_text(self)
    for _, line in ipairs(lines) do told.remarks[#told.remarks + 1] = line end
  end
  local of = { of = self, shown = {} }
  each(self, function(s)
    local one = { stage = s.stage, starts = s.begins, kind = s.kind, operator = s.operator, axes = s.axes, bytes = s.bytes, from = s.from, to = s.to }
    if s.place ~= "" then one.where = s.place else one.where_reason = "it comes from no line of the program" end
    told.sent[#told.sent + 1] = one
  end, function(row)
    local one = rename(require("tessera.explain.facts").of(self:first(row):facts(level, target)), row.label)
    of.shown[row] = one
    told.stages[#told.stages + 1] = { stage = row.stage, piece = row.label, devices = row.devices, shows = one }
  end)
  hidden[told] = of
  return setmetatable(told, Facts)
end

-- ---- changing
--- Its groups with what is chosen for their kernels, as of a function of one device; group is "s1/0".
function Pieces:groups()
  self:need "f:choose"
  local list = {}
  for _, row in ipairs(self.list) do
    for _, g in ipairs(self:first(row):groups()) do
      g.group = ("%s/%d"):format(row.label, g.group)
      list[#list + 1] = g
    end
  end
  return list
end

--- Chooses for a kernel, on all devices that run it.
function Pieces:choose(kernel, choice)
  local row, rest = self:need("f:choose"):find(kernel)
  for _, g in ipairs(self:all(row)) do g:choose(tonumber(rest), choice) end
end

--- Measures each kernel once; whoever runs the same one runs what won.
function Pieces:tune()
  self:need "f:tune"
  local known = core.autotune_mode() ~= "off"
  for _, row in ipairs(self.list) do
    for i, g in ipairs(self:all(row)) do
      if i == 1 or not known then g:tune() else g:renew() end
    end
  end
end

--- Whether kernels run, where they are to be.
function Pieces:pin(on)
  local live = true
  for _, row in ipairs(self.list) do
    for _, g in ipairs(self:all(row)) do live = g:pin(on) and live end
  end
  return live and self.cut
end

function Pieces:marks(on)
  local any = false
  for _, row in ipairs(self.list) do
    for _, g in ipairs(self:all(row)) do any = g:marks(on) or any end
  end
  return any
end

--- An edited text of a kernel, which may say which one it is; "nil, why, hint" as of a graph.
function Pieces:patch(level, kernel, text)
  local label = text:match "// group (s%d[%d.]*)/"
  local row, rest = self:need("f:with"):find(kernel or label and label .. "/0" or nil)
  self.label = row.label
  return self:first(row):patch(level, kernel and rest or nil, label and text:gsub("// group s%d[%d.]*/", "// group ") or text)
end

function Pieces:unpatch(kernel)
  local row, rest = self:need("f:without"):find(kernel)
  return self:first(row):unpatch(rest)
end

function Pieces:renew()
  for _, row in ipairs(self.list) do
    for _, g in ipairs(self:all(row)) do g:renew() end
  end
end

return pieces
