-- The table of kernels in a profile: a row for each kernel, role and stage, with what the kernel has as a whole in each of
-- its rows. What does not exist is an empty field, and the last column says why.
--
--   core.write_file("f.kernels.csv", { kernel_table.text(kernel_table.of_devices(list)) })

local files = require "tessera.profile.files"

local kernel_table = {}

local COLUMNS = { "launch", "kernel", "device", "role", "warps", "stage", "us", "part", "median_cycles", "p95_cycles", "count", "tile_us", "tile_cycles",
  "stall_memory", "stall_barrier", "stall_threads", "stall_blocks", "stall_stores", "stall_copies", "stall_launch",
  "kernel_us", "bytes", "flops", "gb_per_s", "most_gb_per_s", "gflop_per_s", "most_gflop_per_s", "occupancy", "registers", "shared_bytes",
  "spilled_bytes", "reason" }
local TEXT = { kernel = true, role = true, stage = true, reason = true }
local MOST_ROWS = 40000

-- ---- devices
local STALLS = { barrier = "stall_barrier", threads = "stall_threads", ["other blocks"] = "stall_blocks", stores = "stall_stores",
  copies = "stall_copies", ["launch before"] = "stall_launch" }

-- Which parts of a role's time its warps wait, by what for. Loads that are told to the copy engine are no waiting.
local function stalls(role, into)
  for _, column in pairs(STALLS) do into[column] = 0 end
  into.stall_memory = 0
  for _, s in ipairs(role.stages) do
    local column = s.stage == "wait" and STALLS[s.name:match "^wait (.*)" or ""] or s.stage == "load" and s.name ~= "load issue" and "stall_memory"
    if column then into[column] = into[column] + s.part end
  end
end

-- Cycles of a tile: those of a warp between two stays in the stage that it is in least often.
local function tile_cycles(role)
  local least
  for _, s in ipairs(role.stages) do
    if s.stage ~= "not recorded" and s.name ~= "between" and (not least or s.count < least) then least = s.count end
  end
  return least and least > 0 and role.cycles / least or nil
end

-- What a kernel has as a whole, and why some of it is missing.
local function of_kernel(k)
  local real, seconds = not k.simulated, k.usec * 1e-6
  local timed, moves, works, why = real and seconds > 0, k.bytes > 0, k.flops > 0, {}
  if k.simulated then why[1] = "simulated: no times, limits and registers, and cycles are statements" end
  local told = real and k.occupancy
  if real and not told then why[#why + 1] = "its driver does not tell registers, shared memory and occupancy" end
  if not moves then why[#why + 1] = "bytes are not known" end
  if not works then why[#why + 1] = "no operations are counted" end
  if real and k.most_bytes <= 0 then why[#why + 1] = "the limit of memory is not known" end
  if real and k.most_flops <= 0 then why[#why + 1] = "the limit of arithmetic is not known" end
  if real and not timed then why[#why + 1] = "shorter than the device's clock tells" end
  return { kernel = k.name, device = k.device, kernel_us = real and ("%.3f"):format(k.usec), bytes = moves and ("%.0f"):format(k.bytes),
    flops = works and ("%.0f"):format(k.flops), gb_per_s = timed and moves and ("%.6g"):format(k.bytes / seconds / 1e9),
    most_gb_per_s = real and k.most_bytes > 0 and ("%.6g"):format(k.most_bytes / 1e9),
    gflop_per_s = timed and works and ("%.6g"):format(k.flops / seconds / 1e9),
    most_gflop_per_s = real and k.most_flops > 0 and ("%.6g"):format(k.most_flops / 1e9),
    occupancy = told and ("%.4f"):format(k.occupancy), registers = told and ("%d"):format(k.registers),
    shared_bytes = told and ("%.0f"):format(k.shared), spilled_bytes = told and ("%.0f"):format(k.spilled) }, why
end

--- Rows of the launches of kernels.run.
function kernel_table.of_devices(list, rows)
  rows = rows or {}
  for launch, k in ipairs(list) do
    local shared, why = of_kernel(k)
    local function row(fields, more)
      fields.launch, fields.reason = launch, table.concat(why, "; ") .. (more and (#why > 0 and "; " or "") .. more or "")
      rows[#rows + 1] = setmetatable(fields, { __index = shared })
    end
    local any
    for _, role in ipairs(k.roles) do
      local of_role, cycles = {}, tile_cycles(role)
      stalls(role, of_role)
      for _, s in ipairs(role.stages) do
        any = true
        local fields = { role = role.name, warps = role.warps - role.idle, stage = s.name, us = not k.simulated and ("%.3f"):format(k.usec * s.part),
          part = ("%.6f"):format(s.part), median_cycles = ("%.0f"):format(s.median), p95_cycles = ("%.0f"):format(s.p95), count = s.count,
          tile_cycles = cycles and ("%.0f"):format(cycles), tile_us = cycles and k.clock and ("%.4f"):format(cycles / k.clock * 1e6) }
        for column, part in pairs(of_role) do fields[column] = ("%.6f"):format(part) end
        row(fields, not cycles and "no stage that a tile has once" or nil)
      end
    end
    if not any then row({}, "no stage was recorded") end
  end
  return rows
end

-- ---- the processor
local NOT_HERE = "a processor's kernel has no warps, occupancy, registers a thread and shared memory; its stages are sums, without cycles and stalls"

-- The stages of a phase of an instruction, and its part of the instruction's time.
local function phase_rows(rows, shared, row, number, phase, part)
  local least
  for _, s in ipairs(phase.list) do least = math.min(least or math.huge, s.count) end
  local usec = row.usec * part
  local function add(name, of, count)
    local tile = least and least > 0 and phase.usec / phase.runs / least
    rows[#rows + 1] = setmetatable({ role = "phase " .. number, stage = name, us = ("%.3f"):format(usec * of), part = ("%.6f"):format(of),
      count = count and ("%.0f"):format(count), tile_us = tile and ("%.4f"):format(tile), reason = shared.why }, { __index = shared })
  end
  for _, s in ipairs(phase.list) do add(s.name, s.part, s.count) end
  if phase.rest > 0 then add("between", phase.rest) end
end

--- Rows of the instructions of profile.lua; bandwidth and compute: what this machine does, in GB/s and GFLOP/s.
function kernel_table.of_instructions(list, bandwidth, compute)
  local rows = {}
  for launch, row in ipairs(list) do
    local why = { NOT_HERE }
    if row.bytes <= 0 then why[#why + 1] = "bytes are not known" end
    if row.flops <= 0 then why[#why + 1] = "no operations are counted" end
    local shared = { launch = launch, kernel = row.place and row.what .. " at " .. row.place or row.what, device = "cpu",
      kernel_us = ("%.3f"):format(row.usec), bytes = row.bytes > 0 and ("%.0f"):format(row.bytes), flops = row.flops > 0 and ("%.0f"):format(row.flops),
      gb_per_s = row.bytes > 0 and ("%.6g"):format(row.bytes / row.usec / 1e3), most_gb_per_s = ("%.6g"):format(bandwidth),
      gflop_per_s = row.flops > 0 and ("%.6g"):format(row.flops / row.usec / 1e3), most_gflop_per_s = ("%.6g"):format(compute), why = table.concat(why, "; ") }
    local all, numbers = 0, {}
    for number, phase in pairs(row.stages or {}) do
      if #phase.list > 0 then
        numbers[#numbers + 1], all = number, all + phase.usec
      end
    end
    table.sort(numbers)
    for _, number in ipairs(numbers) do phase_rows(rows, shared, row, number, row.stages[number], row.stages[number].usec / all) end
    if #numbers == 0 then
      rows[#rows + 1] = setmetatable({ reason = "no stage was recorded; " .. shared.why }, { __index = shared })
    end
  end
  return rows
end

-- ---- text
--- Rows as CSV; of too many the first and the last ones, and a row that says how many are missing.
function kernel_table.text(rows)
  local out = { table.concat(COLUMNS, ",") .. "\n" }
  local function line(row)
    local fields = {}
    for i, column in ipairs(COLUMNS) do
      local v = row[column] or ""
      fields[i] = TEXT[column] and files.field(v) or tostring(v)
    end
    out[#out + 1] = table.concat(fields, ",") .. "\n"
  end
  files.each_shown(rows, MOST_ROWS, line, function(from, to)
    line { reason = ("%d rows between the first and the last are left out"):format(to - from + 1) }
  end)
  return table.concat(out)
end

return kernel_table
