-- The driver of `make bench`: runs every row on ours and on the peers that are
-- installed, turn by turn, and prints the tables. Started by run.sh.

package.path = "scripts/bench/?.lua;" .. package.path
local ffi = require "ffi"
local worker, report = require "worker", require "report"
local on_gpu = (os.getenv "DEV" or "") ~= ""
local sections = require(on_gpu and "gpu_rows" or "rows")

io.stdout:setvbuf "line"
ffi.cdef "int usleep(unsigned microseconds);"

local env, now = os.getenv, require("tessera.core").now
local python, only = env "TESSERA_PEERS_PYTHON" or "", env "ONLY" or ""
local whole = false -- the word is the name of one section
for _, section in ipairs(sections) do whole = whole or section.name == only end
if (env "WRITE" or "") ~= "" and only ~= "" and not whole then
  io.stderr:write("make bench: WRITE=1 replaces all tables or that of one section; ONLY=" .. only .. " is no section\n")
  os.exit(2)
end
local ROUNDS = tonumber(env "ROUNDS" or "") or 7
local OURS = "bin/tessera"
-- Between turns, so that what the last one left behind (kernel threads that free memory) is done.
local PAUSE_US = 20000
-- A call of a second or more (bf16 where a peer has no kernels for it) is not repeated each round.
local SLOW_S = 1

-- The peers in the order of the columns. The first is ours. against: whose time stands above its own in the ratio, and
-- not its own above ours.
local PEERS = {
  { name = "ours", title = "Tessera", command = OURS .. " scripts/bench/ours.lua %d" },
  { name = "vm", title = "VM alone", cpu = true, command = OURS .. " --no-jit scripts/bench/ours.lua %d vm" },
  { name = "torch", title = "PyTorch", python = "torch" },
  { name = "eager", title = "Tessera, eager", against = "torch", cpu = true, command = OURS .. " scripts/bench/ours.lua %d eager" },
  { name = "compile", title = "torch.compile", python = "compile" },
  { name = "onednn", title = "oneDNN", cpu = true, command = "build/bench/onednn" },
  { name = "numpy", title = "NumPy", cpu = true, python = "numpy" },
  { name = "scipy", title = "SciPy", cpu = true, python = "scipy" },
  { name = "jax", title = "JAX", python = "jax" },
  { name = "llama", title = "llama.cpp", cpu = true, python = "llama" },
  { name = "onnx", title = "onnxruntime", cpu = true, python = "onnx" },
}

PEERS.against = {} -- by name
for _, peer in ipairs(PEERS) do PEERS.against[peer.name] = peer.against end
for i = on_gpu and #PEERS or 0, 1, -1 do
  if PEERS[i].cpu then table.remove(PEERS, i) end
end

local machine = {} -- workers for the limits, by the number of threads
local in_cache -- ours on one thread, for operators over rows that stay in its caches
local limit_peer = PEERS[2] -- PyTorch, which measures the limits of a GPU
local found, missing, notes = {}, {}, {}

local function note(text)
  for _, known in ipairs(notes) do
    if known == text then return end
  end
  notes[#notes + 1] = text
end

local function exists(path)
  local f = path ~= "" and io.open(path, "rb")
  if f then f:close() end
  return f and true or false
end

local function command_of(peer, threads)
  if peer.python then
    local command = "'%s' scripts/bench/peer.py %s %d"
    return exists(python) and command:format(python, peer.python, threads)
  end
  return exists(peer.command:match("^%S+")) and peer.command:format(threads)
end

local function launch(peer, threads)
  peer.at = peer.at or {}
  peer.at[threads] = worker.start(command_of(peer, threads), threads)
  return peer.at[threads]
end

local function find_peers(thread_counts)
  for _, peer in ipairs(PEERS) do
    local about
    for _, threads in ipairs(thread_counts) do
      if command_of(peer, threads) then about = launch(peer, threads):ask("about") end
      if not about then break end
    end
    peer.about = about
    table.insert(about and found or missing, peer)
  end
  machine.start = worker.start("build/bench/machine", 1)
  for _, threads in ipairs(thread_counts) do
    machine[threads] = worker.start("build/bench/machine " .. threads, threads)
  end
end

-- ---- measuring

local function median(list)
  if #list == 0 then return nil end
  table.sort(list)
  local n = #list
  return n % 2 == 1 and list[(n + 1) / 2] or (list[n / 2] + list[n / 2 + 1]) / 2
end

-- The ratios of one round.
local function divide(turn, ratios)
  for name, t in pairs(turn) do
    local over = PEERS.against[name]
    local ratio = over and turn[over] and turn[over] / t or not over and turn.ours and t / turn.ours
    if ratio then table.insert(ratios[name], ratio) end
  end
end

-- Of the rounds' times and ratios; with STAT=best the shortest turns, and their ratio.
local function conclude(times, ratios)
  local result, ratio, best = {}, {}, env "STAT" == "best"
  for name, list in pairs(times) do
    result[name], ratio[name] = median(list), median(ratios[name])
    if best then result[name] = list[1] end -- median has sorted them
  end
  if best then
    local of_best = {}
    for name in pairs(ratio) do of_best[name] = {} end
    divide(result, of_best)
    for name, list in pairs(of_best) do ratio[name] = list[1] end
  end
  return result, ratio
end

-- ask = { name = function() -> number or nil, why }: one turn each, round by round.
-- Returns the medians and, for each peer, the median over the rounds of how much
-- faster ours was in the same round.
local function interleave(order, ask, rounds, title, slow_s)
  local times, ratios, slow = {}, {}, {}
  for _, name in ipairs(order) do times[name], ratios[name] = {}, {} end
  for round = 0, rounds do -- round 0 warms up
    local turn = {}
    for _, name in ipairs(order) do
      if times[name] then
        ffi.C.usleep(PAUSE_US)
        local t, why = slow[name]
        if not t then t, why = ask[name]() end
        if t and t > (slow_s or SLOW_S) then slow[name] = t end
        if not t then
          times[name] = nil
          if why then note(("%s, %s: %s"):format(title, name, why)) end
        elseif round > 0 then
          turn[name] = t
          table.insert(times[name], t)
        end
      end
    end
    divide(turn, ratios)
  end
  return conclude(times, ratios)
end

-- Everybody's mean |result| must be near ours: the rows then do the same work. A program's is that of
-- its first calls; one that computes something else has no times.
local function compare_results(row, threads, alive)
  local ours = alive.ours and tonumber((PEERS[1].at[threads]:ask("check")))
  for _, peer in ipairs(found) do
    local theirs = ours and alive[peer.name] and tonumber((peer.at[threads]:ask("check")))
    if theirs and not (math.abs(theirs - ours) <= (row.within or 0.1) * math.abs(ours) + (row.within and 0 or 1e-6)) then
      note(("%s: mean |result| is %.6g in Tessera, %.6g in %s"):format(row[1], ours, theirs,
        peer.title))
      if row.within then alive.ours, alive[peer.name] = nil, nil end
    end
  end
end

-- What bounds a row beside its limit (rows.lua), in the same rounds. Threads have a second
-- cache each: what one does in its own, all do so many times.
local function ask_bounds(row, threads, order, ask)
  if row.moves then
    order[#order + 1] = "moves"
    function ask.moves() return tonumber((machine[threads]:ask("bench " .. row.moves.call))) end
  end
  if row.cached then
    order[#order + 1] = "cached"
    in_cache = in_cache or worker.start(PEERS[1].command:format(1), 1)
    function ask.cached()
      local seconds, why = in_cache:ask("apart " .. row.cached)
      return seconds and tonumber(seconds) * row.times / threads, why
    end
  end
end

local function measure_operator(row, threads)
  local order, ask = { "ours" }, {}
  if row.limit then
    order[2] = "limit"
    function ask.limit()
      local w = on_gpu and limit_peer.at and limit_peer.at[threads] or machine[threads]
      return tonumber((w:ask("bench " .. row.limit.call)))
    end
  end
  ask_bounds(row, threads, order, ask)
  for _, peer in ipairs(found) do
    if peer.name ~= "ours" then order[#order + 1] = peer.name end
    ask[peer.name] = function()
      local w = peer.at[threads]
      if not w.questions and peer.name == "ours" then w = launch(peer, threads) end
      local answer, why = w:ask("bench " .. row[2])
      return tonumber(answer), why
    end
  end
  local times, ratio = interleave(order, ask, ROUNDS, row[1], row.within and math.huge)
  if not row.noisy then compare_results(row, threads, times) end
  for _, peer in ipairs(found) do peer.at[threads]:ask("drop") end
  return times, ratio
end

-- ---- whole processes

local START = {
  prompt = { ours = OURS, luajit = "luajit" },
  run = { ours = OURS .. " -e x=1", luajit = "luajit -e x=1", numpy = "import_numpy",
    torch = "import_torch", jax = "import_jax" },
  first = { ours = OURS .. " scripts/bench/models/cpu.lua first" },
}

-- Python peers count as a program that imports the library.
local function start_command(kind, name)
  local command = START[kind][name]
  local module = command and command:match("^import_(%w+)")
  return module and ("%s -c import@%s"):format(python, module) or command
end

local started = {} -- by kind: name -> { seconds, KiB }

local function measure_start(kind)
  if started[kind] then return started[kind] end
  local order, ask, kib = { "ours", "luajit" }, {}, {}
  for _, peer in ipairs(found) do
    if START[kind][peer.name] and peer.name ~= "ours" then order[#order + 1] = peer.name end
  end
  for _, name in ipairs(order) do
    ask[name] = function()
      local answer, why = machine.start:ask(("start %s %s"):format(kind, start_command(kind, name)))
      if not answer then return nil, why end
      local seconds, size = answer:match("(%S+) (%S+)")
      kib[name] = tonumber(size)
      return tonumber(seconds)
    end
  end
  local times, ratio = interleave(order, ask, 3, "start, " .. kind)
  started[kind] = { times = times, ratio = ratio, kib = kib }
  return started[kind]
end

local function start_row(row)
  local s = measure_start(row[2])
  if row.per.unit ~= "MB" then return s.times, s.ratio end
  local value, ratio = {}, {}
  for name, kib in pairs(s.kib) do
    if s.times[name] then value[name], ratio[name] = kib * 1024 / 1e6, kib / (s.kib.ours or kib) end
  end
  return value, ratio
end

local function machine_row(row, threads)
  local times = interleave({ "machine" }, { machine = function()
    return tonumber((machine[threads]:ask("bench " .. row[2])))
  end }, ROUNDS, row[1])
  machine[threads]:ask "drop"
  return times, {}
end

local function read_number(command)
  local pipe = io.popen(command .. " 2>&1")
  local text = pipe:read("*a")
  pipe:close()
  return tonumber(text), text:match("[^\n]*")
end

local function peak_commands(row)
  local peer_py = ("CUDA_VISIBLE_DEVICES= '%s' scripts/bench/peer.py "):format(python)
  if row.train then
    return ("%s scripts/bench/gpt.lua peak %s"):format(OURS, row.train), { torch = peer_py .. "peak_of_training %s " .. row.train }
  end
  local peak = peer_py .. "peak %s " .. row.live
  return ("%s scripts/bench/peak.lua %d"):format(OURS, row.live), { torch = peak, numpy = peak }
end

local function peak_row(row)
  local value, ratio = {}, {}
  local ours, theirs = peak_commands(row)
  local commands = { ours = ours }
  for _, peer in ipairs(found) do
    if theirs[peer.name] then commands[peer.name] = theirs[peer.name]:format(peer.python) end
  end
  for name, command in pairs(commands) do
    local kib, why = read_number(command)
    value[name] = kib and kib / 1024
    if not kib then note(("%s, %s: %s"):format(row[1], name, why)) end
  end
  for name, mib in pairs(value) do ratio[name] = value.ours and mib / value.ours end
  return value, ratio
end

-- Milliseconds that a program of ours, or a cold torch.compile, prints.
local function compile_row(row)
  local cache = os.tmpname()
  os.remove(cache)
  local first = ("TESSERA_CACHE='%s' %s scripts/bench/first.lua "):format(cache, OURS)
  read_number(first .. "fill")
  local value, ratio = {}, {}
  local ms, why = read_number((row.cold and first:gsub("CACHE='[^']*'", "CACHE=off") or first) .. row[2])
  if not ms then note(("%s: %s"):format(row[1], why)) end
  value.ours = ms and ms / 1e3
  for _, peer in ipairs(found) do
    if row.peer and peer.name == "compile" then
      local cold = ("TORCHINDUCTOR_CACHE_DIR='%s.torch' CUDA_VISIBLE_DEVICES= '%s' scripts/bench/peer.py cold 2>/dev/null")
      local theirs = read_number(cold:format(cache, python))
      value.compile, ratio.compile = theirs and theirs / 1e3, theirs and ms and theirs / ms
    end
  end
  os.execute(("rm -rf '%s' '%s.torch'"):format(cache, cache))
  return value, ratio
end

-- Seconds until a fresh process, of which nothing is on disk, prints its first line.
local function cold_row(row)
  local value, ratio = {}, {}
  local compile
  for _, peer in ipairs(found) do compile = compile or peer.name == "compile" end
  local cache = os.tmpname()
  os.remove(cache)
  local commands = { ours = ("TESSERA_CACHE=off %s %s"):format(OURS, row.ours) }
  if compile then
    commands.compile = ("TORCHINDUCTOR_CACHE_DIR='%s' TRITON_CACHE_DIR='%s' '%s' scripts/bench/peer.py %s 2>/dev/null")
      :format(cache, cache, python, row.compile)
  end
  for name, command in pairs(commands) do
    local start = now()
    local pipe = io.popen("CUDA_CACHE_DISABLE=1 " .. command)
    if pipe:read("*l") == "done" then value[name] = now() - start
    else note(("%s, %s: no result"):format(row[1], name)) end
    pipe:close()
  end
  for name, seconds in pairs(value) do ratio[name] = value.ours and seconds / value.ours end
  os.execute(("rm -rf '%s'"):format(cache))
  return value, ratio
end

-- ---- all of it

local function wanted(section, row)
  if whole then return section.name == only end
  return only == "" or (section.name .. " " .. row[1]):find(only, 1, true) ~= nil
end

local function in_unit(per, value)
  if not per.n then return value end
  return per.time and value * per.n or per.n / value
end

local function result_of(row, threads, values, ratios)
  local r = { row = row, threads = threads, value = {}, ratio = ratios }
  for name, v in pairs(values) do
    if name == "limit" then
      r.limit = in_unit(row.limit.per, v)
      if ratios.limit then r.part = ratios.limit * row.per.n / row.limit.per.n end
    elseif name == "moves" or name == "cached" then
      r[name] = in_unit(row.per, v)
      r.of_bound = math.max(r.of_bound or 0, ratios[name] or 0)
    else
      r.value[name] = in_unit(row.per, v)
    end
  end
  return r
end

local function run_section(section, thread_counts)
  local results = {}
  local function add(row, threads, values, ratios)
    results[#results + 1] = result_of(row, threads, values, ratios)
  end
  for _, row in ipairs(section) do
    if not wanted(section, row) then
      -- not asked for
    elseif section.kind == "start" then
      add(row, nil, start_row(row))
    elseif section.kind == "compile" then
      add(row, nil, compile_row(row))
    elseif section.kind == "cold" then
      add(row, nil, cold_row(row))
    elseif section.kind == "peak" then
      add(row, nil, peak_row(row))
    elseif section.kind == "machine" then
      for _, threads in ipairs(thread_counts) do add(row, threads, machine_row(row, threads)) end
    else
      for _, threads in ipairs(section.one_thread and { thread_counts[1] } or thread_counts) do
        add(row, threads, measure_operator(row, threads))
      end
    end
  end
  return results
end

local function main()
  local began = os.time()
  local processors = tonumber(io.popen("nproc"):read("*l")) or 1
  local thread_counts = processors > 1 and not on_gpu and { 1, 2 } or { 1 }
  if tonumber(env "THREADS" or "") then thread_counts = { tonumber(env "THREADS") } end
  find_peers(thread_counts)
  local columns = { { name = "machine", title = "value", bare = true }, PEERS[1],
    { name = "luajit", title = "LuaJIT" }, unpack(PEERS, 2) }
  local text = { report.head(found, missing) }
  print(text[1].plain)
  for _, section in ipairs(sections) do
    local results = run_section(section, thread_counts)
    if #results > 0 then
      text[#text + 1] = report.section(section, results, columns)
      print(text[#text].plain)
    end
  end
  text[#text + 1] = report.tail(notes, os.time() - began)
  print(text[#text].plain)
  local markdown = io.open("build/bench/bench.md", "w")
  for _, part in ipairs(text) do markdown:write(part.markdown, "\n") end
  markdown:close()
  if (env "WRITE" or "") ~= "" then report.write("docs/performance.md", text, whole) end
  for _, peer in ipairs(found) do
    for _, w in pairs(peer.at) do
      if w.questions then w:stop() end
    end
  end
  for _, w in pairs(machine) do w:stop() end
  if in_cache and in_cache.questions then in_cache:stop() end
end

local ok, why = xpcall(main, debug.traceback)
worker.release()
if not ok then error(why, 0) end
