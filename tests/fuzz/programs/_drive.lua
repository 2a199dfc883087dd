-- Generates programs, runs each in every way, compares what they print line by line with the reference,
-- shrinks those that differ.
--   local found = dofile "tests/fuzz/programs/_drive.lua"{ first = 1, count = 100, seconds = 100, .. }
-- More: kinds (a list with commas), device (a GPU beside the CPU), jobs, ways (so many a program, by
-- turns; nil:
-- all), shrink (seconds a program), keep (the folder of programs that fail), chatty.
local here = "tests/fuzz/programs/"
local ways, shrink = dofile(here .. "_ways.lua"), dofile(here .. "_shrink.lua")
local MARK = "-- ---- the program\n"

local function read(path)
  local file = io.open(path, "rb")
  if not file then return nil end
  local text = file:read "*a"
  file:close()
  return text
end
local function write(path, text)
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
end

-- The first line that differs, or nil.
local function difference(want, got)
  if want == got then return nil end
  local a, b = want:gmatch "([^\n]*)\n?", got:gmatch "([^\n]*)\n?"
  while true do
    local p, q = a(), b()
    if p ~= q then return ("want %s\n     got  %s"):format(tostring(p):sub(1, 600), tostring(q):sub(1,
      600)) end
    if not p then return nil end
  end
end

-- Faults of one sort have one signature: what is told, without numbers and bits.
local function signature(text)
  if text:match "^WRONG" then return (text:gsub("\n.*", ""):gsub(" %-%- .*", "")) end
  local want, got = text:match "want ([^:\n]*)[^\n]*\n +got +([^:\n]*)"
  if want then text = text:match "^[^w\n]*" .. "'" .. want .. "' is '" .. (got == want and "other"
    or got) .. "'" end
  return (text:gsub("\n.*", ""):gsub("%x%x%x%x%x%x%x%x+", "#"):gsub("%d+", "#"):sub(1, 90))
end

return function(o)
  local folder = ways.shell "mktemp -d":gsub("%s", "")
  local keep = o.keep or folder
  if o.keep then ways.shell("mkdir -p " .. keep) end
  ways.limit = o.limit
  local list, cache = ways.all(o.device), folder .. "/cache"
  local start, found, sorts, told = os.time(), {}, {}, 0
  local programs, checks, mismatches, failed = 0, 0, 0, {}

  local function of_seed(seed) -- the ways of this seed
    local chosen = { list[1] }
    local others = #list - 1
    local n = math.min(o.ways or others, others)
    local taken = {}
    for k = 0, n - 1 do taken[1 + (seed * n + k) % others] = true end
    for k = 1, others do
      if taken[k] then chosen[#chosen + 1] = list[k + 1] end
    end
    return chosen
  end

  local function run_alone(text, which)
    local path = folder .. "/alone.lua"
    write(path, text)
    local runs = {}
    for i, w in ipairs(which) do runs[i] = { path = path, way = w, out = folder .. "/alone." .. i } end
    ways.run({ runs }, folder .. "/alone_cache", 1)
    local outs = {}
    for i, w in ipairs(which) do
      outs[i] = ways.output(folder .. "/alone." .. i, w)
      outs[i] = ways.told(outs[1], outs[i], w)
    end
    return outs
  end

  local function report(seed, way, what, text, still)
    local sort = (way[1] == list[1][1] and "" or "way ") .. signature(what)
    local first = not sorts[sort]
    sorts[sort] = (sorts[sort] or 0) + 1
    local head, body = text:match("^(.-" .. MARK:gsub("%p", "%%%0") .. ")(.*)$")
    if head and still and sorts[sort] <= (o.each or 2) then
      local lines = {}
      for line in body:gmatch "[^\n]+" do lines[#lines + 1] = line end
      local function joined(l) return head .. table.concat(l, "\n") .. "\n" end
      lines = shrink(lines, function(l) return still(joined(l)) end, o.shrink or 20)
      text = joined(lines)
      body = table.concat(lines, "\n") .. "\n"
    end
    local path = ("%s/%d.lua"):format(keep, seed)
    write(path, text)
    if not failed[seed] then failed[seed], mismatches = true, mismatches + 1 end
    found[#found + 1] = { seed = seed, way = way[1], what = what, sort = sort, body = body,
      path = path }
    if first or (o.each or 1) >= sorts[sort] then
      told = told + 1
      if told <= (o.most or 20) then
        print(("seed %d, %s: %s\n  %s\n  %s\n%s"):format(seed, way[1], what, ways.command(list[1], path,
          "/tmp/fuzz-cache"),
          way == list[1] and "" or ways.command(way, path, "/tmp/fuzz-cache"),
            (body or ""):gsub("%f[^\n%z]", "    ")))
        io.stdout:flush()
      end
    end
  end

  local function judge(seed, text, runs)
    local outs = {}
    for i, r in ipairs(runs) do outs[i] = ways.told(outs[1], ways.output(r.out, r.way), r.way) end
    checks = checks + #runs
    local sorts_here = {}
    for own in outs[1]:gmatch "WRONG[^\n]*" do
      if not sorts_here[signature(own)] then
        sorts_here[signature(own)] = true
        -- What is known of a program is known of it as a whole.
        local sought = text:find("\nknown(f", 1, true) and own or own:match "^WRONG .- %-%- "
        report(seed, list[1], own, text, function(t) return run_alone(t, { list[1] })[1]:find(sought, 1,
          true) ~= nil end)
      end
    end
    if tonumber(outs[1]:match "exit (%d+)%s*$" or 255) >= 124 then
      return report(seed, list[1], "the reference ends with " .. outs[1]:sub(-200), text, nil)
    end
    for i = 2, #runs do
      local what = difference(outs[1], outs[i])
      if what then
        local way = runs[i].way
        local crash = outs[i]:match "exit (%d+)%s*$"
        if crash and tonumber(crash) >= 124 then what = "exit " .. crash .. "; " .. what end
        report(seed, way, what, text, function(t)
          local a = run_alone(t, { list[1], way, way })
          local c = tonumber(a[2]:match "exit (%d+)%s*$" or 255) >= 124
          return a[1] ~= a[2] and a[1]:find "exit 0%s*$" ~= nil and c == (tonumber(crash or 255) >= 124)
        end)
        return
      end
    end
  end

  local seed, chunk = o.first or 1, o.chunk or 32
  local last = seed + (o.count or math.huge) - 1
  while seed <= last and os.time() - start < (o.seconds or math.huge) do
    local n = math.min(chunk, last - seed + 1)
    local generate = ("timeout -k 1 60 %s --no-jit --threads=1 %s_generate.lua %s"):format(ways.program,
      here, folder)
    local complaint, status = ways.shell(("%s %d %d %s"):format(generate, seed, n, o.kinds or ""))
    if complaint ~= "" and o.chatty then print(complaint) end
    local lists = {}
    for s = seed, seed + n - 1 do
      local path = ("%s/%d.lua"):format(folder, s)
      if not read(path) then -- it ended before: one by one
        local out, code = ways.shell(("FUZZ_TRACE=%s/trace %s %d 1 %s"):format(folder, generate, s,
          o.kinds or ""))
        if code ~= 0 then report(s, list[1], ("the generator ends with %s: %s"):format(code,
          out:sub(-300)), read(folder .. "/trace") or "", nil) end
      end
      local text = read(path)
      if text and text:find(MARK, 1, true) then
        programs = programs + 1
        local runs = {}
        for i, w in ipairs(of_seed(s)) do runs[i] = { path = path, way = w,
          out = ("%s/%d.%d"):format(folder, s, i) } end
        lists[#lists + 1] = runs
        runs.seed, runs.text = s, text
      end
    end
    ways.run(lists, cache, o.jobs or 2)
    for _, runs in ipairs(lists) do judge(runs.seed, runs.text, runs) end
    ways.shell(("rm -f %s/*.lua %s/*.[0-9]*"):format(o.keep and folder or "/nonexistent", folder))
    seed = seed + n
    if o.chatty then print(("... %d programs, %d mismatches, %d s"):format(programs, mismatches,
      os.time() - start)) io.stdout:flush() end
  end
  if #found == 0 or o.keep then ways.shell("rm -rf " .. folder) end
  return { programs = programs, runs = checks, mismatches = mismatches, found = found, sorts = sorts }
end
