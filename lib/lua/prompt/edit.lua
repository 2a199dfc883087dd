-- The prompt's commands that change kernels and compare them: ":edit f tile 2", ":edit keep", ":diff f g tile".
local core = require "tessera.core"
local captured = require "tessera.captured"
local console = require "tessera.console"

return function(prompt, wrong, reading)
  local commands, arguments, examples = prompt.commands, prompt.arguments, prompt.examples
  arguments.edit = "[f [schedule|tile] [kernel] | keep [disk] | drop f [kernel]]"
  arguments.diff = "f [g] [level] [kernel | target target]"
  commands.edit = "opens the text of a captured function's kernel, by its number in :tiles, in $VISUAL or $EDITOR; what is written " ..
    "there is checked, run beside the kernel on the function's last arguments, compared and timed. :edit alone opens the last " ..
    "text again; :edit keep keeps what was tried last for this session, :edit keep disk for later ones too, :edit drop f 2 takes " ..
    "it back"
  commands.diff = "how two texts differ: of two functions, :diff f g tile; of a kernel as the passes make it and as it runs, " ..
    ":diff f tile 2; of two targets, :diff f tile sm_80 sm_90a; of two specialisations, :diff f(x) f(y) tile"
  examples.edit, examples.diff = ":edit f schedule 0", ":diff f tile sm_80 sm_90a"

  -- ---- the editor
  local function read_and_remove(path)
    local file = io.open(path)
    local now = file and file:read "*a"
    if file then file:close() end
    os.remove(path)
    return now
  end

  -- What somebody makes of the text, or nil; and what went wrong all the same, with its error where Ctrl-C ended it.
  local function edited(text)
    if not core.is_terminal(0) or not core.is_terminal(1) then
      return nil, "there is no terminal for an editor; f:with(level, text) takes an edited text"
    end
    local path, command, editor = console.outside(text, ".tile")
    if not path then return nil, command end
    local ran, status = pcall(os.execute, command)
    local now = read_and_remove(path)
    if not ran then return now, "interrupted", status end
    if status ~= 0 then
      return now, ("the editor '%s' ended with an error, and what it wrote was not tried; :edit opens it again; VISUAL or EDITOR names another"):format(editor)
    end
    if not now then return nil, "the editor left no text" end
    return now
  end

  -- ---- :edit
  local last  -- what :edit opens again: {f, level, kernel, text, original, args, typed}
  local tried -- what the last :edit showed, which :edit keep keeps; none where it failed

  local function try()
    local text, why, failed = edited(last.text)
    if text and text ~= "" then last.text = text end -- :edit opens it again, whatever comes of it
    if failed then error(failed, 0) end
    if why then wrong("edit", ":edit: %s", why) end
    if text == last.original then return print "unchanged" end
    local ok, result = pcall(last.f.with, last.f, last.level, text, { kernel = last.kernel, args = last.args })
    if not ok then core.fail(tostring(result):gsub("^f:with: ", "") .. "\n  :edit opens the text again") end
    tried = result
    prompt.say(tostring(result) .. "\n")
    if result.equal and not result.unchanged then
      prompt.say "  :edit keep keeps it for this session, :edit keep disk for later ones too; :edit opens the text again\n"
    end
  end

  local function keep(word)
    if not tried then
      wrong("edit", ":edit keep: %s", last and "the last :edit tried nothing, so there is nothing to keep; :edit opens its text again" or
        "nothing was tried yet")
    end
    if word ~= "" and word ~= "disk" then wrong("edit", ":edit keep is followed by nothing, or by disk, not '%s'", core.shown(word, 40)) end
    tried:keep(word == "disk" and "disk" or nil)
    print(("%s; :edit drop %s %s takes it back"):format(word == "disk" and "kept, for later sessions too" or "kept for this session",
      last.typed, tried.kernel))
  end

  -- The groups of f whose kernels are edited, as numbers.
  local function edited_of(f)
    local list = {}
    for _, g in ipairs(require("tessera.tune.choose").groups(f)) do
      if g.edited then list[#list + 1] = tostring(g.group) end
    end
    return list
  end

  local function drop(text)
    if text == "" then wrong("edit", ":edit drop is followed by a function, and by its kernel where several are edited: :edit drop f 0") end
    local f, _, _, words = reading.read("edit", false, 1, text)
    if not captured.is_function(f) then wrong("edit", ":edit drop takes a captured function") end
    local there = edited_of(f)
    local kernel = words[1] or #there == 1 and there[1] or nil
    local others = there[1] and (" (edited are %s)"):format(table.concat(there, ", ")) or ", and of none of its kernels"
    if not kernel and not there[1] then wrong("edit", ":edit drop: no kernel of %s is edited, so there is nothing to take back", f.name) end
    if not kernel then wrong("edit", ":edit drop: several kernels of %s are edited, %s; say which", f.name, table.concat(there, ", ")) end
    local was, level, on_disk = require("tessera.debug.edit").drop(f, kernel)
    if not was then
      wrong("edit", ":edit drop: nothing was kept of kernel %s of %s%s, so there is nothing to take back", kernel, f.name, others)
    end
    prompt.say(("the edit of kernel %s of %s at level %s is dropped%s; it is its own kernel again\n"):format(kernel, f.name, level,
      on_disk and ", on disk too" or ""))
  end

  --- Opens the text of a kernel in an editor, and tries what is written there: "f tile 2"; "" opens the last one again,
  --- "keep", "keep disk" and "drop f 2" keep what was tried and take it back.
  function prompt.edit(text)
    if text == nil or text == "" then
      if not last then return prompt.help ":edit" end
      tried = nil
      return try()
    end
    local word, rest = text:match "^(%a+)%f[%s%z]%s*(.*)$"
    if word == "keep" then return keep(rest) end
    if word == "drop" then return drop(rest) end
    tried = nil
    local f, given, args, words = reading.read("edit", false, 2, text)
    if not captured.is_function(f) then wrong("edit", ":edit takes a captured function") end
    local level, kernel = words[1], words[2]
    if level and not kernel and level ~= "schedule" and level ~= "tile" and not level:find "^%a+$" then level, kernel = nil, level end
    level = level or "tile"
    if level ~= "schedule" and level ~= "tile" then wrong("edit", ":edit: the levels are schedule and tile, not '%s'", level) end
    if not given then args = f:last_arguments() end
    if not args then
      wrong("edit", ":edit runs the function, and %s: :edit f(x, y) %s", f.current and "its last arguments are gone" or "it has not run yet", level)
    end
    require("tessera.debug.ready")(f, unpack(args, 1, args.n or #args))
    local original = f:_runs():kernel_text(level, kernel, false)
    last = { f = f, level = level, kernel = kernel, text = original, original = original, args = given and args or nil,
      typed = text:match "^%S+" }
    return try()
  end

  -- ---- :diff
  local function has(list, word)
    for _, w in ipairs(list) do
      if (w.name or w) == word then return true end
    end
  end

  local function words_of(list)
    local words = {}
    for i, w in ipairs(list) do words[i] = w.name or w end
    return words
  end

  -- A word behind f that is no level and no target: its kernel, or what was meant.
  local function kernel_of(f, word)
    if word:find "^%d+$" or word:find "/%d+$" or f.current and pcall(function() return f:_runs():kernel_text("schedule", word, false) end) then
      return word
    end
    if has(core.jit_levels "function", word) then wrong("diff", ":diff takes one level, and '%s' is another", word) end
    local value = rawget(_G, word)
    if value ~= nil then
      captured.need(":diff", value, false, function(message)
        local head, hint = message:match "^(.-)(\n  hint: .*)$"
        wrong("diff", "%s; '%s' stands for a function to compare with%s", head or message, word, hint or "")
      end)
    end
    if word:find "^sm_?%d" or word:find "^gfx" or core.suggest(word, core.jit_targets()) then core.jit_level("function", "tile", word) end
    if core.suggest(word, words_of(core.jit_levels "function")) then core.jit_level("function", word) end
    wrong("diff", ":diff does not know '%s': it is no level, no target and no kernel of %s%s", core.shown(word, 40), f.name,
      f.current and "; :tiles lists these" or ", which has not run yet")
  end

  -- What stands behind the functions.
  local function options_of(f, words)
    local level, o, targets = nil, {}, {}
    for _, word in ipairs(words) do
      if has(core.jit_levels "function", word) and not level then level = word
      elseif captured.is_target(word) then targets[#targets + 1] = word
      elseif o.kernel then wrong("diff", ":diff takes one kernel, not %s and '%s'", o.kernel, core.shown(word, 40))
      else o.kernel = kernel_of(f, word) end
    end
    if #targets > 0 then o.target = targets end
    if #targets == 1 then wrong("diff", ":diff compares two targets, and %s is one", targets[1]) end
    if #targets > 2 then wrong("diff", ":diff compares two targets, not %d", #targets) end
    return level or "tile", o
  end

  -- How two texts differ, and what they are: the function, the other one or nil, the level, options.
  local function compared(text, coloured)
    local one, other, behind = text:match "^([%w_.]+%b())%s+([%w_.]+%b())%s*(.*)$"
    if not one then
      local f, _, _, words = reading.read("diff", false, 4, text)
      if not captured.is_function(f) then wrong("diff", ":diff takes captured functions") end
      local g = words[1] and rawget(_G, words[1])
      if captured.is_function(g) then table.remove(words, 1) else g = nil end
      local level, o = options_of(f, words)
      o.coloured = coloured
      if g then return f:diff(g, level, o), f, g, level, o end
      return f:diff(level, o), f, nil, level, o
    end
    local f, _, x = reading.read("diff", false, 0, one)
    local g, _, y = reading.read("diff", false, 0, other)
    for _, h in ipairs { f, g } do
      if not captured.is_function(h) then wrong("diff", ":diff takes captured functions") end
    end
    local words = {}
    for word in behind:gmatch "%S+" do words[#words + 1] = word end
    local level, o = options_of(f, words)
    o.coloured = coloured
    if f == g then
      o.args = { x, y }
      return f:diff(level, o), f, nil, level, o
    end
    f:ir(level, unpack(x))
    g:ir(level, unpack(y))
    return f:diff(g, level, o), f, g, level, o
  end

  -- What is compared where nothing differs.
  local function alike(f, g, level, o)
    if g then return ("%s and %s are the same at level %s"):format(f.name, g.name, level) end
    if o.target then return ("%s is the same for %s and %s at level %s"):format(f.name, o.target[1], o.target[2], level) end
    if o.args then return ("%s is the same for both at level %s"):format(f.name, level) end
    return ("%s runs as the passes make it; :edit and :choose change it"):format(f.name)
  end

  --- Prints how two texts differ: "f g tile", "f tile 2", "f tile sm_80 sm_90a", "f(x) f(y) tile".
  function prompt.diff(text)
    local said, f, g, level, o = compared(text, core.is_terminal(1) and os.getenv "NO_COLOR" == nil or nil)
    if said == "" then prompt.say(("no difference: %s\n"):format(alike(f, g, level, o))) else prompt.page(said) end
  end
  function prompt.data.diff(text)
    local said, f, _, level = compared(text)
    return { ["function"] = f.name, level = level, differs = said ~= "", text = said }
  end
end
