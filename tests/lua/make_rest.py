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

write("rest.safetensors")
