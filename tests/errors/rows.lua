-- Wrong calls of every row: unknown options, inputs of wrong kinds, missing and too many
-- inputs, options of wrong types. Each gives a clean error that names the row, and the
-- session goes on.
package.path = "tests/errors/?.lua;tests/agree/?.lua;" .. package.path
local core = require "tessera.core"
local cases = require "_cases"
local rows = require "_rows"
local op = core.op

local function report(what, ok, why) cases.expect(what, ok, why) end

-- The call must raise; the message must contain every one of the words.
local function raises(what, words, f, ...)
  local ok, e = pcall(f, ...)
  if ok then return report(what, false, "no error") end
  e = tostring(e)
  if not rows.clean(e) then return report(what, false, "unclean: " .. e) end
  for _, w in ipairs(words) do
    if not e:find(w, 1, true) then return report(what, false, ("'%s' is not in: %s"):format(w, e)) end
  end
  report(what, true)
end

-- May succeed or raise, cleanly.
local function survives(what, f, ...)
  local ok, e = pcall(f, ...)
  report(what, ok or rows.clean(e), e)
end

local function options(c, more)
  local o = {}
  for k, v in pairs(c.o or {}) do o[k] = v end
  for k, v in pairs(more) do o[k] = v end
  return o
end

local function arguments(c, o)
  local x = cases.inputs(c)
  local args = {}
  for i = 1, #x do args[i] = x[i] or nil end
  if next(o) == nil then return args, #x end
  args[#x + 1] = o
  return args, #x + 1
end

local function inputs_of(row)
  local list = {}
  for word in row.inputs:gmatch "%S+" do list[#list + 1] = word end
  return list
end

-- Calls with more tensors that mean another row: how many that takes, and its name.
local meant = { clamp = "clip", repeat_interleave = "repeat_counts", cross_entropy = "weighted_cross_entropy" }
local function more_inputs(name)
  for _, row in ipairs(core.operators()) do
    if row.name == meant[name] then return #inputs_of(row), row.name end
  end
  return 0, name
end

-- name, type and whether a default or "?" follows, of each option
local function attributes(row)
  local list = {}
  for word in row.attrs:gmatch "%S+" do
    local name, kind = word:match "^([%w_]+):([%w_|]+)"
    list[#list + 1] = { name = name, kind = kind, required = not word:match "[=?]" }
  end
  return list
end

local wrong = { int = { "x", true, {}, 1.5 }, f = { "x", true, {} }, bool = { 1, "x", {} }, ints = { "x", true, { "a" }, { 1.5 } },
  floats = { "x", true, { "a" } }, str = { 1, true, {} }, dtype = { 1, true, {}, "f33" } }

for row, list in rows.each(1) do
  local name, c = row.name, list[1]
  if c then
    local args, n = arguments(c, options(c, { zzqx = 1 }))
    raises(name .. " unknown option", { name, "unknown option 'zzqx'" }, op[name], unpack(args, 1, n))
    for _, a in ipairs(attributes(row)) do
      if #a.name >= 4 then
        local misspelt = a.name:sub(1, -2) .. (a.name:sub(-1) == "x" and "y" or "x")
        args, n = arguments(c, options(c, { [misspelt] = 1 }))
        raises(name .. " option " .. misspelt, { "did you mean" }, op[name], unpack(args, 1, n))
      end
      for _, v in ipairs(wrong[a.kind] or { 1, true, {}, "no such word" }) do
        args, n = arguments(c, options(c, { [a.name] = v }))
        raises(("%s %s = %s"):format(name, a.name, tostring(v):gsub(":.*", "")), { name, a.kind == "dtype" and "dtype" or a.name },
          op[name], unpack(args, 1, n))
      end
      if a.required then
        local o = options(c, {})
        if o[a.name] ~= nil then
          o[a.name] = nil
          args, n = arguments(c, o)
          raises(name .. " without " .. a.name, { name, a.name }, op[name], unpack(args, 1, n))
        end
      end
      if a.kind == "int" or a.kind == "ints" then -- numbers out of every range
        -- Sizes of billions are allowed, and would be tried.
        local place = a.name:match "axis" or a.name:match "axes" or a.name:match "dim" or a.name == "perm"
        for _, v in ipairs { 2 ^ 53, -2 ^ 60, 2 ^ 63, 1 / 0, 0 / 0, place and 2 ^ 31 or -1, place and -2 ^ 31 or -2 } do
          args, n = arguments(c, options(c, { [a.name] = v }))
          survives(("%s %s = %g"):format(name, a.name, v), op[name], unpack(args, 1, n))
        end
      end
    end
    -- Things that are no tensors in the place of each input.
    local inputs = inputs_of(row)
    for i = 1, #inputs do
      for _, v in ipairs { {}, "text", print, true, { {} }, { { 1 }, { 1, 2 } }, io.stdout, coroutine.create(print) } do
        args, n = arguments(c, c.o or {})
        args[i] = v
        survives(("%s input %d a %s"):format(name, i, type(v)), op[name], unpack(args, 1, n))
      end
    end
    if #inputs > 0 and not row.inputs:match "%?" and not row.inputs:match "%.%.%." then
      args = cases.inputs(c)
      local most, taken = more_inputs(name)
      for _ = #args, math.max(most, #args) do args[#args + 1] = args[1] end
      raises(name .. " too many", { taken, "too many" }, op[name], unpack(args))
    end
    if #inputs > 0 then
      raises(name .. " of nothing", { name }, op[name])
      raises(name .. " of an empty table", { name }, op[name], {})
      survives(name .. " of nil", op[name], nil, nil)
    end
    survives(name .. " of a block format", op[name], unpack((function()
      local x = cases.inputs(c)
      x[1] = op.zeros({ 32 }):cast "mxfp4"
      x[#x + 1] = c.o
      return x
    end)()))
    -- The session goes on.
    local ok, why = pcall(cases.call, c, cases.inputs(c))
    report(name .. " afterwards", ok, why)
  end
end
