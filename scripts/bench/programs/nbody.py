import torch

STEPS, DT, SOFTENING = 10, 0.01, 0.1


def accelerations(place, mass):
    away = place[None] - place[:, None]
    distance2 = away.square().sum(-1, keepdim=True) + SOFTENING ** 2
    return (away * mass[None, :, None] * distance2 ** -1.5).sum(1)


def simulate(place, speed, mass):
    pull = accelerations(place, mass)
    for _ in range(STEPS):
        speed = speed + pull * (DT / 2)
        place = place + speed * DT
        pull = accelerations(place, mass)
        speed = speed + pull * (DT / 2)
    return torch.cat((place, speed))


def program(state, place, speed, mass):
    return torch.no_grad()(lambda: simulate(place, speed, mass))
