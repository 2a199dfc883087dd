-- Kernels of devices in the timeline of a profile for Chrome and Perfetto.
--
--   local events = kernel_files.events(kernels.run(f, x), 3)   -- processes from 3 on
--
-- In it a launch is a process: the kernel, its processors with their blocks, and of some blocks the stages of a
-- warp of each role. Launches stand one behind another. Whatever a run's length, the events stay below MOST_BYTES: of
-- launches, blocks and stages the first and the last ones are shown, and one span stands for those between.

local files = require "tessera.profile.files"
local kernels = require "tessera.kernel.profile"

local kernel_files = {}

local MOST_BYTES, MOST_LAUNCHES, MOST_BLOCKS, MOST_STAYS = 8e6, 200, 256, 400
local EVENT_BYTES = 150 -- about

local span, each_shown = files.between, files.each_shown

-- ---- the timeline
local function launch_args(k)
  local args = { ('"grid":%d,"threads":%d,"warps":%d,"bytes":%.0f,"flops":%.0f'):format(k.grid, k.threads, k.warps, k.bytes, k.flops) }
  if k.simulated then
    args[2] = '"simulated":"a nanosecond stands for a statement of the interpreter"'
  else
    args[2] = ('"us_without_marks":%.3f,"registers":%d,"shared_bytes":%.0f,"spilled_bytes":%.0f,"occupancy":%s'):format(k.usec, k.registers,
      k.shared, k.spilled, k.occupancy and ("%.3f"):format(k.occupancy) or "null")
  end
  if k.every > 1 then args[#args + 1] = ('"recorded":"one block in %d"'):format(k.every) end
  if k.apart > 1 then args[#args + 1] = ('"stages_recorded":"one block in %d"'):format(k.apart) end
  return table.concat(args, ",")
end

local PROCESSOR, BLOCK, SIDE = 1024, 2 ^ 20, 64 -- numbers of tracks: of processors, of blocks, at most so many of each

local function processor_events(k, pid, at, most, add)
  local numbers, all = {}, 0
  for number, p in pairs(k.processors) do numbers[#numbers + 1], all = number, all + p.count end
  table.sort(numbers)
  for _, number in ipairs(numbers) do
    local p, named = k.processors[number], {}
    local list, lanes = kernels.blocks(p)
    local function show(lane, begun, ended, name) -- blocks that run side by side have tracks of their own
      local tid = PROCESSOR + number * SIDE + lane
      if not named[lane] then
        add(files.track(pid, tid, lane == 1 and "processor " .. number or ("processor %d, side by side %d"):format(number, lane)))
      end
      named[lane] = true
      add(span(pid, tid, name, at + begun / 1000, at + ended / 1000, nil, "block"))
    end
    each_shown(list, math.max(2, math.floor(most * p.count / all)), function(b) show(b.lane, b.begun, b.ended, "block " .. b.number) end,
      function(from, to)
        local ended = 0
        for i = from, to do ended = math.max(ended, list[i].ended) end
        show(lanes + 1, list[from].begun, ended, ("%d more blocks"):format(to - from + 1))
      end)
  end
end

-- Stages that have a track beside that of their role: what brings operands on its own, and products.
local function side_track(s)
  if s.stage == "mma" then return "mma" end
  if s.name == "load issue" or s.name == "wait barrier" or s.name == "wait copies" then return "copies" end
end

local function stage_args(s, cycles)
  return ('"cycles":%d,"median":%.0f,"p95":%.0f,"part":%.4f'):format(cycles, s.median, s.p95, s.part)
end

local function warp_events(k, pid, tid, at, block, role, stays, add)
  local warp = stays.warp
  local word = k.roles[role].name
  local title = ("block %d%s"):format(block, word ~= "" and ", " .. word or "")
  local sides = {}
  add(files.track(pid, tid, title))
  add(span(pid, tid, title, at + warp.start, at + warp.stop, ('"warps":%d,"stages":%d'):format(k.roles[role].warps, #stays), "warp"))
  if stays[1].start > warp.start then add(span(pid, tid, "begins", at + warp.start, at + stays[1].start, '"is":"what a warp does before its first stage"', "begin")) end
  each_shown(stays, MOST_STAYS, function(s)
    local args, side = stage_args(s.stage, s.cycles), side_track(s.stage)
    add(span(pid, tid, s.stage.name, at + s.start, at + s.stop, args, s.stage.stage))
    if not side then return end
    local beside = tid + (side == "copies" and 1 or 2)
    if not sides[side] then add(files.track(pid, beside, title .. ": " .. side)) end
    sides[side] = true
    add(span(pid, beside, s.stage.name, at + s.start, at + s.stop, args, s.stage.stage))
  end, function(from, to)
    local said = files.statistics(from, to, function(i) return stays[i].stage.name, stays[i].stop - stays[i].start end)
    add(span(pid, tid, ("%d more stages"):format(to - from + 1), at + stays[from].start, at + stays[to].stop, '"of":' .. files.quoted(said), "folded"))
  end)
end

-- Blocks whose stages are shown, of those that have some: by turns the first and the last ones.
local function wanted_blocks(k, most)
  local numbers, wanted, list = {}, {}, {}
  for _, p in pairs(k.processors) do
    for number in pairs(p.blocks) do
      if number % k.apart == 0 then numbers[#numbers + 1] = number end
    end
  end
  table.sort(numbers)
  for i = 1, math.min(most, #numbers) do
    local number = i % 2 == 1 and numbers[(i + 1) / 2] or numbers[#numbers + 1 - i / 2]
    wanted[number], list[i] = {}, number
  end
  return wanted, list
end

local function block_events(k, pid, at, most, room, add)
  local wanted, order = wanted_blocks(k, most)
  kernels.each_warp(k, wanted, function(block, role, stays, start, stop)
    stays.warp = { start = start, stop = stop }
    wanted[block][role] = stays
  end)
  for i, block in ipairs(order) do
    for role = 1, #k.roles do
      if room() <= 0 and i > 2 then return end
      local stays = wanted[block][role]
      if stays then warp_events(k, pid, BLOCK + block * SIDE + 3 * role, at, block, role, stays, add) end
    end
  end
end

--- Events of the launches of kernels.run, as processes from pid on.
function kernel_files.events(list, pid)
  local out, at = {}, 0
  local shown = math.min(#list, MOST_LAUNCHES)
  local share, blocks = MOST_BYTES / math.max(1, shown), math.max(2, math.floor(MOST_BLOCKS / math.max(1, shown)))
  each_shown(list, MOST_LAUNCHES, function(k)
    local bytes = 0
    local function add(event) out[#out + 1], bytes = event, bytes + #event end
    add(files.process(pid, ("%s on %s"):format(k.name, k.device)))
    add(files.track(pid, 0, "kernel"))
    add(span(pid, 0, k.name, at, at + k.span, launch_args(k), "kernel"))
    processor_events(k, pid, at, share / 2 / EVENT_BYTES, add)
    block_events(k, pid, at, blocks, function() return share - bytes end, add)
    pid, at = pid + 1, at + k.span
  end, function(from, to)
    local said, usec = files.statistics(from, to, function(i) return list[i].name, list[i].span end)
    out[#out + 1] = files.process(pid, "launches between the first and the last")
    out[#out + 1] = files.track(pid, 0, "kernels")
    out[#out + 1] = span(pid, 0, ("%d more launches"):format(to - from + 1), at, at + usec, '"of":' .. files.quoted(said), "folded")
    pid, at = pid + 1, at + usec
  end)
  return out
end

return kernel_files
