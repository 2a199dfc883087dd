import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

from program_peer import batches

BATCH, LATENT = 64, 64


def program(state, pictures):
    generator = nn.Sequential(
        nn.Linear(LATENT, 128), nn.LeakyReLU(0.2), nn.Linear(128, 256), nn.LeakyReLU(0.2), nn.Linear(256, 784), nn.Tanh())
    discriminator = nn.Sequential(
        nn.Linear(784, 256), nn.LeakyReLU(0.2), nn.Linear(256, 128), nn.LeakyReLU(0.2), nn.Linear(128, 1))
    nn.ModuleDict({"generator": generator, "discriminator": discriminator}).load_state_dict(state)
    generator_adam, discriminator_adam = (torch.optim.Adam(m.parameters(), 2e-5, (0.5, 0.999)) for m in (generator, discriminator))
    source = batches(BATCH, [pictures])

    def judged(pictures, target):
        y = discriminator(pictures)
        return binary_cross_entropy_with_logits(y, torch.full_like(y, target))

    def step():
        x, = next(source)
        loss = judged(x, 1) + judged(generator(torch.randn(BATCH, LATENT)).detach(), 0)
        discriminator_adam.zero_grad()
        loss.backward()
        discriminator_adam.step()

        fooled = judged(generator(torch.randn(BATCH, LATENT)), 1)
        generator_adam.zero_grad()
        fooled.backward()
        generator_adam.step()
        return loss.detach() + fooled.detach()
    return step
