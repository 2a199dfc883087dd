import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

from program_peer import training


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(784, 400), nn.ReLU())
        self.mean, self.log_var = nn.Linear(400, 20), nn.Linear(400, 20)
        self.decoder = nn.Sequential(nn.Linear(20, 400), nn.ReLU(), nn.Linear(400, 784))

    def forward(self, x):
        h = self.encoder(x)
        mean, log_var = self.mean(h), self.log_var(h)
        z = mean + (log_var * 0.5).exp() * torch.randn_like(mean)
        return self.decoder(z), mean, log_var


def program(state, x):
    model = VAE()
    model.load_state_dict(state)
    optimizer = torch.optim.Adam(model.parameters(), 1e-4)

    def loss(x):
        y, mean, log_var = model(x)
        divergence = (1 + log_var - mean.square() - log_var.exp()).sum() * -0.5
        return (binary_cross_entropy_with_logits(y, x, reduction="sum") + divergence) / len(x)
    return training(loss, optimizer, 64, x)
