-- How two texts of kernels differ, line by line: the shortest list of lines that go and come, after Myers ("An O(ND)
-- difference algorithm and its variations", 1986). What f:diff and :diff stand on.
--
-- Values have numbers in the order of their definitions, so one line more renumbers all behind it. Lines are
-- compared without numbers first; then a name of one text stands for the name of the other that it first meets, and
-- lines in which names meet others are differences after all.

local core = require "tessera.core"
local captured = require "tessera.captured"
local options = require "tessera.options"

local diff = {}

local CONTEXT, MOST = 3, 4000 -- lines around a difference; lines that go and come, at most

local function lines_of(text)
  local lines = {}
  for line in text:gmatch "([^\n]*)\n?" do lines[#lines + 1] = line end
  lines[#lines] = nil
  return lines
end

-- Without places of the program, which say nothing of the kernel, and without the numbers of values.
local function plain(line)
  if line:find "^%s*//" then return (line:gsub(" at %S+$", "")) end
  line = line:gsub("%s+//.*$", "")
  return (line:gsub("%%[%w_.]+", function(name) return name:find "^%%%d+$" and "%#" or (name:gsub("%.%d+$", ".#")) end))
end

-- Pairs of equal lines, in order: {{i, j}, ..}.
local function matched(a, b)
  local n, m, first, last = #a, #b, 0, 0
  while first < n and first < m and a[first + 1] == b[first + 1] do first = first + 1 end
  while last < n - first and last < m - first and a[n - last] == b[m - last] do last = last + 1 end
  local rows, columns = n - first - last, m - first - last
  local pairs_ = {}
  for i = 1, first do pairs_[i] = { i, i } end
  local reach, trace, found = { [1] = 0 }, {}, nil
  for d = 0, math.min(rows + columns, MOST) do
    local before = {}
    for k, x in pairs(reach) do before[k] = x end
    trace[d] = before
    for k = -d, d, 2 do
      local down = k == -d or (k ~= d and (reach[k - 1] or -1) < (reach[k + 1] or -1))
      local x = down and (reach[k + 1] or 0) or (reach[k - 1] or 0) + 1
      local y = x - k
      while x < rows and y < columns and a[first + x + 1] == b[first + y + 1] do x, y = x + 1, y + 1 end
      reach[k] = x
      if x >= rows and y >= columns then found = d break end
    end
    if found then break end
  end
  local middle, x, y = {}, rows, columns
  for d = found or 0, 1, -1 do
    local v, k = trace[d], x - y
    local down = k == -d or (k ~= d and (v[k - 1] or -1) < (v[k + 1] or -1))
    local from = down and k + 1 or k - 1
    local fx = v[from] or 0
    local fy = fx - from
    while x > fx and y > fy and x > 0 and y > 0 and (down and y > fy + 1 or not down and x > fx + 1) do
      middle[#middle + 1] = { first + x, first + y }
      x, y = x - 1, y - 1
    end
    x, y = fx, fy
  end
  if found then
    while x > 0 and y > 0 do
      middle[#middle + 1] = { first + x, first + y }
      x, y = x - 1, y - 1
    end
  end
  for i = #middle, 1, -1 do pairs_[#pairs_ + 1] = middle[i] end
  for i = last - 1, 0, -1 do pairs_[#pairs_ + 1] = { n - i, m - i } end
  return pairs_
end

-- Whether the names of two lines stand for each other, as those before said. A kernel's names are its own.
local function agree(map, back, x, y)
  local other = y:gmatch "%%[%w_.]+"
  for name in x:gmatch "%%[%w_.]+" do
    local its = other()
    if (map[name] or its) ~= its or (back[its] or name) ~= name then return false end
    map[name], back[its] = its, name
  end
  return true
end

-- A list of {" " or "-" or "+", line, i, j}.
local function edits(a, b)
  local x, y = {}, {}
  for i, line in ipairs(a) do x[i] = plain(line) end
  for i, line in ipairs(b) do y[i] = plain(line) end
  local out, i, j, map, back = {}, 1, 1, {}, {}
  local function upto(p, q)
    while i < p do out[#out + 1] = { "-", a[i], i, j } i = i + 1 end
    while j < q do out[#out + 1] = { "+", b[j], i, j } j = j + 1 end
  end
  for _, pair in ipairs(matched(x, y)) do
    local p, q = pair[1], pair[2]
    if a[p]:find "^%a+ @" then map, back = {}, {} end
    if agree(map, back, (a[p]:gsub("%s+//.*$", "")), (b[q]:gsub("%s+//.*$", ""))) then
      upto(p, q)
      out[#out + 1] = { " ", b[q], i, j }
      i, j = p + 1, q + 1
    end
  end
  upto(#a + 1, #b + 1)
  return out
end

local COLOUR = { ["-"] = "\27[31m", ["+"] = "\27[32m", ["@"] = "\27[36m" }

local function painted(line, on)
  local colour = on and COLOUR[line:sub(1, 1)]
  return colour and colour .. line .. "\27[0m" or line
end

--- The unified difference of two texts, "" if there is none.
function diff.text(a, b, name_a, name_b, coloured)
  local list, out, shown = edits(lines_of(a), lines_of(b)), {}, {}
  for k, e in ipairs(list) do
    for near = k - CONTEXT, k + CONTEXT do
      if e[1] ~= " " then shown[near] = true end
    end
  end
  if next(shown) == nil then return "" end
  out[1], out[2] = painted("--- " .. name_a, false), "+++ " .. name_b
  local k = 1
  while k <= #list do
    if shown[k] then
      local from, na, nb, body = k, 0, 0, {}
      while list[k] and shown[k] do
        local e = list[k]
        if e[1] ~= "+" then na = na + 1 end
        if e[1] ~= "-" then nb = nb + 1 end
        body[#body + 1] = painted(e[1] .. e[2], coloured)
        k = k + 1
      end
      out[#out + 1] = painted(("@@ -%d,%d +%d,%d @@"):format(list[from][3], na, list[from][4], nb), coloured)
      for _, line in ipairs(body) do out[#out + 1] = line end
    else
      k = k + 1
    end
  end
  return table.concat(out, "\n") .. "\n"
end

-- ---- of functions
local two = options.kind("a list of two", function(v) return type(v) == "table" and #v == 2 end)
local two_lists = options.kind("a list of two lists of arguments, {{x}, {y}}", function(v)
  local function list(t) return type(t) == "table" and not core.is_tensor(t) end
  return type(v) == "table" and #v == 2 and list(v[1]) and list(v[2])
end)
local read_diff = options.of("f:diff", {
  kernel = options.kind("the number or the name of a kernel", function(v) return type(v) == "string" or type(v) == "number" end),
  target = two, args = two_lists, coloured = options.flag,
})

local function ir(f, level, kernel, target, args)
  local list = { unpack(args or {}) }
  if kernel or target then list[#list + 1] = { kernel = kernel, target = target } end
  return f:ir(level, unpack(list))
end

-- Its kernels as the passes make them, or as they run: all, or the one that is meant.
local function kernels(f, level, kernel, usual)
  local graph = f:_runs()
  if kernel then return graph:kernel_text(level, tostring(kernel), usual) end
  local out, some = {}, false
  for _, g in ipairs(graph:groups()) do
    if g.kind ~= "vm" then out[#out + 1], some = graph:kernel_text(level, tostring(g.group), usual), true end
  end
  return some and table.concat(out) or graph:kernel_text(level, nil, usual) -- which says that there is none
end

local function level_word(level)
  if level == nil then return "tile" end
  if type(level) == "string" then return level end
  core.fail(("f:diff: a level is a word, 'tile' where none is given, not %s%s"):format(type(level) == "table" and "a table" or tostring(level),
    type(level) == "number" and ('\n  hint: of kernel %d: f:diff("tile", %d)'):format(level, level) or
    type(level) == "table" and '\n  hint: options stand behind the level: f:diff("tile", {kernel = 0})' or ""))
end

--- f:diff(g, level, options) and f:diff(level, options).
function diff.of(f, other, level, given)
  if type(other) == "function" or captured.is_kernel(other) or core.is_tensor(other) then captured.need("f:diff", other) end
  if not captured.is_function(other) then other, level, given = nil, other, level end
  if type(given) == "number" or type(given) == "string" then given = { kernel = given } end
  local o = read_diff(given)
  level = level_word(level)
  core.jit_level("function", level, nil)
  local a, b, before, behind
  local named = ("%s %s"):format(f.name, level)
  if other or o.target or o.args then
    local targets, args, its = o.target or {}, o.args or {}, ("%s %s"):format((other or f).name, level)
    a, b = ir(f, level, o.kernel, targets[1], args[1]), ir(other or f, level, o.kernel, targets[2], args[2])
    before, behind = named, its
    if o.target then before, behind = before .. " " .. targets[1], behind .. " " .. targets[2] end
    if o.args and not other then before, behind = before .. " of the first arguments", behind .. " of the second" end
  else
    if not f.current then core.fail(f.name .. " has not run yet: call it") end
    a, b = kernels(f, level, o.kernel, true), kernels(f, level, o.kernel, false)
    before, behind = named .. " as the passes make it", named .. " as it runs"
  end
  return diff.text(a, b, before, behind, o.coloured)
end

return diff
