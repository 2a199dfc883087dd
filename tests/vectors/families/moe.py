"""Mixtures of experts, by NumPy: choices by a stable sort, places by counting them one after the other, rows moved by
fancy indexing, products of groups with room of their own by chains of fused multiply-adds."""
from common import *


ROWS = ["bool", "u8", "i64", "fp8_e4m3", "fp8_e5m2", "f16", "bf16", "f32", "f64", "complex64", "complex128"]


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True, initial=-np.inf))
    return e / e.sum(-1, keepdims=True)


def routed(f, d, shape, k, o, bias=None):
    logits = f.gen(d, shape, -3, 3)
    s = logits.w
    if o.get("softmax") == "before":
        s = wide(to(softmax(s), d))
    by = wide(to(s + bias.w, d)) if bias else s
    index = np.argsort(-by, axis=-1, kind="stable")[..., :k]
    w = np.take_along_axis(s, index, -1)
    if o.get("softmax", "after") == "after":
        w = softmax(w)
    low = d in SMALL
    exact = o.get("softmax") == "none"
    f.case("router", [logits] + ([bias] if bias else []), [w, index.astype(np.int64)], {"k": k, **o},
           ulp=0.5 if exact else 0.52 if low else 4, t=d, scale=None if low or exact else 1, zero=False)


def places(index, experts, capacity):
    """place, source, sizes, dropped."""
    flat = index.reshape(-1).astype(np.int64)
    kept = [[] for _ in range(experts)]
    dropped = 0
    for i, e in enumerate(flat):
        if capacity is None or len(kept[e]) < capacity:
            kept[e].append(i)
        else:
            dropped += 1
    place = np.full(flat.size, -1, np.int64)
    source = np.full((experts, capacity or 0), -1, np.int64)
    if capacity is None:
        source = np.array([i for e in kept for i in e], np.int64)
        place[source] = np.arange(source.size)
    else:
        for e, own in enumerate(kept):
            source[e, :len(own)] = own
            place[own] = e * capacity + np.arange(len(own))
    return place.reshape(index.shape), source, np.array([len(e) for e in kept], np.int64), np.int64(dropped)


def taken(x, place, times=1):
    """Rows of x [.., d] at place, zeros where it is negative."""
    rows = x.reshape(-1, x.shape[-1])
    y = np.zeros(place.shape + x.shape[-1:], x.dtype)
    y[place >= 0] = rows[place[place >= 0] // times]
    return y


def options(experts, capacity):
    return {"experts": experts} if capacity is None else {"experts": experts, "capacity": capacity}


INDEX = [([5, 2], 4), ([3, 3], 3), ([7, 1], 2), ([2, 3, 2], 5), ([0, 2], 3), ([4], 3), ([40, 4], 16)]


def layers(f, d):
    for (shape, experts), capacity in [(s, c) for s in INDEX for c in (None, 0, 1, 3)]:
        if len(shape) < 2:
            continue
        index = f.gen("i64", shape, 0, experts - 1)
        p, s, sizes, dropped = places(index.v, experts, capacity)
        k, n = shape[-1], int(np.prod(shape[:-1]))
        kind = dict(lo=0, hi=3) if d in INTS else {}
        x = f.gen(d, shape[:-1] + [3], **kind)
        f.case("route_rows", [x, f.const(s), f.const(p)], [taken(x.v, s, k)], {"times": k})
        rows = f.gen(d, list(s.shape) + [3], **kind)
        f.case("route_rows", [rows, f.const(p), f.const(s)], [taken(rows.v, p)])
        if d not in FLOATS:
            continue
        f.case("moe_dispatch", [x, index], [taken(x.v, s, k), sizes, p, s, dropped], options(experts, capacity))
        w = f.gen(d, shape, 0, 1)
        back, low = taken(rows.v, p), d in SMALL
        t = np.float64 if d == "f64" else np.float32
        sums = [np.zeros(back.shape[:-2] + back.shape[-1:], t) for _ in range(2)]
        for j in range(k):
            row, weight = back[..., j, :].astype(t), w.v[..., j, None].astype(t)
            sums[0] = fma32(np.broadcast_to(weight, row.shape), row, sums[0]) if t is np.float32 else sums[0] + weight * row
            sums[1] = sums[1] + row
        args = [rows, f.const(p), f.const(s)]
        kw = {} if d != "f64" else dict(ulp=3, t="f64", scale=2)
        f.case("moe_combine", args + [w], [to(sums[0], d)], **kw)
        f.case("moe_combine", args, [to(sums[1], d)], **kw)


ACTIVATIONS = {"relu": lambda h: np.maximum(h, 0), "silu": lambda h: h / (1 + np.exp(-h)),
               "swiglu": lambda h: h[:h.size // 2] / (1 + np.exp(-h[:h.size // 2])) * h[h.size // 2:]}


def mixture(f, d, shape, experts, name, biased):
    """Token by token, in f64."""
    n, h = 5, 6
    x, w, index = f.gen(d, shape[:-1] + [n]), f.gen(d, shape, 0, 1), f.gen("i64", shape, 0, experts - 1)
    up, down = f.gen(d, [experts, n, h]), f.gen(d, [experts, h // 2 if name == "swiglu" else h, n])
    biases = [f.gen(d, [experts, h]), f.gen(d, [experts, n])] if biased else []
    y = np.zeros(x.shape)
    for t in np.ndindex(*shape[:-1]):
        for j in range(shape[-1]):
            e = index.v[t + (j,)]
            a = x.w[t] @ up.w[e] + (biases[0].w[e] if biased else 0)
            y[t] += w.w[t + (j,)] * (ACTIVATIONS[name](a) @ down.w[e] + (biases[1].w[e] if biased else 0))
    f.case("moe", [x, w, index, up, down] + biases, [y], {"activation": name}, ulp=8, t=d, scale=4)


# ---- groups with room of their own: [rows of each, k, n, sizes]
OWN = [(4, 3, 5, [2, 0, 4]), (6, 5, 3, [1, 6]), (3, 17, 8, [0, 3, 1, 2]), (0, 3, 2, [0, 0]), (9, 33, 4, [7])]


def own(f, d, rows, k, n, sizes):
    g, low, ints = len(sizes), d in SMALL or d == "f32", d in INTS
    kind = dict(lo=0, hi=3) if ints else {}
    x, w, dy = f.gen(d, [g, rows, k], **kind), f.gen(d, [g, k, n], **kind), f.gen(d, [g, rows, n], **kind)
    wide_type = np.int64 if ints else np.float32 if low else np.longdouble
    times = chain if low else np.matmul
    y, dw = np.zeros([g, rows, n], wide_type), np.zeros([g, k, n], wide_type)
    for i, m in enumerate(sizes):
        a, b = x.v[i, :m].astype(wide_type), dy.v[i, :m].astype(wide_type)
        y[i, :m], dw[i] = times(a, w.v[i].astype(wide_type)), times(a.T, b)
    s = f.const(np.array(sizes, np.int64))
    for row, ins, out in (("grouped_matmul", [x, w, s], y), ("grouped_matmul_weight_grad", [x, dy, s], dw)):
        if low or ints:
            f.case(row, ins, [to(out, d)])
        else:
            f.case(row, ins, [out.astype(np.float64)], ulp=8, t=d, scale=max(k, rows, 1))


def make():
    f = Family("moe", {**Family.FEW, "u8": 12, "bool": 4, "i64": 12, "f16": 6, "bf16": 20, "complex64": 4, "complex128": 4,
                       "f64": 24})
    for d in FLOATS:
        for shape, k in (([5, 6], 2), ([2, 3, 4], 1), ([7, 16], 4), ([3, 3], 3), ([0, 4], 2), ([9], 2)):
            for o in ({}, {"softmax": "before"}, {"softmax": "none"}):
                routed(f, d, shape, k, o)
            routed(f, d, shape, k, {}, f.gen(d, shape[-1:], -4, 4))
    tied = f.const(np.array([[1, 2, 2, 0], [3, 3, 3, 3]], np.float32))
    f.case("router", [tied], [np.full([2, 2], 0.5), np.array([[1, 2], [0, 1]], np.int64)], {"k": 2}, ulp=1, t="f32", scale=1)
    for shape, experts in INDEX:
        for d in ("i64", "u8", "i16", "i32"):
            for capacity in (None, 0, 1, 3):
                index = f.gen(d, shape, 0, experts - 1)
                f.case("moe_places", [index], list(places(index.v, experts, capacity)), options(experts, capacity))
    for d in ROWS:
        layers(f, d)
    for d in ("f16", "bf16", "f32", "f64"):
        for name in ACTIVATIONS:
            for shape, experts in (([6, 2], 3), ([2, 3, 1], 4), ([0, 2], 2)):
                mixture(f, d, shape, experts, name, shape[-1] == 2)
    for d in FLOATS + ["i64", "u8"]:
        for rows, k, n, sizes in OWN:
            own(f, d, rows, k, n, sizes)
    return f
