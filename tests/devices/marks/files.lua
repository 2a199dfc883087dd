-- Files of profiles with kernels of a device: events that lie in one another, tables whose parts add up, a page on its
-- own; and of a run of any length a file that a browser can open.
package.path = "tests/devices/?.lua;" .. package.path
local tessera = require "tessera"
local core, op, rng, graph = tessera.core, tessera.op, tessera.rng, tessera.graph
local device = require "_device"
local name = device.name
if not name then return print(device.skipped) end
if os.getenv "TESSERA_SIM" == "emulate" then return print "skipped: the emulator has no marks" end
local kernels, kernel_files, files = require "tessera.kernel.profile", require "tessera.profile.kernel_files", require "tessera.profile.files"
local kernel_html, kernel_table = require "tessera.profile.kernel_html", require "tessera.profile.kernel_table"
local decode = core.open_json().decode
rng.seed(1)
local function N(shape, dtype) return rng.normal(shape):cast(dtype or "f32"):to(name) end

local function take(path)
  local f = assert(io.open(path))
  local text = f:read "*a"
  f:close()
  os.remove(path)
  return text
end

-- ---- the timeline
-- Spans of each process by track, and their names.
local function tracks_of(text)
  local processes = {}
  local function process(pid)
    processes[pid] = processes[pid] or { pid = pid, tracks = {}, names = {} }
    return processes[pid]
  end
  for _, e in ipairs(decode(text).traceEvents) do
    local p = process(e.pid)
    if e.ph == "M" and e.name == "process_name" then p.name = e.args.name
    elseif e.ph == "M" and e.name == "thread_name" then p.names[e.tid] = e.args.name
    elseif e.ph == "X" then
      assert(e.ts >= 0 and e.dur >= 0 and e.name ~= "")
      p.tracks[e.tid] = p.tracks[e.tid] or {}
      table.insert(p.tracks[e.tid], e)
    end
  end
  return processes
end

-- Times are whole nanoseconds.
local function nsec(usec) return math.floor(usec * 1000 + 0.5) end

-- Spans of a track lie in or behind one another, and none is outside of the kernel.
local function check_track(spans, kernel, title)
  table.sort(spans, function(a, b) return a.ts < b.ts or a.ts == b.ts and a.dur > b.dur end)
  local open = {}
  for _, e in ipairs(spans) do
    local begun, ended = nsec(e.ts), nsec(e.ts) + nsec(e.dur)
    assert(begun >= nsec(kernel.ts) and ended <= nsec(kernel.ts) + nsec(kernel.dur), title .. ": outside of its kernel")
    while open[1] and open[#open] <= begun do open[#open] = nil end
    assert(not open[1] or ended <= open[#open], title .. ": across another span")
    open[#open + 1] = ended
  end
end

-- Returns numbers of processes with a kernel, of blocks' spans, and of stages' tracks; and names of all tracks.
local function check_trace(text)
  assert(#text < 20e6, #text)
  local n, blocks, stages, names = 0, {}, 0, {}
  for pid, p in pairs(tracks_of(text)) do
    local kernel = pid > 1 and p.tracks[1000] and p.tracks[1000][1]
    if kernel and kernel.cat == "kernel" then
      n = n + 1
      assert(p.name and p.names[1000] == "kernel")
      for tid, spans in pairs(p.tracks) do
        local title = assert(p.names[tid], "a track without a name")
        names[title] = p
        check_track(spans, kernel, title)
        if spans[1].cat == "block" then
          for _, e in ipairs(spans) do blocks[#blocks + 1] = e.name end
        elseif title:find "^block" then
          stages = stages + 1
          for _, e in ipairs(spans) do assert(e.cat == "folded" or e.cat == "warp" or e.cat == "begin" or e.args.cycles >= 0 and e.args.p95 >= e.args.median, title) end
        end
      end
    end
  end
  return n, blocks, stages, names
end

-- ---- the table
local function csv_rows(text)
  local head, rows = nil, {}
  for line in text:gmatch "[^\n]+" do
    local fields, row = {}, {}
    line = line .. ","
    local at = 1
    while at <= #line do
      local quoted, stop = line:match('^"([^"]*)",()', at)
      if not quoted then quoted, stop = line:match("^([^,]*),()", at) end
      fields[#fields + 1], at = quoted, stop
    end
    head = head or fields
    assert(#fields == #head, line)
    for i, word in ipairs(head) do row[word] = fields[i] end
    if fields ~= head then rows[#rows + 1] = row end
  end
  return rows, head
end

local function check_csv(text)
  local rows, head = csv_rows(text)
  #head --> 32
  local parts, times = {}, {}
  for _, row in ipairs(rows) do
    assert(row.kernel ~= "" and row.device ~= "")
    local key = row.launch .. "|" .. row.role
    parts[key] = (parts[key] or 0) + tonumber(row.part)
    if row.us ~= "" then times[key] = { (times[key] and times[key][1] or 0) + tonumber(row.us), tonumber(row.kernel_us) } end
    if row.device:find "^sim" then
      assert(row.us == "" and row.registers == "" and row.most_gb_per_s == "" and row.reason:find "^simulated: ")
    else
      assert(row.us ~= "" and tonumber(row.registers) > 0 and tonumber(row.occupancy) > 0)
    end
  end
  for key, sum in pairs(parts) do assert(math.abs(sum - 1) < 1e-4, key .. ": parts add up to " .. sum) end
  for key, t in pairs(times) do assert(math.abs(t[1] - t[2]) < 0.05, key .. ": times add up to " .. t[1]) end
  return rows
end

-- ---- reports
local function report(f, ...)
  local base = os.tmpname()
  local said = tessera.profile.report(f, { args = { ... }, runs = 2, warm = 1, csv = base .. ".csv", trace = base .. ".json", html = base .. ".html" })
  for _, ending in ipairs { ".csv", ".json", ".html", ".kernels.csv" } do assert(said:find("written: " .. base .. ending .. "\n", 1, true), said) end
  local rows = check_csv(take(base .. ".kernels.csv"))
  local n, blocks, stages, names = check_trace(take(base .. ".json"))
  local page = take(base .. ".html")
  assert(n > 0 and #blocks > 0 and stages > 0 and #rows > 0)
  assert(page:find "^<!DOCTYPE html>" and page:find "</html>\n$" and not page:find "src=" and not page:find "href=")
  for _, title in ipairs { "Kernels on devices", "Stages of its warps", "Blocks on its processors", "Roofline of " .. name } do
    assert(page:find(title, 1, true), title)
  end
  os.remove(base)
  assert(take(base .. ".csv") ~= "")
  return names, page
end

local x = N { 40, 256 }
local names = report(op.softmax, x)
assert(names["processor 0"] or name ~= "sim:0")
report(graph.module("f", function(a) return op.softmax(a * 2 + 1) end), x)
names = report(op.matmul, N({ 256, 128 }, "bf16"), N({ 128, 256 }, "bf16"))
local found
for title, p in pairs(names) do
  if title:find ": mma$" then
    for tid, word in pairs(p.names) do
      for _, e in ipairs(word == title and p.tracks[tid] or {}) do found = e.cat end
    end
  end
end
found --> mma

-- ---- launches of a device that is not here, of any size: records as kernels write them
local ffi = require "ffi"
-- turns_of(block, warp): how many turns a record has, if not nturns.
local function launch_of(nblocks, nturns, processors, turns_of)
  local roles, record = { { name = "load", warps = 1 }, { name = "multiply", warps = 2 } }, {}
  local header, turn = ffi.new "TsGpuRecord", ffi.new("TsGpuTurn[?]", nturns)
  for block = 0, nblocks - 1 do
    for warp = 0, 2 do
      local at = 1e9 + math.floor(block / processors / 2) * 5000
      header.begun_ns, header.ended_ns = at, at + 5000 - warp
      header.begun, header.ended = 2 ^ 32 - 100 + block, 2 ^ 32 - 100 + block + 10 * nturns
      local n = turns_of and turns_of(block, warp) or nturns
      header.processor, header.block, header.warp, header.nturn = block % processors, block, warp, n
      for i = 0, n - 1 do turn[i].at, turn[i].stage = (2 ^ 32 - 100 + block + 10 * i) % 2 ^ 32, warp == 0 and 1 + i % 2 or 2 + i % 2 end
      record[#record + 1] = ffi.string(header, ffi.sizeof(header)) .. ffi.string(turn, n * ffi.sizeof "TsGpuTurn")
    end
  end
  return { name = "product", kernel = "k", bytes = 1e9, flops = 1e10, grid = nblocks, threads = 96, warps = 3, every = 1, apart = 1, registers = 128,
    spilled = 0, shared = 65536, blocks = 2, threads_most = 2048, device = "cuda:0", tick_nsec = 1, placed = true, processors = processors, clock = 1e9, most_bytes = 3e12,
    most_flops = 1e15, roles = roles, turns = nturns, record_bytes = ffi.sizeof(header) + ffi.sizeof(turn),
    stages = { { stage = "other", what = "between" }, { stage = "load", what = "issue" }, { stage = "wait", what = "barrier" },
      { stage = "mma", what = "" } }, records = table.concat(record) }
end

local function trace_of(list) return files.trace(kernel_files.events(list, 2)) end

local k = kernels.describe(launch_of(64, 12, 8), 0)
local n, blocks, stages, tracks = check_trace(trace_of { k })
n, #blocks, stages --> 1, 64, 320
tracks["processor 0, side by side 2"] ~= nil, tracks["block 3, load: copies"] ~= nil, tracks["block 3, multiply: mma"] ~= nil --> true, true, true
local rows = check_csv(kernel_table.text(kernel_table.of_devices { k }))
#rows, rows[1].most_gb_per_s, rows[1].gflop_per_s, rows[1].shared_bytes --> 4, 3000, 500000, 65536
rows[1].reason --> 
-- 12 turns in 120 cycles of a warp, which take 5 us: a tile is two turns; the copying warp waits half of its time.
rows[1].role, rows[1].tile_cycles, rows[1].tile_us, rows[1].stall_barrier, rows[1].stall_memory --> load, 20, 0.8332, 0.500000, 0.000000
rows[4].role, rows[4].stall_barrier, rows[4].stall_threads --> multiply, 0.500000, 0.000000
local page = kernel_html.sections { k }
assert(page:find("3.00 TB/s, its memory", 1, true) and page:find("1.00 PFLOP/s, in the types of product", 1, true), page)
assert(page:find("operations a byte (FLOP/B)", 1, true) and page:find("operations a second (FLOP/s)", 1, true) and page:find("% of the roof", 1, true))
assert(not page:find "nan" and not page:find "inf[^o]")

-- Many blocks, many turns, many launches: the first and the last ones stay.
local large = kernels.describe(launch_of(20000, 3, 132), 0)
n, blocks = check_trace(trace_of { large, large, large })
local seen = {}
for _, word in ipairs(blocks) do seen[word] = true end
n, seen["block 0"], seen["block 19999"], #blocks < 60000 --> 3, true, true, true
local long = kernels.describe(launch_of(400, 1000, 8), 0)
n, blocks, stages, tracks = check_trace(trace_of { long })
n, tracks["block 0, load"] ~= nil, tracks["block 399, multiply"] ~= nil, tracks["block 200, load"] --> 1, true, true, nil
local many = {}
for i = 1, 3000 do many[i] = k end
n = check_trace(trace_of(many))
n --> 200
assert(#kernel_html.sections { large, long } < 4e6)

-- Turns that found no room are said to be none of the last stage.
local lost = launch_of(4, 12, 2)
local at = ffi.cast("char *", lost.records)
for i = 0, 11 do ffi.cast("TsGpuRecord *", at + i * lost.record_bytes).nturn = 40 end
local words = {}
for _, s in ipairs(kernels.describe(lost, 0).roles[1].stages) do words[#words + 1] = s.name end
table.sort(words)
table.concat(words, ", ") --> load issue, not recorded, wait barrier

-- A warp is idle that works in no block: blocks without a tile of their own (here 0 and 2) say nothing of it.
local empty = launch_of(4, 12, 2, function(block, warp) return (block % 2 == 0 or warp == 2) and 1 or 12 end)
local roles = kernels.describe(empty, 0).roles
roles[1].idle, roles[2].idle --> 0, 1
