-- A step of text that goes on as one captured function: the last token of each text goes in, logits or the greatest token
-- come out, on the device of the model. How far texts are is a tensor, and keys and values are written in place at
-- that position of tensors which are given away at each call and come back; so a step is the same code as the one before
-- it, gets kernels of its own while text goes on without them, and its launches repeat. What lies behind a text's
-- end is masked, which changes no bit (cache.lua), so those tensors have 128, 256, 512 .. positions, as many as hold all
-- texts, and a step is captured once for each of these. Keys and values of a layer are halves of one tensor, which one launch
-- writes, unless their widths differ.

local Cache = require "tessera.hf.cache"
local Captured = require "tessera.hf.captured"
local core = require "tessera.core"
local sampling = require "tessera.hf.sampling"
local side_by_side = require "tessera.hf.side_by_side"
local op = core.op

local Step = {}
Step.__index = Step

local LEAST = 128 -- positions; the block of keys of attention
local ROW = { __index = {} } -- a cache as a call within the step sees it (decoder.lua)
local row = ROW.__index

function row:need() end
function row:advance() end
-- Into tensor n of the list, [P, B, H, T, D], at each text's position; all that is there, as numbers of the type that comes. one
-- [P, B, H, 1, D]: keys and values, P = 2, or one of them.
local function put(self, n, one)
  local p, b, h, _, d = unpack(one.shape)
  local name, all = p .. " " .. h .. " " .. d, self.kv[n]
  if not self.places[name] then
    self.places[name] = self.rows:unsqueeze(-1):unsqueeze(-1):unsqueeze(0):broadcast_to({ p, b, h, 1, d }):contiguous()
  end
  all = op.scatter(all, self.places[name], one:cast(all.dtype), { axis = 3 })
  self.kv[n] = all
  return all:cast(one.dtype)
end

--- Whether a layer's keys and values come as heads of one tensor, for append_beside.
function row:is_pair(i) return self.kv[self.first[i]].shape[1] == 2 end

--- As Cache:append, of heads [B, 2 H, 1, D]: keys, then values.
function row:append_beside(i, heads)
  local b, h, _, d = unpack(heads.shape)
  local all = put(self, self.first[i], heads:reshape({ b, 2, h / 2, 1, d }):permute(1, 0, 2, 3, 4))
  return all:select(0, 0), all:select(0, 1)
end

function row:append(i, k, v)
  local n = self.first[i]
  if self:is_pair(i) then
    local all = put(self, n, op.stack({ k, v }, { axis = 0 }))
    return all:select(0, 0), all:select(0, 1)
  end
  return put(self, n, k:unsqueeze(0)):select(0, 0), put(self, n + 1, v:unsqueeze(0)):select(0, 0)
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

-- Where each layer's tensors begin in the list.
local function places_of(kv)
  local first, n = {}, 1
  while kv[n] do
    first[#first + 1] = n
    n = n + (kv[n].shape[1] == 2 and 1 or 2)
  end
  return first
end

local function body(model, greedy)
  return function(tokens, rows, kv, room)
    local cache = setmetatable({ rows = rows, kv = { unpack(kv) }, first = places_of(kv), length = kv[1].shape[4], room = room, places = {} }, ROW)
    local y = model { ids = tokens, cache = cache, last = true }:select(1, 0)
    local next_ = greedy and sampling.greatest(y:cast "f32") or nil
    return next_ or y, rows + 1, cache.kv
  end
end

--- Whether a model's steps can be captured: its cache is made of keys and values that calls append to, without scales, and none of its
--- steps was found to be no function of tensors alone.
function Step.can(model, cache, greedy)
  local own = rawget(model, "_steps")
  return not (own and own[greedy] and own[greedy].off) and not model.encode and getmetatable(cache) == Cache and next(cache.mk) == nil and not cache.ks
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
  own[greedy] = own[greedy] or Captured.new("decode_step", body(model, greedy), { donate = { 3 } })
  return own[greedy]
end

--- new(model, cache, positions, greedy): steps go on where the cache is, which is theirs from here on; positions: how many
--- each text has in it, a list. greedy: steps give tokens [B, 1], else logits [B, V].
function Step.new(model, cache, positions, greedy)
  local device = cache.k[1].device
  local self = setmetatable({ kv = {}, cache = cache, room = cache.room, most = 0 }, Step)
  for _, n in ipairs(positions) do self.most = math.max(self.most, n) end
  self.rows = Step.column(positions, device)
  side_by_side.model(model, device)
  self.run = captured(model, greedy and true or false)
  self.known_room = depends_on_room(model.config) and self.room or 0
  self:take(cache.k, cache.v, math.min(fitting(self.most), self.room))
  cache.k, cache.v = {}, {}
  return self
end

-- One tensor for `length` positions of the lists' i-th, behind which those are dropped, so that not all are there twice.
local function joined(length, i, ...)
  local lists = { ... }
  local t = lists[1][i]
  local b, h, have, d = unpack(t.shape)
  local all = op.zeros({ #lists, b, h, length, d }, { dtype = t.dtype, device = t.device })
  have = math.min(have, length)
  for n, list in ipairs(lists) do
    all:select(0, n - 1):narrow(2, 0, have):copy_(list[i]:narrow(2, 0, have))
    list[i] = false
  end
  return all
end

function Step:take(keys, values, length)
  for i = 1, #keys do
    local k, v, kv = keys[i], values[i], self.kv
    local alike = k.dtype == v.dtype and k.shape[2] == v.shape[2] and k.shape[4] == v.shape[4]
    kv[#kv + 1] = alike and joined(length, i, keys, values) or joined(length, i, keys)
    if not alike then kv[#kv + 1] = joined(length, i, values) end
  end
  collectgarbage() -- views of them, which would have them copied once
end

-- For `length` positions, which are more, one tensor after the other.
function Step:resize(length)
  for i, t in ipairs(self.kv) do
    local p, b, h, have, d = unpack(t.shape)
    self.kv[i] = op.zeros({ p, b, h, length, d }, { dtype = t.dtype, device = t.device })
    self.kv[i]:narrow(3, 0, have):copy_(t)
  end
  collectgarbage()
end

-- Keys and values as a cache has them, whose calls append to it: those of the lists' tensors back in places of their own.
function Step:give_back()
  local cache, first = self.cache, places_of(self.kv)
  for i, n in ipairs(first) do
    local pair = self.kv[n].shape[1] == 2
    for at, name in ipairs { "k", "v" } do
      local own = pair and self.kv[n]:select(0, at - 1) or self.kv[n + at - 1]:select(0, 0)
      local b, h, _, d = unpack(own.shape)
      local all = op.zeros({ b, h, cache.room, d }, { dtype = own.dtype, device = own.device })
      all:narrow(2, 0, self.most):copy_(own:narrow(2, 0, self.most))
      cache[name][i] = all
    end
  end
  self.kv = {}
  cache.length, cache.lengths = self.most, nil
  local lengths, even = self.rows:reshape(-1):totable(), true
  for _, n in ipairs(lengths) do even = even and n == lengths[1] end
  if not even then cache:set_lengths(lengths) end
end

--- Whether there is room for one position more.
function Step:has_room() return self.most < self.room end

--- One step: tokens i64 [B, 1] on the device. nil: it cannot be captured, and the cache is as it was before the steps.
function Step:__call(tokens)
  if self.over then return nil end
  self.cache.length, self.cache.lengths = self.most, nil
  self.cache:need(self.cache.batch, 1)
  if self.most == self.kv[1].shape[4] then self:resize(math.min(fitting(self.most), self.room)) end
  local ok, y, rows, kv = self.run:call(tokens, self.rows, self.kv, self.known_room)
  if not ok then
    self:give_back()
    self.over = true
    return nil
  end
  self.rows, self.kv = rows, kv
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
  greedy = greedy and true or false
  local captures = count >= WORTH and Step.can(model, cache, greedy)
  local function one_by_one(tokens) return model({ ids = Step.column(tokens, device), cache = cache, last = true }):select(1, 0) end
  return function(tokens, more)
    n = n + 1
    if n == EAGER + 1 and captures then step = Step.new(model, cache, positions_of(cache), greedy) end
    if not step then return one_by_one(tokens) end
    local now = ahead or step(Step.column(tokens, device))
    if not now then
      step = nil
      return one_by_one(tokens)
    end
    if not greedy then return now end
    ahead = more and step:has_room() and step(now) or nil
    local ids = now:totable()
    for i, row_ in ipairs(ids) do ids[i] = row_[1] end
    return nil, ids
  end
end

return Step
