-- A program's profile in files: its tree as a table, what it did in order as a timeline. program_profile.lua has
-- {tree, events, facts, lines, left}; html of it is program_html.lua's.

local files = require "tessera.profile.files"
local units = require "tessera.units"

local program_files = {}

local MOST_NODES, MOST_LINES, MOST_EVENTS, MOST_TEXT = 40000, 2000, 60000, 100

--- Time of a node that none of its children have.
function program_files.own(node)
  local sum = 0
  for _, child in ipairs(node) do sum = sum + child.usec end
  return math.max(0, node.usec - sum)
end
local own = program_files.own

-- Long names would make files of any size; their ends say more than their middles.
local function shortened(text)
  if #text <= MOST_TEXT then return text end
  return text:sub(1, MOST_TEXT / 2 - 2) .. " .. " .. text:sub(-MOST_TEXT / 2 + 2)
end

--- The time up to which nodes are left out so that `most` remain; those around a node take no less than it does.
function program_files.least_time(tree, most)
  local times = {}
  local function add(node)
    times[#times + 1] = node.usec
    for _, child in ipairs(node) do add(child) end
  end
  add(tree)
  if #times <= most then return -1 end
  table.sort(times, function(a, b) return a > b end)
  return times[most]
end

--- Calls each(node, path) of the tree, at most so many times, and folded(nodes, path) of the cheapest that are left out below
--- a node.
function program_files.each_node(tree, most, each, folded)
  local least = program_files.least_time(tree, most)
  local function walk(node, path)
    each(node, path)
    local name, rest = shortened(node.kind == "line" and node.place or node.what), {}
    local below = path == "" and name or path .. " > " .. name
    for _, child in ipairs(node) do
      if child.usec > least then walk(child, below) else rest[#rest + 1] = child end
    end
    if #rest > 0 then folded(rest, below) end
  end
  walk(tree, "")
end

-- ---- the table
--- A row an activity, with the path to it.
function program_files.csv(r)
  local out = { "path,kind,what,place,calls,us,own_us,bytes,flops,reason\n" }
  local function line(path, kind, what, place, calls, usec, mine, bytes, flops, reason)
    out[#out + 1] = ("%s,%s,%s,%s,%d,%.3f,%.3f,%s,%s,%s\n"):format(files.field(path), kind, files.field(shortened(what)), files.field(shortened(place)),
      calls, usec, mine, bytes, flops, files.field(reason))
  end
  local function known(x) return x > 0 and ("%.0f"):format(x) or "" end
  program_files.each_node(r.tree, MOST_NODES, function(node, path)
    local why = (node.bytes <= 0 and node.flops <= 0) and "neither bytes nor operations are counted of it" or node.bytes <= 0 and "bytes are not known"
      or node.flops <= 0 and "no operations are counted" or ""
    line(path, node.kind, node.what, node.place or "", node.count, node.usec, own(node), known(node.bytes), known(node.flops), why)
  end, function(nodes, path)
    local calls, usec, bytes, flops = 0, 0, 0, 0
    for _, n in ipairs(nodes) do calls, usec, bytes, flops = calls + n.count, usec + n.usec, bytes + n.bytes, flops + n.flops end
    line(path, "folded", ("%d more"):format(#nodes), "", calls, usec, usec, known(bytes), known(flops), "the sum of the cheapest, with what they called")
  end)
  for i, l in ipairs(r.lines) do
    if i > MOST_LINES then break end
    line("program", "lua", "", l.line, l.n, l.usec, l.usec, "", "", "calls are samples; neither bytes nor operations are counted of it")
  end
  return table.concat(out)
end

-- ---- the timeline
-- Those around others before them: events stand in the order of their ends.
local function in_order(events)
  local at, list = {}, {}
  for i, e in ipairs(events) do at[e], list[i] = i, e end
  table.sort(list, function(a, b)
    if a.start ~= b.start then return a.start < b.start end
    return a.usec > b.usec or a.usec == b.usec and at[a] > at[b]
  end)
  return list
end

-- The first and the last half of what is kept.
local function kept(events)
  local from, to = files.left_out(#events, MOST_EVENTS)
  if not from then return events end
  local list = {}
  for i, e in ipairs(events) do
    if i < from or i > to then list[#list + 1] = e end
  end
  return list
end

local function all_text(tree)
  local by, list = {}, {}
  local function add(node)
    if not by[node.kind] then
      by[node.kind] = { kind = node.kind, n = 0, usec = 0 }
      list[#list + 1] = by[node.kind]
    end
    by[node.kind].n, by[node.kind].usec = by[node.kind].n + node.count, by[node.kind].usec + own(node)
    for _, child in ipairs(node) do add(child) end
  end
  for _, child in ipairs(tree) do add(child) end
  table.sort(list, function(a, b) return a.usec > b.usec end)
  for i, g in ipairs(list) do list[i] = ("%s %d times, %s"):format(g.kind, g.n, units.time(g.usec)) end
  return table.concat(list, "; ")
end

local PROGRAM, LEFT_OUT = 0, 1 -- tracks; devices follow

--- Events for Chrome and Perfetto, the program's and a track for each device, and what was left out.
function program_files.events(r)
  local list, tracks, n = kept(r.events), {}, LEFT_OUT
  local out = { files.process(1, "program"), files.track(1, PROGRAM, "program") }
  local function track_of(e)
    if e.kind ~= "kernel" then return PROGRAM end
    if not tracks[e.place] then
      n = n + 1
      tracks[e.place] = n
      out[#out + 1] = files.track(1, n, e.place)
    end
    return tracks[e.place]
  end
  for _, e in ipairs(in_order(list)) do
    local tid, name = track_of(e), e.kind == "line" and e.place or e.what
    local args = ('"kind":"%s"'):format(e.kind) .. (e.place and ',"place":' .. files.quoted(shortened(e.place)) or "")
    out[#out + 1] = files.span(1, tid, shortened(name), e.start, e.usec, args, e.kind)
  end
  if r.facts.events > #list then
    local before, after = list[math.ceil(#list / 2)], list[math.ceil(#list / 2) + 1]
    out[#out + 1] = files.track(1, LEFT_OUT, "between the first and the last")
    out[#out + 1] = files.between(1, LEFT_OUT, ("%d more activities"):format(r.facts.events - #list), before.start + before.usec,
      after.start + after.usec, '"all":' .. files.quoted(all_text(r.tree)), "folded")
  end
  return out, ("%d of %d kept: the first and the last"):format(#list, r.facts.events)
end

return program_files
