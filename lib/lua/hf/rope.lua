-- Rotary positions: which frequencies a configuration asks for, and heads turned by them.
--
-- Pair i of a head turns by position * theta^(-2i/d). Longer contexts are had by other frequencies: all divided by a factor
-- (linear), of another theta (dynamic), or each by a factor of its own (llama3, yarn, longrope), with a factor for the
-- result beside it (yarn, longrope). Plain and linear ones are op.rope's; of the others the cosines and sines of all
-- positions are made once a call, and the layers share them.

local core = require "tessera.core"
local op = core.op

local Rope = {}
Rope.__index = Rope

local pi = math.pi

-- Frequencies divided by these, by pair from 0 on, and the factor of cosines and sines. r: the configuration's table.
local SCALING = {}

function SCALING.llama3(r, frequency)
  local low, high = r.original / r.low_freq_factor, r.original / r.high_freq_factor
  local length = 2 * pi / frequency
  if length < high then return 1 end
  if length > low then return r.factor end
  local smooth = (r.original / length - r.low_freq_factor) / (r.high_freq_factor - r.low_freq_factor)
  return 1 / ((1 - smooth) / r.factor + smooth)
end

local function mscale(factor, m) return factor <= 1 and 1 or 0.1 * m * math.log(factor) + 1 end

-- From the pair that turns beta_fast times in the original context to the one that turns beta_slow times.
local function yarn_range(r)
  local function pair(turns) return r.dims * math.log(r.original / (turns * 2 * pi)) / (2 * math.log(r.theta)) end
  local low, high = pair(r.beta_fast or 32), pair(r.beta_slow or 1)
  if r.truncate ~= false then low, high = math.floor(low), math.ceil(high) end
  low, high = math.max(low, 0), math.min(high, r.dims - 1)
  return low, low == high and high + 0.001 or high
end

function SCALING.yarn(r, _, i)
  local low, high = yarn_range(r)
  local ramp = math.min(math.max((i - low) / (high - low), 0), 1)
  return 1 / (ramp / r.factor + 1 - ramp)
end

local function yarn_concentration(r)
  if r.attention_factor then return r.attention_factor end
  if r.mscale and r.mscale_all_dim and r.mscale ~= 0 and r.mscale_all_dim ~= 0 then
    return mscale(r.factor, r.mscale) / mscale(r.factor, r.mscale_all_dim)
  end
  return mscale(r.factor, 1)
end

local function longrope_concentration(r)
  if r.attention_factor then return r.attention_factor end
  return r.factor <= 1 and 1 or math.sqrt(1 + math.log(r.factor) / math.log(r.original))
end

local NEEDS = { default = {}, linear = { "factor" }, dynamic = { "factor" }, yarn = { "factor" },
  llama3 = { "factor", "low_freq_factor", "high_freq_factor" }, longrope = { "short_factor", "long_factor" } }

local function check(r, kind)
  if not NEEDS[kind] then
    core.fail(("hf.load: rope_type '%s' is unknown\n  hint: there are default, linear, dynamic, llama3, yarn, longrope"):format(
      core.shown(tostring(kind))))
  end
  for _, name in ipairs(NEEDS[kind]) do
    if r[name] == nil then core.fail(("hf.load: rope of type '%s' has no %s in the configuration"):format(kind, name)) end
  end
end

--- What a configuration says of rotary positions, of old and new files: rope_parameters, or rope_scaling and rope_theta. which:
--- "full_attention" and so on where layers differ. {theta, type, dims, ..}.
local function parameters(c, dims, which)
  local given = c.rope_parameters or c.rope_scaling or {}
  if which and given[which] then given = given[which] end
  local r = {}
  for k, v in pairs(given) do r[k] = v end
  r.theta = r.rope_theta or c.rope_theta or 10000
  r.kind = r.rope_type or r.type or "default"
  if r.kind == "su" then r.kind = "longrope" end -- as the first files of phi3 had it
  if r.kind == "mrope" then r.kind = "default" end
  r.dims, r.most = dims, c.max_position_embeddings
  check(r, r.kind)
  r.original = r.original_max_position_embeddings or c.original_max_position_embeddings or c.max_position_embeddings
  if r.kind == "longrope" and c.original_max_position_embeddings then r.factor = r.most / c.original_max_position_embeddings end
  r.factor = r.factor or 1
  return r
end

--- new(c, dims, {which, interleaved, theta}): for heads of which the first dims numbers turn, neighbours if interleaved.
function Rope.new(c, dims, o)
  o = o or {}
  local r = parameters(c, dims, o.which)
  r.theta = o.theta or r.theta
  if o.theta then r.kind, r.factor = "default", 1 end
  local self = setmetatable({ r = r, dims = dims, interleaved = o.interleaved or c.rope_interleaved or false }, Rope)
  if c.rope_factors then self.factors = c.rope_factors end -- of GGUF: a number for each pair
  return self
end

-- Frequencies by pair, and the factor of the results, for a sequence of that length.
function Rope:frequencies(length)
  local r, list = self.r, {}
  local theta, concentration = r.theta, 1
  if r.kind == "dynamic" and length > r.most then
    theta = theta * (r.factor * length / r.most - (r.factor - 1)) ^ (r.dims / (r.dims - 2))
  end
  if r.kind == "yarn" then concentration = yarn_concentration(r) end
  if r.kind == "longrope" then concentration = longrope_concentration(r) end
  local own = r.kind == "longrope" and (length > r.original and r.long_factor or r.short_factor) or self.factors
  for i = 0, r.dims / 2 - 1 do
    local f = theta ^ (-2 * i / r.dims)
    local by = own and own[i + 1] or SCALING[r.kind] and SCALING[r.kind](r, f, i) or r.kind == "linear" and r.factor or 1
    list[i + 1] = f / by
  end
  return list, concentration
end

--- A word for what a sequence of that length makes of the frequencies; "" where it makes nothing.
function Rope:length_kind(length)
  local r = self.r
  if r.kind == "dynamic" then return length > r.most and tostring(length) or "" end
  return r.kind == "longrope" and length > r.original and "long" or ""
end

-- Of the call's positions, in f64 until the last rounding: cosines and sines [S, dims / 2] or [B, 1, S, dims / 2], and for pairs
-- of halves the sines of both, [.., 2, dims / 2].
function Rope:tables(at)
  local made = at.tables[self]
  if made then return made end
  local list, concentration = self:frequencies(at.length)
  local frequency = core.tensor(list, { dtype = "f64", device = at.device })
  local positions = at.positions or op.arange(at.offset, at.offset + at.count):to(at.device)
  local angle = positions:cast "f64":unsqueeze(-1) * frequency
  if positions.ndim == 2 then angle = angle:unsqueeze(1) end
  made = { cos = (op.cos(angle) * concentration):cast(at.wide), sin = (op.sin(angle) * concentration):cast(at.wide) }
  if not self.interleaved then made.both = op.stack({ -made.sin, made.sin }, { axis = -2 }) end
  at.tables[self] = made
  return made
end

-- Computed in the dtype of the sines. The other half of each pair is a view of x, with the sign on its sine, so that all of it is
-- one kernel with one result: a cos - b sin, b cos + a sin.
local function turned_halves(x, t)
  local shape = { unpack(x.shape) }
  shape[#shape], shape[#shape + 1] = x.shape[x.ndim] / 2, x.shape[x.ndim] / 2
  shape[#shape - 1] = 2
  local halves, wide = x:reshape(shape), t.cos.dtype
  local y = halves:cast(wide) * t.cos:unsqueeze(-2) + halves:flip(-2):cast(wide) * t.both
  return y:cast(x.dtype):reshape(x.shape)
end

-- Neighbours: parts become wide, and narrow again, by themselves.
local function turned_neighbours(x, t)
  local shape, cos, sin = { unpack(x.shape) }, t.cos, t.sin
  shape[#shape], shape[#shape + 1] = x.shape[x.ndim] / 2, 2
  local pairs_ = x:reshape(shape)
  local a, b = pairs_:select(-1, 0):cast(cos.dtype), pairs_:select(-1, 1):cast(cos.dtype)
  return op.stack({ (a * cos - b * sin):cast(x.dtype), (b * cos + a * sin):cast(x.dtype) }, { axis = -1 }):reshape(x.shape)
end

--- Heads x [B, H, S, D] turned by the positions of the call (decoder.lua).
function Rope:turn(x, at)
  local r = self.r
  local plain = (r.kind == "default" or r.kind == "linear") and not self.factors
  if plain then
    return op.rope(x, at.positions, { theta = r.theta, dims = self.dims, offset = at.positions and 0 or at.offset,
      interleaved = self.interleaved, scaling = r.kind == "linear" and "linear" or "none", factor = r.factor })
  end
  local t = self:tables(at)
  local d = x.shape[x.ndim]
  local part = self.dims < d and x:narrow(-1, 0, self.dims) or x
  local y = (self.interleaved and turned_neighbours or turned_halves)(part, t)
  return self.dims < d and op.concat({ y, x:narrow(-1, self.dims, d - self.dims) }, { axis = -1 }) or y
end

--- For deepseek: what scores are multiplied by beside 1 / sqrt(d).
function Rope:score_factor()
  local r = self.r
  if r.kind ~= "yarn" or not r.mscale_all_dim or r.mscale_all_dim == 0 then return 1 end
  return mscale(r.factor, r.mscale_all_dim) ^ 2
end

return Rope
