-- Where the time of a whole program goes: tessera -p script.lua, and profile.report of a plain
-- function.
--
-- What the program calls is recorded exactly (lib/activity.h): a tree of its lines, the operators and captured
-- functions called there, their instructions and kernels, and captures, compilations, copies and waits, each with
-- its time and how often. What is left is Lua's own: its lines are sampled each millisecond by LuaJIT's profiler.
-- On a GPU each kernel is waited for, so that its time is its own; nothing runs side by side meanwhile.

local core = require "tessera.core"
local files = require "tessera.profile.files"
local program_files = require "tessera.profile.program_files"
local sent = require "tessera.profile.sent"
local units = require "tessera.units"

local program = {}

local MOST_LINES, LEAST = 12, 0.005

-- ---- Lua's lines
-- By line: samples of each state of LuaJIT's: N compiled, I interpreted, C functions of C, G collector, J compiler.
local samples, sampling

local function line_of(profile, thread)
  for entry in profile.dumpstack(thread, "pl;", 16):gmatch "[^;]+" do
    if not entry:find "^tessera[.:]" and not entry:find "^%[builtin" and not entry:find "^@" then return entry end
  end
  return "elsewhere"
end

local function start_sampling()
  local profile = require "jit.profile"
  samples = {}
  profile.start("li1", function(thread, n, state)
    local line = line_of(profile, thread)
    local at = samples[line]
    if not at then
      at = { N = 0, I = 0, C = 0, G = 0, J = 0 }
      samples[line] = at
    end
    at[state] = at[state] + n
  end)
  sampling = profile
end

local function stop_sampling()
  if sampling then sampling.stop() end
  sampling = nil
  return samples or {}
end

-- ---- the parts of all
local own = program_files.own

local function add_kinds(node, sums)
  sums[node.kind] = (sums[node.kind] or 0) + own(node)
  for _, child in ipairs(node) do add_kinds(child, sums) end
  return sums
end

local KINDS = {
  { "kernel", "kernels on devices" }, { "instruction", "instructions of captured functions and hot loops" }, { "function", "between their instructions" },
  { "loop", "hot loops" }, { "operator", "operators" }, { "capture", "capturing" }, { "compile", "compiling" },
  { "copy", "copies" }, { "collective", "sent between devices" }, { "open", "opening devices" }, { "wait", "waiting" },
}

-- What a line of Lua took beside what it called: by samples, where C functions count if nothing recorded ran there.
local function lua_lines(tree, lines)
  local left, called, total, list = own(tree), {}, 0, {}
  for _, node in ipairs(tree) do called[node.place or ""] = true end
  for line, at in pairs(lines) do
    local n = at.N + at.I + at.G + at.J + (called[line] and 0 or at.C)
    if n > 0 then list[#list + 1], total = { line = line, n = n, of = at }, total + n end
  end
  for _, l in ipairs(list) do l.usec = left * l.n / total end
  table.sort(list, function(a, b) return a.usec > b.usec end)
  return list, left
end

-- ---- text
local function rate_text(node)
  local parts = {}
  if node.bytes > 0 and node.usec > 0 then parts[1] = units.rate(node.bytes / node.usec * 1e6, "B/s") end
  if node.flops > 0 and node.usec > 0 then parts[#parts + 1] = units.rate(node.flops / node.usec * 1e6, "FLOP/s") end
  return table.concat(parts, ", ")
end

local words = {
  line = function(n) return n.place end,
  operator = function(n) return n.what end,
  ["function"] = function(n) return n.what .. ", captured" end,
  instruction = function(n) return n.what .. (n.place and " at " .. n.place or "") end,
  kernel = function(n) return ("kernel %s on %s"):format(n.what, n.place) end,
  capture = function(n) return "capturing " .. n.what end,
  compile = function(n) return "compiling " .. n.what end,
  copy = function(n) return ("copies %s, %s"):format(n.what, units.size(n.bytes)) end,
  collective = function(n) return n.what .. (n.place and " at " .. n.place or "") end,
  open = function(n) return "opening " .. n.what end,
  wait = function(n) return "waiting for " .. n.what end,
  loop = function(n) return n.what end,
}

local function tree_lines(node, depth, total, least, out)
  local list, rest, count = {}, 0, 0
  for _, child in ipairs(node) do list[#list + 1] = child end
  table.sort(list, function(a, b) return a.usec > b.usec end)
  for i, child in ipairs(list) do
    if i <= MOST_LINES and child.usec >= least then
      local calls = child.kind == "line" and "" or ("%d"):format(child.count)
      local rate = child.kind == "copy" and "" or rate_text(child)
      local text = ("%9s %5.1f%% %8s  %s%s"):format(units.time(child.usec), 100 * child.usec / total, calls, ("  "):rep(depth),
        words[child.kind](child))
      if rate ~= "" then text = text .. "  " .. rate end
      out[#out + 1] = text .. "\n"
      tree_lines(child, depth + 1, total, least, out)
    else
      rest, count = rest + child.usec, count + 1
    end
  end
  if count > 0 and rest >= least then
    out[#out + 1] = ("%9s %5.1f%% %8s  %s%d more\n"):format(units.time(rest), 100 * rest / total, "", ("  "):rep(depth), count)
  end
end

local function parts_line(tree, facts, left, width)
  local sums, parts = add_kinds(tree, {}), { ("%s Lua"):format(units.time(left)) }
  for _, k in ipairs(KINDS) do
    if (sums[k[1]] or 0) > 0 then parts[#parts + 1] = ("%s %s"):format(units.time(sums[k[1]]), k[2]) end
  end
  local text = ("%s in all: %s"):format(units.time(tree.usec), table.concat(parts, ", "))
  if facts.kernels > 0 then text = text .. (", and beside it %d kernels compiled by other threads in %s"):format(facts.kernels, units.time(facts.compiled)) end
  return core.wrapped(text .. ".", 0, 2, width)
end

local STATES = { { "N", "compiled" }, { "I", "interpreted" }, { "C", "in functions of C" }, { "G", "collecting garbage" }, { "J", "LuaJIT compiling" } }

local function lua_text(list, total, out)
  local shown
  for i, l in ipairs(list) do
    if i > MOST_LINES or l.usec < LEAST * total then break end
    if not shown then out[#out + 1] = "\n     time                    lines of Lua, what they call left out\n" end
    shown = true
    local how = {}
    for _, s in ipairs(STATES) do
      local part = l.of[s[1]] / l.n
      if part >= 0.05 and part <= 1 then how[#how + 1] = ("%.0f%% %s"):format(100 * part, s[2]) end
    end
    out[#out + 1] = ("%9s %5.1f%% %8s  %s  %s\n"):format(units.time(l.usec), 100 * l.usec / total, "", l.line, table.concat(how, ", "))
  end
end

local function text_of(r, width)
  local out = { parts_line(r.tree, r.facts, r.left, width), "\n     time   part    calls\n" }
  tree_lines(r.tree, 0, r.tree.usec, LEAST * (r.tree.usec - r.left), out)
  lua_text(r.lines, r.tree.usec, out)
  local devices = sent.text(r.collectives, width) .. sent.missing { r.times }
  if devices ~= "" then out[#out + 1] = "\n" .. devices end
  if r.facts.lost > 0 then out[#out + 1] = ("%d activities found no memory.\n"):format(r.facts.lost) end
  return table.concat(out)
end

-- ---- files
-- The page; inside: launches of kernels on devices, as kernel/profile.lua has them.
local function html_text(r, inside)
  return require("tessera.profile.html").program(r, parts_line(r.tree, r.facts, r.left, math.huge), function(node) return words[node.kind](node) end, inside)
end

local function trace_of(r)
  local events, note = program_files.events(r)
  for _, event in ipairs(sent.events(r.times, 4)) do events[#events + 1] = event end
  return files.trace(events, note)
end

local writers = { html = function(r) return html_text(r, {}) end, csv = program_files.csv, json = function(r) return trace_of(r) end, txt = function(r) return text_of(r, 120) end }

--- Whether a file's name says what to write: an ending that is known, or the error.
function program.check_file(path)
  local ending = path:match "%.(%w+)$"
  if not writers[ending or ""] then
    core.fail(("a profile is written as .html or .json (a page; a timeline for Chrome and Perfetto), .csv or .txt, not '%s'"):format(path))
  end
  return writers[ending]
end

-- ---- start and stop
function program.start()
  core.activity_start()
  start_sampling()
end

-- {tree, events, facts, lines, left, times, collectives}, or nil where nothing is recorded. runs: so many are in it.
function program.stop(runs)
  local lines = stop_sampling()
  local tree, events, facts, times = core.activity_stop()
  if not tree then return nil end
  local list, left = lua_lines(tree, lines)
  return { tree = tree, events = events, facts = facts, lines = list, left = left, times = times, collectives = sent.rows({ times }, runs or 1) }
end

program.text, program.html_text = text_of, html_text

--- Runs f(unpack(args)) so many times: {tree, events, facts, lines, left} of all together.
function program.run(f, runs, args)
  local started = false -- not where another one is made, as by tessera -p, which goes on
  return (core.guarded(function(fine) if started and not fine then program.stop() end end, function()
    program.start()
    started = true
    for _ = 1, runs do f(unpack(args, 1, args.n)) end
    return program.stop(runs)
  end))
end

-- Before the program has run for hours.
local function need_writable(path)
  local there = os.rename(path, path) ~= nil
  local file, why = io.open(path, "a")
  if not file then core.fail("--profile-to: " .. why) end
  file:close()
  if not there then os.remove(path) end
end

-- ---- tessera -p
--- Starts it for a program that is about to run, and ends it also where the program leaves by os.exit.
function program.begin(paths)
  for _, path in ipairs(paths) do
    program.check_file(path)
    need_writable(path)
  end
  local exit = os.exit
  os.exit = function(...)
    program.finish(paths)
    return exit(...)
  end
  program.start()
end

--- Ends it and writes the text to stderr, and the files that were asked for.
function program.finish(paths)
  local r = program.stop()
  if not r then return end
  io.stdout:flush()
  io.stderr:write("\n", text_of(r, math.max(80, require("tessera.console").width())))
  for _, path in ipairs(paths) do
    core.write_file(path, { program.check_file(path)(r) })
    io.stderr:write("written: ", path, "\n")
  end
end

return program
