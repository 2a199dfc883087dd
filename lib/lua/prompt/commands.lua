-- The prompt's commands about the session: "!cmd", ":who", ":err", ":time", ":hints", ":pager"; and `--json` behind any command.
local core = require "tessera.core"
local console = require "tessera.console"

return function(prompt, wrong)
  local commands, arguments, examples, data = prompt.commands, prompt.arguments, prompt.examples, prompt.data

  commands.shell = "runs a command of the shell, as !ls -l does; its exit status is told where it is not 0"
  commands.who = "the variables made here: name, type, shape, bytes, device; who() gives the list"
  commands.err = "the last error, with its hint and every call that led to it"
  commands.hints = "whether the signature of a call is shown while it is typed; on or off sets it"
  commands.pager = "whether long text is shown a screen at a time; on or off sets it"
  arguments.shell, arguments.hints, arguments.pager = "command", "[on|off]", "[on|off]"
  examples.shell = "!ls -l"

  --- shell("ls"): runs a command of the shell; gives its exit status, which is printed where it is not 0. Ctrl-C ends the
  --- command.
  function prompt.shell(command)
    if command == nil or command == "" then return prompt.help ":shell" end
    local fine, status = pcall(os.execute, command)
    if not fine and tostring(status):find "interrupted" then return end
    if not fine then error(status, 0) end
    local code, signal = math.floor(status / 256) % 256, status % 128
    if signal ~= 0 then
      print(("ended by signal %d"):format(signal))
    elseif code ~= 0 then
      print(("exit status %d"):format(code))
    end
    return signal == 0 and code or 128 + signal
  end

  --- Prints the variables made at the prompt.
  function prompt.who() prompt.page(tostring(require("tessera.prompt.values").who()) .. "\n") end
  function data.who()
    local rows = {}
    for i, row in ipairs(require("tessera.prompt.values").who()) do rows[i] = row end
    return rows
  end

  --- Prints the last error: its report, and every call, the library's too.
  function prompt.err()
    local report, calls = console.last_error()
    if not report then return print "no error so far" end
    report = report:gsub("\nstack traceback:.*$", "")
    prompt.say(report .. "\n" .. (calls and calls:gsub("^\n?stack traceback:", "every call, the last one first:") .. "\n" or ""))
  end
  function data.err()
    local told = require "tessera.prompt.error"()
    told.message, told.message_reason, told.error, told.error_reason = told.error, told.error_reason, nil, nil
    if not told.message then return told end
    local report, calls = console.last_error()
    told.report, told.calls = report, {}
    for line in (calls or ""):gmatch "\n%s+([^\n]+)" do told.calls[#told.calls + 1] = line end
    return told
  end

  -- ---- time
  local function clock()
    local ffi = require "ffi"
    pcall(ffi.cdef, [[
      typedef struct { long s, ns; } tessera_time;
      int clock_gettime(int clock, tessera_time *t);]])
    local t = ffi.new "tessera_time"
    return function()
      ffi.C.clock_gettime(1, t)
      return tonumber(t.s) + tonumber(t.ns) * 1e-9
    end
  end

  local function time_text(s)
    if s >= 1 then return ("%.3f s"):format(s) end
    if s >= 1e-3 then return ("%.3g ms"):format(s * 1e3) end
    if s >= 1e-6 then return ("%.3g us"):format(s * 1e6) end
    return ("%.3g ns"):format(s * 1e9)
  end

  -- Runs it for about a third of a second, at least once.
  local function measure(f)
    if f == nil or f == "" then wrong("time", ":time takes an expression") end
    if type(f) == "string" then
      local text = f
      f = loadstring("return " .. text, "=:time")
      if not f then
        local why
        f, why = loadstring(text, "=:time")
        if not f then error(why, 0) end
      end
    end
    local now = clock()
    local start = now()
    f()
    local first = now() - start
    local group = first < 1e-4 and math.ceil(1e-4 / math.max(first, 1e-8)) or 1
    local times, runs, stop = {}, 1, start + 0.3
    while now() < stop and #times < 10000 do
      local t = now()
      for _ = 1, group do f() end
      times[#times + 1] = (now() - t) / group
      runs = runs + group
    end
    table.sort(times)
    return {median = times[math.ceil(#times / 2)] or first, runs = runs, first = first}
  end
  function data.time(f)
    local t = measure(f)
    return { median_ns = t.median * 1e9, first_ns = t.first * 1e9, runs = t.runs }
  end

  --- time(f) or time("expression"): runs it for about a third of a second, at least
  --- once, prints the median time of a run, and returns it in seconds.
  function prompt.time(f)
    local t = measure(f)
    print(("%s, median of %d runs, first %s"):format(time_text(t.median), t.runs, time_text(t.first)))
    return t.median
  end

  -- ---- settings
  local function switch(name, now, word, set)
    if word ~= nil and word ~= "" then
      if word ~= "on" and word ~= "off" then wrong(name, ":%s is on or off, not '%s'", name, tostring(word)) end
      set(word == "on")
    end
    return now() and "on" or "off"
  end

  --- Sets and prints whether signatures are shown while calls are typed: "on", "off".
  function prompt.hints(word) print(data.hints(word).hints) end
  function data.hints(word) return { hints = switch("hints", console.hints, word, console.hints) } end

  --- Sets and prints whether long text is shown a screen at a time: "on", "off".
  function prompt.pager(word) print(data.pager(word).pager) end
  function data.pager(word)
    local pager = require "tessera.prompt.pager"
    return { pager = switch("pager", function() return pager.on end, word, function(on) pager.on = on end) }
  end

  function data.device(name)
    if name and name ~= "" then core.default_device(name) end
    return { device = core.default_device() }
  end

  function data.threads(n)
    if n ~= nil and n ~= "" then
      local wanted = tonumber(n)
      if not wanted or wanted < 0 or wanted > 256 or wanted ~= math.floor(wanted) then
        wrong("threads", ":threads takes a whole number from 0 to 256, not '%s'", tostring(n))
      end
      core.threads(wanted)
    end
    return { threads = core.threads() }
  end

  -- ---- JSON of what prints text
  local function text_of(f, rest)
    local out = {}
    local page, print_before, write_before = prompt.page, print, io.write
    local function add(...)
      for i = 1, select("#", ...) do out[#out + 1] = tostring((select(i, ...))) end
    end
    prompt.page = add
    print = function(...) add(...) add "\n" end -- luacheck: ignore
    core.guarded(function()
      prompt.page, print, io.write = page, print_before, write_before -- luacheck: ignore
    end, f, rest ~= "" and rest or nil)
    return table.concat(out)
  end

  --- print_json("mem", ""): what ":mem" says, as JSON on a line.
  function prompt.print_json(name, rest)
    local encode, value = require "tessera.prompt.json", nil
    if data[name] then
      value = data[name](rest ~= "" and rest or nil)
    else
      value = { command = name, text = text_of(prompt[name], rest):gsub("\27%[[%d;]*%a", "") } -- without colours
    end
    io.write(encode(value), "\n")
  end
end
