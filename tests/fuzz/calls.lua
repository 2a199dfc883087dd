-- Random calls of random rows, with a fixed seed: any error is fine, a crash or a leak is
-- not. FUZZ_SECONDS in the environment makes it longer, FUZZ_SEED chooses another one,
-- FUZZ_SKIP leaves rows out, FUZZ_TRACE prints each call first.
package.path = "tests/errors/?.lua;tests/agree/?.lua;" .. package.path
local core = require "tessera.core"
local rows = require "_rows"
local cases = require "_cases"
local op = core.op
local bit = require "bit"

local seconds = tonumber(os.getenv "FUZZ_SECONDS" or "") or 5
local state = tonumber(os.getenv "FUZZ_SEED" or "") or 88172645
local trace, skip = os.getenv "FUZZ_TRACE", os.getenv "FUZZ_SKIP" or ""

local function random(m)
  state = bit.bxor(state, bit.lshift(state, 13))
  state = bit.bxor(state, bit.rshift(state, 17))
  state = bit.bxor(state, bit.lshift(state, 5))
  return state % m
end
local function pick(list) return list[1 + random(#list)] end

local dtypes = {}
for _, d in ipairs(core.dtypes()) do
  if d.block == 1 then dtypes[#dtypes + 1] = d.name end
end
local sizes = { 0, 1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 17 }
local numbers = { 0, 1, 2, 3, -1, -2, 4, 0.5, -0.5, 1e-5, 100, 2 ^ 40, -2 ^ 31, 1 / 0, 0 / 0 }

local function shape()
  local s = {}
  for i = 1, pick { 0, 1, 1, 2, 2, 2, 3, 3, 4, 5 } do s[i] = pick(sizes) end
  return s
end

local function view(x)
  local kind = random(8)
  if kind == 0 and x.ndim >= 2 then return x:transpose() end
  if kind == 1 and x.ndim >= 1 then return x:flip() end
  if kind == 2 and x.ndim >= 1 and x.shape[1] > 1 then return x["::2"] end
  if kind == 3 and x.ndim >= 1 and x.shape[1] > 1 then return x:narrow(0, 1, x.shape[1] - 1) end
  if kind == 4 then return x:unsqueeze(0):expand(pick { 1, 2, 3 }, unpack(x.shape)) end
  return x
end

local common -- a shape that the inputs of a call often share
local function tensor()
  local d, s = pick(dtypes), random(3) > 0 and common or shape()
  local lo, hi = pick { -3, 0, -1 }, pick { 3, 1, 20 }
  if d == "u8" then lo = 0 end
  local ok, x = pcall(cases.generate, d, s, random(1000), lo, math.max(hi, lo + 1))
  return ok and view(x) or op.ones { 2, 2 }
end

local function value(kind)
  if random(25) == 0 then return pick { "x", true, {}, 1.5, -1e9, { 1, "a" }, print } end
  if kind == "int" then
    if random(12) == 0 then return pick { -2 ^ 31, 2 ^ 53, 2 ^ 62, -2 ^ 62, 2 ^ 63 - 1024, -2 ^ 63, -2 ^ 63 + 2 ^ 43 } end
    return pick { 0, 1, 2, 3, -1, -2, 5, 16, -100 }
  end
  if kind == "f" then return pick(numbers) end
  if kind == "bool" then return random(2) == 0 end
  if kind == "dtype" then return pick(dtypes) end
  if kind == "ints" or kind == "floats" then
    if random(3) == 0 then return pick { 0, 1, 2, 3, -1 } end
    local s = {}
    for i = 1, random(5) do s[i] = pick { 0, 1, 2, 3, -1, 4, 1 } end
    return s
  end
  if kind == "str" then return pick { "bias", "relu", "bias_gelu_residual", "ij,jk->ik", "ii->i", "...i->...", "ij->ji", "ab,ab->", "->", "" } end
  local words = {}
  for w in kind:gmatch "[%w_]+" do words[#words + 1] = w end
  return pick(words)
end

local table_of, records = core.operators(), {}
for _, o in ipairs(table_of) do
  local r = { name = o.name, attrs = {}, inputs = {} }
  for word in o.inputs:gmatch "%S+" do r.inputs[#r.inputs + 1] = word end
  for word in o.attrs:gmatch "%S+" do
    local name, kind, rest = word:match "^([%w_]+):([%w_|]+)(.*)$"
    r.attrs[#r.attrs + 1] = { name = name, kind = kind, required = rest == "" }
  end
  records[#records + 1] = r
end

-- Small numbers only where a number is the size of what is made.
local function attributes(r)
  local o = {}
  for _, a in ipairs(r.attrs) do
    if a.required and random(30) > 0 or not a.required and random(3) == 0 then o[a.name] = value(a.kind) end
  end
  if r.name == "arange" or r.name == "linspace" then
    o.start, o.stop, o.step = pick { 0, 1, -3 }, pick { 5, -5, 2.5 }, r.name == "arange" and pick { 1, -1, 0.5 } or nil
  end
  return o
end

local pool = {} -- good calls, to start from
for _, list in rows.each(4) do
  for _, c in ipairs(list) do pool[#pool + 1] = c end
end

local function one_call()
  local name, args, n, o
  common = shape()
  if random(2) == 0 then
    -- a good call with one thing changed
    local c = pick(pool)
    name, args = c.row, cases.inputs(c)
    n = #args
    for i = 1, n do
      if random(4) == 0 then args[i] = args[i] and view(args[i]) or args[i] end
      if random(12) == 0 then args[i] = tensor() end
      args[i] = args[i] or nil
    end
    o = {}
    for k, v in pairs(c.o or {}) do o[k] = v end
    if random(3) == 0 then
      for _, r in ipairs(records) do
        if r.name == name and #r.attrs > 0 then
          local a = pick(r.attrs)
          o[a.name] = value(a.kind)
        end
      end
    end
  else
    local r = pick(records)
    name, args, n, o = r.name, {}, 0, attributes(r)
    for _, word in ipairs(r.inputs) do
      if word:match "%.%.%.$" then
        for _ = 1, 1 + random(4) do
          n = n + 1
          args[n] = tensor()
        end
      elseif not word:match "%?$" or random(2) == 0 then
        n = n + 1
        args[n] = random(40) == 0 and pick { 1, true, "x", { 1, 2 } } or tensor()
      end
    end
  end
  if next(o) or random(9) == 0 then
    n = n + 1
    args[n] = o
  end
  if trace then
    io.stderr:flush()
    local parts = { name }
    for i = 1, n do
      local a = args[i]
      if core.is_tensor(a) then
        parts[#parts + 1] = a.dtype .. "[" .. table.concat(a.shape, ",") .. "]s(" .. table.concat(a.strides, ",") .. ")"
      elseif type(a) == "table" then
        for k, v in pairs(a) do
          parts[#parts + 1] = tostring(k) .. "=" .. (type(v) == "table" and "{" .. table.concat(v, ",") .. "}" or tostring(v))
        end
      else
        parts[#parts + 1] = tostring(a)
      end
    end
    io.stderr:write(table.concat(parts, " "), "\n")
  end
  if (" " .. skip .. " "):find(" " .. name .. " ", 1, true) then return true end
  local in_place = random(20) == 0 and core.is_tensor(args[1]) and n > 0
  local ok, y
  if in_place then
    ok, y = pcall(function() return args[1][name .. "_"](unpack(args, 1, n)) end)
  else
    ok, y = pcall(op[name], unpack(args, 1, n))
  end
  if ok and core.is_tensor(y) and random(4) == 0 then tostring(y) end
  return ok, y
end

for _, c in ipairs(pool) do cases.inputs(c) end -- what the harness keeps
core.jit_flush()
collectgarbage()
local before = core.memory().live
local stop, calls, fine, unclean = os.clock() + seconds, 0, 0, nil
while os.clock() < stop do
  for _ = 1, 50 do
    calls = calls + 1
    local ok, e = one_call()
    if ok then fine = fine + 1
    elseif not rows.clean(e) then unclean = unclean or tostring(e) end
  end
end
unclean --> nil
fine > calls / 10 --> true
core.jit_flush() -- loops keep places and constants for their next run
collectgarbage()
core.memory().live - before --> 0
