"""What jets.lua times, in PyTorch: nested forward mode (torch.func.jvp) inside one reverse pass, compiled and not.

python3 scripts/bench/jets_peer.py [points] [width] [device]
"""
import sys
import time

import torch
from torch.func import functional_call, jvp

points, width = int((sys.argv + ["1024"])[1]), int((sys.argv + ["", "64"])[2])
device = (sys.argv + ["", "", "cpu"])[3]
torch.manual_seed(1)
layers = []
for a, b in ((2, width), (width, width), (width, width)):
    layers += [torch.nn.Linear(a, b), torch.nn.Tanh()]
net = torch.nn.Sequential(*layers, torch.nn.Linear(width, 1)).to(device)
weights = dict(net.named_parameters())
x, y = torch.rand(points, 1, device=device), torch.rand(points, 1, device=device)
one, zero = torch.ones_like(x), torch.zeros_like(x)


def along(f, axis):
    def slope(x, y):
        return jvp(f, (x, y), (one, zero) if axis == "x" else (zero, one))[1]

    return slope


def derivative(f, letters):
    for axis in letters:
        f = along(f, axis)
    return f


def loss_of(sets):
    def loss(weights, x, y):
        def psi(x, y):
            return functional_call(net, weights, (torch.cat([x, y], 1),))

        return sum(derivative(psi, s)(x, y) for s in sets.split()).square().mean()

    return torch.func.grad_and_value(loss)


def best(f):
    def wait():
        if device != "cpu":
            torch.cuda.synchronize()

    for _ in range(3):
        f(weights, x, y)
    least = float("inf")
    for _ in range(10):
        wait()
        begun = time.perf_counter()
        f(weights, x, y)
        wait()
        least = min(least, time.perf_counter() - begun)
    return least * 1e3


print(f"{points} points, width {width}, torch {torch.__version__}, {device}")
for name, sets in (("Laplacian", "xx yy"), ("slope of it", "xxx xyy"), ("biharmonic", "xxxx xxyy yyxx yyyy")):
    plain = loss_of(sets)
    print(f"{name:12} nested {best(plain):8.3f} ms", end="", flush=True)
    try:
        print(f"   compiled {best(torch.compile(plain)):8.3f} ms")
    except Exception as error:  # what the compiler does not take is said, not hidden
        print(f"   compiled: {type(error).__name__}")
