"""What make_layers.py has no room for, by PyTorch: writes rest.safetensors beside it, which _layers.lua reads.
python3 tests/lua/make_rest.py"""
import torch
import torch.nn as nn
import torch.nn.functional as F

from torch_cases import *

torch.manual_seed(7)

# ---- convolutions that keep the size
for axes, image, window, o in ((1, [7], [4], {}), (2, [5, 6], [3, 2], {"dilation": (2, 1)}), (2, [5, 4], [3, 3], {"groups": 2}), (3, [3, 4, 5], [2, 3, 2], {})):
    conv = getattr(F, f"conv{axes}d")
    for word in "same", "valid":
        name = f"conv{axes}d_{word}_{len(o) and list(o)[0]}"
        case(name, None, [R(2, 4, *image), R(6, 4 // o.get("groups", 1), *window), R(6)],
             lambda x, w, b, o=o, c=conv, p=word: c(x, w, b, padding=p, **o))

# ---- images of three axes at places
for mode in "bilinear", "nearest":
    for outside in "zeros", "border", "reflection":
        for corners in False, True:
            case(f"grid3_{mode}_{outside}_{corners}", None, [R(2, 2, 3, 4, 2), R(2, 2, 3, 1, 3) * 1.3],
                 lambda x, g, m=mode, o=outside, c=corners: F.grid_sample(x, g, m, o, c))

# ---- changes in place of parts of a tensor; what is read is copied, since PyTorch keeps no old values
def change(name, f, *shape):
    def g(x):
        y = x * 1.5
        out = f(y)
        return (y, out) if out is not None else y
    case("change_" + name, None, [R(*(shape or (3, 4)))], g)


def recur(y):
    for i in range(1, 4):
        y[:, i] = y[:, i - 1].clone() * y[:, i].clone()


def both(y):
    a, b = y[:, :3], y[:, 1:]
    a.mul_(b.clone().sin())
    return b * 2


def looked(y):
    row = y[1]
    y.mul_(y.clone())
    row.add_(1)
    return row.exp()


def chain(y):
    y.t()[1:].reshape(3, 3)[2].mul_(y[0, 0].clone())  # a flip is a copy here
    return y.flatten()[3:]


change("row", lambda y: y[1].add_(y[0].clone() * y[1].clone()) * 2)
change("rows", lambda y: y[1:].mul_(3).sum(0))
change("narrow", lambda y: y.narrow(1, 1, 2).mul_(y.narrow(1, 0, 2).clone().cos()) * 1)
change("set", lambda y: y.__setitem__((0, slice(1, None)), y[1, 1:].clone() ** 2))
change("number", lambda y: y.__setitem__((slice(None), 2), 7.0))
change("step", lambda y: y[::2, 1::2].copy_(y[1, 0]) * 1)
change("transposed", lambda y: y.t()[0].mul_(y.t()[1].clone()) * 1)
change("diagonal", lambda y: y.diagonal().mul_(2).sin())
change("masked", lambda y: y[1].masked_fill_(y[1].clone() > 0, 0.5) * 1)
change("reshaped", lambda y: y.view(2, 6)[1].clamp_(-0.5, 0.5) * 1)
change("squeezed", lambda y: y.squeeze(1)[0].mul_(2) * 1, 3, 1, 2)
change("permuted", lambda y: y.permute(2, 0, 1)[1].sin_() * 1, 2, 3, 4)
change("recur", recur)
change("both", both)
change("looked", looked)
change("chain", chain)

write("rest.safetensors")
