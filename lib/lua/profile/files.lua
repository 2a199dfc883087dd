-- What the files of profiles are made of: fields of CSV, events of the JSON that Chrome and Perfetto read, and how much
-- of a long list is shown.
--
--   local events = { files.track(1, 0, "program") }
--   events[2] = files.span(1, 0, "matmul", 0, 12.5, '"calls":3')
--   core.write_file(path, { files.trace(events, "2 of 2") })

local core = require "tessera.core"
local files = {}

--- No file is larger, whatever ran. What writes one stays below by a margin, since it counts pieces and not bytes.
files.most_bytes = 20e6

--- A field of CSV.
function files.field(text) return '"' .. tostring(text):gsub('"', '""') .. '"' end

--- A string of JSON.
files.quoted = core.json_string

--- The name of a process, and its place among all.
function files.process(pid, name)
  return ('{"name":"process_name","ph":"M","pid":%d,"args":{"name":%s}},\n{"name":"process_sort_index","ph":"M","pid":%d,"args":{"sort_index":%d}}')
    :format(pid, files.quoted(name), pid, pid)
end

-- Tracks are numbered from here on, since Perfetto takes track 0 of a process for the one that has the process's number.
local FIRST = 1000

--- The name of a track of a process, and its place there.
function files.track(pid, tid, name)
  tid = FIRST + tid
  return ('{"name":"thread_name","ph":"M","pid":%d,"tid":%d,"args":{"name":%s}},\n{"name":"thread_sort_index","ph":"M","pid":%d,"tid":%d,"args":{"sort_index":%d}}')
    :format(pid, tid, files.quoted(name), pid, tid, tid)
end

-- Whole nanoseconds as microseconds. Perfetto multiplies by 1000 and cuts off what is behind the point, which must not be
-- 0.999..: such a number gets a tenth of a nanosecond more.
local function microseconds(nsec)
  local text = ("%.3f"):format(nsec / 1000)
  return math.floor(tonumber(text) * 1000) == nsec and text or ("%.4f"):format((nsec + 0.1) / 1000)
end

--- A span from one time to another, in microseconds, on a track. Both are rounded to nanoseconds, so that spans which lie
--- in one another do so in the file. args: the inside of a JSON object, or nil; kind: a word that filters, or nil.
function files.between(pid, tid, name, from, to, args, kind)
  from, to = math.floor(from * 1000 + 0.5), math.floor(to * 1000 + 0.5)
  return ('{"name":%s%s,"ph":"X","ts":%s,"dur":%s,"pid":%d,"tid":%d%s}'):format(files.quoted(name),
    kind and (',"cat":"%s"'):format(kind) or "", microseconds(from), microseconds(to - from), pid, FIRST + tid, args and ',"args":{' .. args .. "}" or "")
end

--- The same, of so many microseconds.
function files.span(pid, tid, name, start, usec, args, kind)
  return files.between(pid, tid, name, start, start + usec, args, kind)
end

--- The file. note: what was left out, or nil.
function files.trace(events, note)
  return ('{"traceEvents":[\n%s\n]%s}\n'):format(table.concat(events, ",\n"),
    note and (',"otherData":{"events":%s}'):format(files.quoted(note)) or "")
end

--- Which elements of n are left out so that at most `most` remain, the first and the last ones: from, to, or nil.
function files.left_out(n, most)
  if n <= most then return nil end
  local first = math.ceil(most / 2)
  return first + 1, n - (most - first)
end

--- Calls each(element) of the first and the last `most` of a list, and once between them folded(from, to), the places of
--- the others.
function files.each_shown(list, most, each, folded)
  local from, to = files.left_out(#list, most)
  for i, v in ipairs(list) do
    if not from or i < from or i > to then each(v)
    elseif i == from then folded(from, to) end
  end
end

--- The largest of so many things from `from` to `to` by what they are: "matmul 12 times, 3.2 ms; ...". each(i) gives
--- the name and microseconds of one.
function files.statistics(from, to, each)
  local by, list, usec = {}, {}, 0
  for i = from, to do
    local name, time = each(i)
    if not by[name] then
      by[name] = { name = name, n = 0, usec = 0 }
      list[#list + 1] = by[name]
    end
    by[name].n, by[name].usec, usec = by[name].n + 1, by[name].usec + time, usec + time
  end
  table.sort(list, function(a, b) return a.usec > b.usec or a.usec == b.usec and a.name < b.name end)
  local units, parts = require "tessera.units", {}
  for i = 1, math.min(8, #list) do parts[i] = ("%s %d times, %s"):format(list[i].name, list[i].n, units.time(list[i].usec)) end
  if #list > 8 then parts[9] = ("%d more"):format(#list - 8) end
  return table.concat(parts, "; "), usec
end

return files
