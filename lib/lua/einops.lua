-- rearrange: axes named by a pattern, split and merged.
--   op.rearrange(x, "b (h d) s -> b h s d", {h = 8})

local core = require "tessera.core"
local einops = {}

local function fail(pattern, what, ...)
  core.fail(("rearrange: \"%s\": %s"):format(pattern, what:format(...)))
end

-- { {"b"}, {"h", "d"}, {"s"} } from "b (h d) s".
local function parse(pattern, side)
  local groups, group = {}, nil
  for token in side:gsub("([()])", " %1 "):gmatch("%S+") do
    if token == "(" then
      if group then fail(pattern, "parentheses inside parentheses") end
      group = {}
    elseif token == ")" then
      if not group then fail(pattern, "a parenthesis is not opened") end
      groups[#groups + 1] = group
      group = nil
    elseif token == "..." or token:match("^[%a_][%w_]*$") then
      if group then group[#group + 1] = token else groups[#groups + 1] = { token } end
    elseif token == "1" and not group then
      groups[#groups + 1] = {}
    else
      fail(pattern, "unexpected '%s'", token)
    end
  end
  if group then fail(pattern, "a parenthesis is not closed") end
  return groups
end

-- "..." becomes as many names as the tensor has further axes.
local function expand(groups, names)
  local out = {}
  for _, g in ipairs(groups) do
    if #g == 1 and g[1] == "..." then
      for _, n in ipairs(names) do out[#out + 1] = { n } end
    else
      local h = {}
      for _, n in ipairs(g) do
        if n == "..." then
          for _, m in ipairs(names) do h[#h + 1] = m end
        else
          h[#h + 1] = n
        end
      end
      out[#out + 1] = h
    end
  end
  return out
end

function einops.rearrange(x, pattern, sizes)
  local function need(what, x)
    core.fail(("rearrange: %s is needed, not %s\n  hint: op.rearrange(x, \"b (h d) s -> b h s d\", {h = 8})"):format(what,
      x == nil and "nothing" or core.is_tensor(x) and "a tensor" or "a " .. type(x)))
  end
  if not core.is_tensor(x) then need("a tensor", x) end
  if type(pattern) ~= "string" then need("a pattern", pattern) end
  if sizes ~= nil and type(sizes) ~= "table" then need("a table of sizes", sizes) end
  sizes = sizes or {}
  for name, n in pairs(sizes) do
    if type(n) ~= "number" or n % 1 ~= 0 or n < 0 then fail(pattern, "the size of '%s' is %s", tostring(name), tostring(n)) end
  end
  local left, right = pattern:match("^(.-)%->(.*)$")
  if not left then fail(pattern, "has no ->") end
  local from, to = parse(pattern, left), parse(pattern, right)
  local dots = {}
  local has_dots = false
  for _, g in ipairs(from) do has_dots = has_dots or (#g == 1 and g[1] == "...") end
  if has_dots then
    for i = 1, x.ndim - (#from - 1) do dots[i] = "..." .. i end
  end
  from, to = expand(from, dots), expand(to, dots)
  if #from ~= x.ndim then fail(pattern, "names %d axes of [%s]", #from, table.concat(x.shape, ",")) end
  local size, place, full = {}, {}, {}
  for i, g in ipairs(from) do
    local n, unknown, known = x.shape[i], nil, 1
    for _, name in ipairs(g) do
      if place[name] then fail(pattern, "'%s' stands twice on the left", name) end
      place[name] = #full
      full[#full + 1] = name
      local s = #g == 1 and n or sizes[name]
      if s then
        size[name] = s
        known = known * s
      elseif unknown then
        fail(pattern, "sizes of '%s' and '%s' are both unknown", unknown, name)
      else
        unknown = name
      end
    end
    if unknown then
      size[unknown] = known > 0 and n / known or 0
      known = known * size[unknown]
    end
    if known ~= n or (unknown and size[unknown] % 1 ~= 0) then
      fail(pattern, "axis %d of [%s] cannot be split so", i - 1, table.concat(x.shape, ","))
    end
    if #g == 1 and sizes[g[1]] and sizes[g[1]] ~= n then
      fail(pattern, "'%s' is %d, not %d", g[1], n, sizes[g[1]])
    end
  end
  local split, perm, merged, used = {}, {}, {}, 0
  for i, name in ipairs(full) do split[i] = size[name] end
  for i, g in ipairs(to) do
    local n = 1
    for _, name in ipairs(g) do
      if not place[name] then fail(pattern, "'%s' is not on the left", name) end
      perm[#perm + 1] = place[name]
      n = n * size[name]
      used = used + 1
    end
    merged[i] = n
  end
  if used ~= #full then fail(pattern, "both sides must have the same names") end
  return x:reshape(split):permute(perm):reshape(merged)
end

return require("tessera.named")("tessera.einops", einops)
