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

  --- Prints what is chosen for a group, and chooses: "f 2 rows=128"; or f, group, options.
  function prompt.choose(f, group, ...)
    local options, given = (...), select("#", ...) > 0
    if type(f) == "string" then
      local head, words = f:match "^(.-)%s+([%a_]+=.*)$"
      if not head then head, words = f:match "^(.-)%s+(default)%s*$" end
      if head then f, options, given = head, choose.words(words, function(...) wrong("choose", ":choose: " .. (...), select(2, ...)) end), true end
      local front, word = f:match "^(.-)%s+([%w_]+)%s*$"
      if front and front ~= "" then f, group = front, tonumber(word) or word end
      if given and not group then wrong("choose", ":choose: a group stands behind the function: :tiles lists them") end
    end
    local of = read("choose", false, 0, f)
    if of.loops then wrong("choose", ":choose takes a captured function") end
    local out = {}
    if group == nil then
      for _, g in ipairs(choose.groups(of)) do out[#out + 1] = tostring(of:choose(g.group)) end
      if not out[1] then out[1] = "nothing of it is computed" end
    else
      local ok, text
      if given then ok, text = pcall(of.choose, of, group, options) else ok, text = pcall(of.choose, of, group) end
      if not ok then core.fail((tostring(text):gsub("^.-:choose: ", ":choose: "))) end
      out[1] = tostring(text)
    end
    prompt.page(table.concat(out, "\n") .. "\n")
  end
end
