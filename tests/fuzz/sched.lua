-- Text of schedules with errors in it, as tests/fuzz/graph.lua: the golden files with words, values
-- and numbers of the schedule changed, lines dropped, doubled and moved, bytes flipped. Reading
-- gives a message that shows a line, or a schedule that prints as text of an equal one; the check
-- says something about it or nothing. FUZZ_COUNT, FUZZ_SEED in the environment.
local core = require "tessera.core"
local fuzz = dofile "tests/fuzz/_text.lua"
local random, pick, replace = fuzz.random, fuzz.pick, fuzz.replace
local count = fuzz.open("FUZZ", 6000)

local graphs = {}
for path, text in fuzz.files("tests/sched", ".sched") do
  text = text:match "\n// want\n(.*)$" or text
  local graph, schedule = text:match "^(.-\n)(schedule @.*)$"
  graphs[#graphs + 1] = { graph = graph, schedule = schedule }
end

local function lines(t)
  local l = {}
  for line in (t .. "\n"):gmatch "[^\n]*\n" do l[#l + 1] = line end
  return l
end
local words = { "vm", "map", "rows", "matmul", "space", "row", "in", "out", "target", "threads", "schedule", "}", "{",
  "[", "]", ",", "", "%x", "%0", "%1", "%s", "%k", "%v", "%b", "@f", "//" }
local numbers = { "0", "-1", "1", "2", "3", "6", "40", "240", "9223372036854775807", "4294967296", "1e9", "nan",
  ("9"):rep(300) }
local change = {
  function(t) return replace(t, "%%[%w_]+", pick { "%x", "%b", "%0", "%1", "%s", "%k", "%v", "%nobody" }) end,
  function(t) return replace(t, "%f[%d]%d+", pick(numbers)) end,
  function(t) return replace(t, "[%%@]?[%w_]+", pick(words)) end,
  function(t) return replace(t, "%p", pick(words)) end,
  function(t) local l = lines(t) table.remove(l, 1 + random(#l)) return table.concat(l) end,
  function(t) local l = lines(t) table.insert(l, 1 + random(#l), pick(l)) return table.concat(l) end,
  function(t)
    local l = lines(t)
    local line = table.remove(l, 1 + random(#l))
    table.insert(l, 1 + random(#l + 1), line)
    return table.concat(l)
  end,
  function(t) return replace(t, "%[", "[" .. ("1,"):rep(pick { 1, 7, 3000 })) end,
  fuzz.byte,
  fuzz.cut,
}

local fine, legal, unlike = 0, 0, nil
for i = 1, count do
  local from = pick(graphs)
  local text = from.schedule
  text = fuzz.changed(text, change)
  if text:sub(1, 10) == "schedule @" then
    local once, err = core.sched_parse(from.graph .. text, "unchecked")
    if once then
      fine = fine + 1
      if core.sched_parse(once, "unchecked") ~= once then unlike = unlike or "prints otherwise: " .. once end
      local checked, message = core.sched_parse(from.graph .. text)
      if checked then legal = legal + 1
      elseif not message:find "^schedule: " then unlike = unlike or message end
    elseif not err:find "^line %d+: .*\n    .*%^" then
      unlike = unlike or err .. "\n" .. text
    end
  end
  if i % 500 == 0 then collectgarbage() end
end
if os.getenv "FUZZ_COUNT" then print(("%d of %d were read, %d are legal"):format(fine, count, legal)) end
unlike --> nil
