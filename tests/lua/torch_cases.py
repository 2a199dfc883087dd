"""What the makers of PyTorch's results share: cases of layers and functions with their gradients, steps of
optimisers; all in f64. make_layers.py, make_rest.py and make_more.py use it."""
import os

import numpy as np
import torch
import torch.nn as nn
from safetensors.numpy import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
torch.set_default_dtype(torch.float64)
tensors = {}


def put(name, t):
    a = np.array(t.detach().numpy(), order="C") # a copy: parameters move
    assert name not in tensors, name
    tensors[name] = a.astype(np.uint8).astype(bool) if a.dtype == bool else a


def leaves(out):
    """Tensors of a result, nested tuples in order."""
    if torch.is_tensor(out):
        return [out]
    return [t for part in out if part is not None for t in leaves(part)]


def slope(y):
    """What the results are multiplied by: the checker computes it again."""
    return torch.cos(torch.arange(y.numel(), dtype=torch.float64) * 0.7).reshape(y.shape)


def case(name, module, inputs, call=None):
    """Inputs, state, results, and the gradients of sum(results * slope) by float inputs and parameters."""
    inputs = [x.clone().requires_grad_(x.is_floating_point()) for x in inputs]
    for i, x in enumerate(inputs):
        put(f"{name}/in/{i}", x)
    weights = dict(module.named_parameters()) if module is not None else {}
    for key, w in (module.state_dict() if module is not None else {}).items():
        put(f"{name}/state/{key}", w)
    first = [module] if module is not None else []
    outs = leaves(call(*first, *inputs) if call else module(*inputs))
    for i, y in enumerate(outs):
        put(f"{name}/out/{i}", y)
    moving = {f"in.{i}": x for i, x in enumerate(inputs) if x.requires_grad}
    moving.update({k: w for k, w in weights.items() if w.requires_grad})
    total = sum((y * slope(y)).sum() for y in outs)
    for key, d in zip(moving, torch.autograd.grad(total, list(moving.values()), allow_unused=True)):
        if d is not None:
            put(f"{name}/grad/{key}", d)


def R(*shape):
    return torch.randn(*shape)


# 8 steps of two parameters with gradients by formula
def steps(name, make, groups=None):
    p, q = nn.Parameter(R(3, 2)), nn.Parameter(R(4))
    put(f"{name}/start/p", p), put(f"{name}/start/q", q)
    opt = make([{"params": [p], **groups[0]}, {"params": [q], **groups[1]}] if groups else [p, q])
    for k in range(8):
        p.grad, q.grad = slope(p) * (k + 1) - p.detach(), slope(q) * 0.3 + q.detach() * (k % 3)
        opt.step()
        if k in (0, 7):
            put(f"{name}/after{k}/p", p), put(f"{name}/after{k}/q", q)


def write(name):
    save_file(tensors, os.path.join(HERE, name))
    print(len(tensors), "tensors", sum(a.nbytes for a in tensors.values()), "bytes")
