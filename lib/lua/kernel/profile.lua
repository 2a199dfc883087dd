-- Where the time inside of kernels on a GPU goes. The function runs with kernels that have profile
-- marks: each warp writes down at which cycle it turned to which stage (ir/tile/pass/stages.h).
--
--   for _, k in ipairs(kernels.run(f, x, w)) do print(k.name, k.usec, k.stages[1].name) end
--   print(kernels.text(list, 80))
--
-- A stage is of a role, the warps of a block that do the same. Its part is of the time of these
-- warps, all of it: what lies between marks is a stage of its own. median and p95 are cycles of
-- one stay. What a mark costs was measured and is subtracted from each stay.

local core = require "tessera.core"
local ffi = require "ffi"
local units = require "tessera.units"

ffi.cdef [[
typedef struct { uint64_t begun_ns, ended_ns, begun, ended; uint32_t processor, block, warp, nturn; } TsGpuRecord;
typedef struct { uint32_t at, stage; } TsGpuTurn;
]]

local kernels = {}
local WRAP = 2 ^ 32

local function median(list)
  table.sort(list)
  return list[math.floor((#list + 1) / 2)]
end

-- ---- records
-- Calls each(record, turns, n, role, warp) of the warps that ran, in the order of blocks.
local function each_record(launch, each)
  local at = ffi.cast("const char *", launch.records)
  local stop = at + #launch.records
  while at < stop do
    local r = ffi.cast("const TsGpuRecord *", at)
    local turns = ffi.cast("const TsGpuTurn *", at + ffi.sizeof "TsGpuRecord")
    local n = math.min(r.nturn, launch.turns)
    local role, first = 1, 0
    while launch.roles[role + 1] and r.warp >= first + launch.roles[role].warps do
      first, role = first + launch.roles[role].warps, role + 1
    end
    each(r, turns, n, role, tonumber(r.warp) - first)
    at = at + ffi.sizeof "TsGpuRecord" + n * ffi.sizeof "TsGpuTurn"
  end
end

-- Nanoseconds from the first warp's beginning to the last one's end, and where they are.
local function span_of(launch)
  local first, last
  each_record(launch, function(r)
    if not first or r.begun_ns < first then first = r.begun_ns end
    if not last or r.ended_ns > last then last = r.ended_ns end
  end)
  return first and tonumber(last - first) * launch.tick_nsec or 0, first
end

local function new_stage(of)
  local name = of.what ~= "" and of.what ~= of.stage and (of.stage == "other" and of.what or of.stage .. " " .. of.what) or of.stage
  return { name = name, stage = of.stage, place = of.place, cycles = 0, count = 0, stays = {} }
end

-- Of all stays of a stage some thousands tell median and 95th percentile.
local MOST_STAYS = 4096

-- Behind the last turn that found room nobody knows what the warp did.
local LOST = -1
local not_recorded = { stage = "not recorded", what = "" }

-- Calls each(stage, at, stop): the number of a stage, and the cycles of a stay in it. The first one begins with the warp, and
-- the last one ends with it, so that stays add up to its time.
local function each_stay(r, turns, n, each)
  local at = tonumber(r.begun % WRAP)
  for i = 0, n - 1 do
    local stop = i + 1 < n and turns[i + 1].at or tonumber(r.ended % WRAP)
    each(i + 1 == n and r.nturn > n and LOST or turns[i].stage, at, stop)
    at = stop
  end
end

local function add_turns(role, launch, r, turns, n, cost)
  each_stay(r, turns, n, function(stage, at, stop)
    local cycles = math.max(0, (stop - at) % WRAP - cost)
    local s = role.by[stage]
    if not s then
      s = new_stage(launch.stages[stage + 1] or not_recorded)
      role.by[stage], role.stages[#role.stages + 1] = s, s
    end
    s.cycles, s.count, role.cycles = s.cycles + cycles, s.count + 1, role.cycles + cycles
    if #s.stays < MOST_STAYS then s.stays[#s.stays + 1] = cycles
    elseif s.count % 61 == 0 then s.stays[s.count % MOST_STAYS + 1] = cycles end
  end)
end

local function finish_role(role)
  for _, s in ipairs(role.stages) do
    table.sort(s.stays)
    s.part = role.cycles > 0 and s.cycles / role.cycles or 0
    s.median, s.p95 = s.stays[math.floor((#s.stays + 1) / 2)], s.stays[math.ceil(#s.stays * 0.95)]
    s.stays = nil
  end
  table.sort(role.stages, function(a, b) return a.cycles > b.cycles end)
end

-- By processor: how long some block of it ran, how many there were. Where records do not say which one it was, none.
local function processors_of(launch, first)
  local list, tick = {}, launch.tick_nsec
  if not launch.placed then return list end
  each_record(launch, function(r, _, _, _, _)
    local number = tonumber(r.processor)
    local p = list[number] or { number = number, blocks = {}, count = 0, begun = math.huge, ended = 0 }
    list[number] = p
    local begun, ended = tonumber(r.begun_ns - first) * tick, tonumber(r.ended_ns - first) * tick
    p.begun, p.ended = math.min(p.begun, begun), math.max(p.ended, ended)
    local block = tonumber(r.block)
    local b = p.blocks[block]
    if not b then
      b = { number = block, begun = begun, ended = ended }
      p.blocks[block], p.count = b, p.count + 1
    end
    b.begun, b.ended = math.min(b.begun, begun), math.max(b.ended, ended)
  end)
  return list
end

-- ---- what a launch says
local function describe(launch, cost)
  local nsec, first = span_of(launch)
  local k = { name = launch.name ~= "" and launch.name or launch.kernel, kernel = launch.kernel, usec = nsec / 1000,
    bytes = launch.bytes, far = launch.far, most_far = launch.most_far, flops = launch.flops, grid = launch.grid, threads = launch.threads, warps = launch.warps,
    registers = launch.registers, spilled = launch.spilled, shared = launch.shared, every = launch.every, apart = launch.apart,
    occupancy = launch.threads_most > 0 and math.min(1, launch.blocks * launch.threads / launch.threads_most) or nil,
    placed = launch.placed, roles = {}, lost = 0, turns = 0,
    simulated = launch.device:find "^sim" ~= nil, device = launch.device, most_bytes = launch.most_bytes, most_flops = launch.most_flops, all_processors = launch.processors }
  for i, r in ipairs(launch.roles) do k.roles[i] = { name = r.name, warps = r.warps, idle = 0, cycles = 0, stages = {}, by = {} } end
  local idle, cycles, clock_nsec = {}, 0, 0 -- idle: by role and warp, whether it is so in all blocks
  each_record(launch, function(r, turns, n, role, warp)
    if r.ended ~= r.begun then -- else a counter of few bits, and no turns to count its rounds by
      cycles, clock_nsec = cycles + tonumber(r.ended - r.begun), clock_nsec + tonumber(r.ended_ns - r.begun_ns) * launch.tick_nsec
    end
    k.turns, k.lost = k.turns + tonumber(r.nturn), k.lost + tonumber(r.nturn) - n
    if r.nturn == 0 then return end -- of a block that writes none down
    if r.nturn <= 1 and #launch.roles > 1 then -- one thread of another warp does its work
      idle[role] = idle[role] or {}
      if idle[role][warp] == nil then idle[role][warp] = true end
      return
    end
    idle[role] = idle[role] or {}
    idle[role][warp] = false
    add_turns(k.roles[role], launch, r, turns, n, cost)
  end)
  for i, role in ipairs(k.roles) do
    for _, all in pairs(idle[i] or {}) do role.idle = role.idle + (all and 1 or 0) end
    finish_role(role)
  end
  k.processors = first and processors_of(launch, first) or {}
  k.launch, k.first, k.span = launch, first, nsec / 1000
  k.clock = not k.simulated and clock_nsec > 0 and cycles / clock_nsec * 1e9 or nil -- cycles a second
  return k
end

--- Calls each(block, role, stays, start, stop) for a warp of each role of the blocks that wanted[number] has, the first
--- that works: in microseconds since the launch began, and in stays {stage, start, stop, cycles} one behind another.
function kernels.each_warp(k, wanted, each)
  local seen = {}
  each_record(k.launch, function(r, turns, n, role)
    local block = tonumber(r.block)
    local key = block * 64 + role
    if not k.roles[role] or not wanted[block] or seen[key] or n == 0 or (r.nturn <= 1 and #k.roles > 1) then return end
    seen[key] = true
    local tick = k.launch.tick_nsec / 1000
    local start, usec = tonumber(r.begun_ns - k.first) * tick, tonumber(r.ended_ns - r.begun_ns) * tick
    local begun, all, stays = tonumber(r.begun % WRAP), math.max(1, tonumber(r.ended - r.begun)), {}
    local function at_of(cycles) return start + usec * math.min(1, (cycles - begun) % WRAP / all) end
    each_stay(r, turns, n, function(stage, at, stop)
      stays[#stays + 1] = { stage = k.roles[role].by[stage], start = at_of(at), stop = at_of(stop), cycles = (stop - at) % WRAP }
    end)
    each(block, role, stays, start, start + usec)
  end)
end

--- Blocks of one of k.processors in the order in which they began, and how many of them ran side by side at most; each
--- block's lane is its number among those.
function kernels.blocks(p)
  local list, ends = {}, {}
  for _, b in pairs(p.blocks) do list[#list + 1] = b end
  table.sort(list, function(a, b) return a.begun < b.begun or a.begun == b.begun and a.number < b.number end)
  for _, b in ipairs(list) do
    b.lane = 1
    while ends[b.lane] and ends[b.lane] > b.begun do b.lane = b.lane + 1 end
    ends[b.lane] = b.ended
  end
  return list, #ends
end

--- The description of a launch as core.jit_marks gives it; cost: cycles of a mark.
kernels.describe = describe

local function collect(of, f, ...)
  local launches
  core.guarded(function()
    launches = core.jit_marks(nil)
    core.jit_profile(false)
  end, function(...)
    core.jit_marks(of)
    f(...)
  end, ...)
  return launches
end

local RUNS = 5

-- Some devices count ticks, whose length two launches tell that lie 50 ms apart.
local function with_ticks(launches, f, ...)
  local begun = os.clock()
  for _ = 1, 1000 do
    local known = true
    for _, launch in ipairs(launches) do known = known and launch.tick_nsec > 0 end
    if known then break end
    while os.clock() < begun + 0.06 do end
    launches = collect("stages", f, ...)
  end
  return launches
end

-- Cycles of a stay in which nothing happens, measured once a device.
local costs = {}
local function cost_of(device)
  if costs[device] then return costs[device] end
  local empty = core.op.kernel("marks", { x = "f32[N]" }, { y = "f32[N]" }, function(t, x, y)
    for i in t:parallel(0, t.N, 128) do
      for _ = 1, 16 do t:stage("other", "empty", function() end) end
      y:store({ i }, x:load({ i }, 128))
    end
  end)
  local x, all = core.op.ones({ 128 }):to(device), {}
  empty(x)
  for _ = 1, 3 do
    for _, launch in ipairs(collect("stages", empty, x)) do
      each_record(launch, function(_, turns, n)
        for i = 0, n - 2 do
          if turns[i].stage == 1 then all[#all + 1] = (turns[i + 1].at - turns[i].at) % WRAP end
        end
      end)
    end
  end
  costs[device] = median(all) or 0
  return costs[device]
end

--- times(f, ...): the launches as run has them, without stages.
function kernels.times(f, ...)
  collect("warps", f, ...) -- compiles
  local runs, list = {}, {}
  for r = 1, RUNS do runs[r] = collect("warps", f, ...) end
  local simulated = false -- such devices count at marks alone, which cost nothing there
  for _, launch in ipairs(runs[RUNS]) do simulated = simulated or launch.device:find "^sim" ~= nil end
  for i, launch in ipairs(simulated and collect("stages", f, ...) or runs[RUNS]) do
    local all = {}
    for r = 1, RUNS do
      if runs[r][i] then all[#all + 1] = span_of(runs[r][i]) / 1000 end
    end
    list[i] = describe(launch, 0)
    list[i].usec, list[i].unmarked = not list[i].simulated and median(all) or list[i].usec, true
    list[i].roles = {}
  end
  return list
end

--- run(f, ...): the launches of f(...) on devices, in their order: {name, usec, bytes, flops, grid, threads,
--- registers, spilled, shared, occupancy, roles = {{name, warps, stages = {{name, part, median, p95, count}}}},
--- processors}. usec: without marks, the median of several runs; marked: with them.
function kernels.run(f, ...)
  collect("warps", f, ...) -- compiles
  collect("stages", f, ...)
  local plain, marked, last = {}, {}, nil
  for r = 1, RUNS do
    plain[r] = collect("warps", f, ...)
    marked[r] = collect("stages", f, ...)
    last = marked[r]
  end
  marked[RUNS] = with_ticks(last, f, ...)
  last = marked[RUNS]
  local list = {}
  for r = 1, RUNS do
    for i, launch in ipairs(last) do
      if plain[r][i] then plain[r][i].tick_nsec = launch.tick_nsec end
      if marked[r][i] then marked[r][i].tick_nsec = launch.tick_nsec end
    end
  end
  for i, launch in ipairs(last) do
    local a, b = {}, {}
    for r = 1, RUNS do
      if plain[r][i] then a[#a + 1] = span_of(plain[r][i]) / 1000 end
      if marked[r][i] then b[#b + 1] = span_of(marked[r][i]) / 1000 end
    end
    local k = describe(launch, cost_of(launch.device))
    k.usec, k.marked = not k.simulated and median(a) or k.usec, median(b)
    list[i] = k
  end
  return list
end

-- ---- one sentence: what limits a kernel, and what would move it
local function wait_part(k)
  local cycles, wait = 0, 0
  for _, role in ipairs(k.roles) do
    for _, s in ipairs(role.stages) do
      cycles = cycles + s.cycles
      if s.stage == "wait" or s.stage == "load" then wait = wait + s.cycles end
    end
  end
  return cycles > 0 and wait / cycles or 0
end

local function busy(k)
  local n, all, most, ended = 0, 0, 0, 0
  for _, p in pairs(k.processors) do
    n, all = n + 1, all + p.ended - p.begun
    most, ended = math.max(most, p.ended - p.begun), math.max(ended, p.ended)
  end
  return n, n > 0 and most > 0 and all / n / most or 1
end

local percent = units.percent

-- How far memory and arithmetic are used, as far as that is known.
local function used_text(k, memory, compute)
  local parts = {}
  if k.bytes > 0 and k.most_bytes > 0 then parts[1] = "memory is used to " .. percent(memory) end
  if k.flops > 0 and k.most_flops > 0 then parts[#parts + 1] = (parts[1] and "arithmetic to " or "arithmetic is used to ") .. percent(compute) end
  return table.concat(parts, " and ")
end

--- The sentence for a kernel of kernels.run.
function kernels.limit(k)
  if k.simulated then return "none is known: the device is simulated, and its cycles are statements of the interpreter" end
  local memory = k.most_bytes > 0 and k.usec > 0 and k.bytes / (k.usec * 1e-6) / k.most_bytes or 0
  local compute = k.most_flops > 0 and k.usec > 0 and k.flops / (k.usec * 1e-6) / k.most_flops or 0
  local used, even = busy(k)
  local far = k.far or 0
  local link = far > 0 and k.usec > 0 and far / (k.usec * 1e-6) / k.most_far or 0
  if far > 0 and link >= math.max(memory, compute) then
    return ("link: %s of other devices' memory at %s, %s of what links to a device carry; fewer bytes between devices, or other work meanwhile, would make it faster"):format(
      units.size(far), units.rate(far / (k.usec * 1e-6), "B/s"), percent(link))
  end
  if memory >= 0.6 and memory >= compute then
    return ("memory: %s of what the device can move%s; fewer bytes would make it faster, by fusing it with what makes or reads them, or narrower types"):format(
      percent(memory), memory > 1.05 and ", so its cache holds a part of it" or "")
  end
  if compute >= 0.6 then
    return ("arithmetic: %s of what the device can do in these types; fewer operations or narrower types would make it faster"):format(percent(compute))
  end
  if k.placed and k.every == 1 and used < 0.75 * k.all_processors then
    return ("too few blocks: %d of %d processors have one; larger operands, or smaller tiles, would fill the others"):format(used, k.all_processors)
  end
  if k.usec < 4 then
    return ("latency: %s are little more than a launch; more work in one launch would use the device better"):format(units.time(k.usec))
  end
  if even < 0.75 then
    return ("imbalance: processors work %s of the time that the busiest one does; more, smaller blocks would even that out"):format(percent(even))
  end
  if k.unmarked then return ("none is known without marks: %s"):format(used_text(k, memory, compute)) end
  local waits = wait_part(k)
  if waits >= 0.35 then
    local while_used = used_text(k, memory, compute)
    return ("latency: warps wait %s of their time%s; more loads under way, by more stages or more blocks a processor, would hide it"):format(
      percent(waits), while_used ~= "" and ", while " .. while_used or "")
  end
  if k.spilled >= 64 then
    return ("registers: %d bytes of a thread's registers are in memory; smaller tiles would keep them"):format(k.spilled)
  end
  local is_used = used_text(k, memory, compute)
  return ("instructions: %swarps seldom wait; what stands between loads and products takes the time"):format(is_used ~= "" and is_used .. ", and " or "")
end

-- ---- text
local function rate_text(x, most, unit)
  if x <= 0 then return nil end
  return units.rate(x, unit) .. (most > 0 and (" (%s of %s)"):format(percent(x / most), units.rate(most, unit)) or "")
end

local function facts_lines(k, out)
  local parts = { ("%d blocks of %d threads%s"):format(k.grid, k.threads, kernels.recorded(k)) }
  if k.registers > 0 then parts[2] = ("%d registers"):format(k.registers) end
  if k.simulated then
    out[#out + 1] = ("  %d blocks\n"):format(k.grid)
    return
  end
  if k.spilled > 0 then parts[#parts + 1] = ("%d bytes spilled"):format(k.spilled) end
  if k.shared > 0 then parts[#parts + 1] = units.size(k.shared) .. " shared" end
  if k.occupancy then parts[#parts + 1] = ("occupancy %s"):format(percent(k.occupancy)) end
  out[#out + 1] = "  " .. table.concat(parts, ", ") .. "\n"
  local seconds = k.usec * 1e-6
  local rates = { rate_text(k.bytes / seconds, k.most_bytes, "B/s") }
  if (k.far or 0) > 0 then rates[#rates + 1] = "over links " .. rate_text(k.far / seconds, k.most_far, "B/s") end
  rates[#rates + 1] = rate_text(k.flops / seconds, k.most_flops, "FLOP/s")
  if #rates > 0 then out[#out + 1] = "  " .. table.concat(rates, ", ") .. "\n" end
end

--- Which blocks are recorded, where some are not: words behind the number of blocks.
function kernels.recorded(k)
  return (k.every > 1 and (", one in %d recorded"):format(k.every) or "") .. (k.apart > k.every and (", stages of one in %d"):format(k.apart) or "")
end

local function role_lines(k, role, out)
  if #role.stages == 0 then return end
  if role.name ~= "" then
    out[#out + 1] = ("  role %s, %d of %d warps%s\n"):format(role.name, role.warps - role.idle, k.warps,
      role.idle > 0 and (", %d idle"):format(role.idle) or "")
  end
  for _, s in ipairs(role.stages) do
    if s.part >= 0.0005 then
      out[#out + 1] = ("    %5.1f%%  %-18s %8.0f cycles, 95%% below %.0f\n"):format(100 * s.part, s.name, s.median, s.p95)
    end
  end
end

-- Which part of its time each processor has blocks, from left to right: 0 to 9.
local function processors_line(k, width, out)
  local numbers = {}
  for number in pairs(k.processors) do numbers[#numbers + 1] = number end
  if #numbers < 2 then return end
  table.sort(numbers)
  local last, blocks, least, most = 0, 0, math.huge, 0
  for _, p in pairs(k.processors) do
    last, blocks = math.max(last, p.ended), blocks + p.count
    least, most = math.min(least, p.count), math.max(most, p.count)
  end
  local _, even = busy(k)
  out[#out + 1] = ("  %d of %d processors, %d to %d blocks each%s; they work %s of the longest\n"):format(#numbers,
    k.all_processors, least, most, k.every > 1 and " of those recorded" or "", percent(even))
  local columns = math.max(20, width - 14)
  local rows = math.min(8, #numbers)
  for row = 1, rows do
    local from, to = math.floor((row - 1) * #numbers / rows) + 1, math.floor(row * #numbers / rows)
    local sum = {}
    for i = 1, columns do sum[i] = 0 end
    for i = from, to do
      for _, b in pairs(k.processors[numbers[i]].blocks) do
        local a = math.floor(b.begun / last * columns) + 1
        for c = a, math.max(a, math.ceil(b.ended / last * columns)) do
          if c <= columns then sum[c] = sum[c] + 1 end
        end
      end
    end
    local text, most_here = {}, 0
    for c = 1, columns do most_here = math.max(most_here, sum[c]) end
    for c = 1, columns do text[c] = sum[c] == 0 and "." or tostring(math.min(9, math.ceil(9 * sum[c] / most_here))) end
    out[#out + 1] = ("  %3d to %-3d  %s\n"):format(numbers[from], numbers[to], table.concat(text))
  end
end

--- All launches of one kernel together, the dearest first, and microseconds of all: {first, usec, count}.
function kernels.groups(list)
  local groups, by, total = {}, {}, 0
  for _, k in ipairs(list) do
    local key = k.name .. "|" .. k.kernel .. "|" .. k.grid .. "|" .. k.device
    local g = by[key]
    if not g then
      g = { first = k, usec = 0, count = 0 }
      by[key], groups[#groups + 1] = g, g
    end
    g.usec, g.count, total = g.usec + k.usec, g.count + 1, total + k.usec
  end
  table.sort(groups, function(a, b) return a.usec > b.usec end)
  return groups, total
end

--- The text of the dearest launches.
function kernels.text(list, width)
  local groups, total = kernels.groups(list)
  local out = {}
  for i, g in ipairs(groups) do
    local k = g.first
    if i > 8 then
      out[#out + 1] = ("%d more kernels\n"):format(#groups - 8)
      break
    end
    out[#out + 1] = k.simulated and ("%s  %d statements on %s%s\n"):format(k.name, k.usec * 1000, k.device, g.count > 1 and (", %d launches"):format(g.count) or "")
      or ("%s  %s, %s of %s on %s%s\n"):format(k.name, units.time(k.usec), percent(g.usec / math.max(total, 1e-9)),
        units.time(total), k.device, g.count > 1 and (", %d launches"):format(g.count) or "")
    facts_lines(k, out)
    for _, role in ipairs(k.roles) do role_lines(k, role, out) end
    processors_line(k, width, out)
    if k.lost > 0 then out[#out + 1] = ("  %d of %d turns found no room\n"):format(k.lost, k.turns) end
    if k.marked and not k.simulated then out[#out + 1] = ("  with marks %s\n"):format(units.time(k.marked)) end
    out[#out + 1] = "  limit: " .. core.wrapped(kernels.limit(k), 9, 2, width):gsub("\n$", "") .. "\n"
  end
  return table.concat(out)
end

return kernels
