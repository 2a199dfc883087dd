-- Which tokens of a vocabulary a text may go on with. The trie is walked once for each state of the grammar, as if nothing were
-- below it on the stack; what such a walk finds holds wherever the state is on top. Where a token leaves the state's rule and goes
-- on, what stands below decides, so the few nodes of the trie at which that happens are walked again for each stack.

local bit = require "bit"
local ffi = require "ffi"

local Masks = {}
Masks.__index = Masks

local MOST = 64 * 2 ^ 20 -- bytes of what was found of states; then it is forgotten

--- Of stacks (stacks.lua) and the trie of a vocabulary of so many tokens (vocabulary.lua).
function Masks.new(stacks, trie, count)
  return setmetatable({ stacks = stacks, trie = trie, count = count, words = math.ceil(count / 8), known = {}, nbytes = 0 }, Masks)
end

-- Marks the tokens of the subtree below a node whose bytes lead on from a set; out: gets nodes at which the set has an end.
function Masks:walk(node, set, mark, out)
  local stacks, trie = self.stacks, self.trie
  local byte, depth, skip, from, token = trie.byte, trie.depth, trie.skip, trie.from, trie.token
  local at = { [depth[node]] = set }
  local i, stop = node + 1, skip[node]
  while i < stop do
    local d, b = depth[i], byte[i]
    local before = at[d - 1]
    local now = before.next[b]
    if now == nil then now = stacks:step(before, b) end
    if now then
      for k = from[i], from[i + 1] - 1 do mark[token[k]] = 1 end
      if out and now.ended and skip[i] > i + 1 then out[#out + 1] = i end
      at[d] = now
      i = now[1] and i + 1 or skip[i]
    else
      i = skip[i]
    end
  end
end

-- {mark, out} of a state on top of nothing.
function Masks:of_state(state)
  local e = self.known[state]
  if e then return e end
  local size = self.words * 8
  if self.nbytes + size > MOST then self.known, self.nbytes = {}, 0 end
  e = { mark = ffi.new("uint8_t[?]", size), out = {} }
  self:walk(0, self.stacks:alone(state), e.mark, e.out)
  self.known[state], self.nbytes = e, self.nbytes + size + 16 * #e.out
  return e
end

--- A byte for each token, 1 where a text that stands in a set may go on with it.
function Masks:of(set)
  local mark = ffi.new("uint8_t[?]", self.words * 8)
  local all = ffi.cast("uint64_t *", mark)
  for _, s in ipairs(set) do
    local e = self:of_state(s.state)
    local own = ffi.cast("uint64_t *", e.mark)
    for i = 0, self.words - 1 do all[i] = bit.bor(all[i], own[i]) end
    if s.below then
      local below = self.stacks:returned(s.below)
      for _, node in ipairs(e.out) do self:walk(node, below, mark) end
    end
  end
  return mark
end

return Masks
