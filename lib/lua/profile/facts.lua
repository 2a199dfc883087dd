-- A profile as one table for scripts and `:profile f(x) --json`: times in ns, parts of 1; what has no value has a reason
-- beside it. docs/commands.md has the fields.

local facts = {}

local function named(t, key, value, reason)
  t[key] = value
  if value == nil then t[key .. "_reason"] = reason end
end

local function median(list)
  table.sort(list)
  return list[math.floor((#list + 1) / 2)]
end

local function phases_of(row)
  local list = {}
  for phase, threads in pairs(row.phases) do
    local p = { phase = phase, threads = {} }
    for thread, times in pairs(threads) do p.threads[#p.threads + 1] = { thread = thread, time_ns = median(times) * 1e3 } end
    table.sort(p.threads, function(a, b) return a.thread < b.thread end)
    local marked = row.stages and row.stages[phase]
    if marked then
      p.stages, p.between = {}, marked.rest
      for i, s in ipairs(marked.list) do
        p.stages[i] = { stage = s.label, part = s.part, count = s.count }
        named(p.stages[i], "where", s.place, "it comes from no line of the program")
      end
    else
      p.stages_reason = "it has no profile marks"
    end
    list[#list + 1] = p
  end
  table.sort(list, function(a, b) return a.phase < b.phase end)
  return list
end

-- A kernel has its places in its name: "matmul add at model.lua:12".
local function apart(row)
  if row.place then return row.what, row.place end
  local what, place = row.what:match "^(.-) at (.+:%d.*)$"
  return what or row.what, place
end

--- Of a captured function: its instructions.
function facts.instructions(name, rows, total, elsewhere, runs)
  local r = { kind = "instructions", ["function"] = name, time_ns = total * 1e3, runs = runs, instructions = {},
    times_of = elsewhere and "the thread that launches" or "instructions" }
  for i, row in ipairs(rows) do
    local what, place = apart(row)
    local one = { what = what, depth = row.depth, calls = row.calls, time_ns = row.usec * 1e3, part = row.usec / total,
      bytes = row.bytes, phases = phases_of(row) }
    named(one, "where", place, "it comes from no line of the program")
    named(one, "flops", row.flops > 0 and row.flops or nil, "nobody counts those of this operator")
    r.instructions[i] = one
  end
  return r
end

local function tree_of(node)
  local list = {}
  for i, child in ipairs(node) do
    local inside = 0
    for _, c in ipairs(child) do inside = inside + c.usec end
    list[i] = { kind = child.kind, what = child.what, where = child.place ~= "" and child.place or nil, where_reason = (child.place == nil or
      child.place == "") and (child.kind == "line" and "it is no line of the program" or "the line around it has it") or nil, calls = child.count, time_ns = child.usec * 1e3,
      own_ns = math.max(0, child.usec - inside) * 1e3, bytes = child.bytes, flops = child.flops, inside = tree_of(child) }
  end
  table.sort(list, function(a, b) return a.time_ns > b.time_ns end)
  return list
end

--- Of a program, or of a function that is not captured: the tree of what it calls.
function facts.program(name, r, runs)
  local out = { kind = "program", ["function"] = name, time_ns = r.tree.usec * 1e3, lua_ns = r.left * 1e3, runs = runs,
    inside = tree_of(r.tree), lines = {} }
  for i, l in ipairs(r.lines) do out.lines[i] = { where = l.line, time_ns = l.usec * 1e3 } end
  return out
end

local function roles_of(k)
  local list = {}
  for i, role in ipairs(k.roles) do
    local stages = {}
    for j, s in ipairs(role.stages) do
      stages[j] = { stage = s.stage, what = s.name, part = s.part }
      named(stages[j], "where", s.place ~= "" and s.place or nil, "it comes from no line of the program")
    end
    list[i] = { role = role.name, warps = role.warps, stages = stages }
  end
  return list
end

--- Kernels on devices, those of one name together: what kernels.groups gives, and the sentences of kernels.limit.
function facts.kernels(groups, limit)
  local list = {}
  for i, g in ipairs(groups) do
    local k = g.first
    local one = { name = k.name, kernel = k.kernel, device = k.device, launches = g.count, bytes = k.bytes, flops = k.flops,
      grid = k.grid, threads = k.threads, registers = k.registers, spilled_bytes = k.spilled, shared_bytes = k.shared,
      occupancy = k.occupancy, turns_lost = k.lost, limit = limit(k), roles = roles_of(k) }
    local simulated = "the device is simulated, and counts statements"
    named(one, "time_ns", not k.simulated and g.usec * 1e3 or nil, simulated)
    named(one, "marked_ns", not k.simulated and k.marked and k.marked * 1e3 or nil, k.simulated and simulated or "it has no marks")
    if k.simulated then one.statements = k.usec * 1000 end
    list[i] = one
  end
  return list
end

return facts
