-- The prompt's commands about the session: "!cmd", ":who", ":err", ":hints", ":pager"; and `--json` behind any command.
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
  function prompt.who() prompt.page(tostring(require("tessera.prompt_values").who()) .. "\n") end
  function data.who()
    local rows = {}
    for i, row in ipairs(require("tessera.prompt_values").who()) do rows[i] = row end
    return rows
  end

  --- Prints the last error: its report, and every call, the library's too.
  function prompt.err()
    local report, calls = console.last_error()
    if not report then return print "no error so far" end
    report = report:gsub("\nstack traceback:.*$", "")
    prompt.page(report .. "\n" .. (calls and calls:gsub("^\n?stack traceback:", "every call, the last one first:") .. "\n" or ""))
  end
  function data.err()
    local report, calls = console.last_error()
    if not report then return {} end
    local list = {}
    for line in (calls or ""):gmatch "\n%s+([^\n]+)" do list[#list + 1] = line end
    return { report = report, message = report:match "^[^\n]*", hint = report:match "\n  hint: ([^\n]*)", calls = list }
  end

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
    local pager = require "tessera.prompt_pager"
    return { pager = switch("pager", function() return pager.on end, word, function(on) pager.on = on end) }
  end

  function data.device(name)
    if name and name ~= "" then core.default_device(name) end
    return { device = core.default_device() }
  end

  function data.threads(n)
    if n then core.threads(tonumber(n)) end
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
    local encode, value = require "tessera.prompt_json", nil
    if data[name] then
      value = data[name](rest ~= "" and rest or nil)
    else
      value = { command = name, text = text_of(prompt[name], rest) }
    end
    io.write(encode(value), "\n")
  end
end
