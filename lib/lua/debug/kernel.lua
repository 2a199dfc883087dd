-- tessera.debug: the debugger of kernels. It runs a kernel in the interpreter and says what is wrong with it.
--
--   print(tessera.debug.kernel(k, x, w))      -- of op.kernel: what was found, or that it is clean
--   print(f:debug(0, x))                      -- kernel 0 in :tiles of a captured function, on what the function gives it
--   k:debug(x, w, {prompt = true})            -- stops at the first line and reads commands from stdin
--   f:peek(0, {0, 1}, 41, x)                  -- what line 41 makes for tile (0, 1) of the kernel's result
--
-- ir/tile/debug finds the faults, docs/debug.md says which and how.

local core = require "tessera.core"
local captured = require "tessera.captured"

local debug = {}

-- ---- reports
local Report = {}
Report.__index = Report

function Report.__tostring(r)
  local far = r.partly and (", as far as it looked: to " .. r.partly) or ""
  if #r == 0 then return ("%s: nothing was found%s%s"):format(r.name, r.quit and " before it was quit" or "", far) end
  local parts = {}
  for i, f in ipairs(r) do parts[i] = f.text end
  parts[#parts + 1] = ("%s: %d finding%s%s"):format(r.name, #r, #r == 1 and "" or "s", far)
  return table.concat(parts)
end

local function report(name, output, findings, results, quit, partly)
  findings.name, findings.results, findings.quit, findings.output = name, results, quit, output()
  findings.partly, findings.clean = partly, #findings == 0 and not partly
  return setmetatable(findings, Report)
end

-- ---- options: the last argument, if it has one of these words
local WORDS = { "prompt", "commands" }

local function take_options(n, arguments)
  local last = arguments[n]
  if type(last) ~= "table" or core.is_tensor(last) or captured.is_function(last) then return n, {} end
  local found
  for _, word in ipairs(WORDS) do found = found or rawget(last, word) ~= nil end
  if not found then return n, {} end
  local own, rest = {}, {}
  for key, value in pairs(last) do
    if key == "prompt" or key == "commands" then own[key] = value else rest[key] = value end
  end
  arguments[n] = next(rest) ~= nil and rest or nil
  return next(rest) ~= nil and n or n - 1, own
end

local function read_line()
  io.write "(debug) "
  io.flush()
  local line = io.read "*l"
  if not line then io.write "\n" end
  return line
end

-- What the debugger asks and says: a list of commands, whose answers are kept, or stdin.
local function talk(own)
  if type(own.commands) == "table" then
    local i, said = 0, {}
    local function ask()
      i = i + 1
      if own.commands[i] then said[#said + 1] = "(debug) " .. own.commands[i] .. "\n" end
      return own.commands[i]
    end
    return { ask = ask, say = function(text) said[#said + 1] = text end }, said
  end
  if not own.prompt then return {} end
  return { ask = read_line, say = function(text) io.write(text) end }
end

-- ---- kernels of op.kernel, and texts
local function is_text(x) return type(x) == "string" and x:find "tile%s+@" ~= nil end

local function split_sizes(text, n, arguments)
  local name, params, sizes, ninputs = core.debug_about(text)
  local given, inputs, last = {}, {}, arguments[n]
  if n == ninputs + 1 and type(last) == "table" and not core.is_tensor(last) then
    local known = {}
    for i, size in ipairs(sizes) do given[i], known[size] = last[size] or false, true end
    for key in pairs(last) do
      if not known[key] then
        core.fail(("debug.kernel: %s has no size '%s'\n  hint: %s; options are prompt and commands"):format(name, core.shown(tostring(key), 40),
          sizes[1] and "its sizes are " .. table.concat(sizes, ", ") or "it has no sizes that can be given"))
      end
    end
    n = n - 1
  end
  for i = 1, n do
    local x = arguments[i]
    if type(x) == "number" and params[i] then x = core.tensor(x, { dtype = params[i].dtype }) end
    if not core.is_tensor(x) then
      core.fail(("debug.kernel: argument %d of %s is a %s, not a tensor\n  hint: %s"):format(i, name, type(x),
        "arguments stand one behind the other, and sizes that they do not tell in a table at the end: debug.kernel(k, x, {M = 64})"))
    end
    inputs[i] = x.device == "cpu:0" and x or x:to "cpu"
  end
  return name, inputs, given
end

local function of_text(text, n, arguments, own)
  local name, inputs, sizes = split_sizes(text, n, arguments)
  local options, said = talk(own)
  return report(name, function() return said and table.concat(said) end, core.debug_kernel(text, inputs, sizes, options))
end

-- ---- kernels of captured functions
-- The kernel of this number in :tiles, or of this name, for these arguments, as it runs: {name, text}. Those of devices
-- are there once it has run. Lines are those of f:ir("tile", {kernel = which}).
local function find(f, which, n, arguments)
  if type(which) ~= "number" and type(which) ~= "string" then
    core.fail "debug: a kernel stands in front of the arguments, by its number or name\n  hint: f:debug(0, x); :tiles lists them"
  end
  require("tessera.debug.ready")(f, unpack(arguments, 1, n))
  local given = { unpack(arguments, 1, n) }
  given[n + 1] = { kernel = tostring(which) }
  local text = f:ir("tile", unpack(given, 1, n + 1))
  return { name = text:match "tile @([^%s<%(]+)", text = text }
end

local function caught(f, k, options, n, arguments)
  local function call() return f(unpack(arguments, 1, n)) end
  local a, b, c, d = core.debug_caught(k.text, call, nil, options)
  if a == nil then
    core.fail(("debug: @%s of %s did not run: its operators do, on the VM\n  hint: tessera.jit.pin(f, ..) says why")
      :format(k.name, f.name))
  end
  return a, b, c, d
end

local function of_function(f, which, n, arguments, own)
  local k = find(f, which, n, arguments)
  local options, said = talk(own)
  return report(k.name, function() return said and table.concat(said) end, caught(f, k, options, n, arguments))
end

-- kernel(k, ...): runs a kernel of op.kernel, or the text of one, on these arguments in the interpreter and looks for
-- races, reads of what nobody wrote, positions outside of memory, missing waits and barriers. The report prints; it is a
-- list of {kind, line, text}, with `clean`, `results`, and `partly` where there was too much to look at all of it. {prompt = true} behind the arguments stops at the first line
-- and reads commands from stdin (help lists them), {commands = {"break 12", "continue"}} takes them from a list and
-- keeps what is said in `output`. Of a captured function: kernel(f, 0, ...), by its number in :tiles, or its name.
--   print(tessera.debug.kernel(k, x))
--   print(tessera.debug.kernel(f, 0, x, {prompt = true}))
function debug.kernel(k, ...)
  local n, arguments = select("#", ...), { ... }
  local own
  n, own = take_options(n, arguments)
  if captured.is_function(k) then
    return of_function(k, arguments[1], n - 1, { unpack(arguments, 2, n) }, own)
  end
  if captured.is_kernel(k) then return of_text(k.text, n, arguments, own) end
  if is_text(k) then return of_text(k, n, arguments, own) end
  core.fail(("debug.kernel: the first argument is a kernel of op.kernel, its text, or a captured function, not %s\n  hint: %s"):format(
    k == nil and "nothing" or type(k) == "string" and ("'%s'"):format(core.shown(k, 30)) or "a " .. type(k),
    type(k) == "string" and "the text of a kernel begins with tile @name" or core.callable(k) and "graph.module(f) captures a function"
      or "debug.kernel(k, x), or debug.kernel(f, 0, x) of a captured function"))
end

-- A whole number of an option, or nothing.
local function whole(what, n)
  if n == nil or type(n) == "number" and n >= 0 and n < 2 ^ 31 and n == math.floor(n) then return n end
  core.fail(("debug.peek: %s is a whole number, not %s"):format(what, type(n) == "string" and "'" .. n .. "'" or tostring(n)))
end

-- peek(k, tile, where, ...): a value in the midst of a kernel, as a tensor, on these arguments: of the tile of the first
-- result with these coordinates ({0, 1}, counted in tiles; nil: the first that comes), where a line of the text is, or
-- {line = 41, value = "%acc", stage = 3}: the value of a name there, in that round of the innermost loop. Of a captured
-- function: peek(f, kernel, tile, where, ...).
--   print(tessera.debug.peek(k, {0}, 6, x))
--   print(f:peek(0, {0, 1}, {value = "%3"}, x))
function debug.peek(k, ...)
  local n, arguments = select("#", ...), { ... }
  local of = captured.is_function(k) and 1 or 0
  local tile, where = arguments[1 + of], arguments[2 + of]
  local options = { peek = true, tile = tile or nil }
  if type(where) == "number" then options.line = where
  elseif type(where) == "string" then options.value = where
  elseif type(where) == "table" then
    options.line, options.value, options.stage = where.line, where.value, where.stage
  end
  whole("line", options.line)
  whole("stage", options.stage)
  for _, n in ipairs(tile or {}) do whole("a coordinate of the tile", n) end
  if not options.line and not options.value then
    core.fail(("debug.peek: where is a line of the text, the name of a value, or {line =, value =, stage =}, not %s\n  hint: %s"):format(
      where == nil and "nothing" or type(where) == "table" and "a table without line and value" or "a " .. type(where),
      of == 1 and "debug.peek(f, 0, {0}, 6, x): kernel, tile, line, arguments; f:ir(\"tile\", {kernel = 0}) has the lines" or
      "debug.peek(k, {0}, 6, x): tile, line, arguments; k.text has the lines"))
  end
  local rest = { unpack(arguments, 3 + of, n) }
  if of == 1 then
    return (caught(k, find(k, arguments[1], n - 3, rest), options, n - 3, rest))
  end
  local text = captured.is_kernel(k) and k.text or k
  if not is_text(text) then
    core.fail("debug.peek: a kernel of op.kernel, its text, or a captured function comes first\n  hint: debug.peek(k, {0}, 6, x)")
  end
  local _, inputs, sizes = split_sizes(text, n - 2, rest)
  return core.debug_kernel(text, inputs, sizes, options)
end

-- ---- tessera --debug-kernel
--- Calls of op.kernel are looked at from now on; what is found is an error, before the kernel runs.
function debug.every()
  require("tessera.kernel").looked_at = function(k, ...)
    local found = debug.kernel(k, ...)
    if #found > 0 then core.fail(tostring(found)) end
  end
end

local function number_of(sizes, dim) return type(dim) == "number" and dim or sizes[dim] end

-- An input: name=file.npy, else numbers of a seed, or small whole ones.
local function input(param, sizes, given)
  local shape = {}
  if given then return core.is_tensor(given) and given or require("tessera").load(given) end
  for i, dim in ipairs(param) do
    shape[i] = number_of(sizes, dim)
    if not shape[i] then core.fail(("--debug-kernel: the size %s is not given: %s=64"):format(dim, dim)) end
  end
  local x = #shape == 0 and core.tensor(1) or core.op.normal(shape)
  if not param.dtype:find "f" then x = core.op.abs(x):cast "i64" end
  return param.dtype == x.dtype and x or x:cast(param.dtype)
end

local function list_has(list, word)
  for _, w in ipairs(list) do
    if w == word then return true end
  end
end

-- Which word of the command line is a size, and which an input; all others are errors.
local function read_arguments(arguments, names, params, ninputs)
  local sizes, given, known, is_size = {}, {}, {}, {}
  for _, size in ipairs(names) do known[#known + 1], is_size[size] = size, true end
  for i = 1, ninputs do known[#known + 1] = params[i].name end
  for _, argument in ipairs(arguments) do
    local key, value = argument:match "^([%w_]+)=(.+)$"
    if not key then core.fail(("--debug-kernel: '%s' is no size and no input: M=64, x=x.npy"):format(argument)) end
    if sizes[key] or given[key] then core.fail(("--debug-kernel: %s is given twice"):format(key)) end
    if is_size[key] then
      local n = tonumber(value)
      if not n or n < 0 or n % 1 ~= 0 then core.fail(("--debug-kernel: the size %s is a whole number, not '%s'"):format(key, value)) end
      sizes[key] = n
    elseif list_has(known, key) then
      given[key] = value
    else
      core.fail(("--debug-kernel: the kernel has no size or input '%s'; it has %s"):format(key, table.concat(known, ", ")))
    end
  end
  return sizes, given
end

--- tessera --debug-kernel file.tile M=64 x=x.npy: commands come from stdin; the exit code.
function debug.file(path, arguments)
  local text = core.read_file(path, "--debug-kernel")
  local name, params, names, ninputs = core.debug_about(text)
  local list, own = {}, {}
  local sizes, given = read_arguments(arguments, names, params, ninputs)
  for i = 1, ninputs do list[i] = input(params[i], sizes, given[params[i].name]) end
  for _, size in ipairs(names) do own[size] = sizes[size] end
  own.prompt = true
  list[ninputs + 1] = own
  core.seed(0)
  local found = debug.kernel(text, unpack(list, 1, ninputs + 1))
  io.write(#found == 0 and tostring(found) or ("%s: %d finding%s"):format(name, #found, #found == 1 and "" or "s"), "\n")
  return found.clean and 0 or 1
end

return debug
