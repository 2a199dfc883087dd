-- Pipelines and micro-batches of a step of training: which part of a model is in which chunk. lib/lua/dist/training.lua
-- asks for it, ir/mesh does it.

local core = require "tessera.core"
local options = require "tessera.options"

local pipeline = {}

local WHOLE, SCHEDULES = options.whole { least = 1, most = 4096 }, { "gpipe", "1f1b", "interleaved" }
local MOST = 60 -- chunks

local function is_stages(v)
  if v == "balanced" or WHOLE.holds(v) then return true end
  if type(v) ~= "table" or core.is_tensor(v) or #v == 0 then return false end
  for _, name in ipairs(v) do
    if type(name) ~= "string" then return false end
  end
  return true
end
local function is_again(v)
  if type(v) == "boolean" then return true end
  return type(v) == "table" and not core.is_tensor(v)
end

--- What plan = {pp = ..} takes.
pipeline.read = options.of("graph.training_step: plan.pp", {
  stages = options.kind("a number, 'balanced', or a list of names of modules", is_stages), schedule = options.one_of(unpack(SCHEDULES)),
  micro = WHOLE, rematerialise = options.kind("true, false or a list of names of stages", is_again) },
  { stages = "balanced", rematerialise = false })

local function fail(text, ...) core.fail("graph.training_step: " .. text:format(...)) end

-- ---- parts of a model
-- "h.0.attn.weight" is in "h", "h.0", "h.0.attn" and is itself "h.0.attn.weight".
local function paths_of(params)
  local paths, list = {}, {}
  for _, pair in ipairs(params) do
    local at = ""
    for word in pair[1]:gmatch "[^.]+" do
      at = at == "" and word or at .. "." .. word
      if not paths[at] then
        paths[at] = true
        list[#list + 1] = at
      end
    end
  end
  return paths, list
end

-- The part that a parameter belongs to where models are cut at so many words of a name; an element of a list is a word
-- with the list.
local function unit_of(name, depth)
  local words, n = {}, 0
  for word in name:gmatch "[^.]+" do
    if not (word:match "^%d+$" and words[1]) then n = n + 1 end
    if n > depth then break end
    words[#words + 1] = word
  end
  return table.concat(words, ".")
end

-- Parameters of the model that the step has, {name, tensor, first}: where each is first read. Others know them by no name.
local function used(g, model)
  local all, list, named = {}, {}, {}
  if type(model) == "table" and model.named_parameters then all = model:named_parameters() end
  for i, pair in ipairs(all) do list[i] = pair[2] end
  for i, row in ipairs((g:chunks({}, list))) do
    if row then named[#named + 1] = { all[i][1], all[i][2], row.first } end
  end
  return named
end

local function in_order(params, depth)
  local at, units = {}, {}
  for _, pair in ipairs(params) do
    local unit = unit_of(pair[1], depth)
    if not at[unit] then units[#units + 1] = unit end
    at[unit] = math.min(at[unit] or math.huge, pair[3])
  end
  table.sort(units, function(a, b) return at[a] < at[b] end)
  return units
end

-- Cuts costs into n runs such that the largest sum is as small as can be: where each begins.
local function balance(cost, n)
  local most = #cost
  local sum = { [0] = 0 }
  for i = 1, most do sum[i] = sum[i - 1] + cost[i] end
  local best, from = {}, {}
  for k = 1, n do
    best[k], from[k] = {}, {}
    for i = k, most do
      if k == 1 then
        best[k][i], from[k][i] = sum[i], 0
      else
        best[k][i] = math.huge
        for j = k - 1, i - 1 do
          local largest = math.max(best[k - 1][j], sum[i] - sum[j])
          if largest < best[k][i] then best[k][i], from[k][i] = largest, j end
        end
      end
    end
  end
  local begins, i = {}, most
  for k = n, 1, -1 do
    begins[k] = from[k][i] + 1
    i = from[k][i]
  end
  return begins
end

-- Chunks of equal work: the parameters that each unit has are seeds of its chunk.
local function balanced(g, model, n)
  local params = used(g, model)
  local depth, units = 1, in_order(params, 1)
  while #units < n do
    depth = depth + 1
    local finer = in_order(params, depth)
    if #finer == #units and depth > 16 then fail("plan.pp: %d stages of a model that can be cut into %d", n, #units) end
    units = finer
  end
  local number = {}
  for i, unit in ipairs(units) do number[unit] = i - 1 end
  local seeds = {}
  for i, pair in ipairs(params) do seeds[i] = { pair[2], number[unit_of(pair[1], depth)] } end
  local _, cost = g:chunks({ chunks = #units, seeds = seeds }, {})
  local begins, chunk, names = balance(cost, n), {}, {}
  for k = 1, n do
    names[k] = units[begins[k]]
    for i = begins[k], (begins[k + 1] or #units + 1) - 1 do chunk[i - 1] = k - 1 end
  end
  for _, seed in ipairs(seeds) do seed[2] = chunk[seed[2]] end
  return seeds, names
end

-- Chunks that begin with the modules that are named.
local function named(g, model, names)
  local params = used(g, model)
  local known, all = paths_of(params)
  local at, seeds = {}, {}
  for k, name in ipairs(names) do
    if not known[name] then
      local guess = core.suggest(name, all)
      fail("plan.pp: no parameters of the model are in '%s'\n  hint: %s", core.shown(name, 40),
        guess and ("did you mean '%s'?"):format(guess) or "there are " .. table.concat(all, ", ", 1, math.min(#all, 12)))
    end
    at[k] = math.huge
    for _, pair in ipairs(params) do
      if pair[1] == name or pair[1]:sub(1, #name + 1) == name .. "." then
        at[k] = math.min(at[k], pair[3])
        seeds[#seeds + 1] = { pair[2], k - 1 }
      end
    end
    if k > 1 and at[k] <= at[k - 1] then fail("plan.pp: stages are in the order in which the model uses them; '%s' comes before '%s'", name, names[k - 1]) end
  end
  return seeds, names
end

-- ---- the plan
local function count(pp, places)
  if type(pp.stages) == "table" then return #pp.stages end
  if pp.stages ~= "balanced" then return pp.stages end
  return pp.schedule == "interleaved" and 2 * places or places
end

--- Checks a plan against a mesh, before anything is captured.
function pipeline.check(pp, mesh)
  local axis
  for i, a in ipairs(mesh.axes) do axis = a == "pp" and i - 1 or axis end
  if not axis then fail("plan.pp needs an axis \"pp\", which %s has not", tostring(mesh)) end
  local places = mesh.shape[axis + 1]
  local n = count(pp, places)
  if n > MOST then fail("plan.pp: %d stages, of %d at most", n, MOST) end
  if n % places ~= 0 then fail("plan.pp: %d stages on the %d places of pp; a multiple of %d fits", n, places, places) end
  pp.schedule = pp.schedule or (n > places and "interleaved" or "1f1b")
  if pp.schedule == "1f1b" and n > places then
    fail("plan.pp: schedule \"1f1b\" has one stage a place, %d, not %d\n  hint: schedule = \"interleaved\" has several", places, n)
  end
  if pp.schedule == "interleaved" and n == places and places > 1 then
    fail("plan.pp: schedule \"interleaved\" has several stages a place: %d, not %d", 2 * places, n)
  end
  return { axis = axis, places = places, chunks = n }
end

local function again(pp, names)
  local set = {}
  if type(pp.rematerialise) ~= "table" then
    for k = 1, #names do set[k - 1] = pp.rematerialise end
    return set
  end
  for _, name in ipairs(pp.rematerialise) do
    local found
    for k, own in ipairs(names) do found = own == name and k - 1 or found end
    if not found then
      local guess = type(name) == "string" and core.suggest(name, names)
      fail("plan.pp: no stage begins with '%s'\n  hint: %s", core.shown(tostring(name), 40),
        guess and ("did you mean '%s'?"):format(guess) or "there are " .. table.concat(names, ", "))
    end
    set[found] = true
  end
  return set
end

--- How the step g runs (core's words), and the chunk of each of these tensors, or false.
function pipeline.place(pp, at, g, model, micro, tensors)
  local seeds, names
  if type(pp.stages) == "table" then seeds, names = named(g, model, pp.stages) else seeds, names = balanced(g, model, at.chunks) end
  local how = { micro = micro, chunks = at.chunks, axis = at.axis, turns = pp.schedule, again = again(pp, names), seeds = seeds }
  local chunk = {}
  for i, row in ipairs((g:chunks(how, tensors))) do chunk[i] = row and row.chunk >= 0 and row.chunk end
  return how, chunk
end

return pipeline
