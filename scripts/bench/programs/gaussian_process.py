import math

import torch


def program(state, theta, x, y):
    theta.requires_grad_()

    def unlikelihood():
        length, height, noise = theta.exp().unbind()
        squares = x.square().sum(1, keepdim=True)
        distance2 = squares + squares.T - x @ x.T * 2
        k = height * (distance2 / (length * length) * -0.5).exp() + noise * torch.eye(len(x), dtype=x.dtype)
        lower = torch.linalg.cholesky(k)
        a = torch.linalg.solve_triangular(lower, y, upper=False)
        return a.square().sum() * 0.5 + lower.diagonal().log().sum() + len(x) / 2 * math.log(2 * math.pi)

    def slope():
        theta.grad = None
        unlikelihood().backward()
        return theta.grad
    return slope
