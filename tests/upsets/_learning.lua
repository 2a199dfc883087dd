-- Scenarios of learning: every optimiser with its options, groups, averages, sums of gradients, states that
-- are loaded, and what layers of PyTorch's names are made of. See _scenarios.lua.
local tessera = require "tessera"
local core, op, nn, optim, graph, data = tessera.core, tessera.op, tessera.nn, tessera.optim, tessera.graph, tessera.data

return function(add, hashes)
  local function normal(shape, seed) return op.normal(shape, { seed = seed or 1 }) end
  local x, target = normal { 9, 5 }, op.zeros({ 9 }, { dtype = "i64" })
  local function loss(m, a) return op.cross_entropy(m(a), target) end
  local function model_of(dtype)
    core.seed(5)
    return nn.Sequential(nn.Linear(5, 4, true, dtype), op.tanh, nn.Linear(4, 3, true, dtype))
  end

  -- Everything that is all as before or all as behind.
  local function state_of(model, opt, ...)
    local list = model:parameters()
    for i in ipairs(opt and opt.params or {}) do
      for _, name in ipairs(opt.state_names or {}) do list[#list + 1] = opt.state[i] and opt.state[i][name] end
    end
    if opt then list[#list + 1] = opt.steps end
    for _, v in ipairs { ... } do
      for _, t in ipairs(v.average or v) do list[#list + 1] = t end
      if v.count then list[#list + 1] = v.count end
    end
    return list
  end

  local options = { RMSprop = { momentum = 0.9, centered = true, weight_decay = 0.1 }, Adagrad = { lr_decay = 0.1 }, NAdam = { decoupled = true, weight_decay = 0.1 },
    RAdam = { clip = 0.1 }, Adamax = {}, AdamAtan2 = { weight_decay = 0.1 }, Adadelta = {}, ASGD = { t0 = 0 }, Rprop = {}, SGD = { momentum = 0.9, nesterov = true, clip = 0.1 } }
  local names = {}
  for name in pairs(options) do names[#names + 1] = name end
  table.sort(names)
  local function groups(model, name)
    local p = model:parameters()
    return { { params = { p[1], p[2] } }, { params = { p[3], p[4] }, lr = 0.01, weight_decay = name ~= "Rprop" and 0.2 or nil } }
  end
  for _, name in ipairs(names) do
    add("learning: step of " .. name, function()
      local model = model_of()
      local opt = optim[name](groups(model, name), options[name])
      local step = graph.training_step(model, loss, opt)
      opt:prepare()
      return { run = function() return hashes(step(x)) end, weights = function() return state_of(model, opt) end }
    end)
    add("learning: eager step of " .. name, function()
      local model = model_of()
      local opt = optim[name](groups(model, name), options[name]):prepare()
      local g = {}
      for i, p in ipairs(model:parameters()) do g[i] = normal(p.shape, i) end
      return { run = function() opt:step(g) return "" end, weights = function() return state_of(model, opt) end }
    end)
    add("learning: load the state of " .. name, function()
      local model = model_of()
      local opt, other = optim[name](model:parameters(), options[name]):prepare(), optim[name](model:parameters(), options[name])
      local g = {}
      for i, p in ipairs(model:parameters()) do g[i] = normal(p.shape, i) end
      local kept = {}
      for i, p in ipairs(model:parameters()) do kept[i] = p:detach():clone() end
      other:step(g)
      core.no_grad(core.assign_all, model:parameters(), kept)
      local state = other:state_dict()
      return { run = function() opt:load_state_dict(state) return "" end, weights = function() return state_of(model, opt) end }
    end)
  end

  for _, way in ipairs { "captured", "eager" } do
    local function within(f)
      return function(...)
        return core.guarded(function() graph.eager = false end, function(...)
          graph.eager = way == "eager"
          return f(...)
        end, ...)
      end
    end
    add("learning: sums, scale and average, " .. way, function()
      local model = model_of "bf16"
      local opt = optim.AdamW(model:parameters(), { clip = 0.5 })
      local ema = optim.EMA(model:parameters(), 0.9)
      local step = graph.training_step(model, function(m, a) return op.cross_entropy(m(a), target) end, opt, { accumulate = 2, scale = "dynamic", ema = ema })
      opt:prepare()
      local a, b = x:cast "bf16", (x * 0.5):cast "bf16"
      return { run = within(function()
        local l = { step(a), step(b) }
        return hashes(l[1], l[2], step.scaler.scale)
      end) }
    end)
    add("learning: average within the step, " .. way, function()
      local model = model_of()
      local opt = optim.RMSprop(model:parameters())
      local ema = optim.EMA(model:parameters(), 0.9)
      local step = graph.training_step(model, loss, opt, { ema = way == "captured" and ema or nil })
      opt:prepare()
      return { run = within(function() return hashes(step(x)) end), weights = function() return state_of(model, opt, ema) end }
    end)
  end
  add("learning: a sum of gradients", function()
    local model = model_of()
    local opt = optim.NAdam(model:parameters())
    local step = graph.training_step(model, loss, opt, { accumulate = 1, scale = 8 })
    opt:prepare()
    return { run = function() return hashes(step(x)) end }
  end)
  add("learning: gradients that are not finite", function()
    local model = model_of()
    local opt = optim.SGD(model:parameters())
    local step = graph.training_step(model, function(m, a) return loss(m, a) * math.huge end, opt, { scale = "dynamic" })
    opt:prepare()
    return { run = function() return hashes(step(x)) end, weights = function() return state_of(model, opt) end }
  end)

  for _, kind in ipairs { "EMA", "SWA" } do
    for _, what in ipairs { "update", "swap", "copy", "load" } do
      add(("learning: %s:%s"):format(kind, what), function()
        local model = model_of "f16"
        local average = optim[kind](model:parameters())
        for _, a in ipairs(average.average) do a:mul_(0.5) end
        local state = optim[kind](model:parameters()):state_dict()
        return { run = function()
          if what == "load" then average:load_state_dict(state) else average[what](average) end
          return ""
        end, weights = function() return state_of(model, nil, average) end }
      end)
    end
    add(("learning: %s:with"):format(kind), function()
      local model = model_of()
      local average = optim[kind](model:parameters())
      for _, a in ipairs(average.average) do a:mul_(0.5) end
      local before = hashes(unpack(state_of(model, nil, average)))
      return { run = function()
        local y = average:with(function() return hashes(loss(model, x):detach()) end)
        return y
      end, weights = function() return { before == hashes(unpack(state_of(model, nil, average))) and "as before" or "changed" } end }
    end)
  end

  add("learning: statistics of batches", function()
    core.seed(5)
    local model = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm(4))
    return { run = function()
      optim.update_statistics(model, data.batches(x, { batch = 3 }))
      return tostring(model.training) .. tostring(model[2].momentum)
    end, weights = function() return { model.training, model[2].momentum } end }
  end)

  add("learning: LBFGS, its state", function()
    local model = model_of()
    local opt = optim.LBFGS(model:parameters(), { iterations = 1 })
    local step = graph.training_step(model, loss, opt)
    step(x)
    local state = opt:state_dict()
    opt = optim.LBFGS(model:parameters(), { iterations = 1 })
    return { run = function() opt:load_state_dict(state) return "" end, weights = function()
      local list = { opt.steps, #opt.moves, #opt.bends, #opt.curves }
      for i, m in ipairs(opt.moves) do list[#list + 1], list[#list + 2] = m, opt.bends[i] end
      return list
    end }
  end)

  add("learning: gradients limited", function()
    local g = { normal({ 5 }, 1), normal({ 6 }, 2), normal({ 7 }, 3) }
    return { run = function() return tostring(optim.clip_grad_norm(g, 0.1)) end, weights = function() return g end }
  end)
  add("learning: elements of gradients limited", function()
    local g = { normal({ 5 }, 1), normal({ 6 }, 2), normal({ 7 }, 3) }
    return { run = function() optim.clip_grad_value(g, 0.1) return "" end, weights = function() return g end }
  end)

  -- ---- layers
  local function layer(name, make, ...)
    local inputs = { ... }
    add("layer " .. name, function()
      core.seed(5)
      local m = make()
      return { run = function() return hashes((m(unpack(inputs)))) end, weights = function() return m:parameters() end }
    end)
    add("layer, its gradient " .. name, function()
      core.seed(5)
      local m = make()
      return { run = function()
        for _, p in ipairs(m:parameters()) do p.grad = nil end
        local y = (m(unpack(inputs)))
        y:square():sum():backward()
        local out = {}
        for i, p in ipairs(m:parameters()) do out[i] = p.grad or "none" end
        return hashes(unpack(out))
      end, weights = function() return m:parameters() end }
    end)
    add("layer, captured " .. name, function()
      core.seed(5)
      local m = make()
      local f = graph.module("layer", function(layer_, ...) return (layer_(...)) end)
      return { run = function() return hashes(f(m, unpack(inputs))) end, weights = function() return m:parameters() end }
    end)
  end
  local long, image = normal { 4, 3, 5 }, normal { 2, 4, 6, 6 }
  local lengths = core.tensor({ 4, 1, 3 }, { dtype = "i64" })
  layer("LSTM", function() return nn.LSTM(5, 3, { layers = 2, bidirectional = true }) end, long)
  layer("GRU of lengths", function()
    local m = nn.Module()
    m.gru = nn.GRU(5, 3)
    function m:forward(a) return (self.gru(a, nil, { lengths = lengths })) end
    return m
  end, long)
  layer("MultiheadAttention", function() return nn.MultiheadAttention(5, 1) end, long)
  layer("EmbeddingBag", function() return nn.EmbeddingBag(6, 3, { mode = "max", padding_idx = 1 }) end, op.arange(6):reshape(2, 3))
  layer("convolutions", function() return nn.Sequential(nn.Conv2d(4, 4, 3, { padding = "same", padding_mode = "reflect" }), nn.BatchNorm2d(4), nn.MaxPool2d(2, { ceil_mode = true }), nn.ConvTranspose2d(4, 2, 3, 2)) end, image)
  layer("norms", function() return nn.Sequential(nn.InstanceNorm2d(4, { affine = true }), nn.PReLU(4), nn.LocalResponseNorm(2), nn.PixelShuffle(2)) end, image)

  local a, s = normal { 6, 6 }, normal { 5, 5, 5 }
  local calls = {
    ctc = function()
      local function i64(t) return core.tensor(t, { dtype = "i64" }) end
      return op.ctc_loss(op.log_softmax(normal { 7, 2, 4 }), i64 { { 1, 2 }, { 3, 3 } }, i64 { 7, 6 }, i64 { 2, 2 })
    end,
    order = function() return op.kthvalue(x, { k = 2 }), op.median(x, { axis = 1, indices = true }), op.max(x, { axis = 0, indices = true }), op.quantiles(x, { q = { 0.1, 0.5 } }), op.searchsorted(x:sort(), x) end,
    counts = function() return op.bincount(target), op.repeat_counts(x, op.arange(9), { axis = 0 }), op.multinomial(x:abs(), { count = 2, seed = 3, stream = 1 }) end,
    draws = function() return op.gamma(x:abs() + 1, { seed = 3, stream = 1 }), op.beta(x:abs() + 1, x:abs() + 2, { seed = 3, stream = 1 }), op.poisson(x:abs() * 9, { seed = 3, stream = 1 }), op.exponential({ 9 }, { seed = 3, stream = 1 }) end,
    products = function() return op.kron(a, a), op.cross(x["..., 0:3"], x["..., 1:4"]), op.tensordot(a, a, { axes = 1 }), op.cdist(x, x) end,
    diagonals = function() return op.diag(a), op.diag_embed(a, { offset = 1 }), op.diagonal(s, { axis0 = 2, axis1 = 0 }) end,
    equations = function() return op.lstsq(x, x), op.pinv(x), op.slogdet(s), op.matrix_exp(a), op.det(s) end,
    spectra = function() return op.eig(a), op.eigvals(s), op.svd(a) end,
    images = function() return op.grid_sample(image, normal { 2, 3, 3, 2 }), op.interpolate(image, { size = { 9, 4 }, mode = "cubic" }), op.im2col(image, { window = { 2, 2 } }), op.col2im(normal { 1, 4, 9 }, { size = { 4, 4 }, window = 2 }) end,
    indices = function() return op.tril_indices(5), op.combinations(op.arange(5)), op.block_diag(a, x), op.vander(x), op.index_fill(x, 0, op.arange(2), 7) end,
    special = function() return op.erfinv(x:tanh()), op.polygamma(1, x:abs()), op.i0(x), op.lgamma(x), op.bitcast(x, "i32") end,
  }
  local words = {}
  for word in pairs(calls) do words[#words + 1] = word end
  table.sort(words)
  for _, word in ipairs(words) do
    add("calls of " .. word, function() return { run = function() return hashes(calls[word]()) end } end)
    add("calls, captured, of " .. word, function()
      local f = graph.module(word, function() return calls[word]() end)
      if not pcall(f) then return { run = function() return "not captured" end } end
      f = graph.module(word, function() return calls[word]() end)
      return { run = function() return hashes(f()) end }
    end)
  end

  -- ---- changes of views
  local function rows(t, k)
    t[k]:add_(1)
    t["..., 0"]:mul_(2)
    t["::2"]:copy_(t:sum { axis = 0 })
    return t * 1
  end
  add("changes of views, captured", function()
    local t = normal { 5, 5 }
    local f = graph.module("rows", rows)
    return { run = function() return hashes(f(t, 1)) end, weights = function() return { t } end }
  end)
  add("changes of views, on the tape", function()
    local w = normal { 5, 5 }
    w.requires_grad = true
    return { run = function()
      w.grad = nil
      local y = rows(w * 1, 2)
      y:square():sum():backward()
      return hashes(y:detach(), w.grad)
    end, weights = function() return { w } end }
  end)

  add("learning: step of LevenbergMarquardt", function()
    local w, y = op.ones({ 5, 1 }, { dtype = "f64" }), x:narrow(1, 0, 1):cast "f64"
    local opt = optim.LevenbergMarquardt { w }
    local function residual(weights, at, to)
      local p = weights[1]:reshape(-1, 5)
      return (at:cast "f64" * p):sum { axis = 1, keepdims = true }:tanh() - to
    end
    return { run = function() return ("%.17g"):format(opt:step { { residual, x, y } }) end,
      weights = function() return { w, opt.damping, opt.steps } end }
  end)

  -- ---- files and batches
  local path = os.tmpname()
  os.remove(path)
  path = path .. ".safetensors"
  add("nested tables in a file", function()
    local model = model_of()
    local value = { model = model:state_dict(), list = { 1, x, { "a", true } }, [7] = { y = x } }
    return { run = function()
      tessera.save(path, value)
      local back = tessera.load(path)
      os.remove(path)
      return hashes(back.list[2], back[7].y, back.list[3][1], back.model["1.weight"] or "none")
    end }
  end)
  add("batches", function()
    return { run = function()
      local out = {}
      for b, t in data.batches({ x, target }, { batch = 4, shuffle = true, seed = 2 }) do out[#out + 1], out[#out + 2] = b, t end
      local parts = { data.random_split(x, { 0.5, 0.5 }, { seed = 1 }) }
      return hashes(out[1], out[6], parts[1], (data.pad_sequence { x, x["0:4"] }))
    end }
  end)
end
