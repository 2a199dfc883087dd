import torch

STEPS, DT = 100, 0.1


def change(u, rates):
    hares, lynxes = u[0], u[1]
    a, b, c, d = rates.unbind()
    return torch.stack((a * hares - b * hares * lynxes, c * hares * lynxes - d * lynxes))


def next_of(u, rates):
    k1 = change(u, rates)
    k2 = change(u + k1 * (DT / 2), rates)
    k3 = change(u + k2 * (DT / 2), rates)
    k4 = change(u + k3 * DT, rates)
    return u + (k1 + k2 * 2 + k3 * 2 + k4) * (DT / 6)


def program(state, rates, start, counted):
    rates.requires_grad_()

    def distance():
        u, total = start, 0
        for i in range(STEPS):
            u = next_of(u, rates)
            total = total + (u - counted[i]).square().sum()
        return total / STEPS

    def slope():
        rates.grad = None
        distance().backward()
        return rates.grad
    return slope
