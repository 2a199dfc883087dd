"""Gradients by PyTorch for a handful of rows, the complex ones above all: writes
torch.safetensors and _torch.lua beside it. python3 tests/grad/make_vectors.py"""
import os
import sys

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.numpy import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "vectors"))
from common import lua  # noqa: E402

rng = np.random.default_rng(11)
tensors, manifest = {}, []


def R(*shape):
    return torch.tensor(rng.uniform(-1, 1, shape))


def C(*shape):
    return torch.complex(R(*shape), R(*shape))


def case(row, fn, inputs, options=None):
    """The gradients of the inputs for random gradients of the results."""
    n = len(manifest)
    inputs = [x.requires_grad_() for x in inputs]
    y = fn(*inputs)
    g = C(*y.shape) if y.is_complex() else R(*y.shape)
    d = torch.autograd.grad(y, inputs, g)
    for kind, list_ in (("x", inputs), ("g", [g]), ("d", d)):
        for i, t in enumerate(list_):
            a = np.ascontiguousarray(t.detach().resolve_conj().numpy())
            # The format's writer knows no complex128: pairs of f64.
            tensors[f"{n}.{kind}{i}{'c' if t.is_complex() else ''}"] = a.view(np.float64).reshape(*a.shape, 2) if t.is_complex() else a
    manifest.append("{row=%s, n=%d, options=%s}," % (lua(row), len(inputs), lua(options or {})))


def transforms():
    for norm in ("ortho", "backward", "forward"):
        o = {"norm": norm}
        for n in (None, 3, 6):
            more = o if n is None else {**o, "n": n}
            case("fft", lambda x: torch.fft.fft(x, n, norm=norm), [C(2, 4)], more)
            case("fft", lambda x: torch.fft.fft(x, n, norm=norm), [R(2, 5)], more)
            case("ifft", lambda x: torch.fft.ifft(x, n, norm=norm), [C(2, 5)], more)
            case("rfft", lambda x: torch.fft.rfft(x, n, norm=norm), [R(2, 4)], more)
            case("irfft", lambda x: torch.fft.irfft(x, n, norm=norm), [C(2, 4)], more)
        case("rfft", lambda x: torch.fft.rfft(x, dim=0, norm=norm), [R(5, 2)], {**o, "axis": 0})
        case("fft2", lambda x: torch.fft.fft2(x, norm=norm), [C(2, 3, 2)], o)
        case("ifftn", lambda x: torch.fft.ifftn(x, norm=norm), [C(2, 3)], o)


def layers():
    o = {"stride": 2, "padding": 1, "groups": 2}
    case("conv1d", lambda x, w: F.conv1d(x, w, **o), [C(2, 4, 6), C(4, 2, 3)], o)
    case("conv2d", lambda x, w, b: F.conv2d(x, w, b, **o), [C(1, 4, 4, 5), C(2, 2, 3, 2), C(2)], o)
    case("conv2d", lambda x, w, b: F.conv2d(x, w, b, dilation=2, **o), [R(2, 4, 7, 6), R(6, 2, 3, 2), R(6)], {**o, "dilation": 2})
    case("conv3d", lambda x, w: F.conv3d(x, w, **o), [R(1, 2, 4, 3, 5), R(4, 1, 2, 3, 2)], o)
    case("conv_transpose", lambda x, w: F.conv_transpose1d(x, w, output_padding=1, **o), [C(2, 4, 3), C(4, 1, 3)], {**o, "output_padding": 1})
    case("conv_transpose", lambda x, w, b: F.conv_transpose2d(x, w, b, **o), [R(1, 4, 3, 3), R(4, 2, 3, 3), R(4)], o)
    p = {"stride": [2, 1], "padding": [1, 1]}
    case("max_pool", lambda x: F.max_pool2d(x, [3, 2], **p), [R(2, 2, 6, 5)], {**p, "window": [3, 2]})
    # Ties and windows that overlap: the first one gets all.
    case("max_pool", lambda x: F.max_pool1d(x, 3, 1), [torch.tensor([[[1.0, 2, 2, 1, 1, 1, 2]]], dtype=torch.float64)], {"window": [3], "stride": 1})
    for pad in (True, False):
        case("avg_pool", lambda x: F.avg_pool2d(x, [3, 2], **p, count_include_pad=pad), [R(1, 2, 6, 5)], {**p, "window": [3, 2], "count_include_pad": pad})
    case("adaptive_avg_pool", lambda x: F.adaptive_avg_pool2d(x, [3, 2]), [R(1, 2, 5, 4)], {"size": [3, 2]})
    for mode in ("nearest", "linear", "cubic"):
        name = {"nearest": "nearest", "linear": "bilinear", "cubic": "bicubic"}[mode]
        for corners in (False, True)[: 1 if mode == "nearest" else 2]:
            ac = None if mode == "nearest" else corners
            case("interpolate", lambda x: F.interpolate(x, [7, 3], mode=name, align_corners=ac), [R(1, 2, 4, 5)],
                 {"size": [7, 3], "mode": mode, "align_corners": corners})
    case("interpolate", lambda x: F.interpolate(x, scale_factor=[1.7, 0.6], mode="bilinear"), [R(1, 1, 4, 5)], {"scale": [1.7, 0.6], "mode": "linear"})


def numbers():
    """The conjugate convention, where rows are and are not holomorphic."""
    for row in ("exp", "sin", "tanh", "square", "reciprocal", "sqrt", "log", "abs", "conj", "real", "imag"):
        case(row, getattr(torch, row), [C(3)])
    for row in ("mul", "div", "sub"):
        case(row, getattr(torch, row), [C(2, 3), C(3)])
        case(row, getattr(torch, row), [R(2, 1), C(3)])
    case("matmul", torch.matmul, [C(2, 3), C(3, 2)])
    case("matmul", lambda x, y: torch.matmul(x.to(y.dtype), y), [R(2, 3), C(3, 2)])
    case("complex", torch.complex, [R(3), R(3)])
    case("sum", lambda x: x.sum(0), [C(2, 3)], {"axis": 0})


transforms()
layers()
numbers()
save_file(tensors, os.path.join(HERE, "torch.safetensors"))
with open(os.path.join(HERE, "_torch.lua"), "w") as f:
    f.write("-- Gradients by PyTorch, written by make_vectors.py.\nreturn {\n" + "\n".join(manifest) + "\n}\n")
