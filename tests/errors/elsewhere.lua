-- A misspelt name is an error where it is written, in every table of the library; names of other
-- libraries tell what is here (repl/lua/elsewhere.def), and none of these exists here.
local tessera = require "tessera"
local core, op, nn = tessera.core, tessera.op, tessera.nn

local kernel = op.kernel("k", { x = "f32[M,N]" }, { y = "f32[M,N]" }, function(t, x, y)
  for r in t:rows(x) do y[r] = x[r] * 2 end
end)

local function at(title)
  if title == "tensor" then return core.methods end
  if title == "module" then return nn.Module end
  if title == "tessera" then return tessera end
  if title == "schedule" then return tessera.optim.schedule end
  if title == "kernel" then return getmetatable(kernel).__index end
  if title == "optimiser" then return tessera.optim.SGD { op.ones { 2 } } end
  if title == "rate" then return tessera.optim.schedule.constant { lr = 1 } end
  return tessera[title]
end

local rows, seen = 0, {}
for line in io.lines "repl/lua/elsewhere.def" do
  local title, name = line:match "^ELSEWHERE%((%w+), ([%w_]+), "
  if title then
    rows = rows + 1
    assert(not seen[title .. "." .. name], name)
    seen[title .. "." .. name] = true
  end
  if title and title ~= "option" and title ~= "utils" then
    assert(rawget(at(title), name) == nil, title .. " has a " .. name)
    assert(core.elsewhere(title, name), name)
    if title ~= "module" then
      local holder = title == "tensor" and op.ones(2) or at(title)
      local ok, why = pcall(function() return holder[name] end)
      assert(not ok and why:find(core.elsewhere(title, name), 1, true), why)
    end
  end
end
assert(rows > 200)

-- Names of options: one of the words here is that of an option of some function, or operator.
local named_here = {}
for _, row in ipairs(core.operators()) do
  for word in row.attrs:gmatch "([%a_][%w_]*):" do named_here[word] = true end
end
for _, path in ipairs { "nn", "optim", "optim.schedule", "data" } do
  local part = tessera
  for word in path:gmatch "[^.]+" do part = part[word] end
  for name in pairs(part) do
    for option in pairs(require("tessera.options").known(path .. "." .. name) or {}) do named_here[option] = true end
  end
end
for _, option in ipairs { "scale", "growth", "backoff", "interval", "mask", "weights", "key_padding_mask", "causal" } do named_here[option] = true end
-- Of files that are read when they are first called.
require "tessera.hf.batching.scheduler"
require "tessera.hf.generate"
require "tessera.hf.load"
require "tessera.hf.tokenizer"
for _, what in ipairs { "m:generate", "tok:encode", "hf.batch", "hf.load" } do
  for option in pairs(require("tessera.options").known(what)) do named_here[option] = true end
end
for line in io.lines "repl/lua/elsewhere.def" do
  local name, hint = line:match '^ELSEWHERE%(option, ([%w_]+), "(.*)"%)$'
  for part in (hint or ""):gmatch "[^|]+" do assert(part:find " " or named_here[part], name .. ": no option " .. part) end
end
op.sum(op.ones { 2 }, { dim = 0 })                --! it is 'axis' here
op.max(op.ones { 2 }, { axes = 0 })               --! it is 'axis' here
op.quantiles(op.ones { 2 }, { q = { 0.5 }, interpolation = "linear" }) --! it is 'method' here
nn.LSTM(2, 3, { num_layers = 2 })                 --! it is 'layers' here
nn.Conv2d(1, 2, { kernel_size = 3 })              --! Conv2d: kernel is not given
nn.Linear { in_features = 3, out_features = 2 }   --! hint: what has to be given stands by place, options in a table behind it: ? Linear
nn.Upsample { scale_factor = 2 }                  --! it is 'scale' here
nn.MaxPool2d(2, { kernel_size = 3 })              --! what has to be given stands by place
tessera.optim.Adam({ op.ones { 2 } }, { foreach = true })     --! leave it out
tessera.optim.schedule.cosine { lr = 1, T_max = 10 }          --! it is 'steps' here
tessera.optim.schedule.multistep { lr = 1, milestones = { 2 } } --! it is 'at' here
tessera.optim.schedule.step { lr = 1, step_size = 2 }         --! it is 'every' here
nn.utils.clip_grad_norm_({}, 1)                   --! optim.clip_grad_norm(model:parameters(), 1)
op.linalg.solve(1, 2)                             --! op.solve(a, b)

-- What a hint tells to write runs, where it is one call of what is at hand.
local x, y = op.ones { 2, 2 }, op.full({ 2, 2 }, 0.5)
local known = { op = op, nn = nn, optim = tessera.optim, rng = tessera.rng, tessera = tessera, x = x, y = y, a = x, b = y, c = x, n = 3, logits = x,
  q = op.ones { 1, 1, 2, 2 }, k = op.ones { 1, 1, 2, 2 }, v = op.ones { 1, 1, 2, 2 }, inputs = 2, outputs = 2,
  channels = 2, parameters = { x }, re = x, im = y }
local other = { cuda = true, self = true, model = true, graph = true, data = true, real_view = true, nll = true }
local calls = 0
for line in io.lines "repl/lua/elsewhere.def" do
  local hint = (line:match '"(.*)"%)$' or ""):gsub('\\"', '"')
  local call = hint:match "^[%a.]+:?[%w_]*%b()$" or hint:match "^[%a.]+:?[%w_]*%b{}$"
  local left_out = not call
  for word in (call or ""):gmatch "[%a_]+" do left_out = left_out or other[word] end
  if not left_out then
    local ok, why = pcall(setfenv(assert(loadstring("return " .. call)), known))
    assert(ok, call .. ": " .. tostring(why))
    calls = calls + 1
  end
end
assert(calls > 40, calls)

nn.Linar(2, 2)              --! did you mean 'Linear'?
tessera.optm                --! did you mean 'optim'?
tessera.optim.Adamw({})     --! did you mean 'AdamW'?
tessera.graph.trainin_step  --! tessera.graph has no 'trainin_step'
tessera.optim.SGD({ op.ones { 2 } }).param_groups[1].lr = 1  --! opt.groups[1].lr
tessera.optim.schedule.plateau({ lr = 1 }):step()             --! rate:update(loss) of a plateau
tessera.optim.schedule.StepLR({})                             --! optim.schedule.step{lr = 0.1, every = 30}
tessera.optim.schedule.cos  --! tessera.optim.schedule has no 'cos'
tessera.data.batch          --! did you mean 'batches'?
tessera.rng.unform          --! did you mean 'uniform'?
tessera.profile.repot       --! did you mean 'report'?
op.kernal                   --! did you mean 'kernel'?
tessera.softmax             --! it is an operator: tessera.op.softmax

-- ---- methods of tensors take what they take
x:item(1)                        --! item: too many arguments, it takes none
x:sum().item()                   --! methods are called with a colon, x:item()
x:totable(1)                     --! totable: too many arguments
x:detach(true)                   --! detach: too many arguments
x:to("cpu", "f64")               --! to: too many arguments, it takes one
x:to()                           --! to: a device or a dtype is needed, "cuda:0" or "f64", not no value
x:sum():backward(nil, { create_graph = true })  --! graph.grad(graph.grad(f)) or graph.hvp
x:sum():backward { retain_graph = true }        --! backward() may be called again
nn.BatchNorm(4)(op.ones { 4 })                  --! BatchNorm: x must be a tensor [N, 4, ..], not f32[4]
nn.BatchNorm(4):eval()(op.ones { 2, 5, 3 })     --! BatchNorm: x must be a tensor [N, 4, ..], not f32[2,5,3]
tessera.data.batches({ x }, { batch_size = 2 }) --! data.batches: unknown option 'batch_size'

-- ---- values that would give a number without a meaning
local logits = op.ones { 3, 4 }
op.cross_entropy(logits, op.ones { 3 })       --! classes must be integers, not f32
nn.CrossEntropyLoss()(logits, op.ones { 3 })  --! target:cast("i64")
tessera.optim.clip_grad_norm({ logits }, 1, math.huge)  --! too many arguments
local function i64(list) return tessera.tensor(list, { dtype = "i64" }) end
op.ctc_loss(op.zeros { 6, 1, 4 }, i64 { { 1, 2 } }, i64 { 7 }, i64 { 2 })  --! input_lengths lie between 0 and 6
op.ctc_loss(op.zeros { 6, 1, 4 }, i64 { { 1, 2 } }, i64 { 6 }, i64 { 3 })  --! target_lengths lie between 0 and 2
op.ctc_loss(op.zeros { 6, 1, 4 }, i64 { { 1, 2 } }, op.ones { 1 }, i64 { 2 })  --! x:cast("i64")
nn.LSTM(2, 3)(op.ones { 4, 2, 2 }, nil, { lengths = i64 { 4, 9 } })  --! LSTM: lengths lie between 0 and 4, not [4 9]
op.conv2d(op.ones { 1, 1, 4, 4 }, op.ones { 1, 1, 3, 3 }, { padding = "sme" })  --! must be integers, 'same' or 'valid', not 'sme'
tostring(nn.Conv2d) --> class Conv2d of modules: Conv2d(...) makes one
