-- Graphs in text that are changed by their grammar, loaded, and run: whatever the reader and the
-- check let through runs to its end or says what is wrong; what its kernels give is what the VM
-- gives. Sizes and rounds are bounded by what the text says, so that a run is short.
-- FUZZ_COUNT, FUZZ_SEED, FUZZ_TRACE in the environment as for tests/fuzz/graph.lua.
local core = require "tessera.core"
local tessera = require "tessera"
local fuzz = dofile "tests/fuzz/_text.lua"
local random, pick, replace = fuzz.random, fuzz.pick, fuzz.replace
local count = fuzz.open("FUZZ", 6000)
local MOST_ELEMENTS, MOST_ROUNDS = 40000, 2000

-- ---- what is changed
local texts, broken, tokens = {}, {}, {}
local function add(text, into)
  text = text:gsub("\n// want.*", "\n"):gsub("\n?//[^\n]*", ""):gsub("^%s+", "")
  if text:find "^graph @" then
    into[#into + 1] = text
    fuzz.tokens(text, tokens)
  end
end
for path, text in fuzz.files("tests/ir", ".graph") do add(text, path:find "bad" and broken or texts) end
for _, text in fuzz.files("tests/sched", ".sched") do
  add((text:match "\n// want\n(.*)$" or text):gsub("schedule @.*", ""), texts)
end
local all = core.operators()
local by_inputs = {}
for _, o in ipairs(all) do
  local n = select(2, o.inputs:gsub("%S+", ""))
  by_inputs[n] = by_inputs[n] or {}
  table.insert(by_inputs[n], o)
end

local numbers = { "0", "1", "2", "3", "4", "-1", "-2", "0.5", "-0.0", "1.5", "7", "1e-300", "1e300", "inf", "nan", "255", "300", "2147483648",
  "9007199254740993" }
local dtypes = {}
for _, d in ipairs(core.dtypes()) do dtypes[#dtypes + 1] = d.name end
local shapes = { "[]", "[1]", "[2]", "[4]", "[0]", "[2,3]", "[4,4]", "[3,2]", "[1,4]", "[0,3]", "[2,3,4]", "[8]", "[2,32]", "[1,2,8,8]" }

-- The names that a line behind the place `at` may use: of the innermost graph or region there.
local function values_of(text, at)
  local stack, from = { {} }, 1
  for line in text:sub(1, at):gmatch "[^\n]*\n?" do
    if from > at then break end
    from = from + #line
    local head = line:match "^graph @[%w_.]+(%b())"
    if line:find "^%s*}" and #stack > 1 then table.remove(stack) end
    for name in (line:match "^%s*(%%[^=]*)=" or ""):gmatch "%%[%w_.]+" do table.insert(stack[#stack], name) end
    if head then stack = { {} } end
    head = head or line:match "do (%b())[^\n]*{%s*$"
    if head then
      if line:find " do " then stack[#stack + 1] = {} end
      for name in head:gmatch "(%%[%w_.]+):" do table.insert(stack[#stack], name) end
    end
  end
  local v = stack[#stack]
  return #v > 0 and v or { "%x" }
end
local function some_operand(text, at)
  local k = random(12)
  return k == 0 and "_" or k < 3 and pick(numbers) or pick(values_of(text, at or #text))
end

local function option(name, kind)
  local v = pick(numbers)
  if random(3) > 0 then v = tostring(random(5) - 1) end
  if kind == "ints" or kind == "floats" then
    local list = {}
    for i = 1, random(4) do list[i] = tostring(random(5) - (random(8) == 0 and 1 or 0)) end
    v = "[" .. table.concat(list, ",") .. "]"
  elseif kind == "bool" then v = pick { "true", "false" }
  elseif kind == "dtype" then v = pick(dtypes)
  elseif kind == "str" then v = pick { '"bias"', '"relu"', '"ij,jk->ik"', '"ii->"', '"i,i->i"', '"..."', '""', '"bias relu"' }
  elseif kind:find "|" then
    local words = {}
    for w in kind:gmatch "[%w_]+" do words[#words + 1] = w end
    v = pick(words)
  end
  return name .. "=" .. v
end

-- A line with an operator on what is there; its types are inferred.
local serial = 0
local function new_line(text, at)
  local o = pick(all)
  local n = select(2, o.inputs:gsub("%S+", ""))
  if o.inputs:find "%.%.%." then n = 1 + random(3) end
  local operands, options = {}, {}
  for i = 1, math.max(0, n - (random(3) == 0 and random(n + 1) or 0)) do operands[i] = some_operand(text, at) end
  for name, kind in o.attrs:gmatch "([%w_]+):([%w_|]+)" do
    if random(2) == 0 then options[#options + 1] = option(name, kind) end
  end
  local names = {}
  for i = 1, random(6) == 0 and 2 or 1 do
    serial = serial + 1
    names[i] = "%n" .. serial
  end
  return ("  %s = %s %s {%s}"):format(table.concat(names, ", "), o.name, table.concat(operands, ", "),
    table.concat(options, " ")), names[1]
end

-- Before a line of the text, in any region; often something then reads it.
local function insert(text)
  local at = text:find("\n", 1 + random(#text), true) or text:find("\n", 1, true)
  if not at then return text end
  local line, name = new_line(text, at)
  text = text:sub(1, at) .. line .. "\n" .. text:sub(at + 1)
  if random(2) == 0 then
    local from, to = text:find("[ (]%%[%w_.]+%f[,)\n ]", at + #line)
    if from then text = text:sub(1, from) .. name .. text:sub(to + 1) end
  elseif random(2) == 0 then
    text = text:gsub("(graph @%w+%b() %-> )", "%1" .. name:gsub("%%", "%%%%") .. ", ", 1)
  end
  return text
end

-- The outermost graph once more, called by itself under another name.
local function called(text)
  local head = text:match "()graph @[%w_.]+%b()[^\n]*\n[^@]*$"
  if not head then return text end
  local last = text:sub(head)
  local name, params, results = last:match "^graph @([%w_.]+)(%b())%s*%->%s*([^\n{]*)"
  if not name then return text end
  local given, types, names = {}, {}, {}
  for v in params:gmatch "%%[%w_.]+" do given[#given + 1] = v end
  for r in results:gmatch "[^,%s]+" do
    local plain = r:gsub("%p", "%%%0")
    types[#types + 1] = last:match(plain .. "[^%w][^\n]*:%s*([%w_]+%[[%d,]*%])\n") or
      params:match(plain .. ":%s*([%w_]+%[[%d,]*%])") or "f32[]"
    serial = serial + 1
    names[#names + 1] = "%n" .. serial
  end
  if random(4) == 0 then table.remove(given) end
  local call = ("\n  %s = call @inner%d(%s) : %s"):format(table.concat(names, ", "), serial, table.concat(given, ", "),
    table.concat(types, ", "))
  local again = last:gsub("^graph @[%w_.]+", "graph @inner" .. serial):gsub("%s*$", "\n")
  local brace = last:find("{", 1, true)
  if not brace then return text end
  return text:sub(1, head - 1) .. again .. last:sub(1, brace) .. call .. last:sub(brace + 1):gsub("^%s*}", "\n}")
end

local function operand(t)
  local from, to = t:find("= [^\n]-[ (]%%[%w_.]+%f[,)\n ]", 1 + random(#t))
  if not from then return t end
  local first = t:sub(from, to):find "%%[%w_.]+$"
  return t:sub(1, from + first - 2) .. some_operand(t, from - 1) .. t:sub(to + 1)
end

local function pattern(word) return (word:gsub("%p", "%%%0")) end
local change = {
  insert, insert, insert, called,
  operand, operand,
  function(t) -- another operator of as many inputs
    local from, to, line = t:find("= ([%a_]+ [^\n{]*)", 1 + random(#t))
    if not from then return t end
    local n = select(2, line:gsub("%%", ""))
    return t:sub(1, from - 1) .. "= " .. pick(by_inputs[n] or all).name .. line:match " .*" .. t:sub(to + 1)
  end,
  function(t) -- a type everywhere, or once
    local old = {}
    for type in t:gmatch "[%w_]+%[[%d,]*%]" do old[#old + 1] = type end
    if #old == 0 then return t end
    local from, to = pick(old), pick(dtypes) .. pick(shapes)
    if random(2) == 0 then to = pick(dtypes) .. from:match "%[.*" end
    if random(4) == 0 then return replace(t, pattern(from), to) end
    return (t:gsub(pattern(from), (to:gsub("%%", "%%%%"))))
  end,
  function(t) -- a size everywhere
    return (t:gsub("%f[%d]" .. pick { "2", "3", "4", "6", "8" } .. "%f[^%d]", pick { "0", "1", "2", "3", "5", "17" }))
  end,
  function(t) return replace(t, "%f[%w%%%-]%-?%d[%d.]*", pick(numbers)) end,
  function(t) -- results
    return (t:gsub("(graph @[%w_.]+%b() %-> )", function(head)
      return head .. some_operand(t):gsub("_", "1.5") .. (random(4) == 0 and " {" or ", ")
    end, 1 + random(2)))
  end,
  function(t) return replace(t, "[,;] ", pick { ", ", "; " }) end,
  function(t) return replace(t, "\n", "\n  update " .. pick(values_of(t, #t)) .. " = " .. some_operand(t) .. "\n") end,
  function(t) return replace(t, "\n  [^\n]+", "") end,
  function(t) -- two lines change places
    local at = t:find("\n", 1 + random(#t), true)
    local a, b, rest = t:match("^(\n[^\n]*)(\n[^\n]*)(.*)$", at or 1)
    return a and t:sub(1, at - 1) .. b .. a .. rest or t
  end,
  function(t) return replace(t, "{[^{}\n]*}", "") end,
  function(t) return replace(t, "[%%@]?[%w_.]+", pick(tokens)) end,
  function(t) return pick { fuzz.byte, fuzz.again, fuzz.without }(t) end,
}

-- ---- what is run
local function small(text)
  local rounds = 1
  for type in text:gmatch "[%w_]+%[([%d,]*)%]" do
    local n = 1
    for d in type:gmatch "%d+" do n = n * math.max(1, tonumber(d)) end
    if n > MOST_ELEMENTS then return false end
  end
  for line in text:gmatch "[^\n]+" do
    local word = line:match "= ([%a_]+)"
    if word == "while_loop" or word == "fixed_point" or word == "scan" or word == "recursive" then
      local most = line:match "max=(%d+)" or line:match "length=(%d+)" or word == "fixed_point" and 100 or
        word == "scan" and 40 or nil
      if not most then return false end
      rounds = rounds * math.max(1, tonumber(most))
      if word == "recursive" and select(2, text:gsub("= recur ", "")) > 1 and tonumber(most) > 6 then return false end
    end
  end
  return rounds <= MOST_ROUNDS
end
local operators = {}
for _, o in ipairs(all) do operators[o.name] = true end
local function untyped(line, word) return operators[word] and line .. "\n" or nil end
-- Loops get ends that are near.
local function ends(text)
  return (text:gsub("(max=)(%d+)", function(word, n) return word .. (#n > 1 and "5" or n) end))
end

local made = {}
local function tensor_of(type)
  if not made[type] then
    local dtype, dims, shape = type:match "^([%w_]+)%[(.*)%]", type:match "%[(.*)%]", {}
    for d in dims:gmatch "%d+" do shape[#shape + 1] = tonumber(d) end
    local x = tessera.rng.normal(shape, { seed = 1, stream = #type }) * 2
    made[type] = x:cast(dtype)
  end
  return made[type]
end

local function bits_of(results) -- NaN is one value
  local out = {}
  for i, r in ipairs(results) do out[i] = r.dtype == "mxfp4" and r:bytes() or r:hash() end
  return table.concat(out, "|")
end

local loaded, ran, compiled, bad = 0, 0, 0, nil
local function run(text)
  local f, types = core.graph_load(text, { B = 2, T = 3, N = 4, M = 5 })
  if not f then
    if not types:find "^line %d+: .*\n    .*%^" and not types:find "^@" then bad = bad or types .. "\n" .. text end
    return
  end
  loaded = loaded + 1
  if not small(f:text "graph") or not small(f:text "captured") then return end
  local args = {}
  for i, type in ipairs(types) do
    local ok, x = pcall(tensor_of, type)
    if not ok then return end
    args[i] = x:clone()
  end
  local grad = random(8) == 0
  for _, x in ipairs(args) do
    if grad and x.dtype:find "^f[36]" then x.requires_grad = true end
  end
  core.seed(1)
  local results = { pcall(f.run, f, args) }
  if not results[1] then return end
  table.remove(results, 1)
  ran = ran + 1
  local first = bits_of(results)
  if grad then
    for _, y in ipairs(results) do
      if y.dtype:find "^f" and not y.dtype:find "fp" then pcall(function() y:sum():backward() end) end
    end
  elseif random(300) == 0 and not text:find "update" and not text:find "= empty" then -- what nobody wrote may differ
    if pcall(f.pin, f, true) then
      compiled = compiled + 1
      core.seed(1)
      local again = { pcall(f.run, f, args) }
      if table.remove(again, 1) and bits_of(again) ~= first then bad = bad or "kernels give others\n" .. text end
    end
  end
end

for i = 1, count do
  local text = pick(random(16) == 0 and broken or texts)
  -- Types left out show what is inferred from what has changed.
  if random(4) > 0 then text = text:gsub("(= ([%a_]+)[^\n@\"]-) : [%w%[%], ]+\n", untyped) end
  run(fuzz.changed(ends(text), change))
  if i % 200 == 0 then collectgarbage() end
end
if os.getenv "FUZZ_COUNT" then
  print(("%d of %d texts were loaded, %d ran, %d of them compiled"):format(loaded, count, ran, compiled))
end
bad --> nil
ran > count / 50 --> true
