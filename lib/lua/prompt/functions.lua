-- The prompt's commands about captured functions: ":ir f tile sm_90a", ":why f", ":profile f(x)". They
-- read an expression, and words behind it.
local core = require "tessera.core"
local console = require "tessera.console"
local captured = require "tessera.captured"

local function words_of(list)
  local words = {}
  for i, l in ipairs(list) do words[i] = l.name or l end
  return words
end

local function has(list, word)
  for _, w in ipairs(list) do
    if w == word then return true end
  end
  return false
end

return function(prompt, wrong)
  local commands, arguments, data = prompt.commands, prompt.arguments, prompt.data
  local levels = core.jit_levels "function"

  arguments.ir, arguments.rewrites, arguments.tiles, arguments.why = "f [level [kernel] [target]]", "f", "f", "f"
  arguments.tune, arguments.profile = "f(x, y)", "f(x, y)"
  commands.ir = "the text of a captured function, or of a kernel of op.kernel, at a level: graph where none is named. f, as it " ..
    "ran last, or f(x, y), for these arguments. Behind the level may stand the number of one kernel, :ir f asm 2, and a target, " ..
    "whose kernels need no such machine here, :ir f tile sm_90a"
  commands.tiles = "the kernels of a captured function: spaces, tiles, code"
  commands.why = "what of a captured function was fused, what not, and the reason"
  commands.rewrites = "the rules that fired when a function was captured"
  commands.profile = "where the time of a function goes, as in :profile f(x, y); of a captured one alone for its last arguments"
  commands.tune = "measures what could be chosen for a captured function's kernels, longest first, or for k(x) of op.kernel, and runs the " ..
    "best; says before how long that may take. Ctrl-C keeps what was measured"

  local examples = prompt.examples
  examples.ir, examples.rewrites, examples.tiles, examples.why = ":ir f tile sm_90a", ":rewrites f", ":tiles f", ":why f"
  examples.tune, examples.profile = ":tune f(x)", ":profile f(x)"
  arguments.collectives, examples.collectives = "f(x, y)", ":collectives f"
  commands.collectives = "what devices of a mesh send each other in a run of a captured function, before it runs: f, for its last " ..
    "arguments, or f(x, y)"

  --- What help on :ir has beside the usage.
  prompt.lists = { ir = function(width)
    local out = { "\n" }
    for i, l in ipairs(levels) do
      out[#out + 1] = ("  %-9s%-10s%s"):format(i == 1 and "levels" or "", l.name, core.wrapped(l.help, 21, 21, width))
    end
    out[#out + 1] = ("  %-9s%s"):format("targets", core.wrapped(table.concat(core.jit_targets(), " "), 11, 11, width))
    local of = {}
    for _, l in ipairs(levels) do
      if l.targets then of[#of + 1] = l.name end
    end
    out[#out + 1] = ("  %-9s%s"):format("", core.wrapped("they have " .. table.concat(of, ", "), 11, 11, width))
    out[#out + 1] = ("  %-9s%s"):format("kernels", core.wrapped("of op.kernel have " ..
      table.concat(words_of(core.jit_levels "kernel"), ", "), 11, 11, width))
    return table.concat(out)
  end }

  -- ---- reading
  local function chunk_of(command, text) return loadstring("return " .. text, "=:" .. command) end

  -- "f(x, y) tile sm_90a": the expression, and at most so many words behind it.
  local function split(command, text, most)
    local words = {}
    text = text:gsub("%s+$", "")
    while true do
      local front, mark, word = text:match "^(.-)%s+([\"']?)([%w_.:/]+)%2$"
      if front and mark == "" and chunk_of(command, text) or not front then break end
      if mark == "" and not chunk_of(command, front) and not front:find "%s" then break end
      table.insert(words, 1, word)
      text = front
    end
    if #words > most then
      wrong(command, ":%s takes %s, not '%s'", command, most == 0 and "a function alone" or "a level and a target", words[most + 1])
    end
    if not chunk_of(command, text) then wrong(command, ":%s cannot read '%s'", command, core.shown(text, 60)) end
    return text, words
  end

  -- Names of the program by which functions can be meant.
  local function near(name)
    local names = {}
    for k, v in pairs(_G) do
      if type(k) == "string" and (captured.is_function(v) or captured.is_kernel(v)) then names[#names + 1] = k end
    end
    table.sort(names)
    return core.suggest(name, names)
  end

  local function value_of(command, text)
    local plain = text:match "^[%a_][%w_]*$"
    if not plain or _G[plain] ~= nil then return chunk_of(command, text)() end
    local guess = near(plain)
    if has(words_of(levels), plain) or has(core.jit_targets(), plain) then
      wrong(command, ":%s: '%s' is a %s; the function comes first", command, plain,
        has(words_of(levels), plain) and "level" or "target")
    end
    wrong(command, ":%s: there is no '%s'%s", command, plain, guess and ("; did you mean '%s'?"):format(guess) or "")
  end

  -- The loops of a plain function, or a loop, that became kernels; nil of everything else, and where there are none.
  local function loops_of(f)
    if captured.is_loop(f) then return { loops = { f, alone = true } } end
    local info = type(f) == "function" and debug.getinfo(f, "S")
    local found = {}
    if not info or info.what == "C" or info.source:find "^=tessera" then return nil end
    for _, l in ipairs(require("tessera").jit.loops()) do
      local file, line = l.where:match "^(.*):(%d+)$"
      line = tonumber(line)
      if file == info.short_src and line >= info.linedefined and line <= info.lastlinedefined then found[#found + 1] = l end
    end
    return found[1] and { loops = found }
  end

  -- What became of a plain function: its loops, and of each what `of` gives, which prints. A table that prints.
  local Loops = {}
  function Loops.__tostring(all)
    local out = {}
    if all.plain then
      out[1] = ("// a plain function: its operators run one by one, but for %s; graph.module(f) captures the whole of it%s\n")
        :format(#all.loops == 1 and "one hot loop" or #all.loops .. " hot loops", all.level and "" or ", for this command")
    end
    for _, l in ipairs(all.loops) do
      out[#out + 1] = ("// loop %d, at %s: %d calls, %d runs, %s\n"):format(l.loop, l.where, l.calls, l.runs,
        l.live and "by kernels" or "by operators")
      if l.shows then out[#out + 1] = tostring(l.shows):gsub("\n*$", "\n") end
    end
    return table.concat(out)
  end
  local function facts_of_loops(list, level, of)
    local all = { plain = not list.alone, level = level, loops = {} }
    for i, l in ipairs(list) do
      all.loops[i] = { loop = l.id, where = l.where, calls = l.calls, runs = l.runs, live = l.live, shows = of and of(l) }
    end
    return setmetatable(all, Loops)
  end

  -- What is typed, or a value: the function, whether arguments stand behind it, and those.
  local function call_of(command, text, kernels)
    local function need(f)
      local loops = loops_of(f)
      if loops then return loops end
      return captured.need(":" .. command, f, kernels, function(message)
        local head, hint = message:match "^(.-)(\n  hint: .*)$"
        wrong(command, "%s%s", head or message, hint or "")
      end)
    end
    if type(text) ~= "string" then return need(text), false, {} end
    local name, list = text:match "^(.-)(%b())$"
    if not name or name == "" or not chunk_of(command, name) then return need(value_of(command, text)), false, {} end
    local f = value_of(command, name)
    if not captured.is_function(f) and not captured.is_kernel(f) and core.callable(f) then
      local ok, made = pcall(chunk_of(command, text)) -- graph.module(..), which gives one
      if ok and (captured.is_function(made) or captured.is_kernel(made)) then return made, false, {} end
    end
    return need(f), true, { chunk_of(command, list:sub(2, -2))() }
  end

  -- Of a line or of values: f, whether arguments were given, these, and the words behind.
  local function read(command, kernels, most, f, ...)
    if f == nil or f == "" then wrong(command, ":%s takes a captured function", command) end
    if type(f) ~= "string" then
      local of = call_of(command, f, kernels)
      return of, select("#", ...) > 0, { ... }, { ... }
    end
    local text, words = split(command, f, most)
    local of, given, args = call_of(command, text, kernels)
    return of, given, args, words
  end

  -- ---- the commands

  -- A level of what is typed: how it is told, of a loop, of a kernel and of a captured function.
  local function level_of(of_loop, of_kernel, of_function, f, ...)
    local of, given, args, words = read("ir", true, 3, f, ...)
    local level, target, option = words[1], nil, nil
    for i = 2, #words do
      local word, option_of = words[i], option or {}
      local name = (word:find "^%d+$" or word:find "/%d+$") and "kernel" or "target"
      if option_of[name] then wrong("ir", ":ir takes one %s, not %s and '%s'", name, option_of[name], core.shown(word, 40)) end
      option_of[name], option = word, option_of
    end
    target = option and option.target
    if of.loops then return facts_of_loops(of.loops, level or "graph", function(l) return of_loop(l, level, option) end) end
    if captured.is_kernel(of) then
      if given and type(f) == "string" then of(unpack(args)) end -- its sizes
      return of_kernel(of, level, option)
    end
    core.jit_level("function", level or "graph", target)
    if type(f) ~= "string" then args = {} end
    args[#args + 1] = option
    return of_function(of, level, args)
  end
  local function text_of(of, level, option) return of:ir(level, option) end

  -- Levels that take long to make; the others stand in front of the kernels' names there.
  local slow = { explicit = true, llvm = true, asm = true }

  -- The kernels of a level, each of which is made when it is looked at: {{number, name, text}, ..}; nil where the text is made as
  -- a whole. args may end with an option.
  local function parts_of(of, level, args)
    local last = args[#args]
    local option = type(last) == "table" and not core.is_tensor(last) and (last.target or last.kernel) and last
    if not slow[level] or option and option.kernel or not require("tessera.prompt.pager").shows_parts() then return nil end
    local tile, parts, heads = "\n" .. of:ir("tile", unpack(args)), {}, {}
    if require("tessera.dist.pieces").of(of.name, of.current) then return nil end
    local front = { unpack(args, 1, option and #args - 1 or #args) }
    for at in tile:gmatch "()\n// group " do heads[#heads + 1] = at + 1 end
    for i, at in ipairs(heads) do
      local text = tile:sub(at, (heads[i + 1] or #tile + 1) - 1)
      local number, name = text:match "^// group ([%w_./]+): ([^\n]*)"
      local function made()
        if text:find "\n// no kernel" then return text end
        local of_one = { unpack(front) }
        of_one[#of_one + 1] = { kernel = number, target = option and option.target or nil }
        return of:ir(level, unpack(of_one))
      end
      parts[i] = { number = number, name = name, text = made }
    end
    return #parts > 1 and { parts = parts } or nil
  end

  --- Prints a captured function at a level, "graph" by default: "f tile", or "f(x, y) tile" for
  --- these arguments; "f asm 2", one of its kernels; "f tile sm_90a", the kernels of another target; or f, level, ...
  function prompt.ir(...)
    local made = level_of(text_of, text_of, function(of, level, args)
      return parts_of(of, level, args) or of:ir(level, unpack(args))
    end, ...)
    if type(made) == "table" and made.parts then return require("tessera.prompt.pager").parts(made.parts) end
    prompt.page(tostring(made))
  end

  -- Levels of kernels are a list of them, the graph is a table, the others are text.
  local kernel_levels = {}
  for _, name in ipairs { "tile", "explicit", "llvm", "asm", "tiles", "why" } do kernel_levels[name] = true end

  -- Of one kernel, which option names: its row, or its text where the level has no rows.
  local function facts_of_one(of, level, args, option)
    local text = of:ir(level, unpack(args)) -- says what is wrong
    if not kernel_levels[level] then return { ["function"] = of.name, level = level, kernel = option.kernel, text = text } end
    local others = { unpack(args, 1, #args - 1) }
    others[#others + 1] = option.target and { target = option.target } or nil
    local all, kept = of:facts(level, unpack(others)), {}
    for _, k in ipairs(all.kernels) do
      if tostring(k.group) == option.kernel then kept[#kept + 1] = k end
    end
    all.kernels = kept
    return all
  end

  function data.ir(...)
    local function kernel(of, level, option)
      return { kernel = of.name, level = level or "tile", text = of:ir(level, option) }
    end
    local function loop(of, level, option)
      if kernel_levels[level] then return of:facts(level, option) end
      return { level = level or "graph", text = of:ir(level, option) }
    end
    return level_of(loop, kernel, function(of, level, args)
      level = level or "graph"
      local option = args[#args]
      local one = type(option) == "table" and not core.is_tensor(option) and option.kernel
      if one then return facts_of_one(of, level, args, option) end
      if kernel_levels[level] then return of:facts(level, unpack(args)) end
      local told = { ["function"] = of.name, level = level }
      if level == "json" then
        told.graph = core.open_json().decode(of:ir("json", unpack(args)))
      else
        told.text = of:ir(level, unpack(args))
      end
      return told
    end, ...)
  end

  --- Prints a line for each kernel of a captured function.
  function prompt.tiles(f)
    local text = tostring(data.tiles(f))
    prompt.say(text == "" and "no kernels\n" or text)
  end
  function data.tiles(f)
    local of, _, args = read("tiles", false, 0, f)
    if of.loops then return facts_of_loops(of.loops, "tiles", function(l) return l:tiles() end) end
    return of:tiles(unpack(args))
  end

  -- The rows of f:collectives, of a function alone or called.
  local function rows_of(f, ...)
    local of, _, args = read("collectives", false, 0, f, ...)
    if of.loops then wrong("collectives", ":collectives takes a captured function: graph.module(f) makes one") end
    return of:collectives(unpack(args))
  end

  --- Prints what devices of a mesh send each other in a run of a captured function: "f", "f(x, y)".
  function prompt.collectives(f, ...) prompt.say(tostring(rows_of(f, ...)) .. "\n") end
  function prompt.data.collectives(f, ...)
    local list = {}
    for i, row in ipairs(rows_of(f, ...)) do
      list[i] = { kind = row.kind, operator = row.operator, axes = row.axes, bytes = row.bytes, from = row.from, to = row.to }
      if row.place ~= "" then list[i].where = row.place else list[i].where_reason = "it comes from no line of the program" end
    end
    return list
  end

  --- Prints what was decided about a captured function, with reasons and times.
  function prompt.why(f) prompt.say(tostring(data.why(f))) end
  function data.why(f)
    local of, _, args = read("why", false, 0, f)
    if of.loops then return facts_of_loops(of.loops, "why", function(l) return l:why() end) end
    return of:why(unpack(args))
  end

  local Rules = {}
  function Rules.__tostring(all) return all.text == "" and "no rule fired\n" or all.text end

  --- Prints the rules that fired when a function was captured.
  function prompt.rewrites(f) prompt.say(tostring(data.rewrites(f))) end
  function data.rewrites(f)
    local of, _, args = read("rewrites", false, 0, f)
    if of.loops then return facts_of_loops(of.loops) end
    local all = { ["function"] = of.name, text = of:ir("rewrites", unpack(args)), rules = {} }
    for line in all.text:gmatch "[^\n]+" do
      local name, rest = line:match "^(%S+)(.*)$"
      local where, text = rest:match "^ at (.-:%d+): (.*)$"
      all.rules[#all.rules + 1] = { rule = name, where = where, text = text or rest:gsub("^: ", ""),
        where_reason = not where and "it comes from no line of the program" or nil }
    end
    return setmetatable(all, Rules)
  end

  -- "f(x, y)" or values: what is called, whether arguments stand behind it, and those; anything that can be called.
  local function call_of_any(command, f, ...)
    if f == nil or f == "" then wrong(command, ":%s takes a function", command) end
    if type(f) ~= "string" then return f, select("#", ...) > 0, { n = select("#", ...), ... } end
    local text = split(command, f, 0)
    local name, list = text:match "^(.-)(%b())$"
    if not name or name == "" or not chunk_of(command, name) then return value_of(command, text), false, {} end
    local function packed(...) return { n = select("#", ...), ... } end
    return value_of(command, name), true, packed(chunk_of(command, list:sub(2, -2))())
  end

  --- Runs a function on arguments and prints where its time goes: "f(x, y)", or f, x, y. A captured function alone
  --- runs on the arguments of its last call.
  function prompt.profile(...) prompt.say(tostring(data.profile(...))) end
  function data.profile(f, ...)
    local of, given, args = call_of_any("profile", f, ...)
    local kernel, plain = captured.is_kernel(of), captured.is_function(of)
    if not core.callable(of) or core.is_tensor(of) then
      wrong("profile", ":profile takes a function, not %s", core.is_tensor(of) and "a tensor" or of == nil and "nothing" or "a " .. type(of))
    end
    if not given then
      local body = plain and of.body or type(of) == "function" and of
      local info = body and debug.getinfo(body, "u")
      local n = kernel and 1 or info and info.nparams or 0
      args = plain and of:last_arguments() or n == 0 and {} or nil
      if not args then
        wrong("profile", ":profile runs the function, and needs its arguments%s", plain and ": " .. table.concat(of.params, ", ", 1, n) or "")
      end
    end
    local function measure()
      return require("tessera.profile").measure(of, { args = args, width = math.max(20, console.width()) })
    end
    if type(of) ~= "function" then return measure() end
    return captured.with_parameters(type(f) == "string" and f:match "^[%w_.:]+" or "the function", of, args.n or #args, measure)
  end

  local function tuned(say, f, ...)
    local of, _, args = read("tune", true, 0, f, ...)
    if of.loops then return facts_of_loops(of.loops) end
    local autotune = require "tessera.autotune"
    if captured.is_function(of) then of:ir("captured", unpack(args)) end -- it is there, for these arguments
    if say then
      io.write(require("tessera.prompt.pager").broken(autotune.plan(of)))
      io.flush()
    end
    -- Ctrl-C: what is known is told all the same, and then that it was interrupted.
    local before, records = #core.autotune_records(), nil
    local ok, why = pcall(function() records = autotune.tune(of, unpack(args)) end)
    if not ok then records = core.autotune_records(before) end
    if not ok and not records[1] then error(why, 0) end
    if captured.is_function(of) and of:_runs() ~= of.current.graph then -- shares are of a piece
      for _, r in ipairs(records) do r.share = nil end
    end
    return records, why
  end

  require "tessera.prompt.choose"(prompt, wrong, read)

  --- Measures the candidates of a captured function's kernels, or of a kernel of op.kernel with
  --- arguments, and prints their times: "f", "k(x, y)".
  function prompt.tune(f, ...)
    local told, why = tuned(true, f, ...)
    prompt.say(told.loops and tostring(told) or require("tessera.autotune").text(told))
    if why then error(why, 0) end
  end
  function data.tune(f, ...)
    local told, why = tuned(false, f, ...)
    if told.loops then return told end
    local list = {}
    for i, r in ipairs(told) do
      local k = { kernel = r.kernel, candidates = {}, differing = r.differing, measured = r.why == nil or nil, measured_reason = r.why }
      for j, c in ipairs(r) do
        k.candidates[j] = { choice = c.choice, time_ns = c.us and c.us * 1e3, runs = c.best or false,
          time_ns_reason = not c.us and (c.why or r.why or "it was not measured") or nil }
      end
      list[i] = k
    end
    return { kernels = list, interrupted = why ~= nil }
  end

  return { read = read } -- for other commands about functions
end
