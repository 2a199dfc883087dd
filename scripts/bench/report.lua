-- The tables of the benchmark, as aligned text and as Markdown, and the machine they
-- were measured on.

local report = {}

local on_gpu = (os.getenv "DEV" or "") ~= ""
local MARK = ("<!-- What follows is written by `make bench%s WRITE=1`. -->"):format(on_gpu and " DEV=cuda" or "")

local function number(v)
  if not v then return "-" end
  if v >= 1000 then return ("%.0f"):format(v) end
  return (("%.3g"):format(v))
end

local function ratio(v) return v and ("%.2f"):format(v) or "-" end

local function cpu_model()
  for line in io.lines("/proc/cpuinfo") do
    local model = line:match("^model name%s*:%s*(.*)$")
    if model then return model end
  end
  return "unknown CPU"
end

local function answer(command)
  local pipe = io.popen(command)
  local text = pipe:read("*l") or ""
  pipe:close()
  return text
end

local function command_line()
  local words = { "make bench" }
  for _, name in ipairs { "DEV", "ONLY", "ROUNDS", "THREADS", "CLOCK", "STAT", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT" } do
    local value = os.getenv(name) or ""
    if value ~= "" then words[#words + 1] = name .. "=" .. value end
  end
  return table.concat(words, " ")
end

function report.head(found, missing)
  local lines = {
    ("Machine: %s, %s processors, %s memory, %s"):format(cpu_model(), answer "nproc",
      answer "free -h --si | awk '/^Mem/{print $2}'", answer "uname -sr"),
    ("Instruction set of the kernels: %s"):format(require("tessera.core").isa()),
    ("Date: %s; command: %s; load at the start: %s"):format(os.date("!%Y-%m-%d"),
      command_line(), answer "cut -d' ' -f1 /proc/loadavg"),
  }
  local names = {}
  for _, p in ipairs(found) do names[#names + 1] = p.title .. " " .. p.about end
  lines[#lines + 1] = "Versions: " .. table.concat(names, ", ")
  names = {}
  for _, p in ipairs(missing) do names[#names + 1] = p.title end
  if #names > 0 then lines[#lines + 1] = "Not found: " .. table.concat(names, ", ") end
  return { plain = table.concat(lines, "\n") .. "\n",
    markdown = "- " .. table.concat(lines, "\n- ") .. "\n" }
end

-- ---- goals

local SHORT = { onednn = "oneDNN", torch = "PyTorch", compile = "torch.compile", numpy = "NumPy", scipy = "SciPy",
  jax = "JAX", llama = "llama.cpp", onnx = "onnxruntime", vm = "VM alone", eager = "eager" }
local ORDER = { "eager", "vm", "onednn", "torch", "compile", "numpy", "scipy", "jax", "llama", "onnx" }

-- The goal in words, and what is missing for it: "" when met, nil without a goal that
-- was measured. Peers that have no such row, or were not found, are no part of it.
local function judge(r)
  local g = r.row.goals
  if not g or g.threads and g.threads ~= r.threads then return "-", nil end
  local words, short = {}, {}
  if g.most then
    words[1] = ("<= %g %s"):format(g.most, r.row.per.unit)
    if not r.value.ours or r.value.ours > g.most then short[1] = number(r.value.ours) end
  end
  if g.limit then
    words[#words + 1] = ("%g limit"):format(g.limit)
    if not r.part or r.part < g.limit then short[#short + 1] = "limit " .. ratio(r.part) end
  end
  for _, name in ipairs(ORDER) do
    local least = g.peers and g.peers[name]
    if least and r.value[name] then
      words[#words + 1] = ("%g %s"):format(least, SHORT[name])
      local has = r.ratio[name] or 0
      if has < least then short[#short + 1] = SHORT[name] .. " " .. ratio(has) end
    end
  end
  if #words == 0 then return "-", nil end
  if not r.value.ours then return table.concat(words, ", "), "no result" end
  return table.concat(words, ", "), table.concat(short, ", ")
end

-- ---- tables

local function cells_of(section, results, columns)
  local used, limits, bounds, goals, threads = {}, false, false, false, false
  for _, r in ipairs(results) do
    for name in pairs(r.value) do used[name] = true end
    limits = limits or r.limit ~= nil
    bounds = bounds or r.of_bound ~= nil
    goals = goals or r.row.goals ~= nil
    threads = threads or r.threads ~= nil
  end
  used.ours = section.kind ~= "machine"
  local head = { section.name, threads and "threads" or nil }
  head[#head + 1] = "unit"
  for _, c in ipairs(columns) do
    if used[c.name] then
      head[#head + 1] = c.title
      if c.name ~= "ours" and not c.bare then head[#head + 1] = c.against and "PyTorch / it" or "ratio" end
      if c.name == "ours" and limits then
        head[#head + 1] = "limit"
        head[#head + 1] = "part"
      end
      if c.name == "ours" and bounds then
        head[#head + 1] = "moves"
        head[#head + 1] = "in cache"
        head[#head + 1] = "of both"
      end
    end
  end
  if goals then
    head[#head + 1] = "goal"
    head[#head + 1] = "met"
  end
  local rows = { head }
  for _, r in ipairs(results) do
    local line = { r.row[1], threads and tostring(r.threads) or nil }
    line[#line + 1] = r.row.per.unit
    for _, c in ipairs(columns) do
      if used[c.name] then
        line[#line + 1] = number(r.value[c.name])
        if c.name ~= "ours" and not c.bare then
          line[#line + 1] = ratio(r.value[c.name] and r.ratio[c.name])
        end
        if c.name == "ours" and limits then
          line[#line + 1] = number(r.limit)
          line[#line + 1] = ratio(r.part)
        end
        if c.name == "ours" and bounds then
          line[#line + 1] = number(r.moves)
          line[#line + 1] = number(r.cached)
          line[#line + 1] = ratio(r.of_bound)
        end
      end
    end
    if goals then
      local goal, short = judge(r)
      line[#line + 1] = goal
      line[#line + 1] = short == nil and "-" or short == "" and "yes" or "no: " .. short
    end
    rows[#rows + 1] = line
  end
  return rows
end

local function is_number(text) return text == "-" or text:match("^[%d.e+-]+$") ~= nil end

local function aligned(rows)
  local width = {}
  for _, line in ipairs(rows) do
    for i, cell in ipairs(line) do width[i] = math.max(width[i] or 0, #cell) end
  end
  local out = {}
  for n, line in ipairs(rows) do
    local cells = {}
    for i, cell in ipairs(line) do
      local right = rows[2][i] and is_number(rows[2][i])
      cells[i] = (" "):rep(right and width[i] - #cell or 0) .. cell
        .. (" "):rep(right and 0 or width[i] - #cell)
    end
    out[n] = (table.concat(cells, "  "):gsub("%s+$", ""))
  end
  return table.concat(out, "\n") .. "\n"
end

local function markdown(rows)
  local out = {}
  for n, line in ipairs(rows) do
    out[#out + 1] = "| " .. table.concat(line, " | ") .. " |"
    if n == 1 then
      local rule = {}
      for i = 1, #line do rule[i] = is_number(rows[2][i]) and "---:" or "---" end
      out[#out + 1] = "| " .. table.concat(rule, " | ") .. " |"
    end
  end
  return table.concat(out, "\n") .. "\n"
end

function report.section(section, results, columns)
  local rows = cells_of(section, results, columns)
  return { title = section.title, plain = section.title .. "\n" .. aligned(rows),
    markdown = "### " .. section.title .. "\n\n" .. markdown(rows) }
end

function report.tail(notes, seconds)
  local lines = {}
  for _, text in ipairs(notes) do lines[#lines + 1] = "Note: " .. text end
  lines[#lines + 1] = ("The whole run took %d s."):format(seconds)
  return { plain = table.concat(lines, "\n"), markdown = table.concat(lines, "\n\n") .. "\n" }
end

-- The table of one section with the day and the command of its own run, in place of the one in `text`.
local function with_section(text, part)
  local title = "### " .. part.title .. "\n"
  local first = text:find(title, 1, true)
  if not first then -- a new one: behind the others
    first = text:find("\nNote: ", 1, true) or text:find("\nThe whole run took", 1, true) or #text
    text = text:sub(1, first) .. title .. "\n" .. text:sub(first + 1)
    first = first + 1
  end
  local after = text:find("\n### ", first, true) or text:find("\nNote: ", first, true)
    or text:find("\nThe whole run took", first, true) or #text
  local when = ("Measured by itself: %s; command: %s; load at the start: %s."):format(os.date("!%Y-%m-%d"),
    command_line(), answer "cut -d' ' -f1 /proc/loadavg")
  local table_of = part.markdown:sub(#title + 2)
  return text:sub(1, first - 1) .. title .. "\n" .. when .. "\n\n" .. table_of .. text:sub(after)
end

-- Replaces what stands behind the mark, up to the next one: all of it, or with `alone` the table of each
-- section among the parts.
function report.write(path, parts, alone)
  local file = assert(io.open(path, "r"))
  local text = file:read("*a")
  file:close()
  local _, last = text:find(MARK, 1, true)
  assert(last, path .. " lacks its mark")
  -- Up to the next tables, or the heading before them.
  local other = math.min(text:find("\n<!%-%- What follows", last) or #text + 1, text:find("\n## ", last) or #text + 1)
  local old, new = text:sub(last + 1, other - 1), "\n"
  for _, part in ipairs(parts) do
    if alone and part.title then old = with_section(old, part) end
    new = new .. "\n" .. part.markdown
  end
  file = assert(io.open(path .. ".new", "w"))
  file:write(text:sub(1, last), alone and old or new, text:sub(other))
  file:close()
  assert(os.rename(path .. ".new", path))
end

return report
