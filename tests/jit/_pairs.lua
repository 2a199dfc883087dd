-- Pairs of neighbouring kernels as the texts of the graph and of the schedule have them, found without what :why says.
local pairs_of = {}

-- By value: the node that makes it, by its first value, and what each node reads. Of the function itself, not of those inside.
local function nodes_of(text)
  local maker, reads = {}, {}
  for line in text:gmatch "[^\n]+" do
    local left, right = line:match "^  (%%[^=]-) = (.*)$"
    if left then
      local first = left:match "%%[%w_.]+"
      for v in left:gmatch "%%[%w_.]+" do maker[v] = first end
      reads[first] = {}
      right = right:gsub("%b{}", ""):gsub(" : [^%%]*$", "")
      for v in right:gmatch "%%[%w_.]+" do table.insert(reads[first], v) end
    end
  end
  return maker, reads
end

-- By node: its group, from the first schedule of the text.
local function groups_of(text)
  local of, n = {}, 0
  for line in text:match "{\n(.-)}\n":gmatch "[^\n]+" do
    local list = line:gsub("//.*", ""):gsub(" space .*", ""):gsub(" in .*", ""):gsub(" out .*", ""):gsub(" transposed.*", "")
    for v in list:gmatch "%%[%w_.]+" do of[v] = n end
    n = n + 1
  end
  return of, n
end

--- Of texts of "concrete" and "schedule": {["0 1"] = true, ..}, and how many groups there are.
function pairs_of.texts(graph, schedule)
  local maker, reads = nodes_of(graph)
  local of, n = groups_of(schedule)
  local found = {}
  local function visit(v, to)
    local node = maker[v]
    if not node then return end
    local from = of[node]
    if from == nil then -- a view, or a constant
      for _, u in ipairs(reads[node]) do visit(u, to) end
    elseif from ~= to then
      found[from .. " " .. to] = true
    end
  end
  for node, group in pairs(of) do
    for _, v in ipairs(reads[node] or error("no node " .. node)) do visit(v, group) end
  end
  return found, n
end

--- What :why says of the function itself in the same form; fails where a pair stands twice or has no reason, and where
--- the members of a kernel are not one that begins and others with a reason each.
function pairs_of.why(why)
  local found, n = {}, 0
  for _, g in ipairs(why.functions[1].groups) do
    n = n + 1
    local begins = 0
    for _, m in ipairs(g.members) do
      assert(m.reason and #m.text > 10, ("no reason for %s in group %d\n%s"):format(m.operator, g.group, tostring(why)))
      if m.reason == "begins" then begins = begins + 1 end
    end
    assert(begins == 1, ("%d beginnings of group %d\n%s"):format(begins, g.group, tostring(why)))
    for _, r in ipairs(g.reads) do
      local key = r.from .. " " .. g.group
      assert(not found[key], "twice: " .. key)
      assert(r.reason and #r.text > 10, ("no reason for %s\n%s"):format(key, tostring(why)))
      assert(not r.text:find "[{}]", r.text)
      assert(r.bytes > 0 and r.values > 0)
      found[key] = r.reason
    end
  end
  return found, n
end

--- Both ways give the same pairs: of a function for the arguments behind it, and a target. Gives the reasons.
function pairs_of.check(f, ...)
  local why = f:why(...)
  local mine, n = pairs_of.why(why)
  local theirs, m = pairs_of.texts(f:ir "concrete", f:ir("schedule", ...))
  assert(n == m, ("%d groups and %d"):format(n, m))
  for key in pairs(theirs) do assert(mine[key], ("%s is not said\n%s"):format(key, tostring(why))) end
  for key in pairs(mine) do assert(theirs[key], ("%s is no pair\n%s%s"):format(key, tostring(why), f:ir "concrete")) end
  return mine, why
end

return pairs_of
