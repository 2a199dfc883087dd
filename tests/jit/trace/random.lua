-- Generated programs run with hot loops and without: the same values by hash, the same numbers,
-- the same errors at the same lines. Arguments: how many programs, the first seed.

local tessera = require "tessera"
local op, rng, jit = tessera.op, tessera.rng, tessera.jit

local state
local function random(n)
  state = (state * 1103515245 + 12345) % 2147483648
  return math.floor(state / 65536) % n + 1
end
local function pick(list) return list[random(#list)] end

-- ---- programs. A variable's type is its shape: m is 4 x 6, r is 6, s is one number.
local shapes = {m = "{4, 6}", r = "{6}", s = "{}"}
local fresh

local function name()
  fresh = fresh + 1
  return "v" .. fresh
end

local function some(vars, kind)
  local list = {}
  for _, v in ipairs(vars) do
    if not kind or v.kind == kind then list[#list + 1] = v end
  end
  return #list > 0 and pick(list) or nil
end

local function number()
  return pick {"2", "0.5", "-1.25", "i", "i / 3", "(i % 3) * 0.5", "(i % 7) / 4"}
end

local unary = {"relu", "tanh", "abs", "neg", "sigmoid", "square", "sin"}
local binary = {"+", "-", "*"}

-- An expression and its type.
local function expression(vars)
  local x = some(vars)
  local what = random(18)
  if what <= 5 then
    local y = some(vars)
    local kind = (x.kind == "m" or y.kind == "m") and "m" or (x.kind == "r" or y.kind == "r") and "r" or "s"
    return ("%s %s %s"):format(x.name, pick(binary), y.name), kind
  elseif what <= 7 then
    return ("%s %s %s"):format(x.name, pick(binary), number()), x.kind
  elseif what <= 9 then
    return ("%s:%s()"):format(x.name, pick(unary)), x.kind
  elseif what == 10 and x.kind == "m" then
    return pick {("%s:sum{axis = 0}"):format(x.name), ("%s:mean(0)"):format(x.name),
                 ("%s[%d]"):format(x.name, random(4) - 1), ("%s[i %% 4]"):format(x.name)}, "r"
  elseif what == 11 then
    return pick {("%s:sum()"):format(x.name), ("%s:mean()"):format(x.name),
                 ("%s:max()"):format(x.name)}, "s"
  elseif what == 12 and x.kind == "m" then
    return pick {("%s:T():matmul(%s):matmul(%s:T() * 0.01):T()"):format(x.name, x.name, x.name),
                 ("op.softmax(%s, {axis = 1})"):format(x.name),
                 ("%s:T():contiguous():T()"):format(x.name),
                 ("%s:reshape(6, 4):T()"):format(x.name),
                 ("%s:reshape(24):reshape(4, 6)"):format(x.name),
                 ("op.concat({%s[\"0:2\"], %s[\"1:3\"]}, {axis = 0})"):format(x.name, x.name)}, "m"
  elseif what == 13 then
    return ("rng.%s(%s)"):format(pick {"normal", "uniform"}, shapes[x.kind]), x.kind
  elseif what == 14 then
    return ("op.dropout(%s, 0.5)"):format(x.name), x.kind
  elseif what == 15 then
    return ("op.where(%s:gt(0), %s, %s)"):format(x.name, x.name, number()), x.kind
  elseif what == 16 then
    return ("(%s + 0.0):clone()"):format(x.name), x.kind
  elseif what == 17 then
    return ("%s:cast(\"f64\"):cast(\"f32\") * 0.9"):format(x.name), x.kind
  end
  return ("op.clamp(%s, -2, 2)"):format(x.name), x.kind
end

local statements

local function statement(out, vars, carried, depth, indent)
  local what = random(30)
  local function line(...) out[#out + 1] = indent .. string.format(...) end
  if what <= 14 then
    local text, kind = expression(vars)
    local v = {name = name(), kind = kind}
    line("local %s = %s", v.name, text)
    vars[#vars + 1] = v
  elseif what <= 17 then
    local c = pick(carried)
    local v = some(vars, c.kind)
    if v then line("%s = op.clamp(%s, -3, 3) %s %s", c.name, c.name, pick(binary), v.name) end
  elseif what == 18 then
    local c, v = pick(carried), nil
    v = some(vars, c.kind)
    if v then line("%s:%s_(%s)", c.name, pick {"add", "mul", "sub"}, pick {v.name, number()}) end
  elseif what == 19 then
    local v = some(vars)
    line("%s:add_(%s)", v.name, number())
  elseif what == 20 then
    local v = some(vars, "m")
    if v then
      line("local w = %s[\"1:3\"]", v.name)
      line("w:mul_(%s)", number())
      line("if i %% %d == 0 then %s[0] = %s end", random(5), v.name, number())
    end
  elseif what == 21 then
    line("note(%s:sum():item())", some(vars).name)
  elseif what == 22 then
    line("if i %% %d == 0 then note(%s:hash()) end", random(6), some(vars).name)
  elseif what == 23 then
    line("if i %% %d == %d then kept[#kept + 1] = %s end", random(4), random(4) - 1, some(vars).name)
  elseif what == 24 then
    line("if i %% %d == 0 then collectgarbage() end", random(9) + 3)
  elseif what == 25 then
    local v = some(vars)
    line("fails(function() return %s %s bad end)", v.name, pick(binary))
    if v.kind == "m" then
      line("fails(function() return op.embedding(%s, tessera.tensor({i %% 6}, {dtype = \"i64\"})) end)", v.name)
    end
  elseif what <= 28 and depth < 2 then
    local v = some(vars)
    local cond = pick {("i %% %d == 0"):format(random(3) + 1), ("i > %d"):format(random(20)),
                       ("%s:mean():item() > 0"):format(v.name), "i % 2 == 0"}
    line("if %s then", cond)
    statements(out, vars, carried, depth + 1, indent .. "  ", random(4))
    if random(2) == 1 then
      line("else")
      statements(out, vars, carried, depth + 1, indent .. "  ", random(4))
    end
    line("end")
  elseif what == 29 then
    local c = pick(carried)
    line("if i == %d then %s = op.full(%s, %d) end", random(40), c.name, shapes[c.kind], random(3))
  elseif what == 30 then
    local c = pick(carried)
    line("%s = op.zeros(%s) + %s", c.name, shapes[c.kind], c.name)
  end
end

function statements(out, vars, carried, depth, indent, n)
  local scope = {}
  for i, v in ipairs(vars) do scope[i] = v end
  for _ = 1, n do statement(out, scope, carried, depth, indent) end
end

local function program(seed)
  state, fresh = seed * 7919 + 17, 0
  for _ = 1, 5 do random(2) end
  local out = {"local note, fails, kept, bad, rng = ..."}
  local vars, carried = {}, {}
  for i, kind in ipairs {"m", "r", "s", "m"} do
    local c = {name = "c" .. i, kind = kind}
    out[#out + 1] = ("local c%d = rng.normal(%s, {seed = %d})"):format(i, shapes[kind], i)
    vars[#vars + 1] = c
    if i < 4 or random(2) == 1 then carried[#carried + 1] = c end
  end
  out[#out + 1] = ("for i = 1, %d do"):format(20 + random(40))
  statements(out, vars, carried, 0, "  ", 3 + random(14))
  if random(4) == 1 then
    out[#out + 1] = ("  for j = 1, %d do"):format(random(9))
    statements(out, vars, carried, 1, "    ", 1 + random(5))
    out[#out + 1] = "  end"
  end
  out[#out + 1] = "end"
  out[#out + 1] = "return c1, c2, c3, c4"
  return "local tessera = require 'tessera' local op = tessera.op " .. table.concat(out, "\n")
end

-- ---- running one
local function run(source)
  local seen, kept = {}, {}
  local function note(v) seen[#seen + 1] = tostring(v) end
  local function fails(f)
    local ok, e = pcall(f)
    note(ok and e:hash() or e)
  end
  rng.seed(11)
  local f = assert(load(source, "=program"))
  local results = {pcall(f, note, fails, kept, op.ones {5}, rng)}
  for i = 2, #results do
    note(type(results[i]) == "string" and results[i] or results[i]:hash())
  end
  for _, t in ipairs(kept) do note(t:hash()) end
  note(rng.state and table.concat({rng.state()}, " ") or "")
  return seen
end

local function compare(seed)
  local source = program(seed)
  jit.off()
  local want = run(source)
  jit.on()
  jit.flush()
  local have = run(source)
  for i = 1, math.max(#want, #have) do
    if want[i] ~= have[i] then
      print(("seed %d: note %d is %s, not %s"):format(seed, i, tostring(have[i]), tostring(want[i])))
      if os.getenv "SHOW" then print(source) end
      return false
    end
  end
  return true
end

local count, first = tonumber(arg and arg[1]) or 2000, tonumber(arg and arg[2]) or 1
jit.traces(true)
local failed = 0
for seed = first, first + count - 1 do
  if not compare(seed) then failed = failed + 1 end
end
local s = jit.traces()
assert(s.deferred > 1000 and s.runs > 100, "hardly anything was put off")
if os.getenv "STATS" then
  for k, v in pairs(s) do print(k, v) end
end
print(failed == 0 and "the same" or failed .. " differ") --> the same
