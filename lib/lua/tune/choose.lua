-- f:choose and :choose: what a program chooses for the kernel of a group. Names and limits are those of
-- core.choices() and of the groups, which have them of the kernels' own table.

local core = require "tessera.core"
local choose = {}

local MOST = 2 ^ 20

local function list_of(groups)
  local out = {}
  for i, g in ipairs(groups) do out[i] = ("%s %s"):format(g.group, g.what) end
  return table.concat(out, ", ")
end

--- The groups of f for the sizes of its last call.
function choose.groups(f, what)
  local special = f.current
  if not special then core.fail(("%s has not run yet: call it%s"):format(f.name, what and ", then " .. what or "")) end
  return f:_runs():groups()
end

-- The group of this number, or the one whose kernel is called that: what it does, "mul add relu", or its kind.
function choose.find(f, groups, which)
  local found
  for _, g in ipairs(groups) do
    if g.group == which then return g end
    if type(which) == "string" and (g.what == which or g.kind == which and g.kind ~= "vm" or tostring(g.group) == which) then
      if found then
        core.fail(("%s:choose: '%s' is group %s and group %s; say the number"):format(f.name, which, found.group, g.group))
      end
      found = g
    end
  end
  if found then return found end
  core.fail(("%s:choose: there is no group %s%s"):format(f.name, type(which) == "string" and "'" .. which .. "'" or tostring(which),
    groups[1] and "; there is " .. list_of(groups) or ": nothing of it is computed"))
end

local function names()
  local list = {}
  for i, c in ipairs(core.choices()) do list[i] = c.name end
  list[#list + 1] = "tile_shape"
  return list
end

local function has(list, word)
  for _, w in ipairs(list) do
    if w == word then return true end
  end
end

--- "group 0 (matmul) has rows (1 to 64), ..": what may be chosen of a group, in which limits; "" where nothing may.
function choose.legal(g)
  local list = {}
  for _, c in ipairs(core.choices()) do
    if g.can[c.name] then list[#list + 1] = ("%s (%s)"):format(c.name, g.can[c.name]) end
  end
  return list[1] and ("group %s (%s) has %s"):format(g.group, g.what, table.concat(list, ", ")) or
    ("of group %s (%s) nothing can be chosen"):format(g.group, g.what)
end

local function whole(f, g, name, v)
  if type(v) ~= "number" or v < 1 or v % 1 ~= 0 then
    core.fail(("%s:choose: option '%s' must be an integer above 0, not %s\n  hint: %s"):format(f.name, name,
      type(v) == "number" and ("%.14g"):format(v) or "a " .. type(v),
      choose.legal(g)))
  end
  return math.min(v, MOST)
end

-- {tile_shape = {128}, stages = 3} as {rows = 128, stages = 3}; nil where nothing is chosen.
local function fields_of(f, g, options)
  local all, given = names(), {}
  for name, v in pairs(options) do
    if type(name) ~= "string" or not has(all, name) then
      local guess = type(name) == "string" and core.suggest(name, all)
      core.fail(("%s:choose: there is no option '%s'"):format(f.name, tostring(name)) ..
        (guess and ("; did you mean '%s'?\n  hint: "):format(guess) or "\n  hint: options are " .. table.concat(all, ", ") .. "; ") ..
        choose.legal(g))
    end
    if name == "tile_shape" then
      if type(v) == "number" then v = { v } end
      if type(v) ~= "table" or #v < 1 or #v > 3 then
        core.fail(("%s:choose: option 'tile_shape' must be 1 to 3 integers above 0"):format(f.name))
      end
      for i, field in ipairs { "rows", "columns", "depth" } do
        if v[i] then given[field] = whole(f, g, name, v[i]) end
      end
    else
      given[name] = whole(f, g, name, v)
    end
  end
  return next(given) and given
end

-- ---- what is told
local function lines_of(text)
  local list = {}
  for line in (text or ""):gmatch "[^\n]+" do list[#list + 1] = line end
  return list
end

local function numbers(t)
  local out = {}
  for _, c in ipairs(core.choices()) do
    if t[c.name] then out[#out + 1] = c.name .. " = " .. t[c.name] end
  end
  return table.concat(out, ", ")
end

local Choice = {}
Choice.__index = Choice

--- "group 2 (matmul) for avx512: rows 48, chosen by the user", with what its kernel has, what could be, and remarks.
function Choice:__tostring()
  local head = ("group %s (%s)"):format(self.group, self.what)
  if not self.kernel then return head .. ": it has no kernel, so nothing can be chosen" end
  local out = { ("%s for %s: %s%s"):format(head, self.target, self.choice ~= "" and self.choice .. ", " or
    self.origin:find "^tuned" and "the default, " or "", self.origin) }
  if self.edited then
    out[1] = ("%s for %s: edited by the user, which f:without '%s' takes back, at the prompt :edit drop f %s"):format(head,
      self.target, self.group, self.group)
    for _, r in ipairs(self.remarks) do out[#out + 1] = "  remark: " .. r end
    return table.concat(out, "\n")
  end
  if next(self.have) then out[#out + 1] = "  its kernel has " .. numbers(self.have) end
  for _, c in ipairs(core.choices()) do
    local width = 14
    if self.can[c.name] then out[#out + 1] = ("  %-" .. width .. "s%s: %s"):format(c.name, self.can[c.name], c.help) end
  end
  if not next(self.can) then out[#out + 1] = "  nothing of it can be chosen" end
  for _, r in ipairs(self.remarks) do out[#out + 1] = "  remark: " .. r end
  return table.concat(out, "\n")
end

local function told(g)
  g.remarks = lines_of(g.remarks)
  return setmetatable(g, Choice)
end

--- See graph's Function:choose.
function choose.choose(f, which, ...)
  local n, options = select("#", ...), (...)
  if which == nil then core.fail(("%s:choose: a group's number or name comes first; f:ir \"tiles\" lists them"):format(f.name)) end
  local g = choose.find(f, choose.groups(f), which)
  if n == 0 then return told(g) end
  local default = options == nil or options == false or options == "default"
  if not default and type(options) ~= "table" then
    core.fail(("%s:choose: options are a table such as {rows = 128}, or \"default\", not %s"):format(f.name,
      type(options) == "string" and "'" .. options .. "'" or "a " .. type(options)))
  end
  local fields = not default and fields_of(f, g, options) or nil
  if fields and not g.kernel then
    core.fail(("%s:choose: group %s (%s) has no kernel, so nothing can be chosen"):format(f.name, g.group, g.what))
  end
  f:_runs():choose(g.group, fields)
  return told(choose.find(f, choose.groups(f), g.group))
end

--- Whether a word is the name of a choice, or meant as one.
function choose.is_name(word) return has(names(), word) or core.suggest(word, names()) ~= nil end

--- "rows=128 stages=3", "{rows = 128}": options from words, "default", or nil where there are none.
function choose.words(words, wrong)
  local options
  if words:find "^{" then
    local chunk = loadstring("return " .. words, "=:choose")
    if not chunk then wrong("the options %s cannot be read", core.shown(words, 60)) end
    return chunk()
  end
  for word in words:gmatch "%S+" do
    local name, value = word:match "^([%a_]+)=(.+)$"
    if word == "default" and not options then return "default" end
    if not name then wrong("options look like rows=128, not '%s'", word) end
    options = options or {}
    if value:find "," then
      local list = {}
      for v in value:gmatch "[^,]+" do list[#list + 1] = tonumber(v) or v end
      options[name] = list
    else
      options[name] = tonumber(value) or value
    end
  end
  return options
end

return choose
