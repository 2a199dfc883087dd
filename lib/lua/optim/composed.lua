-- Optimisers whose step is composed of operators, which a captured step compiles as it does the rest:
-- RMSprop, Adagrad, NAdam, RAdam, Adamax, Adadelta, ASGD, Rprop, by PyTorch's formulas; AdamAtan2. Rate and step number are read from the clock
-- always, so that eager steps have the bits of captured ones; sums and roots are f64 where parameters
-- are, else f32, each result rounded once to its tensor's type.

local core = require "tessera.core"
local parameters = require "tessera.optim.parameters"
local op = core.op

-- Gives updates of optimisers that optim.lua defines: amsgrad.
return function(define)
  local function wide_of(p) return p.dtype == "f64" and "f64" or "f32" end

  -- What of a step all parameters of a group share, f64: rate, step number, and numbers(rate, step).
  local function numbers_of(self, o, make)
    local known = self.numbers[o]
    if not known then
      self:clock_tensors()
      local clock = rawget(o, "clock")
      if not core.capturing() then core.fill_numbers(clock, o.lr, self.steps) end
      known = { clock:select(0, 0), clock:select(0, 1) }
      if make then make(known, o) end
      self.numbers[o] = known
    end
    return known
  end

  -- The gradient, in the wide type, with the decay of the parameter added; and both as they are.
  local function start(o, p, g)
    parameters.check_gradient(o.name, p, g)
    local wide = wide_of(p)
    local x, d = p:cast(wide), g:cast(wide)
    if (o.weight_decay or 0) ~= 0 and not o.decoupled then d = d + x * o.weight_decay end
    return x, d, wide
  end

  local function put(self, t, value)
    self.to[#self.to + 1], self.from[#self.from + 1] = t, value:cast(t.dtype)
  end

  local function zeros(...)
    local names = { ... }
    return function(_, p)
      local s = {}
      for _, name in ipairs(names) do s[name] = op.zeros_like(p) end
      return s
    end
  end

  local function composed(name, defaults, places, names, new_state, update)
    return define(name, defaults, places, names, new_state, update)
  end

  -- RMSprop(params, {lr = 0.01, alpha = 0.99, eps = 1e-8, weight_decay = 0, momentum = 0, centered = false,
  -- clip}): each parameter by the root of the running mean of its squared gradients, alpha old and 1 -
  -- alpha new; centered: of their variance. Groups, clip and places as of optim.SGD.
  --   opt = optim.RMSprop(model:parameters(), 1e-3, {momentum = 0.9})
  composed("RMSprop", { lr = 0.01, alpha = 0.99, eps = 1e-8, weight_decay = 0, momentum = 0, centered = false },
    { "lr", "alpha", "eps", "weight_decay", "momentum", "centered" }, { "v", "m", "g" },
    function(o, p)
      local s = { v = op.zeros_like(p) }
      if o.momentum ~= 0 then s.m = op.zeros_like(p) end
      if o.centered then s.g = op.zeros_like(p) end
      return s
    end,
    function(self, o, i, p, g)
      local s, n = self:state_of(i), numbers_of(self, o)
      local x, d, wide = start(o, p, g)
      local v = s.v:cast(wide) * o.alpha + d:square() * (1 - o.alpha)
      local spread = v
      if o.centered then
        local mean = s.g:cast(wide) * o.alpha + d * (1 - o.alpha)
        spread = v - mean:square()
        put(self, s.g, mean)
      end
      local move = d / (spread:sqrt() + o.eps)
      if o.momentum ~= 0 then
        move = s.m:cast(wide) * o.momentum + move
        put(self, s.m, move)
      end
      put(self, s.v, v)
      put(self, p, x - move * n[1]:cast(wide))
    end)

  -- Adagrad(params, {lr = 0.01, lr_decay = 0, weight_decay = 0, start = 0, eps = 1e-10, clip}): each
  -- parameter by the root of the sum of its squared gradients, which begins as start; lr / (1 + (step - 1)
  -- lr_decay). Groups, clip and places as of optim.SGD.
  --   opt = optim.Adagrad(model:parameters(), 0.1)
  composed("Adagrad", { lr = 0.01, lr_decay = 0, weight_decay = 0, start = 0, eps = 1e-10 },
    { "lr", "lr_decay", "weight_decay", "start", "eps" }, { "v" },
    function(o, p) return { v = op.full_like(p, o.start) } end,
    function(self, o, i, p, g)
      local s, n = self:state_of(i), numbers_of(self, o, function(n) n[3] = n[1] / ((n[2] - 1) * o.lr_decay + 1) end)
      local x, d, wide = start(o, p, g)
      local v = s.v:cast(wide) + d:square()
      put(self, s.v, v)
      put(self, p, x - d / (v:sqrt() + o.eps) * n[3]:cast(wide))
    end)

  -- Both moments; the decay that is no part of the gradient.
  local function moments(self, o, s, x, d, wide, rate)
    if o.decoupled and o.weight_decay ~= 0 then x = x * (1 - rate * o.weight_decay):cast(wide) end
    local m = s.m:cast(wide) * o.betas[1] + d * (1 - o.betas[1])
    local v = s.v:cast(wide) * o.betas[2] + d:square() * (1 - o.betas[2])
    put(self, s.m, m)
    put(self, s.v, v)
    return x, m, v
  end

  -- NAdam(params, {lr = 2e-3, betas = {0.9, 0.999}, eps = 1e-8, weight_decay = 0, momentum_decay = 4e-3,
  -- decoupled = false, clip}): optim.Adam with Nesterov's momentum, which grows over the steps; decoupled
  -- decays weights as optim.AdamW does. Groups, clip and places as of optim.SGD.
  --   opt = optim.NAdam(model:parameters(), 1e-3)
  composed("NAdam", { lr = 2e-3, betas = { 0.9, 0.999 }, eps = 1e-8, weight_decay = 0, momentum_decay = 4e-3, decoupled = false },
    { "lr", "betas", "eps", "weight_decay", "momentum_decay", "decoupled" }, { "m", "v", "product" },
    function(_, p) return { m = op.zeros_like(p), v = op.zeros_like(p), product = op.ones({}, { dtype = "f64" }) } end,
    function(self, o, i, p, g)
      local n = numbers_of(self, o, function(n)
        local function mu(t) return (1 - op.pow(0.96, t * o.momentum_decay) * 0.5) * o.betas[1] end
        n[3], n[4] = mu(n[2]), mu(n[2] + 1)
        n[5] = 1 - op.pow(o.betas[2], n[2])
      end)
      local s = self:state_of(i)
      local x, d, wide = start(o, p, g)
      local product = s.product * n[3]
      local rate, m, v = n[1], nil, nil
      x, m, v = moments(self, o, s, x, d, wide, rate)
      local root = (v / n[5]:cast(wide)):sqrt() + o.eps
      x = x - d / root * (rate * (1 - n[3]) / (1 - product)):cast(wide)
      x = x - m / root * (rate * n[4] / (1 - product * n[4])):cast(wide)
      put(self, s.product, product)
      put(self, p, x)
    end)

  -- RAdam(params, {lr = 1e-3, betas = {0.9, 0.999}, eps = 1e-8, weight_decay = 0, decoupled = false, clip}):
  -- optim.Adam whose first steps are those of momentum alone, until the mean of squares is long enough;
  -- decoupled decays weights as optim.AdamW does. Groups, clip and places as of optim.SGD.
  --   opt = optim.RAdam(model:parameters(), 1e-3)
  composed("RAdam", { lr = 1e-3, betas = { 0.9, 0.999 }, eps = 1e-8, weight_decay = 0, decoupled = false },
    { "lr", "betas", "eps", "weight_decay", "decoupled" }, { "m", "v" }, zeros("m", "v"),
    function(self, o, i, p, g)
      local n = numbers_of(self, o, function(n)
        local b2 = op.pow(o.betas[2], n[2])
        local most = 2 / (1 - o.betas[2]) - 1
        local length = most - n[2] * 2 * b2 / (1 - b2) -- of the average, in steps
        local sure = op.maximum(length, 5)
        n[3] = 1 - op.pow(o.betas[1], n[2])
        n[4] = length:gt(5)
        n[5] = ((sure - 4) * (sure - 2) * most / (sure * ((most - 4) * (most - 2)))):sqrt() * (1 - b2):sqrt()
      end)
      local s = self:state_of(i)
      local x, d, wide = start(o, p, g)
      local m, v
      x, m, v = moments(self, o, s, x, d, wide, n[1])
      local scale = op.where(n[4], n[5]:cast(wide) / (v:sqrt() + o.eps), op.ones({}, { dtype = wide }))
      put(self, p, x - m / n[3]:cast(wide) * scale * n[1]:cast(wide))
    end)

  -- Adamax(params, {lr = 2e-3, betas = {0.9, 0.999}, eps = 1e-8, weight_decay = 0, clip}): optim.Adam with the
  -- greatest gradient, which fades by betas[2], in place of the root of the mean of squares. Groups, clip and
  -- places as of optim.SGD.
  --   opt = optim.Adamax(model:parameters(), 1e-3)
  composed("Adamax", { lr = 2e-3, betas = { 0.9, 0.999 }, eps = 1e-8, weight_decay = 0 }, { "lr", "betas", "eps", "weight_decay" },
    { "m", "u" }, zeros("m", "u"),
    function(self, o, i, p, g)
      local s, n = self:state_of(i), numbers_of(self, o, function(n) n[3] = n[1] / (1 - op.pow(o.betas[1], n[2])) end)
      local x, d, wide = start(o, p, g)
      local m = s.m:cast(wide) * o.betas[1] + d * (1 - o.betas[1])
      local u = op.maximum(s.u:cast(wide) * o.betas[2], d:abs() + o.eps)
      put(self, s.m, m)
      put(self, s.u, u)
      put(self, p, x - m / u * n[3]:cast(wide))
    end)

  -- AdamAtan2(params, {lr = 1e-4, betas = {0.9, 0.999}, weight_decay = 0, clip}): optim.AdamW with atan2(m, sqrt(v)) in place of
  -- m / (sqrt(v) + eps) (arXiv 2407.05872): a step is the same when gradients are all multiplied by a number, no element moves by more than
  -- pi / 2 times the rate, and where both are 0 nothing moves. Groups, clip and places as of optim.SGD.
  --   opt = optim.AdamAtan2(model:parameters(), {lr = 1e-4, weight_decay = 1})
  composed("AdamAtan2", { lr = 1e-4, betas = { 0.9, 0.999 }, weight_decay = 0 }, { "lr", "betas", "weight_decay" }, { "m", "v" },
    zeros("m", "v"),
    function(self, o, i, p, g)
      local n = numbers_of(self, o, function(n)
        n[3] = 1 / (1 - op.pow(o.betas[1], n[2]))
        n[4] = 1 / (1 - op.pow(o.betas[2], n[2])):sqrt()
      end)
      parameters.check_gradient(o.name, p, g)
      local s, wide = self:state_of(i), wide_of(p)
      local x, d = p:cast(wide), g:cast(wide)
      if o.weight_decay ~= 0 then x = x * (1 - n[1] * o.weight_decay):cast(wide) end
      local m = s.m:cast(wide) * o.betas[1] + d * (1 - o.betas[1])
      local v = s.v:cast(wide) * o.betas[2] + d:square() * (1 - o.betas[2])
      put(self, s.m, m)
      put(self, s.v, v)
      put(self, p, x - op.atan2(m * n[3]:cast(wide), v:sqrt() * n[4]:cast(wide)) * n[1]:cast(wide))
    end)

  -- Adadelta(params, {lr = 1, rho = 0.9, eps = 1e-6, weight_decay = 0, clip}): each gradient times the root of the
  -- running mean of squared steps over that of squared gradients, which fade by rho. Groups, clip and places as of
  -- optim.SGD.
  --   opt = optim.Adadelta(model:parameters())
  composed("Adadelta", { lr = 1, rho = 0.9, eps = 1e-6, weight_decay = 0 }, { "lr", "rho", "eps", "weight_decay" }, { "v", "a" },
    zeros("v", "a"),
    function(self, o, i, p, g)
      local s, n = self:state_of(i), numbers_of(self, o)
      local x, d, wide = start(o, p, g)
      local v, a = s.v:cast(wide) * o.rho + d:square() * (1 - o.rho), s.a:cast(wide)
      local move = (a + o.eps):sqrt() / (v + o.eps):sqrt() * d
      put(self, s.v, v)
      put(self, s.a, a * o.rho + move:square() * (1 - o.rho))
      put(self, p, x - move * n[1]:cast(wide))
    end)

  -- ASGD(params, {lr = 0.01, lambd = 1e-4, alpha = 0.75, t0 = 1e6, weight_decay = 0, clip}): optim.SGD whose rate falls
  -- as lr / (1 + lambd lr t)^alpha, each step of which shrinks parameters by lambd times the rate; the state ax is their
  -- mean from step t0 on. Groups, clip and places as of optim.SGD.
  --   opt = optim.ASGD(model:parameters())
  composed("ASGD", { lr = 0.01, lambd = 1e-4, alpha = 0.75, t0 = 1e6, weight_decay = 0 },
    { "lr", "lambd", "alpha", "t0", "weight_decay" }, { "ax" }, zeros("ax"),
    function(self, o, i, p, g)
      local s, n = self:state_of(i), numbers_of(self, o, function(n)
        n[3] = n[1] / op.pow(n[1] * o.lambd * (n[2] - 1) + 1, o.alpha)
        n[4] = 1 / op.maximum(n[2] - (1 + o.t0), 1)
      end)
      local x, d, wide = start(o, p, g)
      local rate, mean = n[3]:cast(wide), s.ax:cast(wide)
      x = x * (1 - rate * o.lambd) - d * rate
      put(self, p, x)
      put(self, s.ax, op.where(op.eq(n[4], 1), x, mean + (x - mean) * n[4]:cast(wide)))
    end)

  -- Rprop(params, {lr = 0.01, etas = {0.5, 1.2}, step_sizes = {1e-6, 50}, clip}): each parameter by a step of its own,
  -- which begins as lr, against the sign of its gradient: times etas[2] while the sign stays, times etas[1] where it
  -- changes, which leaves out a step; between step_sizes. Groups, clip and places as of optim.SGD.
  --   opt = optim.Rprop(model:parameters())
  composed("Rprop", { lr = 0.01, etas = { 0.5, 1.2 }, step_sizes = { 1e-6, 50 } }, { "lr", "etas", "step_sizes" },
    { "prev", "size" },
    function(o, p) return { prev = op.zeros_like(p), size = op.full_like(p, o.lr) } end,
    function(self, o, i, p, g)
      local s = self:state_of(i)
      local x, d, wide = start(o, p, g)
      local turn = d * s.prev:cast(wide)
      local factor = op.where(turn:gt(0), o.etas[2], op.where(turn:lt(0), o.etas[1], op.ones_like(turn)))
      local size = (s.size:cast(wide) * factor):clamp(o.step_sizes[1], o.step_sizes[2])
      d = op.where(turn:lt(0), d * 0, d)
      put(self, s.size, size)
      put(self, s.prev, d)
      put(self, p, x - d:sign() * size)
    end)

  -- A step of optim.Adam or, if decoupled, optim.AdamW, by the greatest mean of squares that there was.
  local function amsgrad(self, o, i, p, g, decoupled)
    local n = numbers_of(self, o, function(n)
      n[3] = n[1] / (1 - op.pow(o.betas[1], n[2]))
      n[4] = (1 - op.pow(o.betas[2], n[2])):sqrt()
    end)
    local s, wide = self:state_of(i), wide_of(p)
    local x, d = p:cast(wide), g:cast(wide)
    if decoupled then x = x * (1 - n[1] * o.weight_decay):cast(wide) elseif o.weight_decay ~= 0 then d = d + x * o.weight_decay end
    local m = s.m:cast(wide) * o.betas[1] + d * (1 - o.betas[1])
    local v = s.v:cast(wide) * o.betas[2] + d:square() * (1 - o.betas[2])
    local most = op.maximum(s.most:cast(wide), v)
    put(self, s.m, m)
    put(self, s.v, v)
    put(self, s.most, most)
    put(self, p, x - m / (most:sqrt() / n[4]:cast(wide) + o.eps) * n[3]:cast(wide))
  end
  return { amsgrad = amsgrad }
end
