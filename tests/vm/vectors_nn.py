"""Writes tests/vm/vectors_nn.txt: what PyTorch computes in float64 for the layers, losses
and optimiser steps. Run by hand: python tests/vm/vectors_nn.py > tests/vm/vectors_nn.txt

Inputs are a formula of their seed, the same here and in tests/vm/nn_vectors.lua, so
that only results are stored. The file is a Lua table of cases."""
import math
import torch
import torch.nn.functional as F

D = torch.float64


def numbers(shape, seed, scale=1.0):
    n = math.prod(shape)
    i = torch.arange(n, dtype=torch.int64)
    v = ((i * 7919 + seed * 104729) % 2003).to(D) / 1001 - 1
    return (v * scale).to(torch.float32).to(D).reshape(shape)


def integers(shape, seed, below):
    i = torch.arange(math.prod(shape), dtype=torch.int64)
    return ((i * 7919 + seed * 104729) % 2003 % below).reshape(shape)


def lua(v):
    if isinstance(v, bool): return str(v).lower()
    if isinstance(v, str): return f'"{v}"'
    if isinstance(v, (list, tuple)): return "{" + ",".join(map(lua, v)) + "}"
    return repr(v)


def table(d):
    return "{" + ",".join(f"{k}={lua(v)}" for k, v in d.items() if v is not None) + "}"


def emit(op, inputs, attr, outputs):
    """inputs: (shape, seed, kind) with kind a scale or {"int": n}; None: absent."""
    ins = ",".join("false" if i is None else f"{{{lua(list(i[0]))},{i[1]},"
                   + (f"below={i[2]}" if isinstance(i[2], int) else f"scale={i[2]!r}")
                   + "}" for i in inputs)
    outs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    text = ",".join(f'{{{lua(list(o.shape))},"' + " ".join(f"{x:.9g}" for x in o.flatten().tolist())
                    + '"}' for o in outs)
    print(f'{{"{op}",{{{ins}}},{table(attr)},{{{text}}}}},')


def arg(shape, seed, kind=1.0):
    value = integers(shape, seed, kind) if isinstance(kind, int) else numbers(shape, seed, kind)
    return (shape, seed, kind), value


def rows():
    a, x = arg([3, 4, 7], 1, 4.0)
    for axis in (0, 1, 2):
        emit("softmax", [a], {"axis": axis}, F.softmax(x, axis))
        emit("log_softmax", [a], {"axis": axis}, F.log_softmax(x, axis))
        emit("cumsum", [a], {"axis": axis}, x.cumsum(axis))
        emit("cumprod", [a], {"axis": axis}, x.cumprod(axis))
        emit("logcumsumexp", [a], {"axis": axis}, x.logcumsumexp(axis))
        m, i = x.cummax(axis)
        emit("cummax", [a], {"axis": axis}, [m, i.to(D)])
    (aw, w), (ab, b) = arg([4, 7], 2), arg([4, 7], 3)
    emit("layernorm", [a, aw, ab], {"dims": 2, "eps": 1e-3}, F.layer_norm(x, [4, 7], w, b, 1e-3))
    emit("layernorm", [a], {}, F.layer_norm(x, [7]))
    emit("rmsnorm", [a, aw], {"dims": 2}, F.rms_norm(x, [4, 7], w, 1e-5))
    emit("rmsnorm", [a], {}, F.rms_norm(x, [7], None, 1e-5))


def losses():
    a, x = arg([2, 5, 6], 4, 5.0)
    at, t = arg([2, 5], 5, 6)
    ap, p = arg([2, 5, 6], 6)
    flat, ft = x.reshape(10, 6), t.reshape(10)
    for how in ("mean", "sum", "none"):
        for smooth in (0.0, 0.1):
            shape = [2, 5] if how == "none" else []
            y = F.cross_entropy(flat, ft, reduction=how, label_smoothing=smooth)
            emit("cross_entropy", [a, at], {"reduction": how, "label_smoothing": smooth}, y.reshape(shape))
            y = F.cross_entropy(flat, ft, reduction=how, label_smoothing=smooth, ignore_index=2)
            emit("cross_entropy", [a, at], {"reduction": how, "label_smoothing": smooth, "ignore_index": 2},
                 y.reshape(shape))
            y = F.cross_entropy(flat, p.reshape(10, 6), reduction=how, label_smoothing=smooth)
            emit("cross_entropy", [a, ap], {"reduction": how, "label_smoothing": smooth}, y.reshape(shape))


def convolutions():
    conv = [None, F.conv1d, F.conv2d, F.conv3d]
    cases = [(1, 2, 3, 4, [9], [3], 1, 1, 1, 1), (1, 1, 2, 9, [8], [1], 2, 0, 1, 1),
             (2, 2, 3, 8, [7, 6], [3, 3], 1, 1, 1, 1), (2, 1, 4, 6, [9, 8], [3, 2], [2, 3], [1, 0], [1, 2], 2),
             (2, 1, 12, 12, [6, 7], [3, 3], 2, 1, 1, 12), (2, 2, 4, 10, [4, 5], [1, 1], 1, 0, 1, 1),
             (2, 1, 2, 9, [8, 9], [2, 3], 1, [0, 2], 3, 1), (3, 1, 2, 9, [4, 5, 4], [2, 3, 2], 1, 1, 1, 1),
             (3, 1, 4, 2, [5, 4, 4], [2, 2, 2], 2, 0, 1, 2)]
    for nd, n, c, o, size, k, s, p, d, g in cases:
        (ax, x), (aw, w), (ab, b) = arg([n, c] + size, 7), arg([o, c // g] + k, 8), arg([o], 9)
        attr = {"stride": s, "padding": p, "dilation": d, "groups": g}
        attr = {k2: v if isinstance(v, list) or k2 == "groups" else [v] for k2, v in attr.items()}
        emit(f"conv{nd}d", [ax, aw, ab], attr, conv[nd](x, w, b, s, p, d, g))
    turned = [None, F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d]
    cases = [(1, 3, 2, [5], [4], 2, 1, 1, 1, 1), (2, 4, 3, [4, 5], [3, 3], 2, 1, 1, 1, 1),
             (2, 4, 2, [4, 3], [2, 3], [1, 3], [0, 1], [0, 1], [2, 1], 2), (3, 2, 2, [3, 2, 3], [2, 2, 2], 2, 0, 0, 1, 1)]
    for nd, c, o, size, k, s, p, op, d, g in cases:
        (ax, x), (aw, w), (ab, b) = arg([2, c] + size, 10), arg([c, o // g] + k, 11), arg([o], 12)
        attr = {"stride": s, "padding": p, "output_padding": op, "dilation": d}
        attr = {k2: v if isinstance(v, list) else [v] for k2, v in attr.items()}
        emit("conv_transpose", [ax, aw, ab], attr | {"groups": g}, turned[nd](x, w, b, s, p, op, g, d))


def pools():
    a1, x1 = arg([2, 2, 11], 13)
    a2, x2 = arg([1, 2, 7, 9], 14)
    a3, x3 = arg([1, 1, 5, 6, 4], 15)
    emit("max_pool", [a1], {"window": [3], "stride": [2], "padding": [1]}, F.max_pool1d(x1, 3, 2, 1))
    emit("max_pool", [a2], {"window": [3, 2], "padding": [1, 0], "dilation": [2, 3]},
         F.max_pool2d(x2, [3, 2], None, [1, 0], [2, 3]))
    emit("max_pool", [a3], {"window": [2, 2, 2], "stride": [1]}, F.max_pool3d(x3, 2, 1))
    emit("avg_pool", [a1], {"window": [4], "stride": [3], "padding": [2]}, F.avg_pool1d(x1, 4, 3, 2))
    for count in (True, False):
        emit("avg_pool", [a2], {"window": [3, 3], "stride": [2, 1], "padding": [1, 1], "count_include_pad": count},
             F.avg_pool2d(x2, 3, [2, 1], 1, count_include_pad=count))
    emit("avg_pool", [a3], {"window": [2, 3, 2]}, F.avg_pool3d(x3, [2, 3, 2]))
    emit("adaptive_avg_pool", [a1], {"size": [4]}, F.adaptive_avg_pool1d(x1, 4))
    emit("adaptive_avg_pool", [a2], {"size": [3, 12]}, F.adaptive_avg_pool2d(x2, [3, 12]))
    emit("adaptive_avg_pool", [a3], {"size": [1]}, F.adaptive_avg_pool3d(x3, 1))


def resampling():
    sizes = [(arg([1, 2, 5], 16), [8], "linear"), (arg([1, 2, 4, 5], 17), [7, 3], "bilinear"),
             (arg([1, 1, 3, 4, 2], 18), [5, 3, 4], "trilinear")]
    for (a, x), size, name in sizes:
        emit("interpolate", [a], {"size": size}, F.interpolate(x, size))
        for corners in (False, True):
            emit("interpolate", [a], {"size": size, "mode": "linear", "align_corners": corners},
                 F.interpolate(x, size, mode=name, align_corners=corners))
    (a, x), size, _ = sizes[1]
    for corners in (False, True):
        emit("interpolate", [a], {"size": size, "mode": "cubic", "align_corners": corners},
             F.interpolate(x, size, mode="bicubic", align_corners=corners))
    emit("interpolate", [a], {"scale": [2.5], "mode": "linear"}, F.interpolate(x, scale_factor=2.5, mode="bilinear"))
    emit("interpolate", [a], {"scale": [1.5, 2.0]}, F.interpolate(x, scale_factor=[1.5, 2.0]))


def attention():
    cases = [(1, 2, 2, 5, 9, 4, {}), (2, 4, 2, 3, 140, 5, {"causal": True}), (1, 4, 1, 6, 6, 3, {"causal": True, "window": 2}),
             (1, 2, 1, 1, 270, 8, {"causal": True, "window": 135}), (1, 1, 1, 7, 3, 2, {"causal": True}), (1, 2, 2, 20, 33, 6, {"scale": 0.7})]
    for b, h, hk, s, t, d, attr in cases:
        for mask in (None, "bool", "float"):
            for sink in (False, True):
                (aq, q), (ak, k), (av, v) = arg([b, h, s, d], 19, 2.0), arg([b, hk, t, d], 20, 2.0), arg([b, hk, t, d + 1], 21)
                k2, v2 = k.repeat_interleave(h // hk, 1), v.repeat_interleave(h // hk, 1)
                z = q @ k2.mT * attr.get("scale", 1 / math.sqrt(d))
                i, j = torch.arange(s)[:, None] + t - s, torch.arange(t)[None]
                seen = torch.ones(s, t, dtype=torch.bool)
                if attr.get("causal"): seen &= j <= i
                if attr.get("window"): seen &= j > i - attr["window"]
                am = None
                if mask == "bool":
                    am, m = arg([b, 1, s, t], 22, 3)
                    seen = seen & (m > 0)
                elif mask == "float":
                    am, m = arg([h, 1, t], 23, 2.0)
                    z = z + m
                z = z.masked_fill(~seen, -math.inf)
                asink = None
                if sink:
                    asink, x = arg([h], 24, 2.0)
                    z = torch.cat([z, x.view(1, h, 1, 1).expand(b, h, s, 1)], -1)
                p = F.softmax(z, -1).nan_to_num(0)[..., :t]
                emit("attention", [aq, ak, av, am, asink], attr | ({"bool_mask": True} if mask == "bool" else {}), p @ v2)


def rope_frequencies(dims, theta, scaling, factor, fast=32.0, slow=1.0, context=4096):
    f = theta ** (torch.arange(0, dims, 2, dtype=D) / dims)
    if scaling == "none": return 1 / f, 1.0
    if scaling == "linear": return 1 / (factor * f), 1.0
    def at(turns): return dims * math.log(context / (turns * 2 * math.pi)) / (2 * math.log(theta))
    lo, hi = max(math.floor(at(fast)), 0), min(math.ceil(at(slow)), dims - 1)
    ramp = ((torch.arange(dims // 2, dtype=D) - lo) / ((hi - lo) or 0.001)).clamp(0, 1)
    return 1 / (factor * f) * ramp + 1 / f * (1 - ramp), 0.1 * math.log(factor) + 1


def rope():
    a, x = arg([2, 2, 5, 12], 25)
    for scaling, factor, context in (("none", 1.0, 4096), ("linear", 4.0, 4096), ("yarn", 8.0, 64)):
        for dims, inter in ((12, False), (8, True), (8, False)):
            f, c = rope_frequencies(dims, 10000.0, scaling, factor, context=context)
            angle = (torch.arange(5, dtype=D) + 3)[:, None] * f
            cos, sin = angle.cos() * c, angle.sin() * c
            y = x.clone()
            first, second = (slice(0, dims, 2), slice(1, dims, 2)) if inter else (slice(0, dims // 2), slice(dims // 2, dims))
            p, q = x[..., first], x[..., second]
            y[..., first], y[..., second] = p * cos - q * sin, q * cos + p * sin
            emit("rope", [a], {"offset": 3, "dims": dims, "interleaved": inter, "scaling": scaling, "factor": factor,
                               "original_context": context}, y)


def optimisers():
    shape = [3, 7]
    (ap, p), (ag, g) = arg(shape, 26), arg(shape, 27)

    def run(make, steps=1):
        q = torch.nn.Parameter(p.clone())
        o = make([q])
        for _ in range(steps):
            q.grad = g.clone()
            o.step()
        return q.detach(), o.state[q]

    q, _ = run(lambda q: torch.optim.SGD(q, lr=0.1, weight_decay=0.01))
    emit("sgd_step", [ap, ag], {"lr": 0.1, "weight_decay": 0.01}, q)
    for nesterov in (False, True):
        am, m = arg(shape, 28)
        q, s = run(lambda q: torch.optim.SGD(q, lr=0.1, momentum=0.9, nesterov=nesterov, weight_decay=0.02))
        emit("sgd_step", [ap, ag], {"lr": 0.1, "momentum": 0.9, "nesterov": nesterov, "weight_decay": 0.02, "first": True},
             [q, s["momentum_buffer"]])
        g2 = g + 0.02 * p
        m2 = 0.9 * m + 0.5 * g2
        d = g2 + 0.9 * m2 if nesterov else m2
        emit("sgd_step", [ap, ag, am], {"lr": 0.1, "momentum": 0.9, "dampening": 0.5, "nesterov": nesterov,
                                        "weight_decay": 0.02}, [p - 0.1 * d, m2])
    for kind, decoupled in ((torch.optim.Adam, False), (torch.optim.AdamW, True)):
        az = (shape, 0, 0.0)
        q, s = run(lambda q: kind(q, lr=0.01, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1))
        emit("adam_step", [ap, ag, az, az], {"lr": 0.01, "beta1": 0.8, "beta2": 0.95, "eps": 1e-6, "weight_decay": 0.1,
             "step": 1, "decoupled": decoupled}, [q, s["exp_avg"], s["exp_avg_sq"]])
    (am, m), (av, v) = arg(shape, 29), arg(shape, 30)
    v = v * v
    m2, v2 = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    u = (m2 / (1 - 0.9 ** 5)) / ((v2 / (1 - 0.999 ** 5)).sqrt() + 1e-8)
    emit("adam_step", [ap, ag, am, av], {"lr": 0.01, "step": 5, "square_v": True}, [p - 0.01 * u, m2, v2])
    u = torch.sign(0.9 * m + 0.1 * g)
    emit("lion_step", [ap, ag, am], {"lr": 0.01, "weight_decay": 0.1}, [p - 0.01 * (u + 0.1 * p), 0.99 * m + 0.01 * g])

    def clip(d): return d / max(1.0, d.pow(2).mean().sqrt().item() / 0.5)
    (ar, r), (ac, c), (aw, w) = arg(shape[:1], 31, 1.0), arg(shape[1:], 32, 1.0), arg(shape, 33, 1.0)
    r, c, w, s = r * r, c * c, w * w, g * g + 1e-30
    r2, c2, w2 = 0.9 * r + 0.1 * s.mean(-1), 0.9 * c + 0.1 * s.mean(-2), 0.9 * w + 0.1 * s
    d = g * (r2 / r2.mean()).rsqrt()[:, None] * c2.rsqrt()[None]
    attr = {"lr": 0.01, "beta2": 0.9, "clip": 0.5, "weight_decay": 0.1, "square_state": True}
    emit("adafactor_step", [ap, ag, ar, ac], attr, [p - 0.01 * clip(d) - 0.001 * p, r2, c2])
    emit("adafactor_step", [ap, ag, aw], attr, [p - 0.01 * clip(g * w2.rsqrt()) - 0.001 * p, w2])


print("-- Made by tests/vm/vectors_nn.py with PyTorch; read by tests/vm/nn_vectors.lua.\nreturn {")
rows(), losses(), convolutions(), pools(), resampling(), attention(), rope(), optimisers()
print("}")
