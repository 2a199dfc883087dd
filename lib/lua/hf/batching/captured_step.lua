-- The step of all texts that want one token more as one captured function, on devices: tokens, positions, tables and places to write
-- are tensors, pages are written in place, so a step is the same code as the one before it. One is captured for each number of rows
-- and width of tables, both powers of two, when these have come a few times. Processors read pages where they lie without it.

local Captured = require "tessera.hf.captured"
local core = require "tessera.core"
local side_by_side = require "tessera.hf.side_by_side"

local Step = {}
Step.__index = Step

local EAGER = 3 -- calls of the same sizes before a captured one

--- new(model, store), or nil where calls are better one by one.
function Step.new(model, store)
  if store.device:find "^cpu" then return nil end
  local function body(ids, rows, start, tables, slots, pools, room)
    local view = store:view_of(pools, room, rows, start, tables, slots)
    return model { ids = ids, cache = view, last = true }:select(1, 0)
  end
  side_by_side.model(model, store.device)
  return setmetatable({ store = store, seen = {}, step = Captured.new("batch_step", body) }, Step)
end

--- Logits [B, V] of texts, a list with false for rows that are nobody's; nil if the call is one for an uncaptured step. room: as of
--- Store:view, or 1 where it means nothing.
function Step:call(ids, texts, starts, room)
  if self.step.off then return nil end
  local s = self.store
  local most = 0
  for _, start in ipairs(starts) do most = math.max(most, start) end
  local width = 1
  while width < math.ceil((most + 1) / s.size) do width = 2 * width end
  local key = #ids .. " " .. width .. " " .. room
  self.seen[key] = (self.seen[key] or 0) + 1
  if self.seen[key] <= EAGER then return nil end
  local rows, start, tables, slots = s:arguments(texts, starts)
  local tokens = core.tensor(ids, { dtype = "i64", device = s.device })
  local ok, y = self.step:call(tokens, rows, start, tables, slots, { k = s.k, v = s.v, ks = s.ks, vs = s.vs }, room)
  return ok and y or nil
end

--- Why steps are made of calls one by one; nil where they are captured. own: what new gave.
function Step.why_not(own)
  if not own then return "processors read pages where they lie" end
  return own.step:why_not()
end

return Step
