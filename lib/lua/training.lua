-- graph.training_step: loss, gradients and update as captured functions. Loaded by graph.

local captured = require "tessera.captured"
local core = require "tessera.core"
local Module = require "tessera.module"
local options = require "tessera.options"
local settings = require "tessera.settings"
local tree = require "tessera.tree"
local op, fail = core.op, core.fail

local RATE = options.number()

local function is_scale(v)
  return v == "dynamic" or (type(v) == "number" and v > 0 and v < math.huge) or (type(v) == "table" and not core.is_tensor(v))
end
local kinds = { name = options.text, schedule = options.callable, accumulate = options.whole { least = 1 },
  autocast = options.one_of("bf16", "f16"), scale = options.kind("a number > 0, 'dynamic', or a table {scale = ..}", is_scale), ema = options.table,
  mesh = options.table, plan = options.table }
local read_step = options.of("graph.training_step", kinds, { name = "training_step", accumulate = 1 })
local COUNT, ABOVE = options.whole { least = 1 }, options.number { above = 0 }
local read_scale = options.of("graph.training_step: scale", { scale = ABOVE, growth = ABOVE, backoff = ABOVE, interval = COUNT },
  { scale = 65536, growth = 2, backoff = 0.5, interval = 2000 })

-- What gradients are multiplied by, so that small ones are no zeros in 16 bits, and how it changes.
local Scaler = { name = "scale" }
Scaler.__index = Scaler
Scaler.__tostring = function(self)
  return self.dynamic and ("scale(%g, dynamic, %d steps left out)"):format(self.scale, self.skipped) or ("scale(%g)"):format(self.scale)
end
local FIXED, DYNAMIC = { "scale", "skipped" }, { "scale", "growth", "backoff", "interval", "fine", "skipped" }
settings.into(Scaler, "scaler", function(self) return self.dynamic and DYNAMIC or FIXED end)

local function new_scaler(given)
  if given == nil then return nil end
  local s = type(given) == "number" and { scale = given } or read_scale(given ~= "dynamic" and given or nil)
  s.skipped = 0
  if type(given) ~= "number" then s.fine, s.dynamic = 0, true end
  return setmetatable(s, Scaler)
end

-- A step was done, or left out since a gradient was no finite number.
local function rescale(s, fine)
  s.skipped = s.skipped + (fine and 0 or 1)
  if not s.dynamic then return end
  s.fine = fine and s.fine + 1 or 0
  if not fine then s.scale = s.scale * s.backoff end
  if s.fine == s.interval then s.scale, s.fine = s.scale * s.growth, 0 end
end

return function(graph, derivative, scalar, specialise, plan_bytes)
  local Step = {}

  -- What belongs to the optimiser's parameters and options as they are now: captured functions hold them.
  local function renew(self)
    local opt = self.optimizer
    if opt.revision == self.revision then return end
    opt:prepare()
    for i, p in ipairs(self.sums and opt.params or {}) do self.sums[i] = self.sums[i] or op.zeros_like(p:detach()) end
    self.revision, self.functions, self.parts, self.moves = opt.revision, {}, {}, nil
  end

  -- The parameters that move, as texts that name them; a step is captured for each set of them.
  local function moving(self)
    renew(self)
    local opt, last, same = self.optimizer, self.moves, true
    local now, list = {}, {}
    for i, p in ipairs(opt.params) do
      now[i] = opt:is_moving(i)
      if now[i] then list[#list + 1] = p end
      same = same and last ~= nil and last[i] == now[i]
    end
    if same then return end
    if #list == 0 then fail("graph.training_step: no parameter moves: requires_grad is false for all") end
    local word = {}
    for i, on in ipairs(now) do word[i] = on and "1" or "0" end
    self.moves, self.list = now, list
    local key = table.concat(word)
    self.functions[key] = self.functions[key] or self:make()
    self.f = self.functions[key]
  end

  -- What was captured no longer fits: parameters lie elsewhere now.
  local function again(self)
    self.revision, self.sums = false, self.sums and {}
    moving(self)
  end

  -- As many entries as the optimiser has parameters, false for those that stay.
  local function all_of(self, moved)
    local all, k = {}, 0
    for i, on in ipairs(self.moves) do
      if on then k = k + 1 end
      all[i] = on and moved[k] or false
    end
    return all
  end

  local function named(self)
    if not Module.is_module(self.model) then return end
    for _, field in ipairs(self.model:tensors()) do core.capture_name(field.tensor, "model." .. field.name) end
  end

  local function evaluate(self, ...)
    if not self.autocast then return { self.loss(self.model, ...) } end
    return { core.autocast(self.autocast, self.loss, self.model, ...) }
  end

  -- What a sum of gradients is divided by: number of sums and scale, as a tensor that changes.
  local function factors(self)
    local n = 1 / (self.accumulate * (self.scaler and self.scaler.scale or 1))
    self.seed = self.seed or core.tensor({ 1, 1 }, { dtype = "f32", device = "cpu" })
    core.fill_numbers(self.seed, self.scaler and self.scaler.scale or 1, n)
  end

  local function after(self)
    if self.ema then self.ema:update() end
  end

  -- Loss and gradients; the update, too, where nothing stands between.
  function Step:make()
    local opt, list = self.optimizer, self.list
    return derivative(self.name, function(...)
      named(self)
      local results = evaluate(self, ...)
      local y = scalar(results[1], "graph.training_step")
      local kept = {}
      tree.flatten(results, kept, {}, "result")
      if self.sums then
        if self.scaler then y = y:cast(y.dtype == "f64" and "f64" or "f32") * self.seed:select(0, 0) end
        self:add(core.gradient({ y }, { false }, list, kept))
        return unpack(results)
      end
      local grads = all_of(self, core.gradient({ y }, { false }, list, kept))
      if opt.search then return grads, unpack(results) end -- it runs this at several places
      opt:step(grads)
      after(self)
      return unpack(results)
    end, { self.loss, self.model }, self.training and self.training.how)
  end

  function Step:add(grads)
    for i, g in ipairs(all_of(self, grads)) do
      if g then self.sums[i]:copy_(self.sums[i] + g) end
    end
  end

  -- The gradients that sums are of.
  function Step:means()
    local grads = {}
    for i, on in ipairs(self.moves) do
      grads[i] = on and (self.sums[i] * self.seed:select(0, 1)):cast(self.sums[i].dtype)
    end
    return grads
  end

  -- The update, of sums of gradients, where it is captured.
  function Step:update()
    self.optimizer:step(self:means())
    after(self)
    for i, on in ipairs(self.moves) do
      if on then self.sums[i]:copy_(0) end
    end
  end

  function Step:are_finite()
    local fine
    for i, on in ipairs(self.moves) do
      local all = on and op.isfinite(self.sums[i]):all()
      fine = fine and all and fine:logical_and(all) or all or fine
    end
    return fine
  end

  -- Sums begin anew, all of them or those of parameters that move.
  local function clear(self, all)
    local to, zeros = {}, {}
    for i, on in ipairs(self.moves) do
      if on or all then to[#to + 1], zeros[#zeros + 1] = self.sums[i], op.zeros_like(self.sums[i]) end
    end
    core.assign_all(to, zeros)
  end

  local function functions_of(self)
    local key = self.f
    local made = self.parts[key]
    if not made then
      made = { derivative(self.name .. "_update", function() self:update() end), derivative(self.name .. "_finite", function() return self:are_finite() end) }
      self.parts[key] = made
    end
    return made
  end

  -- change(...), which is done whole or not at all; then behind(), also where only what follows the
  -- change fails.
  local function counted(behind, change, ...)
    local commits = core.commits()
    return core.guarded(function(fine)
      if fine or core.commits() ~= commits then behind() end
    end, change, ...)
  end

  -- What is done with the sums: a list of changes. A captured update is one; eagerly they are several.
  local function changes_of(self)
    local opt = self.optimizer
    local update, finite
    if not graph.eager then update, finite = unpack(functions_of(self)) end
    local fine = true
    if self.scaler then fine = (finite and finite() or self:are_finite()):item() end
    local list = { fine = fine }
    if not fine then
      list[1] = function() clear(self, true) end
    elseif update then
      list[1] = function()
        opt:counting(function()
          opt:tick()
          update()
        end)
      end
    else
      list[1] = function() opt:step(self:means()) end
      list[2] = function() after(self) end
      list[3] = function() clear(self) end
    end
    return list
  end

  -- Behind the last of the calls whose gradients are added up. If it fails, the next call does what is
  -- left of it.
  local function finish(self)
    self.changes = self.changes or changes_of(self)
    local changes = self.changes
    local function behind()
      changes.done = (changes.done or 0) + 1
      if changes.done < #changes then return end
      if self.scaler then rescale(self.scaler, changes.fine) end
      self.changes, self.at = nil, 0
    end
    while self.changes do counted(behind, changes[(changes.done or 0) + 1]) end
  end

  -- add(...) is one more call whose gradients are added up.
  local function summed(self, add, ...)
    return core.guarded(false, function(...)
      core.unrecorded()
      local results = { counted(function() self.at = self.at + 1 end, add, ...) }
      if self.at == self.accumulate then finish(self) end
      return unpack(results)
    end, ...)
  end

  local function summed_step(self, ...)
    factors(self)
    return summed(self, self.f, ...)
  end

  -- A step has its gradients in itself: backward() has nothing to do there.
  local function captured_step(self, ...)
    local opt = self.optimizer
    opt:tick()
    core.unrecorded()
    if not opt.search then return self.f(...) end
    local args, n = { ... }, select("#", ...)
    return opt:step(function() return self.f(unpack(args, 1, n)) end)
  end

  local function eager_step(self, ...)
    local opt = self.optimizer
    if self.sums then factors(self) end
    opt:zero_grad()
    local results = evaluate(self, ...)
    local y = scalar(results[1], "graph.training_step")
    if self.scaler then y = y:cast(y.dtype == "f64" and "f64" or "f32") * self.seed:select(0, 0) end
    y:backward()
    local grads = {}
    for i, p in ipairs(opt.params) do grads[i] = p.grad or false end
    opt:zero_grad()
    for i, r in ipairs(results) do results[i] = core.is_tensor(r) and r:detach() or r end
    if not self.sums then
      core.no_grad(opt.step, opt, grads)
      core.no_grad(after, self)
      return unpack(results)
    end
    summed(self, function()
      local to, from = {}, {}
      for i, g in ipairs(grads) do
        if g and self.moves[i] then to[#to + 1], from[#from + 1] = self.sums[i], self.sums[i] + g end
      end
      core.assign_all(to, from)
    end)
    return unpack(results)
  end

  --- training_step(model, loss, optimizer, {schedule, accumulate = 1, autocast, scale, ema, mesh, plan, name = "training_step"}):
  --- one step of training as one captured function: step(batch...) computes loss(model,
  --- batch...), its gradients by the model's parameters, and lets the optimiser update those that
  --- require gradients. Returns what loss returned: the loss first. opt.lr may change between steps;
  --- schedule is a function from the step, counted from 0, to the rate.
  ---   local loss = function(m, x, y) return op.mse(m(x), y) end
  ---   local opt = optim.AdamW(model:parameters(), {lr = 1e-3})
  ---   local step = graph.training_step(model, loss, opt)
  ---   print(step(x, y))
  --- accumulate = n: every n-th call updates, by the mean of the gradients of n calls.
  ---   local step = graph.training_step(model, loss, opt, {accumulate = 2})
  ---   for x, y in batches do print(step(x, y):item()) end
  --- scale: what the loss is multiplied by for the gradients, which are divided by it again; a step
  --- whose gradients are not all finite is left out. "dynamic" begins with 65536, is halved then, and
  --- doubled after 2000 steps in a row that were fine; {scale, growth, backoff, interval} says other
  --- numbers. step.scaler.scale is the present one, step.scaler.skipped counts what was left out; with
  --- step.scaler:state_dict() and load_state_dict(state) it goes on from a file.
  --- autocast = "bf16" or "f16": the loss is computed with automatic casts to it (tessera.autocast).
  ---   local how = {autocast = "f16", scale = "dynamic"}
  ---   local step = graph.training_step(model, loss, opt, how)
  --- mesh: parameters are spread over it, and each batch along its axis "dp". plan = {zero = n}: of ZeRO's stages;
  --- from 1 on each device along dp has a piece of the optimiser's state, and of gradients where they are added up, at 3
  --- of parameters as well, which are brought together when they are needed. Losses and weights have the same bits.
  ---   local how = {mesh = mesh, plan = {zero = 1}}
  ---   local step = graph.training_step(model, loss, opt, how)
  --- plan = {micro = n}, without a mesh as well: in n micro-batches, one behind the other. plan = {pp = {stages, schedule,
  --- micro, rematerialise}}: the model lies in chunks along the mesh's axis "pp". stages: "balanced", a number, or a list of the
  --- modules at which chunks begin; schedule: "1f1b", "gpipe" or "interleaved"; rematerialise: true or names of stages, which
  --- compute their forward pass again instead of keeping it. step:plan(x, y) shows it before it runs, step:fits(x, y, {memory = "80 GiB"})
  --- whether devices have room for it, and what to change. With the same bits again.
  ---   local pp = {stages = {"h.0", "h.6"}, micro = 8}
  ---   local how = {mesh = mesh, plan = {pp = pp}}
  ---   local step = graph.training_step(model, loss, opt, how)
  --- ema = optim.EMA(...): moved behind each update. name: as the captured function is called.
  function graph.training_step(model, loss, optimizer, given)
    local o = read_step(given)
    if not core.callable(loss) then fail(("graph.training_step: loss is a function, not a %s"):format(type(loss))) end
    if type(optimizer) ~= "table" or not optimizer.params then
      fail(("graph.training_step: an optimiser is needed, as optim.AdamW makes it, not a %s"):format(type(optimizer)))
    end
    if optimizer.residuals then
      fail(("graph.training_step: %s takes residuals, and not a loss\n  hint: opt:step { { f, x, y } } captures f by itself"):format(optimizer.name))
    end
    if o.ema and not core.callable(o.ema.update) then fail "graph.training_step: ema is none, as optim.EMA makes it" end
    local sums = o.accumulate > 1 or o.scale ~= nil
    local self = setmetatable({ model = model, loss = loss, optimizer = optimizer, name = o.name, ema = o.ema,
      accumulate = o.accumulate, autocast = o.autocast, scaler = new_scaler(o.scale), sums = sums and {} or nil, at = 0, revision = false },
      { __index = Step })
    if optimizer.search and (sums or o.ema) then
      fail(("graph.training_step: %s looks at one loss several times a step, without accumulate, scale and ema"):format(optimizer.name))
    end
    local function run(...)
      if graph.eager and not optimizer.search then return eager_step(self, ...) end
      if sums then return summed_step(self, ...) end
      return optimizer:counting(captured_step, self, ...)
    end
    moving(self)
    if o.plan and not o.mesh and (o.plan.pp or (o.plan.zero or 0) > 0) then
      fail "graph.training_step: a plan is for a mesh, which is not given\n  hint: {mesh = dist.Mesh {axes = {\"dp\"}, devices = dist.range(8)}, plan = ..}"
    end
    local training = (o.mesh or o.plan) and require("tessera.dist.training")(model, optimizer, o.mesh, o.plan)
    self.training = training
    if training then again(self) end
    local step = {}
    function step.__call(_, ...)
      if not training then return step.run(...) end
      if not training.waits or graph.eager then return step.run(training:spread(...)) end
      return step.first(training:spread(...))
    end
    -- What it captures says which parameters are where.
    function step.place(...)
      if not training or not training.waits then return end
      if self.sums then factors(self) end
      training:place(specialise(self.f, select("#", ...), ...).graph)
      again(self)
    end
    function step.first(...)
      step.place(...)
      return step.run(...)
    end
    -- What asks for a plan, with arguments or without.
    local function asks(name)
      return function(_, ...)
        local n, all = select("#", ...), select("#", ...)
        if type(n > 0 and (select(n, ...))) == "string" then n = n - 1 end
        if not training or n == 0 then return self.f[name](self.f, ...) end
        local args = { training:spread(...) }
        step.place(unpack(args, 1, n))
        return self.f[name](self.f, unpack(args, 1, all))
      end
    end
    -- One that fails and has changed nothing has drawn nothing: it can be done again.
    function step.run(...)
      local commits, seed, stream = core.commits(), core.rng_state()
      return core.guarded(function(fine)
        if not fine and core.commits() == commits then core.rng_state(seed, stream) end
      end, step.now, ...)
    end
    function step.now(...)
      optimizer:check_places()
      moving(self)
      if self.at == self.accumulate then core.no_grad(finish, self) end
      if o.schedule and self.at == 0 then
        optimizer:set_rate(options.argument("graph.training_step", "the schedule's rate", RATE, o.schedule(optimizer.steps)))
      end
      return run(...)
    end
    -- Whether it fits, and what to change: lib/lua/dist/fit.lua.
    local function fits(_, ...)
      local args = { n = select("#", ...), ... }
      if not training then fail "step:fits: the step is on no mesh\n  hint: graph.training_step(model, loss, opt, {mesh = mesh})" end
      if args.n < 2 or type(args[args.n]) ~= "table" or core.is_tensor(args[args.n]) then
        fail "step:fits: it takes a batch and {memory = ..}: step:fits(x, y, {memory = \"80 GiB\"})"
      end
      local how = args[args.n]
      args[args.n], args.n = nil, args.n - 1
      return require "tessera.dist.fit"({ model = model, optimizer = optimizer, mesh = training.mesh, plan = o.plan or {},
        make = function(m, opt, mesh, plan)
          return graph.training_step(m, loss, opt, { mesh = mesh, plan = plan, accumulate = o.accumulate, autocast = o.autocast, scale = o.scale })
        end }, how, args)
    end
    -- For fits.
    local function bytes(_, ...)
      local list = { training:spread(...) }
      step.place(unpack(list, 1, select("#", ...)))
      return plan_bytes(self.f, unpack(list, 1, select("#", ...)))
    end
    step.__index = function(_, key) return self.f[key] end
    step.__tostring = function() return tostring(self.f) end
    captured.class(step, "function", {})
    return core.keep_line(setmetatable({ ir = function(_, ...) return self.f:ir(...) end, stats = function() return self.f:stats() end,
      rewrites = function() return self.f:rewrites() end, plan = asks "plan", collectives = asks "collectives", fits = fits, plan_bytes = bytes, scaler = self.scaler }, step))
  end
end
