"""Layers, their gradients and optimisers by PyTorch: writes layers.safetensors beside it, which _layers.lua
reads. All in f64, small. python3 tests/lua/make_layers.py"""
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.numpy import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
torch.manual_seed(5)
torch.set_default_dtype(torch.float64)
tensors = {}


def put(name, t):
    a = np.ascontiguousarray(t.detach().numpy())
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
    outs = leaves(call(module, *inputs) if call else module(*inputs))
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


# ---- recurrent layers
def with_state(m, x, *state):
    return m(x, tuple(state) if len(state) > 1 else state[0])


case("rnn", nn.RNN(3, 4), [R(5, 2, 3)])
case("rnn_relu", nn.RNN(3, 4, 2, nonlinearity="relu", bias=False), [R(4, 2, 3), R(2, 2, 4)], with_state)
case("lstm", nn.LSTM(3, 4), [R(5, 2, 3)])
case("lstm_wide", nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True), [R(2, 5, 3), R(4, 2, 4), R(4, 2, 4)], with_state)
case("lstm_single", nn.LSTM(3, 4, bias=False), [R(5, 3), R(1, 4), R(1, 4)], with_state)
case("gru", nn.GRU(3, 4), [R(5, 2, 3)])
case("gru_wide", nn.GRU(3, 4, 2, bidirectional=True), [R(5, 2, 3), R(4, 2, 4)], with_state)
case("gru_single", nn.GRU(3, 4, bias=False), [R(5, 3)])
case("rnn_cell", nn.RNNCell(3, 4), [R(2, 3), R(2, 4)])
case("lstm_cell", nn.LSTMCell(3, 4), [R(2, 3), R(2, 4), R(2, 4)], with_state)
case("gru_cell", nn.GRUCell(3, 4), [R(3), R(4)])

save_file(tensors, os.path.join(HERE, "layers.safetensors"))
print(len(tensors), "tensors", sum(a.nbytes for a in tensors.values()), "bytes")
