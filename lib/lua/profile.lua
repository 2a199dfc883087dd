-- tessera.profile: where the time of a captured function goes.
--
--   print(profile.report(f, {args = {x, w}}))   -- a table and a timeline
--   profile.report(f, {args = {x, w}, trace = "f.json", html = "f.html"})
--
-- The function runs as it does otherwise: its kernels once it is hot, the VM's rows before. A line
-- for each instruction of its bytecode: time of one run, its part, and bytes of its operands by
-- that time. Under a kernel stand its phases, with what each thread took of them, and its stages,
-- with their parts of the threads' time. Where nothing is recorded a profile costs a comparison an
-- instruction, and kernels contain nothing of it; while it is, two readings of the clock for each
-- instruction, each phase and thread: some 0.1 us. Stages are those of runs of their own, with kernels
-- that read the processor's counter where one begins and ends; how much longer they take is said.
--
-- Options: args, the arguments; runs (20), of which the medians count; warm (3), runs before; marks
-- (true): stages of kernels; width (80) of the timeline in columns; trace: a file for Chrome and Perfetto with the last run; csv: a file with
-- all spans; html: a page with all of it and the roofline of this machine. Kernels of devices are in trace and html too,
-- and beside "f.csv" in "f.kernels.csv". What devices of a mesh send each other is in all of them, and in
-- "f.collectives.csv".

local core = require "tessera.core"
local captured = require "tessera.captured"
local facts = require "tessera.profile.facts"
local files = require "tessera.profile.files"
local machine = require "tessera.machine"
local options = require "tessera.options"
local sent = require "tessera.profile.sent"
local units = require "tessera.units"

local profile = {}
local texts = setmetatable({}, { __mode = "k" }) -- of what was measured

local function median(list)
  table.sort(list)
  return list[math.floor((#list + 1) / 2)]
end

-- Those that began since s did leave the list.
local function take_inside(list, s)
  local inside = {}
  for i = #list, 1, -1 do
    if list[i].start >= s.start then table.insert(inside, 1, table.remove(list, i)) end
  end
  return inside
end

-- The instructions of a run, each with the spans of its phases and stages, which end before it does.
local function instructions(spans)
  local list, phases, stages = {}, {}, {}
  for _, s in ipairs(spans) do
    if s.phase then
      local into = s.stage and stages or phases
      into[#into + 1] = s
    else
      s.phases, s.stages = take_inside(phases, s), take_inside(stages, s)
      list[#list + 1] = s
    end
  end
  table.sort(list, function(a, b) return a.start < b.start end)
  return list
end

-- Microseconds of each phase by thread.
local function add_phases(row, step)
  local sum = {}
  for _, p in ipairs(step.phases) do
    local at = sum[p.phase] or {}
    at[p.thread] = (at[p.thread] or 0) + p.usec
    sum[p.phase] = at
  end
  for phase, threads in pairs(sum) do
    row.phases[phase] = row.phases[phase] or {}
    for thread, usec in pairs(threads) do
      local list = row.phases[phase][thread] or {}
      list[#list + 1] = usec
      row.phases[phase][thread] = list
    end
  end
end

local function key_of(s) return s.depth .. "|" .. s.what .. "|" .. (s.place or "") .. "|" .. s.bytes end

-- Runs that did what the last one did: a function may get its kernels meanwhile.
local function alike(runs)
  local function way(run)
    local keys, seen = {}, {}
    for _, s in ipairs(run.steps) do
      local key = key_of(s)
      if not seen[key] then seen[key], keys[#keys + 1] = true, key end
    end
    table.sort(keys)
    return table.concat(keys, "\n")
  end
  local last, list = way(runs[#runs]), {}
  for i, run in ipairs(runs) do
    if way(run) == last then list[#list + 1] = run end
  end
  return list
end

-- A row for each instruction: those of several runs that stand at the same place of the order.
-- Rounds of a loop are one row.
local function rows_of(runs)
  local rows, by = {}, {}
  for r, run in ipairs(runs) do
    for _, s in ipairs(run.steps) do
      local key = key_of(s)
      local row = by[key]
      if not row then
        row = { what = s.what, place = s.place, depth = s.depth, bytes = 0, flops = 0, usec = {},
          phases = {}, calls = 0, start = s.start, key = key }
        by[key], rows[#rows + 1] = row, row
      end
      row.usec[r] = (row.usec[r] or 0) + s.usec
      if r == #runs then
        row.calls, row.bytes, row.flops = row.calls + 1, row.bytes + s.bytes, row.flops + s.flops
      end
      add_phases(row, s)
    end
  end
  for _, row in ipairs(rows) do
    local list = {}
    for _, usec in pairs(row.usec) do list[#list + 1] = usec end
    row.usec = median(list)
  end
  table.sort(rows, function(a, b) return a.start < b.start end)
  return rows
end

-- ---- stages: runs with profile marks. By row and phase a list of {name, part, count}, parts of the
-- threads' time, and what lies between.
local function stage_name(s)
  local label = s.what ~= "" and s.what ~= s.stage and s.stage .. " (" .. s.what .. ")" or s.stage
  local place = s.place ~= "" and s.place or nil
  return place and label .. " " .. place or label, label, place
end

local function add_stages(by, step)
  local row = by[key_of(step)] or {}
  by[key_of(step)] = row
  local function phase_of(s)
    row[s.phase] = row[s.phase] or { usec = 0, list = {}, of = {} }
    return row[s.phase]
  end
  for _, p in ipairs(step.phases) do phase_of(p).usec = phase_of(p).usec + p.usec end
  for _, s in ipairs(step.stages) do
    local phase, name, label, place = phase_of(s), stage_name(s)
    local at = phase.of[name]
    if not at then
      at = { name = name, label = label, place = place, usec = 0, count = 0 }
      phase.of[name], phase.list[#phase.list + 1] = at, at
    end
    at.usec, at.count = at.usec + s.usec, at.count + s.count
  end
end

-- In texts a place that all have in common is left out.
local function one_place(list)
  local place = list[1] and list[1].place
  for _, s in ipairs(list) do
    if not place or s.place ~= place then return end
  end
  for _, s in ipairs(list) do s.name = s.label end
end

local MARKED = 5
local function stages_of(f, args)
  local by, times, any, last = {}, {}, false, nil
  local own = captured.is_function(f) -- a kernel of op.kernel has its marks from the list of spans alone
  core.guarded(function() if own then f:marks(false) end end, function()
    if own then f:marks(true) end
    f(unpack(args, 1, args.n))
    for r = 1, MARKED do
      local spans, usec = core.spans(function() f(unpack(args, 1, args.n)) end, true)
      times[r] = usec
      last = { steps = instructions(spans), usec = usec }
      for _, step in ipairs(last.steps) do
        add_stages(by, step)
        any = any or #step.stages > 0
      end
    end
  end)
  if not any then return nil end
  for _, row in pairs(by) do
    for _, phase in pairs(row) do
      local rest = phase.usec
      phase.runs = MARKED
      one_place(phase.list)
      for _, s in ipairs(phase.list) do
        s.part, rest, s.count = s.usec / phase.usec, rest - s.usec, s.count / MARKED
      end
      phase.rest = math.max(0, rest / phase.usec)
    end
  end
  return by, median(times), last
end

local function stage_line(row, stages, out)
  local parts = {}
  for _, s in ipairs(stages.list) do
    parts[#parts + 1] = ("%s %.0f%%"):format(s.name, 100 * s.part)
  end
  if #parts == 0 then return end
  parts[#parts + 1] = ("between %.0f%%"):format(100 * stages.rest)
  out[#out + 1] = ("%s      %s\n"):format(("  "):rep(row.depth), table.concat(parts, ", "))
end

local function phase_lines(row, out)
  local n = 0
  for phase in pairs(row.phases) do n = math.max(n, phase + 1) end
  for phase = 0, n - 1 do
    local parts = {}
    for thread, list in pairs(row.phases[phase] or {}) do
      parts[#parts + 1] = { thread, ("thread %d: %s"):format(thread, units.time(median(list))) }
    end
    table.sort(parts, function(a, b) return a[1] < b[1] end)
    for i, p in ipairs(parts) do parts[i] = p[2] end
    if #parts > 0 then
      out[#out + 1] = ("%s    phase %d  %s\n"):format(("  "):rep(row.depth), phase, table.concat(parts, ", "))
      if row.stages and row.stages[phase] then stage_line(row, row.stages[phase], out) end
    end
  end
end

local function table_text(rows, total, elsewhere)
  local out = { ("%10s %6s %8s %8s  %s\n"):format("time", "part", "GB/s", "GFLOP/s", "instruction") }
  local function rate(x, row) return x > 0 and not elsewhere and ("%.3g"):format(x / row.usec / 1000) or "" end
  for _, row in ipairs(rows) do
    out[#out + 1] = ("%10s %5.1f%% %8s %8s  %s%s%s%s\n"):format(units.time(row.usec), 100 * row.usec / total,
      rate(row.bytes, row), rate(row.flops, row), ("  "):rep(row.depth), row.what,
      row.calls > 1 and (" (%d times)"):format(row.calls) or "", row.place and " at " .. row.place or "")
    phase_lines(row, out)
  end
  return table.concat(out)
end

-- Threads from top to bottom, time from left to right: what a thread does most of in each column.
local function timeline(run, columns)
  local last = 0
  for _, s in ipairs(run.steps) do
    for _, p in ipairs(s.phases) do last = math.max(last, p.thread) end
  end
  local lines, names = {}, {}
  local label = ("thread %%-%dd  "):format(#tostring(last))
  local indent = #label:format(last)
  local WIDTH = math.max(20, columns - indent)
  for t = 0, last do
    lines[t] = {}
    for i = 1, WIDTH do lines[t][i] = "." end
  end
  local function draw(t, s, letter)
    local from = math.floor(s.start / run.usec * WIDTH) + 1
    local to = math.max(from, math.floor((s.start + s.usec) / run.usec * WIDTH))
    for i = from, math.min(to, WIDTH) do lines[t][i] = letter end
  end
  for k, s in ipairs(run.steps) do
    local letter = string.char(97 + (k - 1) % 26)
    if k <= 26 then names[#names + 1] = ("%s %s"):format(letter, s.what) end
    if #s.phases == 0 then draw(0, s, letter) end
    for _, p in ipairs(s.phases) do draw(p.thread, p, letter) end
  end
  local out = {}
  for t = 0, last do out[#out + 1] = label:format(t) .. table.concat(lines[t]) .. "\n" end
  local blank, usec = (" "):rep(indent), units.time(run.usec)
  out[#out + 1] = blank .. "0" .. (" "):rep(WIDTH - 1 - #usec) .. usec .. "\n"
  return table.concat(out) .. blank .. core.wrapped(table.concat(names, ", "), indent, indent, columns)
end

-- The row that took longest, and microseconds of all.
local function dearest(rows)
  local most, sum = nil, 0
  for _, row in ipairs(rows) do
    if row.depth == 0 then
      sum = sum + row.usec
      if not most or row.usec > most.usec then most = row end
    end
  end
  return most, sum
end

-- Two sentences: where to look first, and what keeps that from being faster.
local function sentence(rows, total, width, elsewhere)
  local most, sum = dearest(rows)
  if not most then return "No instruction ran.\n" end
  local text = ("%.0f%% of %s is %s%s"):format(100 * most.usec / total, units.time(total), most.what,
    most.place and " at " .. most.place or "")
  if most.bytes > 0 and not elsewhere then text = text .. (", which moves %.3g GB/s"):format(most.bytes / most.usec / 1000) end
  text = ("%s; %.0f%% lies between instructions.\n"):format(text, math.max(0, 100 * (total - sum) / total))
  if elsewhere then return text .. "Times are of the thread that launches; those of the kernels follow.\n" end
  return text .. core.wrapped("Its limit: " .. machine.limit(most) .. ".", 0, 2, width)
end

local RUNS = options.whole { least = 1 }
local read = options.of("profile.report", { args = options.table, warm = options.whole { least = 0 }, runs = RUNS, marks = options.flag,
  width = options.whole { least = 20, most = 1000 }, html = options.text, trace = options.text, csv = options.text }, { warm = 3, runs = 20, marks = true, width = 80 })

-- Of a function whose instructions are recorded: a captured one, or a kernel of op.kernel.
local function instructions_report(f, args, o, inside)
  local runs, times, sends, notes, elsewhere = {}, {}, {}, "", #inside > 0
  local function run() f(unpack(args, 1, args.n)) end
  for r = 1, o.runs do
    local spans, usec, lost, times = core.spans(run)
    runs[r], sends[r] = { steps = instructions(spans), usec = usec, lost = lost, times = times }, times
  end
  local every = runs
  runs = alike(every)
  for r, each in ipairs(runs) do times[r] = each.usec end
  local total, last = median(times), runs[#runs]
  local rows = rows_of(runs)
  local collectives = sent.rows(sends)
  local stages, marked, with_stages
  if o.marks then stages, marked, with_stages = stages_of(f, args) end
  if stages then
    for _, row in ipairs(rows) do row.stages = stages[row.key] end
    notes = ("Stages: %d runs with marks, %.2f times as long; ? marks tells their words.\n"):format(MARKED, marked / total)
  end
  local said, write = sentence(rows, total, o.width, elsewhere), {}
  function write.html() return require("tessera.profile.html").text(f, f.name or "function", rows, last, total, said .. notes, inside, collectives) end
  local instruction_files = require "tessera.profile.instruction_files"
  function write.events() return instruction_files.events(f.name or "function", last, with_stages) end
  function write.csv() return instruction_files.csv(every) end
  write.collectives, write.times = collectives, last.times
  function write.kernels() return elsewhere and {} or require("tessera.profile.kernel_table").of_instructions(rows, machine.roofs()) end
  local lost = last.lost > 0 and ("%d spans between the first and the last found no room.\n"):format(last.lost) or ""
  local r = facts.instructions(f.name or "function", rows, total, elsewhere, #runs)
  local most = dearest(rows)
  r.limit = most and not elsewhere and machine.limit(most) or nil
  if not r.limit then r.limit_reason = most and "kernels have limits of their own" or "no instruction ran" end
  r.spans_lost = last.lost
  local devices = sent.text(collectives, o.width) .. sent.missing(sends)
  return table_text(rows, total, elsewhere) .. timeline(last, o.width) .. lost .. notes .. said .. (devices ~= "" and "\n" .. devices or ""), write, r
end

-- Of any other function: what it calls, as tessera -p has it of a program.
local function program_report(f, args, o, inside)
  local program, program_files = require "tessera.program_profile", require "tessera.profile.program_files"
  local r = program.run(f, o.runs, args)
  local write, text = { collectives = r.collectives, times = r.times }, program.text(r, o.width)
  function write.html() return program.html_text(r, inside) end
  function write.events() return program_files.events(r) end
  function write.csv() return program_files.csv(r) end
  function write.kernels() return {} end
  return text, write, facts.program(type(f) == "table" and f.name or "function", r, o.runs)
end

-- Files of a report: write.html and csv make their texts, events and kernels what the others have of it. Kernels have a
-- table of their own, since its columns are others. Returns the lines that name them.
local function write_files(o, write, inside)
  local said = {}
  local function put(path, text)
    core.write_file(path, { text })
    said[#said + 1] = "written: " .. path .. "\n"
  end
  if o.html then put(o.html, write.html()) end
  if o.trace then
    local events, note = write.events()
    for _, event in ipairs(require("tessera.profile.kernel_files").events(inside, 3)) do events[#events + 1] = event end
    for _, event in ipairs(sent.events(write.times, 4)) do events[#events + 1] = event end
    put(o.trace, files.trace(events, note))
  end
  if o.csv then
    local kernel_table = require "tessera.profile.kernel_table"
    put(o.csv, write.csv())
    local rows = kernel_table.of_devices(inside, write.kernels())
    if #rows > 0 then put(o.csv:gsub("%.csv$", "") .. ".kernels.csv", kernel_table.text(rows)) end
    if #write.collectives > 0 then put(o.csv:gsub("%.csv$", "") .. ".collectives.csv", sent.csv(write.collectives)) end
  end
  return table.concat(said)
end

local Measured = {}
function Measured.__tostring(r) return texts[r] end

-- Devices of these arguments whose kernels cannot tell their stages, and why.
local function unmarked(args)
  local on, out = {}, {}
  for i = 1, args.n do
    if core.is_tensor(args[i]) then on[args[i].device] = true end
  end
  for _, d in ipairs(core.devices()) do
    if on[d.name] and d.no_clock then out[#out + 1] = ("\nstages of kernels on %s are not known: %s\n"):format(d.name, d.no_clock) end
  end
  return table.concat(out)
end

--- measure(f, options): what report tells, as a table; docs/commands.md has its fields. It prints as the report.
--   print(profile.measure(f, {args = {x, y}}).instructions[1].time_ns)
function profile.measure(f, given)
  local o = read(given)
  local of_instructions = captured.is_function(f) or captured.is_kernel(f)
  if not of_instructions then core.need_function(f, "profile.measure") end
  local args = o.args
  if not args and captured.is_function(f) then
    args = f:last_arguments()
    local n = debug.getinfo(f.body, "u").nparams
    if not args and n > 0 then
      core.fail(("profile.report: %s runs, and needs its arguments: {args = {%s}}"):format(f.name, table.concat(f.params, ", ", 1, n)))
    end
  end
  args = args or {}
  args.n = args.n or table.maxn(args)
  for _ = 1, o.warm do f(unpack(args, 1, args.n)) end
  local kernels = require "tessera.kernel.profile"
  local inside = (o.marks and kernels.run or kernels.times)(f, unpack(args, 1, args.n))
  local text, write, r = (of_instructions and instructions_report or program_report)(f, args, o, inside)
  if #inside > 0 then text = text .. "\n" .. kernels.text(inside, o.width) end
  text = text .. unmarked(args)
  r.collectives = sent.facts(write.collectives)
  r.kernels = facts.kernels(kernels.groups(inside), kernels.limit)
  texts[r] = text .. write_files(o, write, inside)
  return setmetatable(r, Measured)
end

--- report(f, {args, warm = 3, runs = 20, marks = true, width = 80, html, trace, csv}): runs f(unpack(args)), warm times
--- before and then runs times, and tells where its time goes, as text. Of a captured function, or a kernel of op.kernel, its
--- instructions, threads and stages; of any other what it calls. Without args a captured function runs on the
--- arguments of its last call. marks: stages of kernels, in runs of their own. html, trace and csv are files to write;
--- kernels on devices are in the first two, and beside "f.csv" in "f.kernels.csv".
--   print(profile.report(f, {args = {x, y}, html = "f.html"}))
function profile.report(f, given)
  if not captured.is_function(f) and not captured.is_kernel(f) then core.need_function(f, "profile.report") end
  return tostring(profile.measure(f, given))
end

return require("tessera.named")("tessera.profile", profile)
