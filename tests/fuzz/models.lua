-- Files and texts of models, damaged: each is read, or an error that says what; memory stays within what the file is worth.
-- FUZZ_COUNT (make fuzz-models: a million in all), FUZZ_SEED, FUZZ_TRACE as in _text.lua; FUZZ_FORMAT=word: formats with it.
local fuzz = dofile "tests/fuzz/_text.lua"
local formats = dofile "tests/fuzz/_models.lua"
local random, pick = fuzz.random, fuzz.pick

local count = fuzz.open("FUZZ", os.getenv "LONG" and 100000 or 2100, tonumber(os.getenv "FUZZ_SEED" or ""))
local only = os.getenv "FUZZ_FORMAT" or ""
local MOST = 400 -- MiB that reading a few kilobytes may take beside what is there

-- ---- changes

local function at_random(s) return 1 + random(#s + 1) end

local function changed(s, pieces)
  for _ = 1, 1 + random(3) do
    local at, n = at_random(s), random(12)
    local kind = random(8)
    if kind == 0 then s = s:sub(1, at - 1) .. string.char(random(256)) .. s:sub(at + 1)
    elseif kind == 1 then s = s:sub(1, at - 1) .. s:sub(at + n)
    elseif kind == 2 then s = s:sub(1, at - 1) .. pick(pick(pieces)) .. s:sub(at + random(2) * n)
    elseif kind == 3 then s = s:sub(1, at + n) .. s:sub(at)
    elseif kind == 4 and random(4) == 0 then s = s:sub(1, at)
    elseif kind == 5 then -- bytes over others, so that lengths stay
      local p = pick(pick(pieces))
      s = s:sub(1, at - 1) .. p .. s:sub(at + #p)
    elseif kind == 6 then -- a piece from elsewhere
      local from = at_random(s)
      s = s:sub(1, at - 1) .. s:sub(from, from + random(40)) .. s:sub(at)
    else
      local from, to = s:find("%d+", at)
      if from then s = s:sub(1, from - 1) .. pick { "0", "-1", "1", "99999", "2147483648", "1e99", "0.5" } .. s:sub(to + 1) end
    end
  end
  return #s > 200000 and s:sub(1, 200000) or s
end

-- ---- what must not come out

local function unclean(why)
  if type(why) ~= "string" and type(why) ~= "table" then return "no message" end
  why = tostring(why)
  for _, word in ipairs { "attempt to %a+ ", "bad argument #", "stack overflow", "internal error", "not enough memory", "error in error" } do
    if why:find(word) then return why end
  end
end

-- The most memory since the last call, MiB; nil where the system does not say.
local function peak()
  local most
  for line in io.lines "/proc/self/status" do most = most or tonumber(line:match "^VmHWM:%s+(%d+)") end
  local f = io.open("/proc/self/clear_refs", "w")
  if f then
    f:write "5"
    f:close()
  end
  return most and most / 1024
end

local tried, read, said = 0, 0, 0
for _, format in ipairs(formats) do
  if format.name:find(only, 1, true) then
    local seeds = format.seeds()
    local good = 0
    for _, s in ipairs(seeds) do good = good + (pcall(format.read, s) and 1 or 0) end
    assert(good > 0, format.name)
    collectgarbage()
    peak()
    local before = peak()
    for i = 1, math.ceil(count / #formats) do
      local s = changed(pick(seeds), format.pieces)
      fuzz.note(s)
      local ok, why = pcall(format.read, s)
      local bad = not ok and unclean(why)
      assert(not bad, ("%s: %s\n%q"):format(format.name, tostring(bad), s:sub(1, 4000)))
      tried, read, said = tried + 1, read + (ok and 1 or 0), said + (ok and 0 or 1)
      if i % 50 == 0 and before then
        local now = peak()
        assert(now < before + MOST, ("%s: %.0f MiB, and %.0f before; one of the last 50, as\n%q"):format(format.name, now, before, s:sub(1, 4000)))
      end
    end
  end
end
formats.clean()
assert(tried >= count * (only == "" and 1 or 0) and read > 0 and said > 0)
