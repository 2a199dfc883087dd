-- What can be read at levels, measured and pinned: captured functions, and kernels of op.kernel; and
-- what is said of everything else, of f.ir for f:ir and of words that are no level.

local core = require "tessera.core"
local function_name = require "tessera.function_name"
local captured = {}

local FUNCTION, KERNEL, LOOP = "function", "kernel", "loop"
local kinds = setmetatable({}, { __mode = "k" })   -- by class
local methods_of = setmetatable({}, { __mode = "k" }) -- by what looks at what it is called on

--- A class of them: functions, kernels or loops. Its methods look at what they are called on.
function captured.class(class, kind, methods)
  kinds[class] = kind
  for name, method in pairs(methods or class) do
    if type(method) == "function" and not name:find "^_" then
      local function checked(self, ...)
        if kinds[getmetatable(self)] ~= kind then
          local f = kind == LOOP and "loop" or kind == KERNEL and "k" or "f"
          core.fail(("%s:%s: it is called with a colon, %s:%s(..), on a %s"):format(f, name, f, name,
            kind == FUNCTION and "captured function" or kind))
        end
        return method(self, ...)
      end
      (methods or class)[name], methods_of[checked] = checked, method
    end
  end
end

--- The method that a checked one calls, for help; anything else is itself.
function captured.method(f) return methods_of[f] or f end
function captured.is_loop(f) return type(f) == "table" and kinds[getmetatable(f)] == LOOP end

function captured.is_function(f) return type(f) == "table" and kinds[getmetatable(f)] == FUNCTION end
function captured.is_kernel(f) return type(f) == "table" and kinds[getmetatable(f)] == KERNEL end

function captured.is_target(word)
  for _, target in ipairs(core.jit_targets()) do
    if target == word then return true end
  end
  return false
end

-- What it is, and what helps.
local function told(f)
  local name = type(f) == "function" and function_name.operator(f)
  if captured.is_kernel(f) then
    return ("the kernel %s"):format(f.name), "graph.module(function(x) return k(x) end) captures what calls it"
  end
  if name then
    return "the operator " .. name,
      ("graph.module(op.%s) captures it; tessera.jit.ir(\"tile\", op.%s, x) has its kernels on a device"):format(name, name)
  end
  if core.is_tensor(f) then return core.type_text(f) end
  if core.callable(f) then
    return type(f) == "function" and "a plain function" or "a " .. (type(f.class) == "string" and f.class or "table"),
      "f = graph.module(f) captures it"
  end
  return f == nil and "nothing" or "a " .. type(f)
end

--- f, where it is a captured function, or, if kernels, a kernel of op.kernel; else an error by fail.
function captured.need(what, f, kernels, fail)
  if captured.is_function(f) or (kernels and captured.is_kernel(f)) then return f end
  local is, hint = told(f)
  return (fail or core.fail)(("%s takes a captured function, as graph.module makes them%s, not %s%s"):format(what,
    kernels and ", or a kernel of op.kernel" or "", is, hint and "\n  hint: " .. hint or ""))
end

local function end_of_place(message)
  local place = message:match "^[^\n]-:%d+: "
  return place and #place or 0
end

--- run(): what fails in a function because it was called with n arguments and has more parameters says so, with their
--- names; which operator got nothing is the end of it.
function captured.with_parameters(name, body, n, run)
  local info = type(body) == "function" and debug.getinfo(body, "uS")
  if not info or info.isvararg or info.what == "C" or n >= info.nparams then return run() end
  local result = { pcall(run) }
  if result[1] then return unpack(result, 2, table.maxn(result)) end
  local why = result[2]
  if type(why) ~= "string" or why:find "interrupted" then error(why, 0) end
  local names, missing = {}, {}
  for i = 1, info.nparams do
    names[i] = debug.getlocal(body, i)
    if i > n then missing[#missing + 1] = names[i] end
  end
  local said = why:sub(end_of_place(why) + 1):match "^[^\n]*"
  core.fail(("%s(%s) was called without %s: %s"):format(name, table.concat(names, ", "), table.concat(missing, ", "), said))
end

return captured
