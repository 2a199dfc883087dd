-- REINFORCE balances poles on carts: 32 carts run 100 steps at once, then the policy learns from what came of it.

local tessera = require "tessera"
local op, nn, optim, rng, graph = tessera.op, tessera.nn, tessera.optim, tessera.rng, tessera.graph

local CARTS, STEPS, FADING = 32, 100, 0.99
local policy = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2))
local adam = optim.Adam(policy:parameters(), 1e-5)

-- The next state of carts [CARTS, 4]: place, speed, angle, turning speed; 20 ms by Euler's method.
local function move(s, action)
  local x, v, angle, turning = s:unbind { axis = 1 }
  local force = action:cast "f32" * 20 - 10
  local c, sine = angle:cos(), angle:sin()
  local push = (force + 0.05 * turning:square() * sine) / 1.1
  local bend = (9.8 * sine - c * push) / (0.5 * (4 / 3 - 0.1 * c:square() / 1.1))
  local speed = push - 0.05 * bend * c / 1.1
  return op.stack({ x + 0.02 * v, v + 0.02 * speed, angle + 0.02 * turning, turning + 0.02 * bend }, { axis = 1 })
end

local function play()
  local s, up = rng.uniform({ CARTS, 4 }, { low = -0.05, high = 0.05 }), op.ones { CARTS }
  local states, actions, rewards = {}, {}, {}
  for i = 1, STEPS do
    local action = rng.categorical(policy(s)):squeeze(1)
    states[i], actions[i], rewards[i] = s, action, up
    s = move(s, action)
    local fallen = op.logical_or(s:select(1, 0):abs():gt(2.4), s:select(1, 2):abs():gt(0.2095))
    up = up:masked_fill(fallen, 0)
  end
  return op.stack(states), op.stack(actions), op.stack(rewards)
end

-- Of each step what is still to come.
local function returns(rewards)
  local sum, list = op.zeros { CARTS }, {}
  for i = STEPS, 1, -1 do
    sum = rewards:select(0, i - 1) + sum * FADING
    list[i] = sum
  end
  return op.stack(list)
end

local function loss(m, states, actions, rewards, gain)
  local log_p = op.log_softmax(m(states)):gather(actions:unsqueeze(-1), { axis = -1 }):squeeze(-1)
  return -(log_p * gain * rewards):sum() / CARTS
end

return {
  model = policy,
  data = {},
  start = function(captured)
    local step
    local function round()
      local states, actions, rewards = tessera.no_grad(play)
      return states, actions, rewards, returns(rewards)
    end
    if captured then
      round, step = graph.module("round", round), graph.training_step(policy, loss, adam)
    else
      function step(...)
        local l = loss(policy, ...)
        adam:zero_grad()
        l:backward()
        adam:step()
        return l:detach()
      end
    end
    return function() return step(round()) end
  end,
}
