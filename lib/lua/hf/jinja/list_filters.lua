-- Filters of lists and dictionaries.

local values = require "tessera.hf.jinja.values"
local print_ = require "tessera.hf.jinja.print"
local strings = require "tessera.hf.jinja.strings"
local operators = require "tessera.hf.jinja.operators"
local read = require "tessera.hf.jinja.arguments"

local fail, number, kind = values.fail, values.number, values.kind
local NONE = values.NONE

local function given(v, default)
  if v == nil then return default end
  return v
end
local function is(v) return v ~= nil and values.truth(v) end
local function lowered(v) return type(v) == "string" and strings.lower(v) or v end

local function copy(list, k)
  local out = { n = list.n }
  for i = 1, list.n do out[i] = list[i] end
  return values.list(out, k)
end

-- What gives an attribute of an item: "a.b", 0, or nil for the item.
local function getter(env, attribute, after, default)
  local path = {}
  if attribute ~= nil and attribute ~= NONE then
    if type(attribute) == "string" then
      for word in (attribute .. "."):gmatch "([^.]*)%." do path[#path + 1] = word:find "^%d+$" and tonumber(word) or word end
    else
      path[1] = attribute
    end
  end
  return function(v)
    for _, name in ipairs(path) do
      v = operators.item(env, v, name)
      if default ~= nil and kind(v) == "undefined" then v = default end
    end
    return after and after(v) or v
  end
end

-- Sorts stably; table.sort is not.
local function sorted(env, list, key, reverse)
  local keys, order, out = {}, {}, { n = list.n }
  env:spend(list.n * 8)
  for i = 1, list.n do keys[i], order[i] = key(list[i]), i end
  local function less(a, b)
    local x, y = keys[a], keys[b]
    if values.less(x, y, "<") then return not reverse end
    if values.less(y, x, "<") then return reverse or false end
    return a < b
  end
  if list.n > 1 then table.sort(order, less) end
  for i, at in ipairs(order) do out[i] = list[at] end
  return values.list(out)
end

local function arguments_behind(args, from)
  local rest = { n = math.max(0, args.n - from) }
  for i = 1, rest.n do rest[i] = args[from + i] end
  return rest
end

return function(filters)
  function filters.first(env, v)
    local list = values.items(v, env)
    if list.n == 0 then return values.undefined("No first item, sequence was empty.", "No first item, sequence was empty.") end
    return list[1]
  end

  function filters.last(env, v)
    if kind(v) == "generator" then fail "'generator' object is not reversible" end
    local list = values.items(v, env)
    if list.n == 0 then return values.undefined("No last item, sequence was empty.", "No last item, sequence was empty.") end
    return list[list.n]
  end

  function filters.list(env, v)
    local list = values.items(v, env)
    env:spend(list.n)
    return copy(list)
  end

  function filters.join(env, v, args, named)
    local sep, attribute = read("join", args, named, { "d", "attribute" })
    local list, parts, size = values.items(v, env), {}, 0
    local get = getter(env, attribute)
    sep = print_.str(given(sep, ""), env)
    for i = 1, list.n do
      parts[i] = print_.str(get(list[i]), env)
      size = size + #parts[i] + #sep
      env:spend(1)
      if size > 2 ^ 20 and i % 4096 == 1 then env:room(size) end
    end
    env:room(size)
    return table.concat(parts, sep)
  end

  function filters.reverse(env, v)
    if type(v) == "string" then
      local chars = strings.chars(v, env)
      local out = {}
      for i = chars.n, 1, -1 do out[#out + 1] = chars[i] end
      return table.concat(out)
    end
    local list = values.items(v, env)
    local out = { n = list.n }
    env:spend(list.n)
    for i = 1, list.n do out[i] = list[list.n - i + 1] end
    return values.list(out, "generator")
  end

  function filters.items(env, v)
    if kind(v) == "undefined" then return values.list({}, "generator") end
    if kind(v) ~= "dict" then fail "Can only get item pairs from a mapping." end
    return values.list(copy(require("tessera.hf.jinja.methods").dict.items(env, v)), "generator")
  end

  function filters.dictsort(env, v, args, named)
    local sensitive, by, reverse = read("dictsort", args, named, { "case_sensitive", "by", "reverse" })
    by = given(by, "key")
    if by ~= "key" and by ~= "value" then fail "You can only sort by either \"key\" or \"value\"" end
    if kind(v) ~= "dict" then fail("'%s' object has no attribute 'items'", values.type_name(values.defined(v))) end
    local pairs_ = require("tessera.hf.jinja.methods").dict.items(env, v)
    local at = by == "key" and 1 or 2
    return sorted(env, pairs_, function(p) return is(sensitive) and p[at] or lowered(p[at]) end, is(reverse))
  end

  function filters.sort(env, v, args, named)
    local reverse, sensitive, attribute = read("sort", args, named, { "reverse", "case_sensitive", "attribute" })
    local list = values.items(v, env)
    local after = not is(sensitive) and lowered or nil
    local gets = {}
    if type(attribute) == "string" and attribute:find(",", 1, true) then
      for word in attribute:gmatch "[^,]+" do gets[#gets + 1] = getter(env, word, after) end
    else
      gets[1] = getter(env, attribute, after)
    end
    -- Keys are lists, of which equal parts are not compared further, such as undefined ones.
    local function key(item)
      local out = { n = #gets }
      for i, g in ipairs(gets) do out[i] = g(item) end
      return values.list(out)
    end
    return sorted(env, list, key, is(reverse))
  end

  function filters.unique(env, v, args, named)
    local sensitive, attribute = read("unique", args, named, { "case_sensitive", "attribute" })
    local list, seen, out, n = values.items(v, env), {}, {}, 0
    env:spend(list.n)
    local key = getter(env, attribute, not is(sensitive) and lowered or nil)
    for i = 1, list.n do
      local k = values.key_of(key(list[i]))
      if type(k) == "table" and k.kind == "undefined" then k = "\0undefined" end
      if not seen[k] then
        seen[k] = true
        n = n + 1
        out[n] = list[i]
      end
    end
    out.n = n
    return values.list(out, "generator")
  end

  local function extreme(name, better)
    filters[name] = function(env, v, args, named)
      local sensitive, attribute = read(name, args, named, { "case_sensitive", "attribute" })
      local list = values.items(v, env)
      if list.n == 0 then return values.undefined("No aggregated item, sequence was empty.", "No aggregated item, sequence was empty.") end
      local key = getter(env, attribute, not is(sensitive) and lowered or nil)
      local best = list[1]
      for i = 2, list.n do
        if better(key(list[i]), key(best)) then best = list[i] end
      end
      return best
    end
  end
  extreme("min", function(a, b) return values.less(a, b, "<") end)
  extreme("max", function(a, b) return values.less(b, a, ">") end)

  function filters.sum(env, v, args, named)
    local attribute, start = read("sum", args, named, { "attribute", "start" })
    local list, get = values.items(v, env), getter(env, attribute)
    local total = given(start, 0)
    env:spend(list.n)
    for i = 1, list.n do total = operators.binary(env, "+", total, get(list[i])) end
    return total
  end

  function filters.batch(env, v, args, named)
    local size, fill = read("batch", args, named, { "linecount", "fill_with" }, 1)
    local n = number(size) or fail "a size is a number"
    local list, out, row = values.items(v, env), {}, nil
    env:spend(list.n)
    for i = 1, list.n do
      if not row or row.n == n then
        row = values.list { n = 0 }
        out[#out + 1] = row
      end
      row.n = row.n + 1
      row[row.n] = list[i]
    end
    if row and fill ~= nil and fill ~= NONE and row.n < n then
      env:spend(n)
      while row.n < n do
        row.n = row.n + 1
        row[row.n] = fill
      end
    end
    return values.list(out, "generator")
  end

  function filters.slice(env, v, args, named)
    local count, fill = read("slice", args, named, { "slices", "fill_with" }, 1)
    local list, n = values.items(v, env), number(count)
    if not n or n < 1 then fail "integer division or modulo by zero" end
    env:spend(n + list.n)
    local each, more, at, out = math.floor(list.n / n), list.n % n, 0, {}
    for i = 1, n do
      local row = values.list { n = each + (i <= more and 1 or 0) }
      for k = 1, row.n do row[k] = list[at + k] end
      at = at + row.n
      if fill ~= nil and fill ~= NONE and i > more then
        row.n = row.n + 1
        row[row.n] = fill
      end
      out[i] = row
    end
    return values.list(out, "generator")
  end

  function filters.groupby(env, v, args, named)
    local attribute, default, sensitive = read("groupby", args, named, { "attribute", "default", "case_sensitive" }, 1)
    local plain = getter(env, attribute, nil, default)
    local key = getter(env, attribute, not is(sensitive) and lowered or nil, default)
    local list, out = sorted(env, values.items(v, env), key, false), {}
    local group, now
    for i = 1, list.n do
      local k = key(list[i])
      if not group or not values.equal(k, now) then
        now = k
        group = values.list { n = 0 }
        local pair = values.tuple(plain(list[i]), group)
        pair.named = { grouper = 1, list = 2 }
        out[#out + 1] = pair
      end
      group.n = group.n + 1
      group[group.n] = list[i]
    end
    return values.list(out)
  end

  function filters.map(env, v, args, named)
    local by_attribute, default
    for _, p in ipairs(named) do
      if p[1] == "attribute" then by_attribute = p[2] elseif p[1] == "default" then default = p[2] end
    end
    local each
    if args.n == 0 and by_attribute ~= nil then
      for _, p in ipairs(named) do
        if p[1] ~= "attribute" and p[1] ~= "default" then fail("Unexpected keyword argument '%s'", p[1]) end
      end
      each = getter(env, by_attribute, nil, default)
    else
      if args.n == 0 then fail "map requires a filter argument" end
      local rest = arguments_behind(args, 1)
      each = function(item) return env:filter(args[1], item, copy(rest), named) end
    end
    if kind(v) == "undefined" or not values.truth(v) and kind(v) ~= "generator" then
      if kind(v) == "none" or kind(v) == "undefined" or v == "" or number(v) or type(v) == "table" then return values.list({}, "generator") end
    end
    local list = values.items(v, env)
    local out = { n = list.n }
    env:spend(list.n)
    for i = 1, list.n do out[i] = each(list[i]) end
    return values.list(out, "generator")
  end

  -- Items that a test lets through, or those it does not.
  local function choose(name, wanted, with_attribute)
    filters[name] = function(env, v, args, named)
      local get, from = function(item) return item end, 0
      if with_attribute then
        if args.n == 0 then fail "Missing parameter for attribute name" end
        get, from = getter(env, args[1]), 1
      end
      local test = args[from + 1]
      local rest = arguments_behind(args, from + 1)
      if kind(v) ~= "generator" and not values.truth(v) then return values.list({}, "generator") end
      local list, out, n = values.items(v, env), {}, 0
      for i = 1, list.n do
        local item = get(list[i])
        local holds
        if test == nil then holds = values.truth(item) else holds = env:test(test, item, rest, named) end
        if holds == wanted then
          n = n + 1
          out[n] = list[i]
        end
      end
      env:spend(list.n)
      out.n = n
      return values.list(out, "generator")
    end
  end
  choose("select", true, false)
  choose("reject", false, false)
  choose("selectattr", true, true)
  choose("rejectattr", false, true)
end
