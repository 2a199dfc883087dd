-- Graph text with errors in it: golden files with bytes flipped, tokens swapped, repeated, cut
-- off, numbers grown, brackets nested. Reading gives a message or a graph whose text reads back
-- the same; it never crashes, hangs, or takes memory out of proportion. The seed is fixed;
-- FUZZ_COUNT in the environment makes it longer, FUZZ_SEED chooses another one, FUZZ_TRACE
-- names a file that gets each text first.
local core = require "tessera.core"
local fuzz = dofile "tests/fuzz/_text.lua"
local random, pick, replace = fuzz.random, fuzz.pick, fuzz.replace
local count = fuzz.open("FUZZ", 15000)

local texts, good, tokens = {}, {}, {}
for path, text in fuzz.files("tests/ir", ".graph") do
  text = text:gsub("\n// want.*", "\n")
  texts[#texts + 1] = text
  if not path:find "bad" then good[#good + 1] = text end
  fuzz.tokens(text, tokens)
end
local words = {} -- every operator, with its options
for _, o in ipairs(core.operators()) do
  words[#words + 1] = o.name
  for name in o.attrs:gmatch "([%w_]+):" do tokens[#tokens + 1] = name .. "=" end
end
local numbers = { "0", "-1", "1", "2", "3", "7", "12", "13", "100", "-0.0", "1e308", "1e999", "5e-324", "nan", "-inf",
  "2147483647", "2147483648", "4294967296", "9007199254740993", "9223372036854775807", "-9223372036854775808",
  "9223372036854775808", "-9223363240761753600", "4611686018427387904", "3037000500", "1e-999", ("9"):rep(500), "0." .. ("0"):rep(390) .. "1" }
local types = { "f32[]", "i64[3]", "bool[]", "f32[0,4]", "complex64[2,2]", "f64[]~", "mxfp4[2,32]", "u8[4]",
  "f32[1,1,1,1,1,1,1,1,1,1,1,1]", "f32[1,1,1,1,1,1,1,1,1,1,1,1,1]", "f32[9223372036854775807]", "i8[4611686018427387904,1]",
  "f32[0,9223372036854775807,9223372036854775807]" }

local change = {
  fuzz.byte,
  fuzz.cut,
  function(t) return replace(t, "%f[%w%%%-]%-?%d[%d.]*", pick(numbers)) end,
  function(t) return replace(t, "[%w_]+%[[%d,]*%]", pick(types)) end,
  function(t) return replace(t, "= [%w_]+", "= " .. pick(words)) end,
  function(t) return replace(t, "[%%@]?[%w_.]+", pick(tokens)) end,
  function(t) return replace(t, "%p", pick(tokens)) end,
  function(t) return replace(t, "[ (]%%[%w_.]+%f[,)\n ]", " " .. pick { "_", "%0", "%1", "%x", pick(numbers) }) end,
  function(t) return replace(t, " : [^\n{}]*", "") end, -- types left out: what is inferred shows
  function(t) -- another operator with its options, on what is there
    local values = {}
    for v in t:gmatch "%%[%w_.]+" do values[#values + 1] = v end
    if #values == 0 then return t end
    local o = pick(core.operators())
    local line, comma = "\n  %new" .. random(1000) .. (random(3) == 0 and ", %more" or "") .. " = " .. o.name .. " ", ""
    for _ = 1, random(4) do
      line, comma = line .. comma .. pick(values), ", "
    end
    line = line .. " {"
    for name, kind in o.attrs:gmatch "([%w_]+):([%w_|]+)" do
      if random(2) == 0 then
        local v = pick(numbers)
        if random(3) > 0 then v = tostring(random(5) - 1) end
        if kind == "ints" or kind == "floats" then v = "[" .. v .. "," .. random(4) .. "]" end
        if kind == "bool" then v = "true" end
        if kind == "dtype" then v = pick { "f64", "i8", "mxfp4", "q4_k", "complex64" } end
        if kind == "str" then v = pick { '"bias"', '"ij,jk->ik"', '"ii->"', '"..."', '""' } end
        if kind:find "|" then v = kind:match "[%w_]+$" end
        line = line .. " " .. name .. "=" .. v
      end
    end
    local at = t:find("\n}[^\n]*\n?$") or #t
    return t:sub(1, at - 1) .. line .. "}" .. t:sub(at)
  end,
  fuzz.again,
  fuzz.without,
  fuzz.deep { "{", "(", "[", "[1,", "do () {", "do () -> 1 { %a = cond 1 ", '"', "\\", "//", "%a,", "1,", ";", "\n", "-" },
}

local fine, unlike, slowest, largest = 0, nil, 0, 0
for i = 1, count do
  local text = pick(random(8) == 0 and texts or good)
  -- Without types a changed operator is not refused for what follows from it.
  if random(2) == 0 then text = text:gsub("( = [^\n@\"]-) : [%w%[%],~ ]+\n", "%1\n") end
  text = fuzz.changed(text, change)
  local start = os.clock()
  local once, err = core.graph_parse(text, pick { "text", "text", "places" })
  if once then
    fine = fine + 1
    local again = core.graph_parse(once, "places")
    local plain = core.graph_parse(once)
    if plain ~= once and again ~= once then unlike = unlike or once end
    core.graph_parse(once, pick { "json", "dot" })
  elseif not err:find "^line %d+: .*\n    .*%^" then
    unlike = unlike or err
  end
  if os.clock() - start > slowest then slowest, largest = os.clock() - start, #text end
  if i % 500 == 0 then collectgarbage() end
end
if os.getenv "FUZZ_COUNT" then
  print(("%d of %d texts were read; the slowest took %.3f s, %d bytes"):format(fine, count, slowest, largest))
end
unlike --> nil
fine > count / 50 --> true
slowest < 2 --> true
