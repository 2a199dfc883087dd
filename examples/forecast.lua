-- What comes next in a series of numbers: the forecaster of the Python package fracast, whose weights are
-- fracast/weights/model.safetensors in it, or model.int8.safetensors with numbers of 8 bits and scales.
--   tessera examples/forecast.lua model.int8.safetensors series.txt      # a number a line; prints 48 medians
-- One causal convolution with gates is applied at distances 1, 2, 4 .. 512, told how far it looks; periods that the spectrum
-- shows are given to it as phases. Returns {load = function(path) -> forecaster}.

local tessera = require "tessera"
local op = tessera.op

local LENGTH, HORIZON, WIDTH, MEDIAN = 2048, 48, 64, 5
local STAGES, FUTURE_STAGES, SEED, PERIODS, PHASES, LEAST, ALPHA = 10, 6, 128, 4, 16, 8, 0.05
local EPS = 2 ^ -23
local forecast, Forecaster = {}, {}
Forecaster.__index = Forecaster

--- load(path): a forecaster with the weights of a safetensors file.
function forecast.load(path) return setmetatable({ w = tessera.load(path) }, Forecaster) end

-- ---- layers, by the names of their weights; those of 8 bits stay so in products

local function weight(w, name)
  local q = w[name .. ".qweight"]
  return q and op.dequantize(q, w[name .. ".scale"]) or w[name]
end

local function linear(w, name, x)
  local q, bias = w[name .. ".weight.qweight"], w[name .. ".bias"]
  if q then return op.scaled_linear(x, q, w[name .. ".weight.scale"], nil, bias) end
  return op.linear(x, w[name .. ".weight"], bias)
end

local function norm(w, name, x) return op.rmsnorm(x, weight(w, name .. ".weight"), { eps = EPS }) end

local function gated(w, name, x)
  local both = linear(w, name .. ".up", x)
  local n = both.shape[3] / 2
  return linear(w, name .. ".down", op.silu(both:narrow(-1, 0, n)) * both:narrow(-1, n, n))
end

-- Each number of a position beside those `distance` and twice as far before it, along axis 1.
local function convolve(w, name, x, distance)
  local taps, steps = weight(w, name .. ".dw_weight"):squeeze(1), x.shape[2]
  local padded = op.pad(x, { pads = { 2 * distance, 0, 0, 0 } })
  local y = w[name .. ".dw_bias"]
  for i = 0, 2 do y = y + padded:narrow(1, i * distance, steps) * taps:select(1, i) end
  return y
end

local function block(w, name, x, distance)
  x = norm(w, name .. ".norm1", x + linear(w, name .. ".pw", convolve(w, name, x, distance)))
  return norm(w, name .. ".norm2", x + gated(w, name .. ".ffn", x))
end

-- ---- what positions are given

-- How far positions from `first` on are from the last one that is known: [steps, 5].
local function recency(first, steps)
  local d = (op.arange(steps):cast "f32" + (first - (LENGTH - 1))) / LENGTH
  local far = d:abs()
  local sign = op.sign(d)
  return op.stack({ d, sign * op.log1p(far) / math.log(2), op.exp(far * -0.5), op.exp(far * -2), op.exp(far * -8) }, { axis = -1 })
end

-- Periods of rows, at most 4 each, the strongest first: peaks of the spectrum above what noise has; 0 is none. f32[b,4]
local function periods_of(x)
  local terms = op.rfft(x - x:mean { axis = 1, keepdims = true })
  local bins = LENGTH / 2
  local power = (terms:real():square() + terms:imag():square()):narrow(1, 1, bins)
  local share = power / op.maximum(power:sum { axis = 1, keepdims = true }, 1e-12)
  local middle = share:narrow(1, 1, bins - 2)
  local peak = middle:gt(share:narrow(1, 0, bins - 2)):logical_and(middle:gt(share:narrow(1, 2, bins - 2)))
  peak = peak:logical_and(middle:ge(math.log(bins / ALPHA) / bins))
  local height, place = op.topk(op.where(peak, middle, op.full({}, -1)), PERIODS, { axis = 1 })
  local period = op.round(LENGTH / (place:cast "f32" + 2)) -- place 0 is the term of two waves
  return op.where(height:ge(0), period, op.full({}, 0))
end

-- Sine and cosine of each period at all positions: [b, 2048, 8].
local function phases(periods)
  local turn = op.arange(LENGTH):cast("f32"):reshape(1, LENGTH, 1) * (2 * math.pi) / op.maximum(periods, 1):unsqueeze(1)
  local both = op.stack({ op.sin(turn), op.cos(turn) }, { axis = -1 })
  return (both * periods:gt(0):cast("f32"):reshape(-1, 1, PERIODS, 1)):reshape(-1, LENGTH, 2 * PERIODS)
end

-- Of 16 parts of the first period the mean of what was seen there, for the positions to come: [b, 48].
local function seasonal(x, seen, periods)
  local period = op.maximum(periods:narrow(1, 0, 1), 1)
  local function part(first, steps)
    local at = (op.arange(steps):cast "f32" + first):unsqueeze(0)
    return op.minimum((op.fmod(at, period) / period * PHASES):cast "i64", PHASES - 1)
  end
  local chosen = op.one_hot(part(0, LENGTH), PHASES):cast "f32" * seen:unsqueeze(-1)
  local count = chosen:sum { axis = 1 }
  local total = (chosen * x:unsqueeze(-1)):sum { axis = 1 }
  local mean = x:sum { axis = 1, keepdims = true } / op.maximum(seen:sum { axis = 1, keepdims = true }, 1)
  local means = op.where(count:gt(0), total / op.maximum(count, 1), mean)
  return op.gather(means, part(LENGTH, HORIZON), { axis = 1 })
end

-- ---- the net

-- x [b, 2048], 0 where nothing was seen; seen is 1 elsewhere -> [b, 2048, 64].
local function encode(w, x, seen, periods)
  local b = x.shape[1]
  local each = { x:unsqueeze(-1), seen:unsqueeze(-1), recency(0, LENGTH):unsqueeze(0):expand(b, LENGTH, 5) }
  local h = linear(w, "core.in_proj", op.concat(each, { axis = -1 })) + linear(w, "core.periodic.proj", phases(periods))
  for stage = 0, STAGES - 1 do
    local angle = stage * math.pi / op.exp2(op.arange(4):cast "f32")
    local by = linear(w, "core.scale.to_gb", op.concat({ op.sin(angle), op.cos(angle) }, { axis = 0 }))
    h = block(w, "core.block", h * (by:narrow(0, 0, WIDTH) + 1) + by:narrow(0, WIDTH, WIDTH), 2 ^ stage)
  end
  return norm(w, "core.norm", h)
end

-- What goes on from the last positions, by a convolution of its own, [b, 48, 64].
local function continued(w, h, fill, ahead)
  local next_ = linear(w, "head.future_conv.in_proj", op.concat({ fill:unsqueeze(-1), ahead }, { axis = -1 }))
  local z = op.concat({ h:narrow(1, LENGTH - SEED, SEED), next_ }, { axis = 1 })
  for stage = 0, FUTURE_STAGES - 1 do z = block(w, "head.future_conv.block", z, 2 ^ stage) end
  return linear(w, "head.future_conv.out_proj", z:narrow(1, SEED, HORIZON))
end

local function quantiles(w, x, seen)
  local b = x.shape[1]
  local mean = x:sum { axis = 1, keepdims = true } / op.maximum(seen:sum { axis = 1, keepdims = true }, 1)
  local periods = periods_of(op.where(seen:gt(0), x, mean))
  local h = encode(w, x, seen, periods)
  local ahead = recency(LENGTH, HORIZON):unsqueeze(0):expand(b, HORIZON, 5)
  local summary = op.concat({ h:mean { axis = 1 }, h:select(1, LENGTH - 1) }, { axis = -1 })
  local y = op.concat({ ahead, summary:unsqueeze(1):expand(b, HORIZON, 2 * WIDTH) }, { axis = -1 })
  y = linear(w, "head.summary_proj", y) + w["head.queries"]
  y = norm(w, "head.decoder_norms.0", y + gated(w, "head.decoder_ffns.0", y))
  for i = 0, 1 do
    local name = "head.fc_blocks." .. i
    y = norm(w, name .. ".norm", y + convolve(w, name, y, 2 ^ i))
  end
  return linear(w, "head.out_proj", y + continued(w, h, seasonal(x, seen, periods), ahead))
end

-- ---- series

local function once(w, series)
  local steps = math.min(series.shape[2], LENGTH)
  local tail = series:narrow(1, series.shape[2] - steps, steps)
  local seen = op.isfinite(tail)
  if seen:cast("i64"):sum({ axis = 1 }):min():item() < LEAST then error("a series needs at least " .. LEAST .. " numbers", 3) end
  local wide = tail:cast "f64"
  local inf = op.full({}, math.huge, { dtype = "f64" })
  local low = op.where(seen, wide, inf):min { axis = 1, keepdims = true }
  local span = op.maximum(op.where(seen, wide, -inf):max { axis = 1, keepdims = true } - low, 1e-5)
  local x = op.where(seen, (wide - low) / span, op.zeros({}, { dtype = "f64" })):cast "f32"
  local before = { pads = { LENGTH - steps, 0 } }
  local y = quantiles(w, op.pad(x, before), op.pad(seen:cast "f32", before))
  return y:cast "f64" * span:unsqueeze(-1) + low:unsqueeze(-1)
end

--- forecaster:forecast(series [, horizon = 48]): series f32[b,steps], of which NaN were not seen -> f64[b,horizon,9], the
--- quantiles 0.1, 0.2 .. 0.9 of what comes next. Beyond 48 the medians are taken as seen.
function Forecaster:forecast(series, horizon)
  horizon = horizon or HORIZON
  local parts, made = {}, 0
  while made < horizon do
    local y = once(self.w, series)
    parts[#parts + 1] = y:narrow(1, 0, math.min(HORIZON, horizon - made))
    made = made + HORIZON
    series = op.concat({ series, y:select(2, MEDIAN - 1):cast "f32" }, { axis = 1 })
  end
  return op.concat(parts, { axis = 1 })
end

local path, file = ...
if type(path) == "string" and path:find "%.safetensors$" and file then
  local series = {}
  for line in io.lines(file) do series[#series + 1] = tonumber(line) or 0 / 0 end
  tessera.no_grad(function()
    local y = forecast.load(path):forecast(tessera.tensor { series })
    for _, row in ipairs(y[0]:totable()) do print(row[MEDIAN]) end
  end)
end
return forecast
