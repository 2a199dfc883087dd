-- A generator and a discriminator of pictures of 28 x 28, a step of both with 64 pictures.

local tessera = require "tessera"
local op, nn, optim, rng, graph = tessera.op, tessera.nn, tessera.optim, tessera.rng, tessera.graph

local BATCH, LATENT = 64, 64
local generator = nn.Sequential {
  nn.Linear(LATENT, 128), nn.LeakyReLU(0.2), nn.Linear(128, 256), nn.LeakyReLU(0.2), nn.Linear(256, 784), nn.Tanh(),
}
local discriminator = nn.Sequential {
  nn.Linear(784, 256), nn.LeakyReLU(0.2), nn.Linear(256, 128), nn.LeakyReLU(0.2), nn.Linear(128, 1),
}
local model = nn.Module()
model.generator, model.discriminator = generator, discriminator

local function adam(m) return optim.Adam(m:parameters(), 2e-5, { 0.5, 0.999 }) end
local generator_adam, discriminator_adam = adam(generator), adam(discriminator)

local function judged(pictures, target)
  local y = discriminator(pictures)
  return op.bce_with_logits(y, op.full(y.shape, target))
end
local function noise() return rng.normal { BATCH, LATENT } end
local function discriminator_loss(_, x) return judged(x, 1) + judged(generator(noise()):detach(), 0) end
local function generator_loss() return judged(generator(noise()), 1) end

local function eager_step(x)
  local loss = discriminator_loss(discriminator, x)
  discriminator_adam:zero_grad()
  loss:backward()
  discriminator_adam:step()

  local fooled = generator_loss()
  generator_adam:zero_grad()
  fooled:backward()
  generator_adam:step()
  return loss:detach() + fooled:detach()
end

local function captured_step()
  local discriminate = graph.training_step(discriminator, discriminator_loss, discriminator_adam)
  local generate = graph.training_step(generator, generator_loss, generator_adam)
  return function(x) return discriminate(x) + generate() end
end

local pictures = rng.uniform({ 1024, 784 }, { low = -1, high = 1 })

return {
  model = model,
  data = { pictures },
  start = function(captured)
    local step, at = captured and captured_step() or eager_step, -BATCH
    return function()
      at = (at + BATCH) % pictures.shape[1]
      return step(pictures:narrow(0, at, BATCH))
    end
  end,
}
