-- What the files of profiles are made of: fields of CSV, events of the JSON that Chrome and Perfetto read.
--
--   local events = { files.track(1, 0, "program") }
--   events[2] = files.span(1, 0, "matmul", 0, 12.5, '"calls":3')
--   core.write_file(path, { files.trace(events, "2 of 2") })

local files = {}

--- A field of CSV.
function files.field(text) return '"' .. tostring(text):gsub('"', '""') .. '"' end

--- A string of JSON.
function files.quoted(text)
  return '"' .. text:gsub('[%c"\\]', function(c) return ("\\u%04x"):format(c:byte()) end) .. '"'
end

--- The name of a process, and its place among all.
function files.process(pid, name)
  return ('{"name":"process_name","ph":"M","pid":%d,"args":{"name":%s}},\n{"name":"process_sort_index","ph":"M","pid":%d,"args":{"sort_index":%d}}')
    :format(pid, files.quoted(name), pid, pid)
end

--- The name of a track of a process, and its place there.
function files.track(pid, tid, name)
  return ('{"name":"thread_name","ph":"M","pid":%d,"tid":%d,"args":{"name":%s}},\n{"name":"thread_sort_index","ph":"M","pid":%d,"tid":%d,"args":{"sort_index":%d}}')
    :format(pid, tid, files.quoted(name), pid, tid, tid)
end

--- A span of microseconds on a track. args: the inside of a JSON object, or nil; kind: a word that filters, or nil.
function files.span(pid, tid, name, start, usec, args, kind)
  return ('{"name":%s%s,"ph":"X","ts":%.3f,"dur":%.3f,"pid":%d,"tid":%d%s}'):format(files.quoted(name),
    kind and (',"cat":"%s"'):format(kind) or "", start, usec, pid, tid, args and ',"args":{' .. args .. "}" or "")
end

--- The file. note: what was left out, or nil.
function files.trace(events, note)
  return ('{"traceEvents":[\n%s\n]%s}\n'):format(table.concat(events, ",\n"),
    note and (',"otherData":{"events":%s}'):format(files.quoted(note)) or "")
end

return files
