-- The prompt's commands of the debugger of kernels: ":debug k(x)", ":debug f(x) 0", ":peek f(x) 0 (0, 1) 41".
local core = require "tessera.core"
local captured = require "tessera.captured"

return function(prompt, wrong)
  local commands, arguments = prompt.commands, prompt.arguments
  arguments.debug, arguments.peek = "k(x) | f(x) kernel", "k(x) (i, j) line | f(x) kernel (i, j) line"
  commands.debug = "stops at the first line of a kernel of op.kernel, or of a captured function's kernel by its number, " ..
    ":debug f(x) 0; help lists what can be done there. What is wrong with it is said"
  commands.peek = "a value in the midst of a kernel: of tile (i, j) of its first result, at a line of its text or of a name: " ..
    ":peek f(x) 0 (0, 1) 41, :peek k(x) %acc line 41 stage 3"

  -- What is called with which arguments, and the words behind.
  local function call_of(command, text)
    local name, list, rest = text:match "^%s*(.-)%s*(%b())%s*(.-)%s*$"
    local f = name and loadstring("return " .. name, "=:" .. command)
    local values = list and loadstring("return " .. list:sub(2, -2), "=:" .. command)
    if not f or not values or name == "" then wrong(command, ":%s runs a kernel, and needs the arguments of a call", command) end
    f = f()
    if not captured.is_kernel(f) and not captured.is_function(f) then
      captured.need(":" .. command, f, true, function(message) wrong(command, "%s", message) end)
    end
    return f, rest, values
  end

  -- Of a captured function its kernel comes first.
  local function kernel_of(command, f, rest)
    if captured.is_kernel(f) then return nil, rest end
    local word, behind = rest:match "^([%w_/.]+)%s*(.*)$"
    if not word then wrong(command, ":%s: a number or name of its kernels stands behind the call: :tiles lists them", command) end
    return tonumber(word) or word, behind
  end

  function prompt.debug(text)
    local f, rest, values = call_of("debug", text)
    local kernel, behind = kernel_of("debug", f, rest)
    if behind ~= "" then wrong("debug", ":debug does not know '%s'", core.shown(behind, 60)) end
    local function run(...)
      local n, list = select("#", ...), { ... }
      list[n + 1] = { prompt = true }
      if kernel then return f:debug(kernel, unpack(list, 1, n + 1)) end
      return f:debug(unpack(list, 1, n + 1))
    end
    print(run(values()))
  end

  function prompt.peek(text)
    local f, rest, values = call_of("peek", text)
    local kernel, behind = kernel_of("peek", f, rest)
    local tile, where = nil, {}
    local list = behind:match "^(%b())"
    if list then
      tile, behind = {}, behind:sub(#list + 1)
      for n in list:gmatch "%d+" do tile[#tile + 1] = tonumber(n) end
    end
    where.value = behind:match "%%([%w_.]+)"
    where.stage = tonumber(behind:match "stage%s+(%d+)")
    where.line = tonumber(behind:match "line%s+(%d+)" or behind:match "^%s*(%d+)")
    if not where.line and not where.value then wrong("peek", ":peek takes a line or the name of a value") end
    if kernel then print(prompt.text(f:peek(kernel, tile or false, where, values())))
    else print(prompt.text(f:peek(tile or false, where, values()))) end
  end
end
