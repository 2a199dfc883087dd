-- A step of text that goes on as one captured function: the last token of each text goes in, logits or the greatest token
-- come out, on the device of the model. How far texts are is a tensor, and keys and values are written in place at
-- that position of tensors which are given away at each call and come back; so a step is the same code as the one before
-- it, gets kernels of its own while text goes on without them, and its launches repeat. What lies behind a text's
-- end is masked, which changes no bit (cache.lua), so those tensors have 128, 256, 512 .. positions, as many as hold all
-- texts, and a step is captured once for each of these.

local Cache = require "tessera.hf.cache"
local core = require "tessera.core"
local graph = require "tessera.graph"
local op = core.op

local Step = {}
Step.__index = Step

local LEAST = 128 -- positions; the block of keys of attention
local ROW = { __index = {} } -- a cache as a call within the step sees it (decoder.lua)
local row = ROW.__index

function row:need() end
function row:advance() end
function row:append(i, k, v)
  local function put(all, one)
    local b, h, _, d = unpack(one.shape)
    local name = h .. " " .. d
    self.places[name] = self.places[name] or self.rows:unsqueeze(-1):unsqueeze(-1):broadcast_to { b, h, 1, d }:contiguous()
    return op.scatter(all, self.places[name], one:cast(all.dtype), { axis = 2 })
  end
  local dtype = k.dtype
  self.k[i], self.v[i] = put(self.k[i], k), put(self.v[i], v)
  return self.k[i]:cast(dtype), self.v[i]:cast(dtype)
end

-- The length for which steps are captured that write behind so many positions.
local function fitting(n)
  local length = LEAST
  while length <= n do length = 2 * length end
  return length
end

-- Two kinds of rotary positions depend on the positions that there will be (rope.lua), so those are captured.
local BY_LENGTH = { dynamic = true, longrope = true, su = true }
local function depends_on_room(c)
  local r = c.rope_parameters or c.rope_scaling or {}
  return BY_LENGTH[r.rope_type or r.type] or false
end

local function body(model, greedy)
  return function(tokens, rows, keys, values, room)
    local cache = setmetatable({ rows = rows, k = { unpack(keys) }, v = { unpack(values) }, length = keys[1].shape[3], room = room, places = {} }, ROW)
    local y = model { ids = tokens, cache = cache, last = true }:select(1, 0)
    local next_ = greedy and y:cast "f32":argmax { axis = -1, keepdims = true } or nil
    return next_ or y, rows + 1, cache.k, cache.v
  end
end

--- Whether a model's steps can be captured: its cache is made of keys and values that calls append to, without scales, and Lua decides nothing
--- by what is in tensors.
function Step.can(model, cache)
  return not model.encode and getmetatable(cache) == Cache and next(cache.mk) == nil and not cache.ks
end

--- Whole numbers, one for each text, as a tensor [B, 1].
function Step.column(list, device)
  local rows = {}
  for i, v in ipairs(list) do rows[i] = { v } end
  return core.tensor(rows, { dtype = "i64", device = device })
end

-- The captured function of a model, which later texts find as it is.
local function captured(model, greedy)
  local own = rawget(model, "_steps")
  if not own then
    own = {}
    rawset(model, "_steps", own)
  end
  own[greedy] = own[greedy] or graph.module("decode_step", body(model, greedy), { donate = { 3, 4 } })
  return own[greedy]
end

--- new(model, cache, positions, greedy): steps go on where the cache is, which is theirs from here on; positions: how many
--- each text has in it, a list. greedy: steps give tokens [B, 1], else logits [B, V].
function Step.new(model, cache, positions, greedy)
  local device = cache.k[1].device
  local self = setmetatable({ keys = cache.k, values = cache.v, cache = cache, room = cache.room, most = 0 }, Step)
  for _, n in ipairs(positions) do self.most = math.max(self.most, n) end
  self.rows = Step.column(positions, device)
  self.run = captured(model, greedy and true or false)
  self.known_room = depends_on_room(model.config) and self.room or 0
  cache.k, cache.v = {}, {}
  self:resize(math.min(fitting(self.most), self.room))
  return self
end

-- Keys and values for `length` positions, one tensor after the other, so that not all are there twice.
function Step:resize(length)
  local function resized(list)
    for i, t in ipairs(list) do
      local b, h, have, d = unpack(t.shape)
      if have > length then list[i] = t:narrow(2, 0, length):clone() end
      if have < length then
        list[i] = op.zeros({ b, h, length, d }, { dtype = t.dtype, device = t.device })
        list[i]:narrow(2, 0, have):copy_(t)
      end
    end
  end
  resized(self.keys)
  resized(self.values)
  collectgarbage() -- views of them, which would have them copied once
end

--- Whether there is room for one position more.
function Step:has_room() return self.most < self.room end

--- One step: tokens i64 [B, 1] on the device.
function Step:__call(tokens)
  local y
  self.cache.length, self.cache.lengths = self.most, nil
  self.cache:need(self.cache.batch, 1)
  if self.most == self.keys[1].shape[3] then self:resize(math.min(fitting(self.most), self.room)) end
  y, self.rows, self.keys, self.values = self.run(tokens, self.rows, self.keys, self.values, self.known_room)
  self.most = self.most + 1
  return y
end

-- ---- steps of a generation

local EAGER = 2   -- steps until a captured one
local WORTH = 16  -- of fewer steps none is captured

local function positions_of(cache)
  if cache.lengths then return cache.lengths end
  local list = {}
  for i = 1, cache.batch do list[i] = cache.length end
  return list
end

--- How a decoder goes on from a cache that holds its texts: a function of the tokens that were chosen last, a list, and of
--- whether a further step is wanted. It gives logits [B, V]; with greedy it may give, behind nil, the greatest tokens as a list
--- instead: then the next step is under way already when they are read. count: how many steps there are.
function Step.steps(model, cache, device, greedy, count)
  local n, step, ahead = 0, nil, nil
  local captures = count >= WORTH and Step.can(model, cache)
  return function(tokens, more)
    n = n + 1
    if n == EAGER + 1 and captures then step = Step.new(model, cache, positions_of(cache), greedy) end
    if not step then return model({ ids = Step.column(tokens, device), cache = cache, last = true }):select(1, 0) end
    local now = ahead or step(Step.column(tokens, device))
    if not greedy then return now end
    ahead = more and step:has_room() and step(now) or nil
    local ids = now:totable()
    for i, row_ in ipairs(ids) do ids[i] = row_[1] end
    return nil, ids
  end
end

return Step
