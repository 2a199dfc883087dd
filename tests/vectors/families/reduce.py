"""Reductions, scans, sorting. Sums of floats are compared bit for bit with the canonical
order; the accuracy of other statistics with f64."""
import numpy as np

from common import *

np.seterr(all="ignore")
SIZES = [0, 1, 2, 7, 255, 256, 257, 513]
LONG = [4095, 4096, 4097, 12289, 20011]


def acc(v):
    return v if v.dtype in (np.float32, np.float64) else v.astype(np.float32)


def move(v, axis, keep=False):
    """The reduced axes at the end as one, and the shape of the result."""
    nd = v.ndim
    axes = tuple(range(nd)) if axis is None else tuple(a % nd for a in np.atleast_1d(axis))
    rest = [i for i in range(nd) if i not in axes]
    w = np.transpose(v, rest + sorted(axes))
    return w.reshape([v.shape[i] for i in rest] + [-1 if v.size else int(np.prod([v.shape[i] for i in axes]))]), \
        [1 if i in axes else v.shape[i] for i in range(nd)]


def total_key(v):
    """Sort key of the total order: NaN greatest, -0 below +0."""
    s = v.astype(np.float64)
    b = s.view(np.int64)
    k = b ^ ((b >> 63) & 0x7FFFFFFFFFFFFFFF)
    return np.where(np.isnan(s), 2**63 - 1, k)


def order(v):
    return np.argsort(v, axis=-1, kind="stable") if v.dtype.kind in "iub" else None


def sums(f):
    for d in FLOATS:
        lo, hi = (-1, 1)
        for n in SIZES + (LONG if d in ("f32", "f64", "bf16", "f16") else LONG[2:3]):
            x = f.gen(d, [n], lo, hi)
            s = canonical(acc(x.v))
            f.case("sum", [x], [to(s, d)])
            if n:
                f.case("mean", [x], [to(s / s.dtype.type(n), d)])
        for shape, axis in (([3, 5, 2], 1), ([3, 5, 7], [0, 2]), ([4, 300], 1), ([300, 4], 0),
                            ([5000, 3], 0), ([3, 5000], -1), ([2, 259, 6], 1), ([2, 3, 4, 5], [1, 2]), ([0, 4], 0),
                            ([4, 0], 0), ([4200, 2, 1], [0, 1])):
            if d not in ("f32", "f64", "bf16") and max(shape) > 1000:
                continue
            x = f.gen(d, shape, lo, hi)
            w, kept = move(acc(x.v), axis)
            s = canonical(w)
            f.case("sum", [x], [to(s, d)], {"axis": axis})
            if kept[0] == 1:
                f.case("sum", [x], [to(s, d).reshape(kept)], {"axis": axis, "keepdims": True})
            if w.shape[-1] and w.size:
                m = s / s.dtype.type(w.shape[-1])
                f.case("mean", [x], [to(m, d)], {"axis": axis})
                for c in (0, 1):
                    q = acc(w) - m[..., None]
                    q = canonical(q * q) / s.dtype.type(w.shape[-1] - c)
                    f.case("var", [x], [to(q, d)], {"axis": axis, "correction": c})
                    f.case("std", [x], [to(np.sqrt(q), d)], {"axis": axis, "correction": c})
        for n in (1, 7, 255, 257, 4097):
            x = f.gen(d, [n], 0.9, 1.1) if d not in ("fp8_e4m3", "fp8_e5m2") else f.gen(d, [n], 1, 1)
            f.case("prod", [x], [to(canonical(acc(x.v), np.multiply, 1.0), d)])
            w = x.w
            m = w.mean()
            if n > 1:
                f.case("var", [x], [np.asarray(((w - m)**2).sum() / n)], ulp=3 if d in ("f32", "f64") else 1, t=d,
                       scale=2.0**-7)
            for o in (2, 1, 3, 0, np.inf, -np.inf):
                y = np.linalg.norm(w, o)
                f.case("norm", [x], [np.asarray(y)], {"ord": o} if o != 2 else None,
                       ulp=4 if d in ("f32", "f64") else 0.51, t=d)
            lse = np.log(np.sum(np.exp(w - w.max()))) + w.max()
            f.case("logsumexp", [x], [np.asarray(lse)], ulp=3 if d in ("f32", "f64") else 0.51, t=d, scale=1)
        x = f.gen(d, [3, 5, 4], -2, 2)
        for ax in (1, [0, 2], -1):
            ax_ = tuple(np.atleast_1d(ax))
            f.case("norm", [x], [np.sqrt((x.w**2).sum(ax_, keepdims=True))], {"axis": ax, "keepdims": True},
                   ulp=2 if d in ("f32", "f64") else 0.51, t=d)
            f.case("logsumexp", [x], [np.log(np.exp(x.w).sum(ax_))], {"axis": ax},
                   ulp=3 if d in ("f32", "f64") else 0.51, t=d, scale=1)
            f.case("prod", [x], [x.w.prod(ax_)], {"axis": ax}, ulp=16 if d in ("f32", "f64") else 0.6, t=d, zero=False)
    e = f.gen("f32", [0])
    f.case("prod", [e], [np.float32(1)])
    f.case("mean", [e], [np.float32(np.nan)])
    f.case("logsumexp", [e], [np.float32(-np.inf)])
    f.case("norm", [e], [np.float32(0)])
    n = f.const(np.array([1, np.nan, 2], np.float32))
    i = f.const(np.array([1, np.inf, 2], np.float32))
    for row, y in (("sum", np.inf), ("mean", np.inf), ("logsumexp", np.inf), ("norm", np.inf), ("var", np.nan)):
        f.case(row, [i], [np.float32(y)])
        f.case(row, [n], [np.float32(np.nan)])
    mi = f.const(np.array([-np.inf, -np.inf], np.float32))
    f.case("logsumexp", [mi], [np.float32(-np.inf)])


def whole(f):
    for d in INTS + ["bool"]:
        for shape, axis in (([7], None), ([3, 300], 1), ([300, 3], 0), ([2, 3, 4], [0, 2]), ([0, 3], 0), ([4099], None)):
            i = np.iinfo(NP[d]) if d != "bool" else None
            x = f.gen(d, shape, max(i.min, -2**40) if i else 0, min(i.max, 2**40) if i else 1)
            ax = None if axis is None else tuple(np.atleast_1d(axis))
            o = {"axis": axis} if axis is not None else None
            v = x.v.astype(np.int64)
            f.case("sum", [x], [np.asarray(v.sum(ax))], o)
            f.case("prod", [x], [np.asarray(v.prod(ax))], o)
            f.case("any", [x], [np.asarray(x.v.any(ax))], o)
            f.case("all", [x], [np.asarray(x.v.all(ax))], o)
            f.case("count_nonzero", [x], [np.asarray(np.count_nonzero(x.v, ax)).astype(np.int64)], o)
            if x.v.size:
                f.case("min", [x], [np.asarray(x.v.min(ax))], o)
                f.case("max", [x], [np.asarray(x.v.max(ax))], o)
                k = v.size if ax is None else v.shape[ax[0]]
                if d in ("u8", "i8", "i16", "bool"):
                    m = v.astype(np.float64).mean(ax)
                    f.case("mean", [x], [np.asarray(m)], o, ulp=2, t="f32", scale=np.abs(v).max())
                    f.case("var", [x], [np.asarray(v.astype(np.float64).var(ax))], o, ulp=4, t="f32")
                    f.case("std", [x], [np.asarray(v.astype(np.float64).std(ax))], o, ulp=4, t="f32")
                if ax is None or len(ax) == 1:
                    o1 = {"axis": axis} if axis is not None else None
                    f.case("argmin", [x], [np.asarray(x.v.argmin(axis))], o1)
                    f.case("argmax", [x], [np.asarray(x.v.argmax(axis))], o1)
        x = f.gen(d, [40], 0, 3)
        w = x.v.astype(np.float64)
        f.case("norm", [x], [np.asarray(np.sqrt((w * w).sum()))], ulp=2, t="f32")
        f.case("logsumexp", [x], [np.asarray(np.log(np.exp(w).sum()))], ulp=3, t="f32")
    for d in COMPLEX:
        part = "f32" if d == "complex64" else "f64"
        x = f.gen(d, [3, 81])
        for ax in (None, 0, 1):
            o = {"axis": ax} if ax is not None else None
            f.case("sum", [x], [np.asarray(x.w.sum(ax))], o, ulp=8, t=part, scale=4)
            f.case("mean", [x], [np.asarray(x.w.mean(ax))], o, ulp=8, t=part, scale=2.0**-5)
            f.case("norm", [x], [np.asarray(np.sqrt((np.abs(x.w)**2).sum(ax)))], o, ulp=4, t=part)
            f.case("any", [x], [np.asarray(x.v.any(ax))], o)
            f.case("all", [x], [np.asarray(x.v.all(ax))], o)
            f.case("count_nonzero", [x], [np.asarray(np.count_nonzero(x.v, ax)).astype(np.int64)], o)
        y = f.gen(d, [12])
        f.case("prod", [y], [np.asarray(y.w.prod())], ulp=32, t=part)
        f.case("cumsum", [x], [np.cumsum(x.v, -1)], ulp=None) if False else None
        f.case("cumsum", [x], [np.cumsum(x.w, -1)], ulp=40, t=part, scale=8)
        f.case("cumprod", [y], [np.cumprod(y.w)], ulp=48, t=part)


def scans(f):
    for d in ["bool"] + INTS:
        x = f.gen(d, [3, 20], 0, 3)
        v = x.v.astype(np.int64)
        for ax in (0, 1):
            f.case("cumsum", [x], [np.cumsum(v, ax)], {"axis": ax})
            f.case("cumprod", [x], [np.cumprod(v, ax)], {"axis": ax})
            m = np.maximum.accumulate(x.v, ax)
            f.case("cummax", [x], [m, running(x.v, ax)], {"axis": ax})
    for d in FLOATS:
        for shape, ax in (([50], 0), ([2, 40], 1), ([40, 2], 0), ([2, 5, 3], 1), ([0], 0), ([1], 0)):
            x = f.gen(d, shape, -1, 1)
            a = acc(x.v)
            f.case("cumsum", [x], [to(np.add.accumulate(a, ax), d)], {"axis": ax})
            y = f.gen(d, shape, 0.8, 1.2)
            f.case("cumprod", [y], [to(np.multiply.accumulate(acc(y.v), ax), d)], {"axis": ax})
            k = np.maximum.accumulate(x.w, ax)
            f.case("cummax", [x], [to(k, d), running(x.w, ax)], {"axis": ax})
            f.case("logcumsumexp", [x], [np.logaddexp.accumulate(x.w, ax)], {"axis": ax},
                   ulp=(20 if d in ("f32", "f64") else 0.6), t=d, scale=1)
    n = f.const(np.array([1, 3, np.nan, 5, np.nan], np.float32))
    f.case("cummax", [n], [np.array([1, 3, np.nan, np.nan, np.nan], np.float32), None])
    f.case("cumsum", [n], [np.array([1, 4, np.nan, np.nan, np.nan], np.float32)])


def recurrences(f):
    for d in FLOATS + COMPLEX:
        for shape, ax in (([50], 0), ([2, 40], 1), ([40, 2], 0), ([9, 5, 3], 0), ([2, 5, 30], 1), ([0, 2], 1), ([1], 0)):
            a, b = f.gen(d, shape), f.gen(d, shape)
            wide = np.clongdouble if d in COMPLEX else np.longdouble
            y = np.moveaxis(b.v.astype(wide), ax, 0).copy()
            for i in range(1, len(y)):
                y[i] += np.moveaxis(a.v.astype(wide), ax, 0)[i] * y[i - 1]
            part = {"complex64": "f32", "complex128": "f64"}.get(d, d)
            f.case("linear_scan", [a, b], [np.moveaxis(y, 0, ax).astype(np.complex128 if d in COMPLEX else np.float64)],
                   {"axis": ax}, ulp=(8 if part in ("f32", "f64") else 0.6), t=part, scale=1)


def running(v, ax):
    """The index of the running maximum; of equals, the first."""
    w = np.moveaxis(v, ax, -1)
    out = np.zeros(w.shape, np.int64)
    for i in np.ndindex(*w.shape[:-1]):
        best = 0
        for j in range(w.shape[-1]):
            if w[i][j] > w[i][best]:
                best = j
            out[i + (j,)] = best
    return np.moveaxis(out, -1, ax)


def extremes(f):
    for d in FLOATS:
        for n in (1, 7, 257, 4097):
            x = f.gen(d, [n], -8, 8)
            f.case("min", [x], [x.v[np.argmin(x.w)]])
            f.case("max", [x], [x.v[np.argmax(x.w)]])
            f.case("argmin", [x], [np.asarray(np.argmin(x.w))])
            f.case("argmax", [x], [np.asarray(np.argmax(x.w))])
        x = f.gen(d, [3, 70, 3], -8, 8)
        for ax in (0, 1, 2, -1):
            f.case("min", [x], [np.take_along_axis(x.v, np.expand_dims(np.argmin(x.w, ax), ax), ax).squeeze(ax)], {"axis": ax})
            f.case("max", [x], [np.take_along_axis(x.v, np.expand_dims(np.argmax(x.w, ax), ax), ax)],
                   {"axis": ax, "keepdims": True})
            f.case("argmin", [x], [np.argmin(x.w, ax)], {"axis": ax})
            f.case("argmax", [x], [np.argmax(x.w, ax)[(slice(None),) * (ax % 3) + (None,)]], {"axis": ax, "keepdims": True})
        z = f.const(np.array([0.0, -0.0, 0.0, -0.0]), d)
        f.case("min", [z], [to(np.float32(-0.0), d)])
        f.case("max", [z], [to(np.float32(0.0), d)])
        f.case("argmin", [z], [np.asarray(np.int64(0))])
        f.case("argmax", [z], [np.asarray(np.int64(0))])
        q = f.const(np.array([1, np.nan, 3, np.nan]), d)
        f.case("min", [q], [to(np.float32(np.nan), d)])
        f.case("max", [q], [to(np.float32(np.nan), d)])
        f.case("argmin", [q], [np.asarray(np.int64(1))])
        f.case("argmax", [q], [np.asarray(np.int64(1))])
        f.case("any", [z], [np.asarray(False)])
        f.case("any", [q], [np.asarray(True)])
        f.case("all", [q], [np.asarray(True)])
        f.case("count_nonzero", [f.const(np.array([0, 1, -0.0, np.nan]), d)], [np.asarray(np.int64(2))])


def stable(v, descending=False):
    """Stable order along the last axis, NaN largest, -0 equal to +0 is not assumed."""
    w = v.astype(np.float64) if v.dtype.kind not in "iub" else v.astype(np.int64)
    if w.dtype == np.float64:
        big = np.where(np.isnan(w), np.inf, w)
        nan = np.isnan(w)
        key = big if not descending else -big
        idx = np.lexsort((np.broadcast_to(np.arange(w.shape[-1]), w.shape), key,
                          nan if not descending else ~nan), axis=-1)
        return idx
    if descending:
        w = ~w
    return np.argsort(w, axis=-1, kind="stable")


def sorting(f):
    for d in ["bool"] + INTS + FLOATS:
        for shape, ax in (([1], 0), ([17], 0), ([2, 40], 1), ([40, 2], 0), ([0], 0), ([2, 9, 3], 1), ([1500], 0)):
            if shape == [1500] and d not in ("f32", "i32"):
                continue
            x = f.gen(d, shape, -20 if d not in ("u8",) else 0, 20)
            if d in FLOATS and x.v.size > 10:
                v = x.v.reshape(-1).copy()
                v[3], v[7], v[9] = np.nan, np.inf, np.nan
                x = f.const(v.reshape(shape)) if v.size <= 64 else x
            w = np.moveaxis(x.v, ax, -1)
            for desc in (False, True):
                i = stable(w, desc)
                o = {"axis": ax, "descending": desc} if desc else {"axis": ax}
                y = np.moveaxis(np.take_along_axis(w, i, -1), -1, ax)
                i = np.moveaxis(i, -1, ax)
                if w.shape[-1] != 1500:
                    f.case("sort", [x], [y, i], o)
                if w.shape[-1] in (1500, 17) and not (desc and w.shape[-1] == 1500):
                    f.case("argsort", [x], [i.astype(np.int64)], o)
                n = w.shape[-1]
                k = min(n, 3)
                cut = (slice(None),) * ax + (slice(0, k),)
                f.case("topk", [x], [y[cut], i[cut]], {"k": k, "axis": ax, "largest": desc})
        x = f.gen(d, [60], 0, 5)
        if d in FLOATS:
            x = f.const(np.round(x.w), d)
        u, inv, cnt = np.unique(x.v if d not in SMALL else x.w, return_inverse=True, return_counts=True)
        f.case("unique", [x], [u.astype(NP[d]), inv.reshape(-1).astype(np.int64), cnt.astype(np.int64)])
        f.case("unique", [f.gen(d, [0], 0, 5)], [np.zeros(0, NP[d]), np.zeros(0, np.int64), np.zeros(0, np.int64)])
    for d in INTS + FLOATS:
        t = d if d in FLOATS else "f32"
        for shape, ax in (([7], None), ([8], None), ([3, 101], 1), ([100, 3], 0), ([1], None)):
            x = f.gen(d, shape, 0, 20)
            o = {"axis": ax} if ax is not None else {}
            u = {"f32": 1, "f64": 1}.get(t, 0.51)
            f.case("median", [x], [np.asarray(np.median(wide(x.v).astype(np.float64), ax))], o or None, ulp=u, t=t)
            f.case("median", [x], [np.asarray(np.median(wide(x.v).astype(np.float64), ax, keepdims=True))],
                   {**o, "keepdims": True}, ulp=u, t=t)
            for q in (0.0, 0.3, 0.5, 1.0):
                f.case("quantile", [x], [np.asarray(np.quantile(wide(x.v).astype(np.float64), q, ax))], {"q": q, **o},
                       ulp=2 if t in ("f32", "f64") else 0.52, t=t, scale=20)
        x = f.gen(d, [500], 0, 20)
        w = wide(x.v).astype(np.float64)
        for o, kw in (({}, {}), ({"bins": 4}, {"bins": 4}), ({"bins": 5, "low": 0, "high": 20}, {"bins": 5, "range": (0, 20)}),
                      ({"bins": 3, "low": 5, "high": 11}, {"bins": 3, "range": (5, 11)})):
            # Edges of the type must not fall on values: only where both are exact.
            h, e = np.histogram(w, **kw)
            if o.get("low") is not None and "bins" in o and d in INTS or (d in ("f32", "f64")):
                f.case("histogram", [x], [h.astype(np.int64), e], o or None, ulp=1, t=t, scale=20)
        if d in FLOATS:
            f.case("median", [f.const(np.array([1, np.nan, 2]), d)], [to(np.float32(np.nan), d)])


def segments(f):
    for d in INTS + FLOATS:
        x = f.gen(d, [40, 3], 0, 3) if d in INTS else f.gen(d, [40, 3], 0.5, 1.5)
        ids = f.gen("i64", [40], 0, 6)
        a = x.v if d in INTS or d in ("f32", "f64") else x.v.astype(np.float32)
        for mode in ("sum", "mean", "prod", "min", "max"):
            start = {"sum": 0, "mean": 0, "prod": 1, "min": np.inf, "max": -np.inf}[mode]
            if d in INTS:
                start = {"min": np.iinfo(NP[d]).max, "max": np.iinfo(NP[d]).min}.get(mode, start)
            elif d == "fp8_e4m3" and mode in ("min", "max"):
                start = np.nan
            out = np.full((9, 3), start).astype(a.dtype)
            fn = {"min": np.minimum, "max": np.maximum, "prod": np.multiply}.get(mode, np.add)
            seen = np.zeros(9, np.int64)
            for r in range(40):
                s = ids.v[r]
                out[s] = fn(out[s], a[r]) if seen[s] else a[r]
                seen[s] += 1
            if mode == "mean":
                if d in INTS:
                    continue
                out = np.where(seen[:, None] > 0, out / np.maximum(seen, 1)[:, None].astype(out.dtype), out).astype(out.dtype)
            if mode in ("min", "max") and d in INTS + ["fp8_e4m3"]:
                out, rows = out[:7], 7
            else:
                rows = 9
            f.case("segment_reduce", [x, ids], [to(out, d) if d in FLOATS else out], {"segments": rows, "mode": mode})


def make():
    f = Family("reduce", {"fp8_e4m3": 5, "fp8_e5m2": 5, "f16": 8, "u8": 5, "i16": 5, "i8": 5, "bf16": 16, "i32": 8, "i64": 8, "bool": 8, "f64": 20})
    sums(f)
    whole(f)
    scans(f)
    extremes(f)
    sorting(f)
    segments(f)
    recurrences(f)
    return f
