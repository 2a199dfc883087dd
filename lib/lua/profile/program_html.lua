-- The page of a program's profile: its tree, opened where the time is; what ran when; lines of Lua; kernels of devices.

local page = require "tessera.profile.page"
local picture = require "tessera.profile.picture"
local program_files = require "tessera.profile.program_files"
local source_html = require "tessera.profile.source_html"
local units = require "tessera.units"

local program_html = {}

local escaped, percent = picture.escaped, units.percent
local MOST_NODES, MOST_LINES = 3000, 200

-- ---- the tree
local read = {} -- by file, while a page is made

local function line_text(place)
  local file, n = place:match "^(.*):(%d+)$"
  if file and read[file] == nil then read[file] = require("tessera.comments").lines_of("@" .. file) or false end
  local lines = file and read[file]
  local text = lines and lines[tonumber(n)]
  if not text then return "" end
  return ' <span class="dim code-line">' .. escaped(text:gsub("^%s+", ""):sub(1, 90)) .. "</span>"
end

local function rates(node)
  local parts = {}
  if node.bytes > 0 and node.usec > 0 and node.kind ~= "copy" then parts[1] = units.rate(node.bytes / node.usec * 1e6, "B/s") end
  if node.flops > 0 and node.usec > 0 then parts[#parts + 1] = units.rate(node.flops / node.usec * 1e6, "FLOP/s") end
  return #parts > 0 and ' <span class="dim">' .. table.concat(parts, ", ") .. "</span>" or ""
end

local function tree_of(r, word_of)
  local out, total, least = {}, r.tree.usec, program_files.least_time(r.tree, MOST_NODES)
  local function walk(node)
    local list, rest, usec = {}, 0, 0
    for _, child in ipairs(node) do
      if child.usec > least then list[#list + 1] = child else rest, usec = rest + 1, usec + child.usec end
    end
    table.sort(list, function(a, b) return a.usec > b.usec end)
    local part = node.usec / math.max(total, 1e-9)
    local head = ('<span class="n">%s</span><span class="n">%s</span>%s%s%s%s'):format(units.time(node.usec), percent(part), escaped(word_of(node)),
      node.kind ~= "line" and node.count > 1 and (" (%d times)"):format(node.count) or "", node.kind == "line" and line_text(node.place) or "", rates(node))
    local at = source_html.at(node.place)
    if #list + rest == 0 then
      out[#out + 1] = ('<details class="leaf"%s><summary>%s</summary></details>'):format(at, head)
      return
    end
    out[#out + 1] = ("<details%s%s><summary>%s</summary>"):format(part >= 0.1 and " open" or "", at, head)
    for _, child in ipairs(list) do walk(child) end
    if rest > 0 then out[#out + 1] = ('<details class="leaf"><summary><span class="n">%s</span><span class="n"></span>%d more</summary></details>'):format(units.time(usec), rest) end
    out[#out + 1] = "</details>"
  end
  local sorted = {}
  for i, child in ipairs(r.tree) do sorted[i] = child end
  table.sort(sorted, function(a, b) return a.usec > b.usec end)
  for _, child in ipairs(sorted) do
    if child.usec > least then walk(child) end
  end
  return table.concat(out, "\n")
end

-- ---- what ran when
local LANES = { line = "lines", operator = "calls", ["function"] = "calls", loop = "calls", instruction = "instructions", capture = "captures", compile = "compiling",
  copy = "copies", open = "opening", wait = "waiting" }

local function timeline(r)
  local lanes, by = {}, {}
  local order = { "lines", "calls", "instructions", "captures", "compiling", "copies", "opening", "waiting" }
  for _, name in ipairs(order) do by[name] = { name = name } end
  local fills, n = {}, 0
  for _, e in ipairs(r.events) do
    local name = e.kind == "kernel" and e.place or LANES[e.kind]
    local what = e.kind == "line" and e.place or e.what
    if not by[name] then
      by[name], order[#order + 1] = { name = name }, name
    end
    if not fills[what] then n, fills[what] = n + 1, picture.colour(n + 1) end
    table.insert(by[name], { from = e.start, to = e.start + e.usec, fill = fills[what], title = what, at = source_html.at(e.place) })
  end
  for _, name in ipairs(order) do
    if #by[name] > 0 then lanes[#lanes + 1] = by[name] end
  end
  return picture.lanes(lanes, r.tree.usec)
end

local function lua_lines(r)
  local out = { '<div class="wide"><table><tr><th>time</th><th>part</th><th>samples</th><th>line</th></tr>' }
  for i, l in ipairs(r.lines) do
    if i > MOST_LINES then break end
    out[#out + 1] = ("<tr%s><td>%s</td><td>%s</td><td>%d</td><td>%s%s</td></tr>"):format(source_html.at(l.line), units.time(l.usec),
      percent(l.usec / math.max(r.tree.usec, 1e-9)), l.n, escaped(l.line), line_text(l.line))
  end
  return #r.lines > 0 and "<h2>Lines of Lua, what they call left out</h2>" .. table.concat(out, "\n") .. "</table></div>" or ""
end

--- The page as text: what program_profile.lua has, its first sentence, the word for a node of its tree, and the section of
--- kernels on devices, or "".
function program_html.text(r, said, word_of, kernels)
  read = {}
  local left = r.facts.events - #r.events
  return page.of("profile", "Profile: " .. units.time(r.tree.usec), table.concat { "<p>", escaped(said), "</p><h2>What called what</h2>", tree_of(r, word_of),
    "<h2>What ran when</h2>", left > 0 and ("<p>The first and the last %d of %d activities.</p>"):format(#r.events / 2, r.facts.events) or "", timeline(r), lua_lines(r), kernels })
end

return program_html
