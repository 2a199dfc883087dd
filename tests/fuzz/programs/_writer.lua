-- Writes a program line by line and runs each line at once, so that every statement of it is known to
-- run, or to fail: rules of shapes and types are nobody's business here but the program's own. The
-- sandbox has what the prelude defines, and the variables so far.
local Writer = {}
Writer.__index = Writer
local MOST = 6000 -- elements of a value that goes on

local names = { "tessera", "core", "op", "rng", "jit", "graph", "nn", "optim", "profile", "settle",
  "note", "wrong", "fails", "T", "same",
  "slopes", "expect", "known", "overlaps", "means", "steady" }

--- R: choices; prelude: its text.
local function new(R, prelude)
  local fields = {}
  for i, name in ipairs(names) do fields[i] = name .. " = " .. name end
  local source = prelude .. "\nreturn {" .. table.concat(fields, ", ") .. "}"
  local env = assert(loadstring(source, "=prelude"))()
  setmetatable(env, { __index = _G })
  return setmetatable({ R = R, env = env, out = {}, indent = "", values = {}, count = 0, numbers = {},
    trace = os.getenv "FUZZ_TRACE" }, Writer)
end

function Writer:line(text, ...)
  self.out[#self.out + 1] = self.indent .. (select("#", ...) > 0 and text:format(...) or text)
end
function Writer:open(...)
  self:line(...)
  self.indent = self.indent .. "  "
end
function Writer:close(...)
  self.indent = self.indent:sub(3)
  self:line(...)
end

function Writer:fresh(letter)
  self.count = self.count + 1
  return (letter or "t") .. self.count
end

--- Runs text in the sandbox: true and results, or false and the message. Variables are global in it.
function Writer:run(text)
  if self.trace then
    local file = assert(io.open(self.trace, "a"))
    file:write(text, "\n")
    file:close()
  end
  local f, why = loadstring(text, "=trial")
  if not f then error(("not Lua: %s: %s"):format(text, why), 0) end
  setfenv(f, self.env)
  return pcall(f)
end

--- Whether a value may go on.
function Writer:fits(v) return self.env.core.is_tensor(v) and v.numel <= MOST end

--- local name = expression, if it runs and gives a tensor that fits; the name, or nil and the message.
function Writer:value(expression, name)
  local fine, v = self:run("return (" .. expression .. ")")
  if not fine then return nil, v end
  if not self:fits(v) then return nil, "too large" end
  name = name or self:fresh()
  self.env[name] = v
  self.values[#self.values + 1] = name
  self:line("local %s = %s", name, expression)
  return name
end

--- A statement, if it runs.
function Writer:statement(text)
  local fine, why = self:run(text)
  if fine then self:line("%s", text) end
  return fine, why
end

--- The tensor of a name.
function Writer:of(name) return self.env[name] end

--- The name of a value, one of the latest rather than an old one; ok(tensor), if given, has to hold.
function Writer:pick(ok)
  local list = {}
  for _, name in ipairs(self.values) do
    if not ok or ok(self.env[name]) then list[#list + 1] = name end
  end
  if #list == 0 then return nil end
  if #list > 5 and self.R:chance(0.6) then return list[#list - self.R(4) + 1] end
  return self.R:pick(list)
end

--- Names that end with a block are forgotten: leave() forgets those since its enter().
function Writer:enter()
  local n = #self.values
  return function()
    for i = #self.values, n + 1, -1 do self.values[i] = nil end
  end
end

function Writer:text() return table.concat(self.out, "\n") .. "\n" end

return new
