-- What devices of a mesh sent each other in a profile: how long it took, how fast, whether kernels ran meanwhile, and who
-- waited for whom. vm/mesh/times.h says what is measured.
--
--   local rows = sent.rows({ times })       -- of each run what core.spans gives last
--   io.write(sent.text(rows, 80))

local core = require "tessera.core"
local files = require "tessera.profile.files"
local units = require "tessera.units"

local sent = {}

local MOST_SHOWN, MOST_EVENTS, MOST_ROWS = 40, 20000, 20000

local OTHERS = "devices of other processes take part, and it is not known here when these came"

local function median(list)
  table.sort(list)
  return list[math.floor((#list + 1) / 2)]
end

local function key_of(r)
  return table.concat({ r.kind, r.operator or "", r.place or "", table.concat(r.axes, ","), r.bytes, r.at_once }, "|")
end

-- By device whom it waited for longest, of all that it waited for.
local function waits_of(row, runs)
  local list = {}
  for _, name in ipairs(row.devices) do
    local of, w = row.waits[name] or {}, { device = name, usec = 0 }
    local most = 0
    for whom, usec in pairs(of) do
      w.usec = w.usec + usec / runs
      if usec > most or usec == most and w.waits_for and whom < w.waits_for then most, w.waits_for = usec, whom end
    end
    list[#list + 1] = w
  end
  return list
end

-- Bytes that went over one link, by the time: what libraries call bus bandwidth.
local function finish(row, runs)
  row.usec, row.calls = median(row.times), row.count / runs
  row.waits = waits_of(row, runs)
  if row.away then row.rate_reason = OTHERS
  elseif row.usec <= 0 then row.rate_reason = "it took no time that could be measured"
  else row.rate = row.bytes * row.calls / row.share / row.usec * 1e6 end
  if row.busy > 0 then row.overlap = row.worked / row.busy else row.overlap_reason = "it took no time that could be measured" end
  return row
end

--- A row for each of what was sent, those that are alike together: {kind, operator, axes, place, bytes, at_once, calls and
--- usec a run, rate, overlap, waits}. runs: of each what core.spans or core.activity_stop gives; so_many: of how many runs
--- that is, if not of one each.
function sent.rows(runs, so_many)
  local rows, by = {}, {}
  for _, times in ipairs(runs) do
    for _, r in ipairs(times.rows) do
      local key = key_of(r)
      local row = by[key]
      if not row then
        row = { kind = r.kind, operator = r.operator, axes = r.axes, place = r.place, bytes = r.bytes, at_once = r.at_once, share = r.share, away = r.away,
          devices = r.devices, waits = {}, times = {}, count = 0, busy = 0, worked = 0 }
        by[key], rows[#rows + 1] = row, row
      end
      row.count, row.busy, row.worked = row.count + r.count, row.busy + r.busy, row.worked + r.worked
      row.times[#row.times + 1] = r.usec / (so_many or 1)
      for _, w in ipairs(r.waits) do
        row.waits[w.device] = row.waits[w.device] or {}
        row.waits[w.device][w.waits_for] = (row.waits[w.device][w.waits_for] or 0) + w.usec
      end
    end
  end
  for _, row in ipairs(rows) do finish(row, so_many or #runs) end
  return rows
end

--- What is missing, as sentences, or "".
function sent.missing(runs)
  local sum, reason = { lost = 0, more = 0, more_work = 0 }, nil
  for _, times in ipairs(runs) do
    for key in pairs(sum) do sum[key] = sum[key] + times[key] end
    reason = times.reason or reason
  end
  local out = {}
  if sum.lost > 0 then out[1] = ("%d marks of what devices sent each other are missing: %s\n"):format(sum.lost, reason or "?") end
  if sum.more > 0 then out[#out + 1] = ("%d of what devices sent each other are in the table alone: traces have the first ones\n"):format(sum.more) end
  if sum.more_work > 0 then out[#out + 1] = ("%d of what devices computed are in no trace, which have the first ones\n"):format(sum.more_work) end
  return table.concat(out)
end

--- "all_reduce of matmul over tp".
function sent.name(row)
  local many = row.at_once > 1 and (", %d at once"):format(row.at_once) or ""
  local of = row.operator and row.operator ~= row.kind and " of " .. row.operator or ""
  return row.kind .. many .. of .. (#row.axes > 0 and " over " .. table.concat(row.axes, ",") or "")
end

local function waits_text(row)
  local parts, last = {}, nil
  for _, w in ipairs(row.waits) do
    if w.usec > 0 then parts[#parts + 1] = ("%s %s for %s"):format(w.device, units.time(w.usec), w.waits_for) end
    if w.usec == 0 then last = w.device end
  end
  if #parts > 0 then return "waited: " .. table.concat(parts, ", ") end
  return last and #row.waits > 1 and "nobody waited" or "one device, which waits for nobody"
end

--- A table, and below each line who waited for whom; "" where nothing was sent.
function sent.text(rows, width)
  if #rows == 0 then return "" end
  local out = { ("%10s %6s %8s %8s %9s  %s\n"):format("time", "calls", "bus GB/s", "overlap", "bytes", "sent") }
  for i, row in ipairs(rows) do
    if i > MOST_SHOWN then
      out[#out + 1] = ("%d more\n"):format(#rows - MOST_SHOWN)
      break
    end
    out[#out + 1] = ("%10s %6.4g %8s %8s %9s  %s%s\n"):format(units.time(row.usec), row.calls, row.rate and ("%.3g"):format(row.rate / 1e9) or "-",
      row.overlap and units.percent(row.overlap) or "-", units.size(row.bytes), sent.name(row), row.place and " at " .. row.place or "")
    out[#out + 1] = (" "):rep(4) .. core.wrapped(waits_text(row) .. (row.rate_reason and "; no bandwidth: " .. row.rate_reason or ""), 4, 6, width)
  end
  return table.concat(out)
end

--- The rows for scripts and --json.
function sent.facts(rows)
  local list = {}
  for i, row in ipairs(rows) do
    local waits = {}
    for k, w in ipairs(row.waits) do
      waits[k] = { device = w.device, time_ns = w.usec * 1e3, waits_for = w.waits_for }
      if not w.waits_for then waits[k].waits_for_reason = #row.waits > 1 and "it never waited" or "it is the only device" end
    end
    list[i] = { kind = row.kind, operator = row.operator, axes = row.axes, at_once = row.at_once, bytes = row.bytes, calls = row.calls, time_ns = row.usec * 1e3,
      bus_bandwidth = row.rate, bus_bandwidth_reason = row.rate_reason, overlap = row.overlap, overlap_reason = row.overlap_reason, waits = waits,
      where = row.place, operator_reason = not row.operator and "several operators ask for it" or nil,
      where_reason = not row.place and "it comes from no line of the program, or from several" or nil }
    if row.away then list[i].waits_reason = OTHERS end
  end
  return list
end

--- As CSV: a row for each device of each.
function sent.csv(rows)
  local out = { "collective,operator,axes,place,at_once,calls,us,bytes,bus_gb_per_s,overlap,device,waited_us,waits_for,reason\n" }
  for _, row in ipairs(rows) do
    for _, w in ipairs(row.waits) do
      if #out > MOST_ROWS then break end
      out[#out + 1] = ("%s,%s,%s,%s,%d,%.6g,%.3f,%.0f,%s,%s,%s,%.3f,%s,%s\n"):format(row.kind, files.field(row.operator or ""), files.field(table.concat(row.axes, " ")),
        files.field(row.place or ""), row.at_once, row.calls, row.usec, row.bytes, row.rate and ("%.6g"):format(row.rate / 1e9) or "",
        row.overlap and ("%.4f"):format(row.overlap) or "", w.device, w.usec, w.waits_for or "", files.field(row.rate_reason or row.overlap_reason or ""))
    end
  end
  return table.concat(out)
end

-- ---- what happened when: each(device, kind, name, from, to, of) of what devices computed ("work"), sent ("sent"), and waited
-- for ("wait"), as far as it was kept.
local function each_span(times, each)
  for i, w in ipairs(times.work) do
    if i > MOST_EVENTS then break end
    each(w.device, "work", "computes", w.start, w.stop)
  end
  for _, s in ipairs(times.sent) do
    for _, d in ipairs(s.devices) do
      if d.waits_for and d.waited > 0 then each(d.device, "wait", "waits for " .. d.waits_for, d.arrived, d.arrived + d.waited, s) end
      each(d.device, "sent", sent.name(s), d.there, d.stop, s)
    end
  end
end

--- Events for Chrome and Perfetto: a track for each device.
function sent.events(times, pid)
  local out, tracks, n = {}, {}, 0
  if #times.sent == 0 then return out end
  each_span(times, function(device, kind, name, from, to, of)
    if #out > MOST_EVENTS then return end
    if not tracks[device] then
      if n == 0 then out[1] = files.process(pid, "devices of the mesh") end
      tracks[device], n = n, n + 1
      out[#out + 1] = files.track(pid, tracks[device], device)
    end
    local args = of and ('"bytes":%.0f,"at":%s'):format(of.bytes, files.quoted(of.place or "")) or nil
    out[#out + 1] = files.between(pid, tracks[device], name, from, to, args, kind)
  end)
  return out
end

--- The section of a page; "" where nothing was sent. times: of the run that is drawn.
function sent.html(rows, times, usec)
  if #rows == 0 then return "" end
  local picture = require "tessera.profile.picture"
  local escaped = picture.escaped
  local source = require "tessera.profile.source_html"
  local out = { "<h2>What devices sent each other</h2><div class=\"wide\"><table><tr><th>time</th><th>calls</th><th>bus GB/s</th><th>overlap</th>" ..
    "<th>bytes</th><th>sent, and who waited for whom</th></tr>" }
  for i, row in ipairs(rows) do
    if i > 200 then break end
    out[#out + 1] = ('<tr%s><td>%s</td><td>%.4g</td><td>%s</td><td>%s</td><td>%s</td><td>%s <span class="place">%s</span><br><span class="dim">%s</span></td></tr>')
      :format(source.at(row.place), units.time(row.usec), row.calls, row.rate and ("%.3g"):format(row.rate / 1e9) or "-", row.overlap and units.percent(row.overlap) or "-",
      units.size(row.bytes), escaped(sent.name(row)), escaped(row.place or ""), escaped(waits_text(row)))
  end
  out[#out + 1] = "</table></div>"
  local lanes, by = {}, {}
  local fill = { work = picture.colour(1), sent = picture.colour(2), wait = "#c8ccd0" }
  each_span(times, function(device, kind, name, from, to, of)
    if not by[device] then
      by[device] = { name = device }
      lanes[#lanes + 1] = by[device]
    end
    table.insert(by[device], { from = from, to = to, fill = fill[kind], title = name, at = of and source.at(of.place) })
  end)
  table.sort(lanes, function(a, b) return a.name < b.name end)
  out[#out + 1] = picture.lanes(lanes, usec)
  return table.concat(out, "\n")
end

return sent
