-- Captured functions against eager calls: the cases of tests/vectors, each as a graph that
-- is lowered and run twice, with one and with two threads. In the strict profile the bits
-- are those of the eager call; in the default one too, unless a rule fired that rounds.
-- The text of each graph reads back as itself.
package.path = "tests/agree/?.lua;" .. package.path
local core = require "tessera.core"
local numerics = require "tessera.numerics"
local cases = require "_cases"
local shared = require "_captured"
local larger = require "_larger"
local op = core.op
local present, captured, text_of, words = shared.present, shared.captured, shared.text_of, cases.words

local default_threads = core.threads()
local counted, refused = { graphs = 0, refused = 0, rounded = 0 }, {}
local slab, bound = 0, 0

local function eager(c, x)
  core.seed(17)
  local ok, out = pcall(cases.call, c, x)
  if not ok then return nil, words(out) end
  return text_of(out)
end

local function rounds(rewrites) return rewrites:find(" (rounding)\n", 1, true) ~= nil end

local function reads_back(f)
  local text = f:ir("graph")
  local again, err = core.graph_parse(text)
  if again ~= text then return "its text reads back as: " .. tostring(again or err) .. "\nnot as\n" .. text end
end

-- Views with the same elements: axes in reverse order in memory, every second element.
local function turned(x)
  local perm = {}
  for i = 1, x.ndim do perm[i] = x.ndim - i end
  return x.ndim < 2 and x or op.clone(x:permute(perm)):permute(perm)
end

local function stepped(x)
  return x.ndim == 0 and x or op.repeat_interleave(x, 2, x.ndim - 1)["...,::2"]
end

local function other_layouts(x, f, want)
  for _, change in ipairs { turned, stepped } do
    local list = present(x)
    for i, t in ipairs(list) do
      local ok, view = pcall(change, t)
      if ok then list[i] = view end
    end
    core.seed(17)
    local got = text_of { f(unpack(list)) }
    if got ~= want then return ("for views: %s, not %s\n%s"):format(got, want, f:ir "bytecode") end
  end
end

local function run(c, x, f, want)
  local list = present(x)
  for _, threads in ipairs { 1, 2, 2, 1 } do
    core.threads(threads)
    core.seed(17)
    local got = text_of { f(unpack(list)) }
    if got ~= want then return ("with %d threads %s, not %s\n%s"):format(threads, got, want, f:ir "bytecode") end
  end
  local why = other_layouts(x, f, want)
  if why then return why end
  local s = f:stats()
  if s.slab < s.bound then return "a slab below its bound" end
  slab, bound = slab + s.slab, bound + s.bound
  counted.graphs = counted.graphs + 1
  return reads_back(f)
end

local function differences(c, profile)
  local x = cases.inputs(c)
  local want, wrong = eager(c, x)
  local f = captured(c, x)
  if not want then
    local ok, out = pcall(f, unpack(present(x)))
    if ok then return "eagerly: " .. wrong .. "; captured it runs" end
    return words(out) ~= wrong and ("the error is %s, not %s"):format(words(out), wrong) or nil
  end
  core.seed(17)
  local ok, first = pcall(f, unpack(present(x)))
  if not ok then
    if tostring(first):find("shape depends on data and cannot be captured", 1, true) then
      counted.refused, refused[c.row] = counted.refused + 1, true
      return
    end
    return tostring(first)
  end
  if profile ~= "strict" and rounds(f.current.graph:text "rewrites") then
    counted.rounded = counted.rounded + 1
    return
  end
  return run(c, x, f, want)
end

local function check(c, profile)
  local ok, why = pcall(numerics.profile, profile, function() return differences(c, profile) end)
  core.threads(default_threads)
  cases.expect(cases.name(c) .. ", " .. profile, ok and not why, why)
end

local skipped = cases.skipped
local done, most = {}, os.getenv "LONG" and 6 or 2
for c in cases.each() do
  local spec = c.x[1]
  local key = c.row .. " " .. tostring(type(spec) == "table" and spec[1] or c.t or c.number % 7)
  done[key] = (done[key] or 0) + 1
  if not skipped[c.row] and (done[key] <= most or os.getenv "ALL") then
    check(c, "strict")
    if done[key] <= math.ceil(most / 3) then check(c, "deterministic") end
  end
  if done[key] % 4 == 0 then collectgarbage "step" end
end
for i, c in ipairs(larger.cases()) do
  c.number, c.family = i, "larger"
  if not skipped[c.row] and (i % 2 == 0 or most == 6) then check(c, "strict") end
  if i % 8 == 0 then collectgarbage() end
end

local names = {}
for name in pairs(refused) do names[#names + 1] = name end
table.sort(names)
table.concat(names, " ") --> bincount masked_select nonzero repeat_counts unique
counted.graphs > 1000 --> true
if os.getenv "RATIO" then
  print(("%d graphs, %d refused, %d with rounding rules; slab/bound %.4f"):format(counted.graphs, counted.refused,
    counted.rounded, slab / bound))
end
