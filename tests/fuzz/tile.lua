-- Text of Tile IR with errors in it, as tests/fuzz/graph.lua: the golden files with bytes flipped,
-- tokens swapped, repeated, cut off, numbers grown, brackets nested. Reading gives a message that
-- shows a line, or a kernel that prints as text of an equal kernel, which prints the same; the
-- check says something about it or nothing. What is legal is interpreted and goes through a pass, or
-- there is a reason why not. FUZZ_COUNT, FUZZ_SEED, FUZZ_TRACE in the environment.
local core = require "tessera.core"
local fuzz = dofile "tests/fuzz/_text.lua"
local random, pick, replace = fuzz.random, fuzz.pick, fuzz.replace
local count = fuzz.open("FUZZ", 8000)

local good, bad, tokens, lines, types = {}, {}, {}, {}, {}
for path, text in fuzz.files("tests/tile", ".tile") do
  text = text:gsub("\n// want.*", "\n")
  local into = path:find "bad" and bad or good
  into[#into + 1] = text
  fuzz.tokens(text, tokens)
  for line in text:gmatch "\n  [^\n]+" do lines[#lines + 1] = line end
  for type in text:gmatch "[%w]+%[[%w,]*%][^\n%%{]*" do types[#types + 1] = type end
end
local words = {}
for _, line in ipairs(lines) do words[#words + 1] = line:match "= ([%a_]+)" end
for _, o in ipairs(core.operators()) do words[#words + 1] = o.name end
local numbers = { "0", "-1", "1", "2", "3", "7", "12", "13", "64", "255", "257", "-0.0", "1e308", "1e999", "5e-324",
  "nan", "-inf", "65536", "2147483647", "2147483648", "4294967296", "9007199254740993", "9223372036854775807",
  "-9223372036854775808", "9223372036854775808", "-9223372036854775807", "4611686018427387904", "-9223363240761753601", "-9223363240761753600",
  "3037000500", "8x8", "0x5", ("9"):rep(500) }

local change = {
  fuzz.byte,
  fuzz.cut,
  function(t) return replace(t, "%f[%w%%%-]%-?%d[%d.]*", pick(numbers)) end,
  function(t) return replace(t, "[%w_]+%[[%w,]*%]", pick(types)) end,
  function(t) return replace(t, "@%l+[^{\n]*", "@" .. pick { "fragment", "scratch", "local", "shared(swizzle=64)",
    "barrier(count=3)", "global", "value", "value(swizzle=1, count=9)" }) end,
  function(t) return replace(t, "= [%a_]+", "= " .. pick(words)) end,
  function(t) return replace(t, "[%%@]?[%w_.]+", pick(tokens)) end,
  function(t) return replace(t, "%p", pick(tokens)) end,
  function(t) return replace(t, "%%[%w_.]+", pick { "0", "1", "-7", "%r", "%a", "%x", "%y", "%0" }) end,
  function(t) return replace(t, "\n", pick(lines) .. "\n") end,
  function(t) return replace(t, "\n  [^\n]+", "") end,
  function(t) return replace(t, " form explicit", "") end,
  function(t) return replace(t, " {\n", " target " .. pick { "sm_90a", "cpu", "avx2" } .. " form explicit {\n") end,
  fuzz.again,
  fuzz.without,
  fuzz.deep { "{", "(", "[", "[1,", "for %i in 0..1 {\n", "if %c {", "} else {", '"', "\\", "//", "%a,", "1,", "<",
    "\n", "-", "..", "8x", "mark\n", "%a = add 1, 2 : i64[]\n" },
}

-- What runs is bounded by the numbers in it: sizes, and rounds of loops, which the sizes that the test
-- chooses (5, 10, ..) bound elsewhere.
local function small(text)
  local rounds = 1
  for n in text:gmatch "%f[%w%%]%d+%f[%D]" do
    if tonumber(n) > 8192 then return false end
  end
  for type in text:gmatch "%w+%[([%w,]*)%]" do
    local n = 1
    for d in type:gmatch "%w+" do n = n * math.max(1, tonumber(d) or 40) end
    if n > 16384 then return false end
  end
  for line in text:gmatch "for [^\n]*" do
    local step = tonumber(line:match "step (%d+)") or 1
    rounds = rounds * math.max(1, (tonumber(line:match "%.%.(%d+)") or 40) / math.max(1, step))
  end
  return rounds <= 2000
end
local passes = { "expand", "fix", "cse", "dce", "vectorise", "vectorise", "product", "pipeline" }
local isas = { "avx512", "avx2", "base" }
local passed, ran = 0, 0

local targets = { nil, { name = "a", shared_bytes = 16384 }, { name = "b", shared_bytes = 1048576 } }
local fine, legal, unlike, slowest, largest = 0, 0, nil, 0, 0
local function wrong(what, text) unlike = unlike or what .. "\n" .. text end

for i = 1, count do
  local text = pick(random(4) == 0 and bad or good)
  text = fuzz.changed(text, change)
  local start = os.clock()
  local once, err = core.tile_parse(text, "unchecked")
  if once then
    fine = fine + 1
    local again, why = core.tile_parse(once, "unchecked")
    if again ~= once then wrong("prints otherwise: " .. tostring(why or again), once) end
    local same, where = core.tile_equal(text, once)
    if not same then wrong("differs: " .. where, once) end
    local checked, message = core.tile_parse(text, pick { "text", "places" }, targets[1 + random(3)])
    if checked then
      legal = legal + 1
      if small(checked) then
        local bytes = core.tile_run(once)
        ran = ran + (bytes and 1 or 0)
        -- Kernels of other targets have what this one has not.
        passed = passed + (core.tile_pass(once, pick(passes), pick(isas)) and 1 or 0)
      end
    elseif not message:find "^illegal: @" then wrong(message, once) end
  elseif not err:find "^line %d+: .*\n    .*%^" then
    wrong(err, text)
  end
  if os.clock() - start > slowest then slowest, largest = os.clock() - start, #text end
  if i % 500 == 0 then collectgarbage() end
end
if os.getenv "FUZZ_COUNT" then
  print(("%d of %d texts were read, %d are legal, %d ran, %d went through a pass; the slowest took %.3f s, %d bytes"):format(fine,
    count, legal, ran, passed, slowest, largest))
end
unlike --> nil
