-- The step of all texts that want one token more as one captured function, on devices: tokens, positions, tables and places to write
-- are tensors, pages are written in place, so a step is the same code as the one before it. One is captured for each number of rows
-- and width of tables, both powers of two, when these have come a few times. Processors read pages where they lie without it.

local core = require "tessera.core"
local graph = require "tessera.graph"
local side_by_side = require "tessera.hf.side_by_side"

local Captured = {}
Captured.__index = Captured

local EAGER = 3 -- calls of the same sizes before a captured one

--- Whether an error is no fault of a call, which may be made again: Ctrl-C, and memory that ran out.
function Captured.is_upset(why)
  why = tostring(why)
  return why:find "interrupted" ~= nil or why:find "out of memory" ~= nil
end

--- new(model, store), or nil where calls are better one by one.
function Captured.new(model, store)
  if store.device:find "^cpu" then return nil end
  local function body(ids, rows, start, tables, slots, pools, room)
    local view = store:view_of(pools, room, rows, start, tables, slots)
    return model { ids = ids, cache = view, last = true }:select(1, 0)
  end
  side_by_side.model(model, store.device)
  return setmetatable({ store = store, seen = {}, run = graph.module("batch_step", body) }, Captured)
end

--- Logits [B, V] of texts, a list with false for rows that are nobody's; nil if the call is one for an uncaptured step. room: as of
--- Store:view, or 1 where it means nothing.
function Captured:call(ids, texts, starts, room)
  if self.off then return nil end
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
  local ok, y = pcall(self.run, tokens, rows, start, tables, slots, { k = s.k, v = s.v, ks = s.ks, vs = s.vs }, room)
  if ok then return y end
  if Captured.is_upset(y) then error(y, 0) end
  self.off = tostring(y) -- the model decides by what is in tensors: its calls are made one by one
  return nil
end

--- Why steps are made of calls one by one; nil where they are captured. captured: what new gave.
function Captured.why_not(captured)
  if not captured then return "processors read pages where they lie" end
  return captured.off and captured.off:match "^[^\n]*" or nil
end

return Captured
