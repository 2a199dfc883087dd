-- Steps of text that goes on are captured behind the first ones: with the tokens of calls one by one, alone and in a batch, also where
-- texts have several lengths, across the lengths for which a step is captured, and with draws.
local tessera = require "tessera"
local op = tessera.op
local vectors = dofile "tests/hf/_vectors.lua"
local Step = require "tessera.hf.decode_step"

local prompts = { { 5, 17, 60, 3, 9, 42 }, { 7, 2 }, { 11, 59, 4, 30 } }
local steps, made = 20, 0
local new = Step.new
function Step.new(...)
  made = made + 1
  return new(...)
end

-- Token by token, never captured.
local function plain(m, prompt, n, dtype)
  local cache, ids, out = m:cache { length = #prompt + n, dtype = dtype }, tessera.tensor({ prompt }, { dtype = "i64", device = m:embedding().weight.device }), {}
  for i = 1, n do
    ids = m { ids = ids, cache = cache, last = true }:select(1, 0):argmax { axis = -1, keepdims = true }
    out[i] = ids:item()
  end
  return table.concat(out, " ")
end

local function check(name, device, n)
  local m = vectors.load(name, { device = device })
  tessera.no_grad(function()
    local all = m:generate { ids = prompts, max_new_tokens = n, eos = false }
    for i, prompt in ipairs(prompts) do
      local one = table.concat(all[i - 1]:totable(), " ")
      assert(one == plain(m, prompt, n), name .. ": a captured step has other tokens")
      assert(one == table.concat(m:generate { ids = { prompt }, max_new_tokens = n, eos = false, length = n + 6 }[0]:totable(), " "), name)
    end
  end)
end

for _, name in ipairs { "llama", "mistral", "gemma2", "gemma3", "gpt2", "gpt_neox", "gpt_oss", "deepseek_v3", "qwen2_moe", "llama_yarn" } do
  check(name, nil, steps)
end
made > 0 --> true
check("llama", nil, 140) -- beyond the first length
for _, name in ipairs { "llama", "llama_yarn", "qwen3" } do check(name, "sim:0", 17) end

-- Caches of another type than the model, with scales or without.
do
  local m = vectors.load "llama"
  for _, dtype in ipairs { "bf16", "f16", "fp8_e4m3" } do
    tessera.no_grad(function()
      local told = m:generate { ids = { prompts[1] }, max_new_tokens = steps, eos = false, cache_dtype = dtype }
      assert(table.concat(told[0]:totable(), " ") == plain(m, prompts[1], steps, dtype), dtype)
    end)
  end
end

-- Draws, and texts that end meanwhile; the state of a stream that is left early troubles nobody.
local m = vectors.load "llama"
local drawn = { ids = prompts, max_new_tokens = steps, eos = false, temperature = 1.2, seed = { 1, 2, 3 }, repetition_penalty = 1.1 }
local all = m:generate(drawn)
drawn.ids, drawn.seed = { prompts[2] }, 2
assert(table.concat(m:generate(drawn)[0]:totable(), " ") == table.concat(all[1]:totable(), " "))
local greedy = m:generate { ids = prompts, max_new_tokens = steps, eos = false }
local stop = greedy[1][12]:item()
local ended = m:generate { ids = prompts, max_new_tokens = steps, eos = stop, pad = 60 }
for i = 0, 2 do
  local all_, cut, over = greedy[i]:totable(), ended[i]:totable(), false
  for k, id in ipairs(cut) do
    assert(id == (over and 60 or all_[k]))
    over = over or id == stop
  end
end
for step in m:stream { ids = prompts[1], max_new_tokens = steps, eos = false } do
  if step == 6 then break end
end
m:generate { ids = prompts[1], max_new_tokens = steps, eos = false, length = 8 } --! length is 8, and

-- A model that decides by what is in tensors has calls one by one behind the first that could not be captured, with the same tokens:
-- alone, beside texts of other lengths, drawn, and behind steps that were captured.
for _, o in ipairs { { ids = prompts }, { ids = { prompts[1] } }, { ids = prompts, temperature = 1 } } do
  o.max_new_tokens, o.eos = steps, false
  local want, odd, calls = m:generate(o), vectors.load "llama", 0
  local forward = odd.forward
  rawset(odd, "forward", function(self, ...)
    local y = forward(self, ...)
    calls = calls + 1
    assert(y:max():item() < 1e30)
    return y
  end)
  made = 0
  for _ = 1, 2 do assert(odd:generate(o):hash() == want:hash()) end
  assert(made == 1 and calls > 2 * steps)
  rawget(odd, "_steps")[not o.temperature]:why_not():match "values of a tensor are not known" --> values of a tensor are not known
end
do
  local own = vectors.load "llama"
  local want, n = own:generate { ids = prompts, max_new_tokens = steps, eos = false }, 0
  local step = rawget(own, "_steps")[true]
  local call = step.call
  function step:call(...)
    n = n + 1
    if n == 6 then self.run = tessera.graph.module(function() error("no more", 0) end, { donate = { 3 } }) end
    return call(self, ...)
  end
  assert(own:generate { ids = prompts, max_new_tokens = steps, eos = false }:hash() == want:hash() and step:why_not() == "no more")
end

-- What fails while a captured step runs is no reason to go on without: the caches that were given to it may be gone.
do
  local Captured = require "tessera.hf.captured"
  local x, at = op.ones { 4 }, tessera.tensor({ 1 }, { dtype = "i64" })
  local step = Captured.new("picks", function(x, at) return op.index_select(x, at) end)
  assert(step:call(x, at))
  local ok, why = pcall(step.call, step, x, at + 8)
  assert(not ok and why:find("index 9 is out of range", 1, true) and not step:why_not(), why)
  assert(step:call(x, at))
  local odd = Captured.new("decides", function(x) return x:sum():item() > 0 and x or -x end)
  assert(not odd:call(x) and not odd:call(x) and odd:why_not():find("values of a tensor are not known", 1, true))
end

-- Matrices that stand side by side on a device are the model's own: state is as it was, and who puts another one there, or changes one in
-- place, gets its tokens. They stay the tensors that they were for an optimiser, and gradients go to them.
do
  local there, here = vectors.load("llama", { device = "sim:0" }), vectors.load "llama"
  local o = { ids = { prompts[1] }, max_new_tokens = 17, eos = false }
  local function told(m) return table.concat(m:generate(o):totable()[1], " ") end
  local function attention(m) return m:base().layers[1].self_attn end
  local opt = { there = tessera.optim.SGD(there:parameters(), { lr = 0.01 }), here = tessera.optim.SGD(here:parameters(), { lr = 0.01 }) }
  local before = there:state_dict()
  local copies = {}
  for name, t in pairs(before) do copies[name] = t:detach():to("cpu"):clone() end
  local was = told(there)
  assert(rawget(attention(there), "_side"), "nothing stands side by side")
  assert(was == told(here))
  for name, t in pairs(there:state_dict()) do
    assert(rawequal(t, before[name]) and vectors.same(t:to "cpu", copies[name]), name)
  end

  local function learn(m, by)
    local ids = tessera.tensor({ prompts[1] }, { dtype = "i64", device = attention(m).k_proj.weight.device })
    m { ids = ids, cache = m:cache { length = 8, batch = 1 } }:square():mean():backward()
    by:step()
    return attention(m).k_proj.weight:to("cpu"):hash()
  end
  assert(learn(there, opt.there) == learn(here, opt.here), "gradients of matrices side by side")
  assert(told(there) == told(here), "what was learned is not used")
  for _, m in ipairs { there, here } do attention(m).k_proj.weight = attention(m).k_proj.weight:detach() * -3 end
  local after = told(here)
  assert(after ~= was and told(there) == after, "an old matrix was used")
end
