-- What the fuzzers share: a generator with a seed, golden texts, changes of any text. Library of this
-- folder, of tests/graph and tests/jit.
--
--   local fuzz = dofile "tests/fuzz/_text.lua"
--   local count = fuzz.open("FUZZ", 8000)   -- FUZZ_COUNT, FUZZ_SEED, FUZZ_TRACE in the environment
local bit = require "bit"
local M = {}
local state, trace

--- How many cases; the environment chooses others by PREFIX_COUNT and PREFIX_SEED. PREFIX_TRACE names
--- a file that gets each text before it is read.
function M.open(prefix, count, seed)
  local function number(what) return tonumber(os.getenv(prefix .. "_" .. what) or "") end
  state = number "SEED" or seed or 2463534242
  M.first = state
  trace = os.getenv(prefix .. "_TRACE")
  return number "COUNT" or count
end

--- The seed from which the numbers to come follow.
function M.seed() return state end

--- 0 to m - 1: xorshift.
function M.random(m)
  state = bit.bxor(state, bit.lshift(state, 13))
  state = bit.bxor(state, bit.rshift(state, 17))
  state = bit.bxor(state, bit.lshift(state, 5))
  return state % m
end
local random = M.random

function M.pick(list) return list[1 + random(#list)] end
local pick = M.pick

--- path, text of each file under a folder whose name ends so, in order.
function M.files(folder, ending)
  local list = io.popen(("find %s -name '*%s' | LC_ALL=C sort"):format(folder, ending))
  local paths = {}
  for path in list:lines() do paths[#paths + 1] = path end
  list:close()
  local i = 0
  return function()
    i = i + 1
    if not paths[i] then return nil end
    local file = assert(io.open(paths[i], "rb"))
    local text = file:read "*a"
    file:close()
    return paths[i], text
  end
end

--- Words and signs of a text, appended.
function M.tokens(text, into)
  for token in text:gmatch "[%%@]?[%w_.]+" do into[#into + 1] = token end
  for token in text:gmatch "%p+" do into[#into + 1] = token end
end

--- The text with one match of the pattern, anywhere, replaced.
function M.replace(text, pattern, by)
  local first, last = text:find(pattern, 1 + random(#text + 1))
  if not first then first, last = text:find(pattern) end
  if not first then return text end
  return text:sub(1, first - 1) .. by .. text:sub(last + 1)
end

-- ---- changes of any text
function M.byte(t)
  local at = 1 + random(#t + 1)
  return t:sub(1, at - 1) .. string.char(1 + random(255)) .. t:sub(at + 1)
end
function M.cut(t) return t:sub(1, random(#t + 1)) end
--- A piece again, somewhere.
function M.again(t)
  local from, at = 1 + random(#t + 1), 1 + random(#t + 1)
  return t:sub(1, at - 1) .. t:sub(from, from + random(60)) .. t:sub(at)
end
--- A piece left out.
function M.without(t)
  local from = 1 + random(#t + 1)
  return t:sub(1, from - 1) .. t:sub(from + random(30))
end
--- One of the pieces many times: deep or long.
function M.deep(pieces)
  return function(t)
    local at = 1 + random(#t + 1)
    return t:sub(1, at - 1) .. pick(pieces):rep(pick { 2, 40, 3000 }) .. t:sub(at)
  end
end

--- The trace gets a text before it is read.
function M.note(text)
  if not trace then return end
  local file = assert(io.open(trace, "wb"))
  file:write(text)
  file:close()
end

--- The text after one to three of the changes, without zero bytes; the trace gets it.
function M.changed(text, changes)
  for _ = 1, pick { 1, 1, 2, 3 } do text = pick(changes)(text) end
  text = text:gsub("%z", "")
  M.note(text)
  return text
end

return M
