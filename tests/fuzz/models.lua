-- Files and texts of models, damaged: each is read, or an error that says what; memory stays within what the file is worth, and so
-- does time. FUZZ_COUNT: how many of each format (make fuzz-models: a million), FUZZ_SEED, FUZZ_TRACE as in _text.lua; FUZZ_FORMAT=word: formats
-- with it; FUZZ_SHOW=1: what ran, and the slowest of each.
local formats = dofile "tests/fuzz/_models.lua"
local fuzz = formats.fuzz
local random, pick = fuzz.random, fuzz.pick

local count = fuzz.open("FUZZ", os.getenv "LONG" and 15000 or 300)
local only = os.getenv "FUZZ_FORMAT" or ""

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
  for _, word in ipairs { "attempt to %a+ ", "bad argument #", "stack overflow", "internal error", "not enough memory", "out of memory", "error in error", "^table: " } do
    if why:find(word) then return why end
  end
end

function formats.check(why)
  local bad = unclean(why)
  if bad then error({ unclean = bad }, 0) end
end

-- ---- what a case takes

-- MiB: what there is, and the most since the last call; nil where the system does not say.
local function memory()
  local now, most
  local f = io.open("/proc/self/status")
  if not f then return nil end
  for line in f:lines() do
    most, now = most or tonumber(line:match "^VmHWM:%s+(%d+)"), tonumber(line:match "^VmRSS:%s+(%d+)")
    if now then break end
  end
  f:close()
  local clear = io.open("/proc/self/clear_refs", "w")
  if not clear then return nil end
  clear:write "5"
  clear:close()
  return now and now / 1024, most and most / 1024
end

local HANGS = 120 -- seconds of a processor after which it does not come back

local function case(format, seeds, i)
  local s
  if format.changed and random(8) ~= 0 then s = format.changed(seeds)
  else
    local seed = pick(seeds)
    s = changed(format.plain and format.plain(seed) or seed, format.pieces)
  end
  fuzz.note(s)
  local before, from = memory(), os.clock()
  local ok, why = pcall(format.read, s)
  local took = os.clock() - from
  local _, most = memory()
  local bad = not ok and (type(why) == "table" and why.unclean or unclean(why))
  if took > HANGS then bad = ("it takes %.0f s"):format(took) end
  local bound = format.most + #s * 64 / 2 ^ 20
  if most and most - before > bound then bad = ("it takes %.0f MiB, and %.0f are what %d bytes may"):format(most - before, bound, #s) end
  if bad then
    local name = os.getenv "FUZZ_KEEP"
    if name then
      local f = assert(io.open(name .. "." .. i, "wb"))
      f:write(s)
      f:close()
      print(("%s %d: %s"):format(format.name, i, tostring(bad):sub(1, 1000)))
    else
      error(("%s, number %d of seed %d: %s\n%q"):format(format.name, i, fuzz.first, tostring(bad), s:sub(1, 4000)), 0)
    end
  end
  return ok, took, most and most - before or 0
end

local tried, read, said = 0, 0, 0
for _, format in ipairs(formats) do
  if format.name:find(only, 1, true) then
    local seeds = format.seeds()
    local good = 0
    for _, seed in ipairs(seeds) do
      local fine, why = pcall(format.read, format.plain and format.plain(seed) or seed)
      assert(fine or not format.plain, format.name .. ": " .. tostring(why))
      good = good + (fine and 1 or 0)
    end
    assert(good > 0, format.name)
    collectgarbage()
    local slowest, largest, fine = 0, 0, read
    for i = 1, count do
      local ok, took, mib = case(format, seeds, i)
      tried, read, said = tried + 1, read + (ok and 1 or 0), said + (ok and 0 or 1)
      slowest, largest = math.max(slowest, took), math.max(largest, mib)
    end
    if os.getenv "FUZZ_SHOW" then
      print(("%s: %d from %d seeds, %d read, the slowest %.2f s, %.0f MiB at most"):format(format.name, count, #seeds, read - fine, slowest, largest))
    end
  end
end
formats.clean()
assert(tried >= count and read > 0 and said > 0)
