"""A small network by PyTorch's automatic casts on the CPU, and its gradients: writes autocast.safetensors beside it, which
autocast.lua reads. python3 tests/lua/make_autocast.py

Inputs and weights are multiples of 1/8, so that sums are exact in any order and what is compared is where casts stand."""
import os

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

torch.manual_seed(0)


def eighths(*shape):
    return torch.randint(-8, 9, shape).float() / 8


x, y = eighths(4, 2, 5, 5), eighths(4, 3)
weights = {"conv": eighths(3, 2, 3, 3), "conv_bias": eighths(3), "w": eighths(3, 27), "bias": eighths(3)}
out = {"x": x, "y": y, **weights}
for name, dtype in (("bf16", torch.bfloat16), ("f16", torch.float16)):
    w = {k: v.clone().requires_grad_() for k, v in weights.items()}
    with torch.autocast("cpu", dtype):
        h = F.relu(F.conv2d(x, w["conv"], w["conv_bias"]))
        z = F.linear(h.flatten(1), w["w"], w["bias"])
        loss = F.mse_loss(z, y)
    assert h.dtype == z.dtype == dtype and loss.dtype == torch.float32
    loss.backward()
    out.update({f"{name}/h": h, f"{name}/z": z, f"{name}/loss": loss})
    out.update({f"{name}/grad/{k}": v.grad for k, v in w.items()})
here = os.path.dirname(os.path.abspath(__file__))
save_file({k: v.detach().contiguous() for k, v in out.items()}, os.path.join(here, "autocast.safetensors"))
