-- The prompt's commands that change kernels and compare them: ":edit f tile 2", ":edit keep", ":diff f g tile".
local core = require "tessera.core"
local captured = require "tessera.captured"

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
  local function quoted(path) return "'" .. path:gsub("'", "'\\''") .. "'" end

  local function editor()
    for _, name in ipairs { "VISUAL", "EDITOR" } do
      local value = os.getenv(name)
      if value and value ~= "" then return value end
    end
    return "vi"
  end

  -- What somebody makes of the text; nil and why.
  local function edited(text)
    if not core.is_terminal(0) or not core.is_terminal(1) then
      return nil, "there is no terminal for an editor; f:with(level, text) takes an edited text"
    end
    local folder = os.getenv "TMPDIR"
    local path = os.tmpname()
    os.remove(path)
    if folder and folder ~= "" then path = folder .. "/" .. path:match "[^/]+$" end
    path = path .. ".tile"
    local file, why = io.open(path, "w")
    if not file then return nil, why end
    file:write(text)
    file:close()
    local status = os.execute(editor() .. " " .. quoted(path))
    file = io.open(path)
    local now = file and file:read "*a"
    if file then file:close() end
    os.remove(path)
    if status ~= 0 then return nil, ("the editor '%s' ended with an error; VISUAL or EDITOR names another"):format(editor()) end
    if not now then return nil, "the editor left no text" end
    return now
  end

  -- ---- :edit
  local last -- {f, level, kernel, text, original, args, result}

  local function try()
    local text, why = edited(last.text)
    if not text then wrong("edit", ":edit: %s", why) end
    last.text = text
    if text == last.original then return print "unchanged" end
    local ok, result = pcall(last.f.with, last.f, last.level, text, { kernel = last.kernel, args = last.args })
    if not ok then
      last.result = nil
      core.fail(tostring(result):gsub("^f:with: ", "") .. "\n  :edit opens the text again")
    end
    last.result = result
    print(tostring(result))
    if result.equal and not result.unchanged then
      print "  :edit keep keeps it for this session, :edit keep disk for later ones too; :edit opens the text again"
    end
  end

  local function keep(word)
    if not last or not last.result then wrong("edit", ":edit keep: nothing was tried yet") end
    if word ~= "" and word ~= "disk" then wrong("edit", ":edit keep is followed by nothing, or by disk, not '%s'", core.shown(word, 40)) end
    last.result:keep(word == "disk" and "disk" or nil)
    print(("%s; :edit drop %s %s takes it back"):format(word == "disk" and "kept, for later processes too" or "kept for this session",
      last.typed, last.result.kernel))
  end

  local function drop(text)
    local f, _, _, words = reading.read("edit", false, 1, text)
    if not captured.is_function(f) then wrong("edit", ":edit drop takes a captured function") end
    print(f:without(words[1]) and "its own kernel again" or "nothing was kept of it")
  end

  --- Opens the text of a kernel in an editor, and tries what is written there: "f tile 2"; "" opens the last one again,
  --- "keep", "keep disk" and "drop f 2" keep what was tried and take it back.
  function prompt.edit(text)
    if text == nil or text == "" then
      if not last then return prompt.help ":edit" end
      return try()
    end
    local word, rest = text:match "^(%a+)%s*(.*)$"
    if word == "keep" then return keep(rest) end
    if word == "drop" and rest ~= "" then return drop(rest) end
    local f, given, args, words = reading.read("edit", false, 2, text)
    if not captured.is_function(f) then wrong("edit", ":edit takes a captured function") end
    local level, kernel = words[1], words[2]
    if level and not kernel and level ~= "schedule" and level ~= "tile" and not level:find "^%a+$" then level, kernel = nil, level end
    level = level or "tile"
    if level ~= "schedule" and level ~= "tile" then wrong("edit", ":edit: the levels are schedule and tile, not '%s'", level) end
    if not given then args = f:last_arguments() end
    if not args then wrong("edit", ":edit runs the function: its last arguments are gone; :edit f(x, y) %s", level) end
    require("tessera.debug.ready")(f, unpack(args, 1, args.n or #args))
    local original = f.current.graph:kernel_text(level, kernel, false)
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

  -- What stands behind the functions.
  local function options_of(words)
    local level, o, targets = nil, { coloured = core.is_terminal(1) and os.getenv "NO_COLOR" == nil or nil }, {}
    for _, word in ipairs(words) do
      if has(core.jit_levels "function", word) and not level then level = word
      elseif captured.is_target(word) then targets[#targets + 1] = word
      elseif not o.kernel then o.kernel = word
      else wrong("diff", ":diff does not know '%s'", core.shown(word, 40)) end
    end
    if #targets > 0 then o.target = targets end
    if #targets == 1 then wrong("diff", ":diff compares two targets, not one") end
    return level or "tile", o
  end

  --- Prints how two texts differ: "f g tile", "f tile 2", "f tile sm_80 sm_90a", "f(x) f(y) tile".
  function prompt.diff(text)
    local one, other, behind = text:match "^([%w_.]+%b())%s+([%w_.]+%b())%s*(.*)$"
    local said
    if one then
      local f, _, x = reading.read("diff", false, 0, one)
      local g, _, y = reading.read("diff", false, 0, other)
      local words = {}
      for word in behind:gmatch "%S+" do words[#words + 1] = word end
      local level, o = options_of(words)
      if f == g then
        o.args = { x, y }
        said = f:diff(level, o)
      else
        f:ir(level, unpack(x))
        g:ir(level, unpack(y))
        said = f:diff(g, level, o)
      end
    else
      local f, _, _, words = reading.read("diff", false, 4, text)
      if not captured.is_function(f) then wrong("diff", ":diff takes captured functions") end
      local g = words[1] and rawget(_G, words[1])
      if captured.is_function(g) then table.remove(words, 1) else g = nil end
      local level, o = options_of(words)
      if g then said = f:diff(g, level, o) else said = f:diff(level, o) end
    end
    prompt.page(said == "" and "no difference\n" or said)
  end
end
