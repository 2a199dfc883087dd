-- A variational autoencoder of pictures of 28 x 28, 64 a step.

local tessera = require "tessera"
local op, nn, optim, rng = tessera.op, tessera.nn, tessera.optim, tessera.rng

local VAE = nn.Module:extend "VAE"

function VAE:init()
  self.encoder = nn.Sequential(nn.Linear(784, 400), nn.ReLU())
  self.mean, self.log_var = nn.Linear(400, 20), nn.Linear(400, 20)
  self.decoder = nn.Sequential(nn.Linear(20, 400), nn.ReLU(), nn.Linear(400, 784))
end

function VAE:forward(x)
  local h = self.encoder(x)
  local mean, log_var = self.mean(h), self.log_var(h)
  local z = mean + (log_var * 0.5):exp() * rng.normal(mean.shape)
  return self.decoder(z), mean, log_var
end

local model = VAE()

return {
  model = model,
  data = { rng.uniform { 1024, 784 } },
  batch = 64,
  loss = function(m, x)
    local y, mean, log_var = m(x)
    local divergence = (1 + log_var - mean:square() - log_var:exp()):sum() * -0.5
    return (op.bce_with_logits(y, x, { reduction = "sum" }) + divergence) / x.shape[1]
  end,
  optimizer = optim.Adam(model:parameters(), 1e-4),
}
