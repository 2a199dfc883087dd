-- The prompt's command ":choose f 2 rows=128 stages=3": what is chosen for the kernels of a captured function.
local core = require "tessera.core"
local choose = require "tessera.tune.choose"

return function(prompt, wrong, read)
  prompt.arguments.choose = "f [group [option=value ..]]"
  prompt.commands.choose = "what is chosen for the kernels of a captured function, and what could be; with options chooses it, as " ..
    ":choose f 2 rows=128 stages=3; default goes back. Groups are those of :tiles; no bit of a result depends on it"
  prompt.examples.choose = ":choose f 2 rows=128"

  --- What help on :choose has beside the usage.
  function prompt.lists.choose(width)
    local out = { "\n" }
    for i, c in ipairs(core.choices()) do
      out[#out + 1] = ("  %-9s%-10s%s"):format(i == 1 and "options" or "", c.name, core.wrapped(c.help, 21, 21, width))
    end
    return table.concat(out)
  end

  local function refuse(...) wrong("choose", ":choose: " .. (...), select(2, ...)) end

  -- "f 2", of which the group may be missing.
  local function front_of(text)
    local f, word = text:match "^(.-)%s+(%-?[%w_./]+)%s*$"
    if f and f ~= "" then return f, tonumber(word) or word end
    return text, nil
  end

  local function function_of(text)
    local of = read("choose", false, 0, text)
    if of.loops then wrong("choose", ":choose takes a captured function") end
    return of
  end

  -- What could be meant, where a line is none: groups of the function, or what its group has.
  local function legal(text)
    local f, group = front_of(text)
    local of = function_of(f)
    local groups = choose.groups(of)
    if group then return choose.legal(choose.find(of, groups, group)) end
    local list = {}
    for i, g in ipairs(groups) do list[i] = ("%s %s"):format(g.group, g.what) end
    return ("groups of %s are %s"):format(of.name, table.concat(list, ", "))
  end

  -- "f 2 rows=128": the function, the group, options, and whether there are some.
  local function line_of(text)
    local head, words = text:match "^(.-)%s+(%b{})%s*$"
    if not head then head, words = text:match "^(.-)%s+([%a_]+=.*)$" end
    if not head then head, words = text:match "^(.-)%s+(default)%s*$" end
    if not head then
      local front, name, value = text:match "^(.-)%s+([%a_]+)%s+(%-?[%d.]+)%s*$"
      if front and front ~= "" and choose.is_name(name) then
        refuse("options look like %s=%s, not '%s %s'\n  hint: %s", name, value, name, value, legal(front))
      end
      local f, group = front_of(text)
      if type(group) == "string" and f:find "%s[%w_./]+$" and choose.is_name(group) then
        refuse("a value stands behind %s, as in %s=1\n  hint: %s", group, group, legal(f))
      end
      return function_of(f), group, nil, false
    end
    local f, group = front_of(head)
    if not group then refuse("a group stands behind the function, in front of %s: %s", core.shown(words, 60), legal(f)) end
    local of = function_of(f)
    return of, group, choose.words(words, function(format, ...)
      refuse(format .. "\n  hint: %s", unpack({ ... }, 1, 1 + select("#", ...)), legal(head))
    end), true
  end

  -- What of:choose tells of the groups that are meant, in a list, and the function.
  local function chosen(f, group, ...)
    local of, options, given = f, (...), select("#", ...) > 0
    if type(f) == "string" then of, group, options, given = line_of(f) else of = function_of(f) end
    local list = {}
    if group == nil then
      for i, g in ipairs(choose.groups(of)) do list[i] = of:choose(g.group) end
      return list, of
    end
    local ok, one
    if given then ok, one = pcall(of.choose, of, group, options) else ok, one = pcall(of.choose, of, group) end
    if not ok then core.fail((tostring(one):gsub("^.-:choose: ", ""))) end
    list[1] = one
    return list, of
  end

  --- Prints what is chosen for a group, and chooses: "f 2 rows=128"; or f, group, options.
  function prompt.choose(...)
    local out = {}
    for i, one in ipairs((chosen(...))) do out[i] = tostring(one) end
    prompt.say((out[1] and table.concat(out, "\n") or "nothing of it is computed") .. "\n")
  end
  function prompt.data.choose(...)
    local list, of = chosen(...)
    local groups = {}
    for i, g in ipairs(list) do
      local one = { group = g.group, kind = g.kind, what = g.what, where = g.where, edited = g.edited, remarks = table.concat(g.remarks, "\n"),
        choices = {} }
      if not g.where or g.where == "" then one.where, one.where_reason = nil, "it comes from no line of the program" end
      if g.kernel then one.target = g.target else one.target_reason = "it has no kernel" end
      if g.edited then one.choice_reason = "it was edited by the user: its text says what it has"
      elseif not g.kernel then one.choice_reason = "it has no kernel"
      else one.choice = (g.choice ~= "" and g.choice .. ", " or "") .. g.origin end
      for _, c in ipairs(core.choices()) do
        if g.can[c.name] then
          one.choices[#one.choices + 1] = { name = c.name, can = g.can[c.name], has = g.have[c.name],
            has_reason = not g.have[c.name] and "its kernel does not say" or nil }
        end
      end
      groups[i] = one
    end
    return { ["function"] = of.name, groups = groups }
  end
end
