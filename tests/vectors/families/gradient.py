"""Gradients of layers and losses: PyTorch's autograd in f64; attention by its formula, and
against PyTorch's where it has the options."""
import numpy as np
import torch
import torch.nn.functional as F

from common import *
from families.nn import kw

MAIN = ("f32", "f64")


def T(x, grad=True):
    return None if x is None else torch.tensor(np.asarray(x.w, np.float64), requires_grad=grad)


def grads(y, g, *inputs):
    return [t.numpy() for t in torch.autograd.grad(y, inputs, T(g, False))]


def softmaxes(f):
    for d in FLOATS:
        for shape, ax in (([3, 7], -1), ([2, 3, 4], 1), ([6, 3], 0), ([1, 257], -1), ([1, 4099], -1), ([0, 3], -1), ([1], 0)):
            if shape[-1] == 4099 and d != "f32":
                continue
            x = f.gen(d, shape, -5, 5)
            y = f.const(F.softmax(T(x, False), ax).numpy(), d)
            ly = f.const(F.log_softmax(T(x, False), ax).numpy(), d)
            g = f.gen(d, shape)
            o = {"axis": ax} if ax != -1 else None
            v, w = y.w, g.w
            f.case("softmax_grad", [y, g], [v * (w - (v * w).sum(ax, keepdims=True))], o, **kw(d, 4, 1))
            f.case("log_softmax_grad", [ly, g], [w - np.exp(ly.w) * w.sum(ax, keepdims=True)], o,
                   **kw(d, 8 if shape[-1] < 4000 else 64, 4))


def norms(f):
    for d in FLOATS:
        for shape, dims in (([3, 7], 1), ([2, 3, 5], 2), ([300, 9], 1), ([1, 257], 1), ([4, 1], 1), ([4097, 3], 1), ([0, 4], 1)):
            if shape[0] == 4097 and d not in MAIN:
                continue
            n, rows = shape[-dims:], int(np.prod(shape[:-dims]))
            x, g, w, b = f.gen(d, shape, -2, 3), f.gen(d, shape), f.gen(d, n), f.gen(d, n)
            X, W, B = T(x), T(w), T(b)
            o = {"dims": dims} if dims > 1 else {}
            k = kw(d, 16, 4 * max(1.0, rows**0.5))
            if d in SMALL:
                k = dict(k, scale=1, ulp=0.6)
            if shape[-1] > 1 or d in MAIN:
                eps = {"eps": 0.25} if shape[-1] == 1 or shape[0] == 4097 else {}
                e = eps.get("eps", 1e-5)
                y = F.layer_norm(X, n, W, B, e)
                dx, dw, db = grads(y, g, X, W, B)
                f.case("layernorm_grad", [x, w, g], [dx, dw, db], {**o, **eps, "bias": True}, **k)
                f.case("layernorm_grad", [x, w, g], [dx, dw], {**o, **eps} or None, **k)
                y = F.layer_norm(X, n, None, B, e)
                dx, db = grads(y, g, X, B)
                f.case("layernorm_grad", [x, None, g], [dx, db], {**o, **eps, "bias": True}, **k)
                f.case("layernorm_grad", [x, None, g], [dx], {**o, **eps} or None, **k)
            y = F.rms_norm(X, n, W, 0.5)
            f.case("rmsnorm_grad", [x, w, g], grads(y, g, X, W), {**o, "eps": 0.5}, **k)
            f.case("rmsnorm_grad", [x, None, g], grads(F.rms_norm(X, n, None, 0.5), g, X), {**o, "eps": 0.5}, **k)


def losses(f):
    for d in FLOATS:
        for shape, n in (([5, 7], 7), ([2, 3, 10], 10), ([1, 1], 1), ([3, 300], 300)):
            x = f.gen(d, shape, -4, 4)
            t = f.gen("i64" if n != 10 else "i32", shape[:-1], 0, n - 1)
            X = T(x)
            lx, lt = X.reshape(-1, n), torch.tensor(t.v.reshape(-1).astype(np.int64))
            for red in ("mean", "sum", "none"):
                g = f.gen(d, shape[:-1] if red == "none" else [])
                for ls in (0.0, 0.1):
                    o = {"reduction": red, **({"label_smoothing": ls} if ls else {})}
                    y = F.cross_entropy(lx, lt, reduction=red, label_smoothing=ls)
                    y = y.reshape(shape[:-1]) if red == "none" else y
                    f.case("cross_entropy_grad", [x, t, g], grads(y, g, X), o, **kw(d, 6, 1))
                if n == 7:
                    o = {"reduction": red, "ignore_index": int(lt[0])}
                    y = F.cross_entropy(lx, lt, **o)
                    f.case("cross_entropy_grad", [x, t, g], grads(y, g, X), o, **kw(d, 6, 1))
                    p = f.gen(d, shape, 0, 1)
                    for ls in (0.0, 0.25):
                        o = {"reduction": red, **({"label_smoothing": ls} if ls else {})}
                        y = F.cross_entropy(lx, T(p, False), reduction=red, label_smoothing=ls)
                        f.case("cross_entropy_grad", [x, p, g], grads(y, g, X), o, **kw(d, 8, 4))


def gelu_tanh_grad(x, g):
    """PyTorch's cancels in the tail."""
    x, c = x.astype(np.longdouble), 2 * np.sqrt(np.longdouble(2) / np.longdouble(np.pi))
    c3 = c * np.longdouble("0.044715")
    s, t = (1 / (1 + np.exp(z * x * (c + c3 * x * x))) for z in (-1, 1))
    return (g * s * (1 + x * t * (c + 3 * c3 * x * x))).astype(np.float64)


def activations(f):
    for d in FLOATS:
        x, g = f.gen(d, [40], -6, 6), f.gen(d, [40])
        for row, fn in (("gelu_erf", F.gelu), ("gelu_tanh", lambda v: F.gelu(v, approximate="tanh")), ("silu", F.silu)):
            for h in (g, f.gen(d, [1])):
                X = T(x)
                y = grads(fn(X), f.const(np.broadcast_to(h.w, [40]), d), X)
                if row == "gelu_tanh":
                    y = [gelu_tanh_grad(x.w, h.w)]
                f.case(row + "_grad", [x, h], y, **kw(d, 3, 0.25))


def attend(q, k, v, mask=None, sink=None, causal=False, window=None, scale=None):
    group = q.shape[-3] // k.shape[-3]
    k, v = k.repeat_interleave(group, -3), v.repeat_interleave(group, -3)
    s, t = q.shape[-2], k.shape[-2]
    z = q @ k.transpose(-1, -2) * (scale or q.shape[-1]**-0.5)
    i, j = torch.arange(s)[:, None] + t - s, torch.arange(t)[None]
    hidden = torch.zeros(s, t, dtype=torch.bool)
    if causal:
        hidden = hidden | (j > i)
    if window:
        hidden = hidden | (j <= i - window)
    if mask is not None and mask.dtype == torch.bool:
        hidden = hidden | ~mask
    elif mask is not None:
        z = z + mask
    z = z.masked_fill(hidden, -torch.inf)
    z.retain_grad() if z.requires_grad else None
    if sink is None:
        return z, torch.softmax(z, -1) @ v
    x = sink[:, None, None].expand(*z.shape[:-1], 1)
    return z, torch.softmax(torch.cat([z, x], -1), -1)[..., :-1] @ v


def attention(f):
    for d in FLOATS:
        low = dict(ulp=3, t=d, scale=1, zero=False)
        k_ = low if d in SMALL else dict(ulp=24, t=d, scale=2, zero=False)
        for H, Hk, S, L, D, o in ((2, 2, 3, 5, 4, {}), (4, 2, 5, 5, 8, {"causal": True}), (2, 1, 7, 7, 4, {"causal": True, "window": 3}),
                                  (1, 1, 2, 131, 8, {}), (1, 1, 3, 260, 4, {"causal": True}), (1, 1, 5, 9, 3, {"scale": 0.75, "causal": True}),
                                  (2, 2, 1, 1, 1, {}), (1, 1, 150, 140, 4, {})):
            q, k, v, g = f.gen(d, [2, H, S, D]), f.gen(d, [2, Hk, L, D]), f.gen(d, [2, Hk, L, D]), f.gen(d, [2, H, S, D])
            cases = [(None, None), (None, f.gen(d, [H]))]
            if not o and S < 100:
                cases += [(f.const(np.where(unit(S * L, 9).reshape(S, L) < 0.7, True, np.arange(L) == 0)), None), (f.gen(d, [S, L]), None)]
            for mask, sink in cases:
                Q, K, V, M, X = T(q), T(k), T(v), None, T(sink)
                if mask is not None:
                    M = torch.tensor(mask.v) if mask.dtype == "bool" else T(mask, False)
                z, y = attend(Q, K, V, M, X, **o)
                out = f.const(y.detach().numpy(), d)
                want = grads(y, g, Q, K, V, z, *([X] if sink else []))
                f.case("attention_grad", [q, k, v, mask, sink, out, g], want[:3] + want[4:], o or None, **k_)
                f.case("attention_grad", [q, k, v, mask, sink, out, g], want, {**o, "scores": True}, **k_)


def lstm(f):
    """PyTorch's layer, whose weights of the inputs are the unit matrix."""
    for d in FLOATS:
        bound = dict(ulp=16, t=d, scale=2.0 if d in ("f32", "f64") else 8.0, zero=False)
        for steps, batch, n in ((3, 2, 4), (1, 1, 3)):
            x, w = f.gen(d, [steps, batch, 4 * n], -2, 2), f.gen(d, [4 * n, n])
            h, c = f.gen(d, [batch, n]), f.gen(d, [batch, n])
            g = f.gen(d, [steps, batch, n]), f.gen(d, [batch, n]), f.gen(d, [batch, n])
            for reverse in (False, True):
                turn = (lambda y: y.flip(0)) if reverse else (lambda y: y)
                X, W, H, C = T(x), T(w), T(h), T(c)
                unit_matrix = torch.eye(4 * n, dtype=torch.float64)
                layer = torch.nn.LSTM(4 * n, n, bias=False).double()
                y, (hn, cn) = torch.func.functional_call(
                    layer, {"weight_ih_l0": unit_matrix, "weight_hh_l0": W}, (turn(X), (H[None], C[None])))
                loss = (turn(y) * T(g[0], False)).sum() + (hn[0] * T(g[1], False)).sum() + (cn[0] * T(g[2], False)).sum()
                want = [t.numpy() for t in torch.autograd.grad(loss, [X, W, H, C])]
                out = f.const(turn(y).detach().numpy(), d)
                f.case("lstm_grad", [x, w, h, c, out, *g], want, {"reverse": True} if reverse else None, **bound)


def make():
    f = Family("gradient", {**Family.FEW, "f64": 24})
    softmaxes(f)
    norms(f)
    losses(f)
    activations(f)
    attention(f)
    lstm(f)
    return f
