-- Training steps with each optimiser and batches of changing sizes: captured, eager, by the tape; in
-- the
-- strict profile captured and eager steps leave the same bits.
local words = dofile "tests/fuzz/programs/_words.lua"
local tessera = require "tessera"

local names = {}
for name, f in pairs(tessera.optim) do
  if name:match "^%u" and type(f) == "function" then names[#names + 1] = name end
end
table.sort(names)

-- What an optimiser knows, by what it says of an option that it does not.
local function options(R, name)
  local w = tessera.op.zeros { 1 }
  local _, why = pcall(tessera.optim[name], { w }, { nosuch = 1 })
  local parts = { "lr = " .. R:pick { "0.02", "0.1", "1e-3" } }
  local values = { momentum = { "0.5", "0.9" }, nesterov = { "true" }, weight_decay = { "0.01" },
    dampening = { "0.1" }, betas = { "{0.8, 0.95}" }, decay = { "0.7" }, eps = { "1e-6" },
    clip_threshold = { "0.5" }, scale_parameter = { "false" }, clip = { "0.5" } }
  for key in (tostring(why):match "options are (.*)" or ""):gmatch "[%w_]+" do
    if values[key] and R:chance(0.4) then parts[#parts + 1] = key .. " = " .. R:pick(values[key]) end
  end
  return words.list(parts)
end

return function(W)
  local R = W.R
  local input, output = R:between(1, 5), R:between(1, 5)
  local layers, at = {}, input
  for _ = 1, R:between(0, 2) do
    local n = R:between(1, 7)
    layers[#layers + 1] = ("nn.Linear(%d, %d)"):format(at, n)
    at = n
    if R:chance(0.8) then layers[#layers + 1] = R:pick { "op.tanh", "op.relu", "op.sigmoid", "op.gelu",
      "op.silu", "function(x) return x * x end", ("nn.LayerNorm(%d)"):format(n),
      'function(x) return op.concat({x["::2"], x["1::2"]}) end',
      "function(x) return op.softmax(x) + x end" } end
  end
  layers[#layers + 1] = ("nn.Linear(%d, %d)"):format(at, output)
  local name = R:pick(names)
  W:line('profile "%s"', R:pick { "strict", "strict", "deterministic" })
  W:open "local function train(how)"
  W:line "rng.seed(3)"
  W:line("local model = nn.Sequential(%s)", table.concat(layers, ", "))
  if R:chance(0.15) then W:line 'for _, p in ipairs(model:parameters()) do p:copy_(p * 2) end' end
  W:line("local optimizer = optim.%s(model:parameters(), %s)", name, options(R, name))
  W:line("local function loss(m, x, y) return %s end", R:pick { "op.mse(m(x), y)", "op.l1(m(x), y)",
    "op.huber(m(x), y)", "op.bce_with_logits(m(x), y:sigmoid())",
    "op.cross_entropy(m(x), op.softmax(y))", "(m(x) * y):tanh():mean()",
    "op.mse(op.dropout(m(x), 0.2), y)", "op.cross_entropy(m(x), y:argmax{axis = 1})",
      'op.mse(m(x)["::2"], y["::2"])', "op.kl_divergence(op.log_softmax(m(x)), op.softmax(y))" })
  W:line 'graph.eager = how == "eager"'
  W:line "local step = graph.training_step(model, loss, optimizer)"
  W:line "rng.seed(8)"
  W:open("for i = 1, %d do", name == "LBFGS" and 4 or R:pick { 8, 12, 14, 30 })
  W:line("local n = %s", R:pick { "3", "i % 3 == 0 and 2 or 4", "i % 4 + 1", "i < 6 and 4 or 5",
    "i % 5 == 0 and 1 or 2" })
  if R:chance(0.3) then W:line "optimizer.lr = optimizer.lr * 0.97" end
  if R:chance(0.2) then W:line "if i == 5 then settle() end" end
  W:line("local x, y = T(i %% 7, {n, %d}, 'f32'), T(i %% 7 + 50, {n, %d}, 'f32')", input, output)
  W:open 'if how == "tape" then'
  W:line "local l = loss(model, x, y)"
  W:line "l:backward()"
  W:line "note(how, l)"
  W:line "local list = {}"
  W:line "for k, p in ipairs(model:parameters()) do list[k] = p.grad or false end"
  W:line "optimizer:zero_grad()"
  if name == "LBFGS" then W:line "optimizer.steps = (optimizer.steps or 0) + 1" else W:line "tessera.no_grad(function() optimizer:step(list) end)" end
  W:close "else"
  W.indent = W.indent .. "  "
  W:line "note(how, step(x, y))"
  W:close "end"
  W:close "end"
  W:line "graph.eager = false"
  W:line "local list = {}"
  W:line "for k, p in ipairs(model:parameters()) do list[k] = p:clone() end"
  W:line 'note(how .. " parameters", list)'
  W:line "return list"
  W:close "end"
  W:line 'local a, b = train "captured", train "eager"'
  W:line 'for k, p in ipairs(a) do if p:hash() ~= b[k]:hash() and core.profile() == "strict" then wrong("training captured is not eager", k, p, b[k]) end end'
  if R:chance(0.5) then W:line 'train "tape"' end
end
