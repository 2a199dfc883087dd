-- What limits kernels of a GPU, by :profile's sentence beside Nsight Compute's speed of light: a row a kernel.
--   bin/tessera scripts/bench/limits.lua [NAME]     what Tessera says
--   bin/tessera scripts/bench/limits.lua NAME run   runs it, for ncu
--   bin/tessera scripts/bench/limits.lua --names
--   sh scripts/bench/limits.sh                      the table of both, where ncu is found
local tessera = require "tessera"
local kernels = require "tessera.kernel.profile"
local op, rng, graph = tessera.op, tessera.rng, tessera.graph

local device = os.getenv "DEV" or "cuda:0"
if not device:find ":" then device = device .. ":0" end
local function normal(dtype, ...) return rng.normal({ ... }, { dtype = dtype, seed = 1, stream = 1 }):to(device) end

local rows = {
  { "matmul", function() local a = normal("bf16", 4096, 4096) return op.matmul, a, a end },
  { "matmul_f32", function() local a = normal("f32", 2048, 2048) return op.matmul, a, a end },
  { "attention", function() local q = normal("bf16", 4, 16, 2048, 64) return op.attention, q, q, q end },
  { "attention_backward", function()
    local q, g = normal("bf16", 4, 16, 1024, 64), normal("bf16", 4, 16, 1024, 64)
    return graph.grad(function(q, k, v, g) return op.sum(op.attention(q, k, v) * g) end, { 1, 2, 3 }), q, q, q, g
  end },
  { "decode", function()
    local k, v = normal("bf16", 8, 16, 8192, 128), normal("bf16", 8, 16, 8192, 128)
    return op.attention, normal("bf16", 8, 16, 1, 128), k, v
  end },
  { "softmax", function() return op.softmax, normal("f32", 8192, 4096) end },
  { "layernorm", function() return op.layernorm, normal("bf16", 16384, 4096) end },
  { "chain", function()
    return graph.module("chain", function(x) return op.relu(x * 2 + 1) * 0.5 end), normal("f32", 64 * 2 ^ 20)
  end },
  { "sum", function() return op.sum, normal("f32", 64 * 2 ^ 20) end },
  { "fft", function() return op.fft, op.complex(normal("f32", 8192, 1024), normal("f32", 8192, 1024)) end },
  { "sort", function() return op.sort, normal("f32", 64, 65536) end },
  { "conv2d", function() return op.conv2d, normal("bf16", 32, 256, 28, 28), normal("bf16", 256, 256, 3, 3) end },
  { "small", function() return op.add, normal("f32", 4096), 1 end },
}

-- The launch of it that takes longest.
local function dearest(call)
  for _ = 1, 3 do call[1](unpack(call, 2)) end
  local list = kernels.run(unpack(call))
  table.sort(list, function(a, b) return a.usec > b.usec end)
  return list[1]
end

local function device_text(name)
  for _, d in ipairs(tessera.devices()) do
    if d.name == name then return d.text end
  end
  return name
end

local function say(row)
  local call = { row[2]() }
  if arg[2] == "run" then
    for _ = 1, 8 do call[1](unpack(call, 2)) end -- the first ones compile
    tessera.jit.wait()
    for _ = 1, 3 do call[1](unpack(call, 2)) end
    return
  end
  local k = dearest(call)
  if not k then return print(row[1] .. "\tno kernel") end
  print(("%s\t%s\t%.1f\t%.1f\t%s"):format(row[1], device_text(k.device), k.usec, k.marked or 0, kernels.limit(k)))
end

-- ---- the table: of ncu's launches the longest of the last three
local function of_ncu(path)
  local order, by = {}, {}
  for line in io.lines(path) do
    local id, metric, value = line:match '^"(%d+)".*,"([%w_%.]+)","[^"]*","([%d.,]+)"%s*$'
    if id then
      if not by[id] then
        by[id], order[#order + 1] = {}, id
      end
      by[id][metric:match "^[^.]+"] = tonumber((value:gsub(",", "")))
    end
  end
  local most
  for i = math.max(1, #order - 2), #order do
    local l = by[order[i]]
    if not most or l.gpu__time_duration > most.gpu__time_duration then most = l end
  end
  return most
end

-- As its reports say: above 60% the larger of both is the limit, else latency.
local function verdict(l)
  local compute, memory = l.sm__throughput, l.gpu__compute_memory_throughput
  return math.max(compute, memory) < 60 and "latency" or compute > memory and "arithmetic" or "memory"
end

local function write_table(folder, names)
  local agreed, device = 0, nil
  local out = { "| kernel | us | with marks | Tessera's limit | ncu: arithmetic | memory | its limit | agree |", "| --- | ---: | ---: | --- | ---: | ---: | --- | --- |" }
  for _, name in ipairs(names) do
    local line = io.open(folder .. "/" .. name .. ".ours"):read "*l" or ""
    local of, usec, marked, limit = line:match "^[^\t]*\t([^\t]*)\t([^\t]*)\t([^\t]*)\t([^:]*)"
    local l = of and of_ncu(folder .. "/" .. name .. ".ncu")
    if l then
      device = of
      local alike = limit == "instructions" and "arithmetic" or (limit == "memory" or limit == "arithmetic") and limit or "latency"
      local same = alike == verdict(l)
      agreed = agreed + (same and 1 or 0)
      out[#out + 1] = ("| %s | %s | %s | %s | %.0f%% | %.0f%% | %s | %s |"):format(name, usec, marked, limit, l.sm__throughput,
        l.gpu__compute_memory_throughput, verdict(l), same and "yes" or "no")
    end
  end
  print(("%s; Nsight Compute %s; %s. %d of %d agree.\n"):format(device or "no device", io.open(folder .. "/version"):read "*l" or "",
    os.date "%Y-%m-%d", agreed, #out - 2))
  print(table.concat(out, "\n"))
end

if arg[1] == "--names" then
  for _, row in ipairs(rows) do print(row[1]) end
elseif arg[1] == "--table" then
  write_table(arg[2], { unpack(arg, 3) })
else
  for _, row in ipairs(rows) do
    if not arg[1] or arg[1] == row[1] then say(row) end
  end
end
