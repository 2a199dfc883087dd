-- What a captured function spent its time with, in the files of a profile: a timeline of its last run for Chrome and
-- Perfetto, and a table of what every run did. profile.lua has the runs: {steps, usec}, a step with its phases and stages.
--
--   local events = instruction_files.events("f", run, marked)   -- processes 1, and 2 with stages
--   core.write_file("f.csv", { instruction_files.csv(runs) })

local files = require "tessera.profile.files"

local instruction_files = {}

local MOST_STEPS, MOST_PHASES, MOST_STAGES, MOST_ROWS = 10000, 20000, 20000, 100000

-- ---- the timeline
local THREAD, BESIDE, FOLDED = 16, 4, 1 -- numbers of tracks: threads from 16 on, four for each

local function step_name(s) return s.place and s.what .. " at " .. s.place or s.what end

local function step_args(s)
  return ('"bytes":%.0f,"flops":%.0f,"depth":%d'):format(s.bytes, s.flops, s.depth)
end

-- Stages of a thread's phase, which the processor has summed: one behind another, and what lies between them at the end.
local function stage_events(pid, tid, at, p, list, add, tracks)
  local from, stop = at + p.start, at + p.start + p.usec
  local function put(name, stage, usec, count)
    local to = math.min(stop, from + usec)
    local args = ('"stays":%d,"usec":%.3f,"part":%.4f,"is":"the sum of its stays in this phase"'):format(count, usec, usec / math.max(p.usec, 1e-9))
    add(files.between(pid, tid, name, from, to, args, stage))
    local side = stage == "mma" and 1 or stage == "load" and 2
    if side then
      if not tracks[tid + side] then
        tracks[tid + side] = true
        add(files.track(pid, tid + side, ("thread %d: %s"):format(p.thread, side == 1 and "mma" or "loads")))
      end
      add(files.between(pid, tid + side, name, from, to, args, stage))
    end
    from = to
  end
  for _, s in ipairs(list) do put(s.what ~= "" and s.what ~= s.stage and s.stage .. " " .. s.what or s.stage, s.stage, s.usec, s.count) end
  if from < stop then put("between", "between", stop - from, 1) end
end

-- Those of a step by thread and time, since a thread begins a phase once at a time.
local function stages_by_phase(step)
  local by = {}
  for _, s in ipairs(step.stages) do
    local key = s.phase .. "|" .. s.thread .. "|" .. s.start
    by[key] = by[key] or {}
    table.insert(by[key], s)
  end
  return by
end

-- In the order in which they begin, those around others before them.
local function in_order(steps)
  local list = {}
  for i, s in ipairs(steps) do list[i] = s end
  table.sort(list, function(a, b) return a.start < b.start or a.start == b.start and (a.usec > b.usec or a.usec == b.usec and a.depth < b.depth) end)
  return list
end

local function share(most, steps, field)
  local n = 0
  for _, s in ipairs(steps) do n = n + #s[field] end
  return n <= most and math.huge or math.max(4, math.floor(most / math.min(#steps, MOST_STEPS)))
end

local function run_events(pid, title, at, run, add)
  local tracks, steps = {}, in_order(run.steps)
  local phases, stages = share(MOST_PHASES, steps, "phases"), share(MOST_STAGES, steps, "stages")
  add(files.process(pid, title))
  add(files.track(pid, 0, "instructions"))
  local function thread(number)
    local tid = THREAD + BESIDE * number
    if not tracks[tid] then add(files.track(pid, tid, "thread " .. number)) end
    tracks[tid] = true
    return tid
  end
  files.each_shown(steps, MOST_STEPS, function(s)
    add(files.span(pid, 0, step_name(s), at + s.start, s.usec, step_args(s), "instruction"))
    local of_phase = stages_by_phase(s)
    files.each_shown(in_order(s.phases), phases, function(p)
      local tid = thread(p.thread)
      add(files.span(pid, tid, step_name(s), at + p.start, p.usec, ('"phase":%d'):format(p.phase), "phase"))
      local list = of_phase[p.phase .. "|" .. p.thread .. "|" .. p.start]
      if list and #s.stages <= stages then stage_events(pid, tid, at, p, list, add, tracks) end
    end, function(from, to)
      add(files.span(pid, 0, ("%d more phases"):format(to - from + 1), at + s.start, s.usec, nil, "folded"))
    end)
  end, function(from, to)
    local ended = 0
    for i = from, to do ended = math.max(ended, steps[i].start + steps[i].usec) end
    local said, usec = files.statistics(from, to, function(i) return step_name(steps[i]), steps[i].usec end)
    add(files.track(pid, FOLDED, "instructions between the first and the last"))
    add(files.between(pid, FOLDED, ("%d more instructions"):format(to - from + 1), at + steps[from].start, at + ended,
      ('"usec":%.3f,"of":%s'):format(usec, files.quoted(said)), "folded"))
  end)
end

--- Events of a run, and behind it of one with stages, which is nil where there are none.
function instruction_files.events(name, run, marked)
  local out = {}
  local function add(event) out[#out + 1] = event end
  run_events(1, name, 0, run, add)
  if marked then run_events(2, name .. ", with the stages of its kernels", run.usec * 1.05, marked, add) end
  return out
end

-- ---- the table
local HEAD = "run,instruction,place,phase,thread,start_us,us,bytes,flops,count,reason\n"

--- A row for each instruction and phase of each run. Of too many rows the first and the last ones, and between them a row
--- for each of those that say the same.
function instruction_files.csv(runs)
  local rows, out = {}, { HEAD }
  for r, run in ipairs(runs) do
    for _, s in ipairs(run.steps) do
      rows[#rows + 1] = { r, s, s }
      for _, p in ipairs(s.phases) do rows[#rows + 1] = { r, p, s } end
    end
  end
  local function line(run, span, step, start, usec, count, reason)
    local whole = span == step
    out[#out + 1] = ("%s,%s,%s,%s,%d,%s,%.3f,%s,%s,%d,%s\n"):format(run, files.field(step.what), files.field(step.place or ""), span.phase or "",
      span.thread, start, usec, whole and ("%.0f"):format(step.bytes * count) or "", whole and ("%.0f"):format(step.flops * count) or "",
      count, files.field(reason))
  end
  files.each_shown(rows, MOST_ROWS, function(row)
    line(row[1], row[2], row[3], ("%.3f"):format(row[2].start), row[2].usec, 1, row[2] ~= row[3] and "bytes and operations are of the instruction" or "")
  end, function(from, to)
    local by, list = {}, {}
    for i = from, to do
      local _, span, step = unpack(rows[i])
      local key = table.concat({ step.what, step.place or "", span.phase or "", span.thread, span == step and step.bytes or 0 }, "|")
      if not by[key] then
        by[key] = { span = span, step = step, usec = 0, n = 0 }
        list[#list + 1] = by[key]
      end
      by[key].usec, by[key].n = by[key].usec + span.usec, by[key].n + 1
    end
    for i = 1, math.min(#list, 20000) do
      local g = list[i]
      line("", g.span, g.step, "", g.usec, g.n, "the sum of those between the first and the last, so without a run and a start")
    end
  end)
  return table.concat(out)
end

return instruction_files
