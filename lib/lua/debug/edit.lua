-- Kernels of captured functions, edited and run again: what f:with and :edit stand on.
--
--   local e = f:with("schedule", (f:ir("schedule", {kernel = 0}):gsub("rows %d+", "rows 96")))
--   print(e)            -- times, and whether the bits are equal
--   e:keep()            -- from now on, in this process
--   f:without(0)        -- its own again
--
-- jit/patch checks, builds, runs and compares; docs/debug.md says how.

local core = require "tessera.core"
local options = require "tessera.options"

local edit = {}

-- ---- messages: line and column of the text
local function line_of(text, number)
  local at = 1
  for line in (text .. "\n"):gmatch "([^\n]*)\n" do
    if at == number then return line end
    at = at + 1
  end
  return ""
end

-- Where in its line the quote with its caret stands; else where the line's text begins.
local function column_of(text, number, quote, caret)
  local line = line_of(text, number)
  local from = quote and line:find(quote, 1, true)
  if from then return from + #caret end
  return (line:find "%S" or 1)
end

--- The message with the line and the column that it is about: of a reader, the check or the interpreter.
function edit.placed(text, message)
  local number, said, quote, caret = message:match "^line (%d+): (.-)\n    ([^\n]*)\n    ( *)%^"
  if not number then number, said = message:match "^line (%d+)[^:]*: (.*)$" end
  if not number then
    local before, at = message:match "^(.-), at (%d+)%f[^%d][^\n]*\n    [^\n]*$"
    if before then
      number, said = at, before
    else
      before, at = message:match "^(.*) %(in [^,]*, (%d+)[^)]*%)$"
      number, said = at, before
    end
  end
  if not number then return message, nil end
  number = tonumber(number)
  local column = column_of(text, number, quote, caret)
  if quote then said = ("%s\n    %s\n    %s^"):format(said, quote, caret) end
  if not quote and not said:find "\n" then said = said .. "\n    " .. line_of(text, number):gsub("^%s+", "") end
  return ("line %d, column %d: %s"):format(number, column, said), number
end

local function refuse(text, message, hint)
  local said = edit.placed(text, message)
  core.fail(("f:with: %s%s"):format(said, hint and hint ~= "" and "\n  hint: " .. hint or ""))
end

-- ---- results
local Edit = {}
Edit.__index = Edit

local function time_text(usec)
  if usec >= 1e6 then return ("%.3f s"):format(usec / 1e6) end
  if usec >= 1e3 then return ("%.3g ms"):format(usec / 1e3) end
  return ("%.3g us"):format(usec)
end

local function ratio_text(e)
  local ratio = e.was_usec / e.usec
  if ratio >= 1 then return ("%.2f times as fast"):format(ratio) end
  return ("%.2f times as slow"):format(1 / ratio)
end

function Edit.__tostring(e)
  local out = { ("kernel %s of %s, %s, on %s, edited at level %s"):format(e.kernel, e.name, e.what, e.target, e.level) }
  out[#out + 1] = "  now     " .. time_text(e.was_usec)
  out[#out + 1] = ("  edited  %-9s %s"):format(time_text(e.usec), ratio_text(e))
  if e.equal then
    out[#out + 1] = ("  bits    equal, of %d elements"):format(e.elements)
  else
    out[#out + 1] = ("  bits    differ in %d of %d elements; the first is %s"):format(e.differing, e.elements, e.first)
  end
  for _, remark in ipairs(e.remarks) do out[#out + 1] = "  " .. remark end
  if e.unchanged then out[#out + 1] = "  the kernel is the one that runs: the edit changes nothing" end
  if e.alike > 1 then out[#out + 1] = ("  %d kernels of %s are this one"):format(e.alike, e.name) end
  if e.kept then
    out[#out + 1] = e.kept == "disk" and "  kept, for later processes too" or "  kept for this process"
  end
  return table.concat(out, "\n")
end

--- keep(): the edited kernel takes the place of its own in this process; keep "disk": in later ones too. One that
--- has other bits is not kept.
function Edit:keep(where)
  if where ~= nil and where ~= "disk" then core.fail "e:keep: it takes nothing, or \"disk\"" end
  if not self.equal then
    core.fail(("%s: the edited kernel has other bits, in %d of %d elements, so it is not kept: %s"):format(self.name,
      self.differing, self.elements, self.first))
  end
  if self.unchanged then core.fail(self.name .. ": the edit changes nothing, so there is nothing to keep") end
  local why, hint = self.patch:keep(where == "disk")
  self.graph:renew()
  self.kept = not why and where or "process"
  if why then core.fail(("%s: %s%s"):format(self.name, why, hint ~= "" and "\n  hint: " .. hint or "")) end
  return self
end

--- drop(): takes it back; whether it was kept.
function Edit:drop()
  self.kept = nil
  local was = self.graph:unpatch(self.kernel)
  if was then self.graph:renew() end
  return was
end

-- ---- f:with
local read_with = options.of("f:with", {
  kernel = options.kind("the number or the name of a kernel", function(v) return type(v) == "string" or type(v) == "number" end),
  args = options.table,
})

local function arguments_of(f, given)
  local args = given.args
  if args then return args, args.n or #args end
  args = f:last_arguments()
  if not args then
    core.fail(("f:with: %s's last arguments are gone, or it has not run\n  hint: f:with(level, text, {args = {x, y}})"):format(f.name))
  end
  return args, args.n
end

local function as_result(f, graph, patch)
  local e = patch:seen()
  local remarks = {}
  for line in e.remarks:gmatch "[^\n]+" do remarks[#remarks + 1] = line end
  e.remarks, e.equal, e.name, e.graph, e.patch = remarks, e.differing == 0, f.name, graph, patch
  e.ratio, e.kernel, e.number = e.was_usec / e.usec, (graph.label and graph.label .. "/" or "") .. e.number, nil
  return setmetatable(e, Edit)
end

function edit.with(f, level, text, given)
  if type(text) ~= "string" then core.fail "f:with: a level and the edited text are needed, f:with(\"tile\", text)" end
  given = read_with(given)
  local args, n = arguments_of(f, given)
  require("tessera.debug.ready")(f, unpack(args, 1, n))
  local graph = f:_runs()
  local kernel = given.kernel and tostring(given.kernel)
  local patch, why, hint = graph:patch(tostring(level), kernel, text)
  if not patch then refuse(text, why, hint) end
  local came, failed = patch:look(function() f(unpack(args, 1, n)) end)
  if not came then
    if failed then error(failed, 0) end
    core.fail(("f:with: kernel %s of %s did not run with these arguments: it is of another device or other shapes, or its operators ran on the VM\n  hint: :why says what runs"):format(
      patch:seen().number, f.name))
  end
  local seen = patch:seen()
  if seen.failed then refuse(text, seen.failed, seen.hint) end
  return as_result(f, graph, patch)
end

--- Whether there was something, its level, and whether it was on disk.
function edit.drop(f, kernel)
  if not f.current then core.fail(f.name .. " has not run yet: call it") end
  local was, level, on_disk = f:_runs():unpatch(kernel and tostring(kernel))
  if was then f:_runs():renew() end
  return was, level, on_disk
end

function edit.without(f, kernel) return (edit.drop(f, kernel)) end

return edit
