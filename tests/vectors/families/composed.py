"""Rows that are made of others: what chooses, looks for places, lays out anew, multiplies in other
shapes. PyTorch computes the results in f64 or exactly, NumPy what it lacks."""
import math

import numpy as np
import torch

from common import *

np.seterr(all="ignore")
NARROW = 0.505  # what is computed in f32 and rounded once


def t(x):
    return torch.from_numpy(np.array(x.w))


def array(y, d=None):
    y = y.resolve_conj().contiguous().numpy() if isinstance(y, torch.Tensor) else np.asarray(y)
    return y if d is None or name_of(y) == d else to(y, d)


def few(f, d, shape, lo=-3, hi=3):
    """Numbers among which some are equal."""
    if d in COMPLEX or d not in FLOATS:
        return f.gen(d, shape, 0 if d == "u8" else lo, hi)
    x = f.gen(d, shape, lo, hi)
    return f.const(np.round(x.w * 2) / 2, d)


def odd(f, d, shape):
    """With NaN, and infinities where the type has them."""
    x = np.array(f.gen(d, shape, -2, 2).w)
    flat = x.reshape(-1)
    flat[::7] = np.nan
    if d != "fp8_e4m3":
        flat[3::11], flat[5::11] = np.inf, -np.inf
    return f.const(x, d)


def reduced(axis, keep):
    return {**({"axis": axis} if axis is not None else {}), **({"keepdims": True} if keep else {})}


# ---- choices
def choices(f):
    for d in FLOATS + INTS:
        x = few(f, d, [3, 4]) if d not in FLOATS else odd(f, d, [5, 6])
        n = x.shape[-1]
        lo, hi = f.gen(d, [n], 0, 0), f.gen(d, [x.shape[0], 1], 1, 2)
        nan = np.isnan(x.w) if d in FLOATS else np.zeros(x.shape, bool)
        v = lambda a, b: array(np.where(nan, x.w, np.minimum(np.maximum(x.w, a), b)), d)
        f.case("clip", [x, lo, hi], [v(lo.w, hi.w)])
        f.case("clip", [x, None, hi], [v(-np.inf if d in FLOATS else x.w, hi.w)])
        f.case("clip", [x, lo], [v(lo.w, np.inf if d in FLOATS else np.maximum(x.w, lo.w))])
        f.case("clip", [x], [v(0, 1)], {"min": 0, "max": 1})
        f.case("clip", [x], [x.v])
        f.case("clip", [x, hi], [v(hi.w, 0)], {"max": 0})
        mask = f.gen("bool", [x.shape[0], 1])
        f.case("masked_fill", [x, mask, hi], [np.where(mask.v, hi.v, x.v)])
    for d in ("f32", "i64"):
        empty = f.gen(d, [0, 3])
        f.case("clip", [empty, f.gen(d, [3])], [empty.v])
    nan_limit = f.const(np.array([np.nan, 0, 1], np.float32))
    x = f.const(np.array([2, -3, np.nan], np.float32))
    f.case("clip", [x, nan_limit], [np.array([2, 0, np.nan], np.float32)])
    most = {"f16": 65504.0, "bf16": 255 * 2.0**120, "f32": float(np.finfo(np.float32).max),
            "f64": float(np.finfo(np.float64).max), "fp8_e4m3": 448.0, "fp8_e5m2": 57344.0}
    for d in FLOATS:
        x = odd(f, d, [4, 9])
        for o in (None, {"nan": 1.5}, {"nan": -1, "posinf": 2, "neginf": -3}, {"posinf": 4}):
            o_ = o or {}
            y = np.nan_to_num(x.w, nan=o_.get("nan", 0.0), posinf=o_.get("posinf", most[d]),
                              neginf=o_.get("neginf", -most[d]))
            f.case("nan_to_num", [x], [to(y, d)], o)
    for d in INTS + ["bool"]:
        x = few(f, d, [7])
        f.case("nan_to_num", [x], [x.v])
    f.case("nan_to_num", [f.gen("f32", [0, 2])], [np.zeros((0, 2), np.float32)])


def sums(f):
    for d in FLOATS:
        for shape, axis in (([4, 9], None), ([4, 9], 1), ([9, 4], 0), ([2, 3, 5], [0, 2]), ([2, 700], -1)):
            x = f.gen(d, shape, -1, 1)
            w = np.array(x.w)
            w.reshape(-1)[::5] = np.nan
            x = f.const(w, d)
            ax = tuple(np.atleast_1d(axis)) if axis is not None else None
            for keep in (False, True):
                o = reduced(axis, keep)
                ulp = 4 if d in ("f32", "f64") else 0.6
                f.case("nansum", [x], [np.asarray(np.nansum(x.w, ax, keepdims=keep))], o, ulp=ulp, t=d, scale=8)
                f.case("nanmean", [x], [np.asarray(np.nanmean(x.w, ax, keepdims=keep))], o, ulp=ulp, t=d, scale=1)
        none = f.const(np.full((2, 3), np.nan), d)
        f.case("nansum", [none], [to(np.zeros(2), d)], {"axis": 1})
        f.case("nanmean", [none], [to(np.full(2, np.nan), d)], {"axis": 1})
    f.case("nansum", [f.gen("f32", [0])], [np.float32(0)])
    f.case("nanmean", [f.gen("f32", [0])], [np.float32(np.nan)])
    for d in INTS + ["bool"]:
        x = few(f, d, [3, 5])
        f.case("nansum", [x], [np.asarray(x.v.astype(np.int64).sum(1))], {"axis": 1})


def activations(f):
    for d in FLOATS:
        x = f.gen(d, [2, 3, 4], -3, 3)
        ulp = 2 if d in ("f32", "f64") else 0.51
        w1, w3 = f.const(np.array([0.25]), d), f.const(np.array([0.5, -1.0, 2.0]), d)
        for w in (w1, w3):
            f.case("prelu", [x, w], [array(torch.nn.functional.prelu(t(x), t(w)))], ulp=0.5001, t=d)
        line = f.gen(d, [5])
        f.case("prelu", [line, w1], [array(torch.nn.functional.prelu(t(line), t(w1)))], ulp=0.5001, t=d)
        f.case("selu", [x], [array(torch.nn.functional.selu(t(x)))], ulp=2 * ulp if ulp > 1 else ulp, t=d)
        for alpha in (1, 0.5):
            f.case("celu", [x], [array(torch.nn.functional.celu(t(x), alpha))], {"alpha": alpha} if alpha != 1 else None,
                   ulp=ulp, t=d)
        for beta, threshold in ((2, None), (0.5, None), (1, 2), (3, 1)):
            o = {"beta": beta, **({"threshold": threshold} if threshold else {})}
            scaled = torch.from_numpy(wide(to(x.w * beta, d if d in ("f32", "f64") else "f32")))
            y = torch.nn.functional.softplus(scaled, 1, threshold or 1000) / beta
            f.case("softplus", [x], [array(y)], o, ulp=2.5 if ulp > 1 else 0.51, t=d)


# ---- places
def sizes_of(d):
    return ([7], [3, 8], [4, 1], [2, 3, 5])


def extremes(f):
    for d in FLOATS + INTS + ["bool"]:
        for shape in sizes_of(d):
            x = few(f, d, shape)
            w = x.w.astype(np.int64) if d not in FLOATS else x.w
            for axis in [None] + list(range(-len(shape), len(shape))):
                for keep in (False, True) if axis in (None, -1) else (False, ):
                    o = reduced(axis, keep)
                    for row, at in (("max_indices", np.argmax), ("min_indices", np.argmin)):
                        i = at(w, axis, keepdims=keep)
                        v = x.v.reshape(-1)[i] if axis is None else np.take_along_axis(
                            x.v, np.expand_dims(at(w, axis), axis), axis)
                        v = v if axis is None or keep else v.squeeze(axis)
                        f.case(row, [x], [v, i], o)
        if d in FLOATS:
            x = f.const(np.array([[1, np.nan, 3, np.nan], [2, 5, 5, 1]]), d)
            for row, i in (("max_indices", [1, 1]), ("min_indices", [1, 3]), ("median_indices", [1, 0])):
                i = np.array(i)
                f.case(row, [x], [x.v[[0, 1], i], i], {"axis": 1})
    f.case("max_indices", [f.const(np.float32(3))], [np.float32(3), np.int64(0)])


def running(w, axis):
    """Where the least of all before stands, the first of equals; -0 is below +0."""
    key = np.moveaxis(w + np.where(np.signbit(w) & (w == 0), -1e-300, 0), axis, -1)
    at = np.zeros(key.shape, np.int64)
    for i in range(1, key.shape[-1]):
        best = np.take_along_axis(key, at[..., i - 1:i], -1)[..., 0]
        at[..., i] = np.where(key[..., i] < best, i, at[..., i - 1])
    return np.moveaxis(at, -1, axis)


def orders(f):
    for d in FLOATS + INTS + ["bool"]:
        for shape in sizes_of(d):
            x = few(f, d, shape)
            w = x.w.astype(np.int64) if d not in FLOATS else x.w
            for axis in range(-len(shape), len(shape)):
                order = np.argsort(w, axis, kind="stable")
                n = shape[axis]
                for k in sorted({1, (n + 1) // 2, n}):
                    i = np.take(order, [k - 1], axis)
                    v = np.take_along_axis(x.v, i, axis)
                    f.case("kthvalue", [x], [v.squeeze(axis), i.squeeze(axis)], {"k": k, "axis": axis})
                f.case("kthvalue", [x], [v, i], {"k": k, "axis": axis, "keepdims": True})
                i = np.take(order, [(n - 1) // 2], axis)
                v = np.take_along_axis(x.v, i, axis)
                f.case("median_indices", [x], [v.squeeze(axis), i.squeeze(axis)], {"axis": axis})
            i = np.argsort(w.reshape(-1), kind="stable")[(w.size - 1) // 2]
            f.case("median_indices", [x], [x.v.reshape(-1)[i], np.asarray(i)])
        x = few(f, d, [3, 9])
        for axis in (0, 1, -1, -2):
            i = running(x.w.astype(np.float64), axis)
            f.case("cummin", [x], [np.take_along_axis(x.v, i, axis), i], {"axis": axis})
    x = f.const(np.array([3, 2, np.nan, 1, 0, np.nan], np.float32))
    y = torch.cummin(t(x), 0)
    f.case("cummin", [x], [array(y[0], "f32"), np.array([0, 1, 2, 2, 2, 2])])
    f.case("cummin", [f.gen("f32", [0, 3])], [np.zeros((0, 3), np.float32), np.zeros((0, 3), np.int64)])
    i = f.const(np.array([np.iinfo(np.int64).min, 0, np.iinfo(np.int64).max]))
    f.case("cummin", [i], [np.minimum.accumulate(i.v), np.zeros(3, np.int64)])
    for d in FLOATS:
        for n in (1, 2, 5, 8):
            x = f.gen(d, [3, n], -2, 2)
            for method in ("linear", "lower", "higher", "midpoint", "nearest"):
                for q in ([0.25], [0.1, 0.5, 0.9], [0, 1]):
                    y = torch.quantile(t(x), torch.tensor(q, dtype=torch.float64), dim=1, interpolation=method)
                    o = {"q": q, "axis": 1, **({"method": method} if method != "linear" else {})}
                    y = array(y[0] if len(q) == 1 else y)
                    f.case("quantiles", [x], [y], o, ulp=2 if d in ("f32", "f64") else 0.51, t=d, scale=0.25)
        x = f.const(np.array([[1, np.nan, 3], [2, 5, 4]]), d)
        for method in ("linear", "lower", "midpoint"):
            f.case("quantiles", [x], [to(np.array([np.nan, 4]), d)], {"q": [0.5], "axis": 1, "method": method})
        f.case("quantiles", [x], [to(np.full((2, 1, 1), np.nan), d)], {"q": [0.5, 0.25], "keepdims": True})


def searches(f):
    for d in FLOATS + INTS:
        for n in (0, 1, 2, 5, 8, 9):
            row = np.sort(few(f, d, [n]).w) if d in FLOATS else np.sort(few(f, d, [n]).v)
            row, v = f.const(row, d), few(f, d, [2, 7])
            for right in (False, True):
                y = np.searchsorted(row.w, v.w, "right" if right else "left")
                f.case("searchsorted", [row, v], [y.astype(np.int64)], {"right": right} if right else None)
                f.case("bucketize", [v, row], [y.astype(np.int64)], {"right": right} if right else None)
        rows, v = f.const(np.sort(few(f, d, [3, 6]).v.astype(np.float64), 1), d), few(f, d, [3, 4])
        for right in (False, True):
            y = torch.searchsorted(t(rows), t(v), right=right)
            f.case("searchsorted", [rows, v], [array(y)], {"right": right})
        if d in FLOATS:
            row = f.const(np.array([-1, 0, 2, np.nan, np.nan]), d)
            v = f.const(np.array([np.nan, 3, -5, 0]), d)
            for right in (False, True):
                y = np.searchsorted(row.w, v.w, "right" if right else "left")
                f.case("searchsorted", [row, v], [y.astype(np.int64)], {"right": right})
    f.case("bucketize", [f.const(np.int64(5)), f.const(np.array([1, 4, 6]))], [np.int64(2)])
    row, v = f.const(np.array([1, 2, 5])), f.const(np.array([1.5, 5.5, 2.0]))
    f.case("searchsorted", [row, v], [np.array([1, 3, 1])])


def counts(f):
    for d in INTS:
        for shape in ([9], [3, 5]):
            x = f.gen(d, shape, 0, 6)
            y = np.bincount(x.v.reshape(-1).astype(np.int64))
            f.case("bincount", [x], [y])
            f.case("bincount", [x], [np.bincount(x.v.reshape(-1).astype(np.int64), minlength=9)], {"length": 9})
            w = f.gen("f64", shape)
            f.case("bincount", [x, w], [np.bincount(x.v.reshape(-1).astype(np.int64), w.v.reshape(-1), 9)], {"length": 9})
    x, w = f.gen("i64", [20], 0, 3), f.gen("i32", [20], -9, 9)
    f.case("bincount", [x, w], [np.bincount(x.v, w.v, 4).astype(np.int32)], {"length": 4})
    f.case("bincount", [f.gen("i64", [0])], [np.zeros(0, np.int64)])
    f.case("bincount", [f.gen("i64", [0])], [np.zeros(3, np.int64)], {"length": 3})
    for d in ALL:
        x = few(f, d, [3, 4])
        for axis, n in ((0, 3), (1, 4), (-1, 4), (None, 12)):
            c = f.gen("i64", [n], 0, 3)
            y = np.repeat(x.v, c.v, axis)
            o = {"axis": axis} if axis is not None else None
            f.case("repeat_counts", [x, c], [y], o)
            f.case("repeat_counts", [x, c], [y], {**(o or {}), "size": int(c.v.sum())})
        f.case("repeat_counts", [x, f.const(np.array([2], np.int32))], [np.repeat(x.v, 2, 0)], {"axis": 0})
    x = f.gen("f32", [0, 2])
    f.case("repeat_counts", [x, f.gen("i64", [0])], [x.v], {"axis": 0})


# ---- layout
def layouts(f):
    for d in ALL:
        x = f.gen(d, [3, 4, 2], 0, 9)
        for axis in range(-3, 3):
            f.case("unbind", [x], [np.take(x.v, i, axis) for i in range(x.shape[axis])],
                   {"axis": axis} if axis else None)
        a, b, c = f.gen(d, [2], 0, 9), f.gen(d, [3], 0, 9), f.const(np.asarray(f.gen(d, [], 0, 9).v))
        for ins in ([a], [a, b], [a, b, c]):
            for how in ("ij", "xy"):
                y = np.meshgrid(*[i.v for i in ins], indexing=how)
                f.case("meshgrid", ins, [np.ascontiguousarray(v) for v in y], {"indexing": how} if how == "xy" else None)
        for offset in (-4, -1, 0, 1, 2, 5):
            for axes in ((0, 1), (2, 0), (-1, -2), (1, 2)):
                y = np.diagonal(x.v, offset, *axes)
                o = {"offset": offset, "axis0": axes[0], "axis1": axes[1]}
                f.case("diagonal", [x], [np.ascontiguousarray(y)], o)
            m, v = f.gen(d, [3, 5], 0, 9), f.gen(d, [3], 0, 9)
            if abs(offset) < 3:
                f.case("diag", [m], [np.diag(m.v, offset)], {"offset": offset} if offset else None)
                f.case("diag", [v], [np.diag(v.v, offset)], {"offset": offset} if offset else None)
                y = np.zeros((3, 5 + abs(offset), 5 + abs(offset)), m.v.dtype)
                for i in range(5):
                    y[:, i + max(-offset, 0), i + max(offset, 0)] = m.v[:, i]
                f.case("diag_embed", [m], [y], {"offset": offset} if offset else None)
        x = f.gen(d, [2, 8, 2, 3], 0, 9)
        y = array(torch.pixel_shuffle(torch.arange(96).reshape(2, 8, 2, 3), 2))
        f.case("pixel_shuffle", [x], [x.v.reshape(-1)[y]], {"factor": 2})
        x = f.gen(d, [2, 2, 6, 3], 0, 9)
        y = array(torch.pixel_unshuffle(torch.arange(72).reshape(2, 2, 6, 3), 3))
        f.case("pixel_unshuffle", [x], [x.v.reshape(-1)[y]], {"factor": 3})
        if d in ("f32", "i64", "bool"):
            e = f.gen(d, [0])
            f.case("diag", [e], [np.zeros((0, 0), e.v.dtype)])
            f.case("diag_embed", [f.gen(d, [0, 2])], [np.zeros((0, 2, 2), e.v.dtype)])
            f.case("diagonal", [f.gen(d, [3, 0])], [e.v])
    for d in ALL:
        if d in ("fp8_e4m3", "fp8_e5m2", "bf16"):
            continue
        x, first, last = f.gen(d, [3, 6], 0, 9), f.gen(d, [3, 1], 0, 9), f.gen(d, [3, 2], 0, 9)
        for n in (0, 1, 2, 3, 9):
            for axis in (0, 1, -1):
                if n == 9 and axis == 0:
                    continue
                f.case("diff", [x], [np.diff(x.v, n, axis)], {"n": n, "axis": axis})
        f.case("diff", [x, first, last], [np.diff(x.v, 1, 1, first.v, last.v)])
        f.case("diff", [x, None, last], [np.diff(x.v, 1, 1, append=last.v)])
    f.case("diff", [f.gen("f32", [0])], [np.zeros(0, np.float32)])


# ---- products
def products(f):
    for d in FLOATS + COMPLEX + INTS:
        part = {"complex64": "f32", "complex128": "f64"}.get(d, d)
        far = 4 if part in ("f32", "f64") else 0.6
        exact = d in INTS
        def case(row, ins, y, o=None, scale=1, **more):
            y = array(y)
            if exact:
                f.case(row, ins, [y.astype(NP[d])], o)
            else:
                f.case(row, ins, [y], o, ulp=far, t=part, scale=scale, **more)
        x, y = f.gen(d, [2, 3, 4], -2 if d != "u8" else 0, 2), f.gen(d, [4, 3, 5], -2 if d != "u8" else 0, 2)
        case("tensordot", [x, y], np.tensordot(x.w, y.w, ([1, 2], [1, 0])), {"left": [1, 2], "right": [1, 0]}, 16)
        case("tensordot", [x, y], np.tensordot(x.w, y.w, ([-1], [0])), {"axes": 1}, 16)
        z = f.gen(d, [3, 4, 2], -1 if d != "u8" else 0, 1)
        case("tensordot", [x, z], np.tensordot(x.w, z.w, 2), None, 16)
        a, b = f.gen(d, [2, 3], -2 if d != "u8" else 0, 2), f.gen(d, [3], -2 if d != "u8" else 0, 2)
        case("tensordot", [a, b], np.tensordot(a.w, b.w, 0), {"axes": 0}, zero=False)
        c = f.gen(d, [2, 1, 2], -2 if d != "u8" else 0, 2)
        for p, q in ((a, a), (a, b), (b, a), (b, b), (c, a), (a, c)):
            case("kron", [p, q], np.kron(p.w, q.w), zero=False)
        u, v = f.gen(d, [5, 3], -2 if d != "u8" else 0, 2), f.gen(d, [5, 3], -2 if d != "u8" else 0, 2)
        case("cross", [u, v], np.cross(u.w, v.w), None, 8)
        case("cross", [u, b], np.cross(u.w, b.w), None, 8)
        ut, vt = f.const(np.ascontiguousarray(u.v.T)), f.const(np.ascontiguousarray(v.v.T))
        case("cross", [ut, vt], np.cross(u.w, v.w).T, {"axis": 0}, 8)
        for shape in ([3, 3], [2, 4, 3], [3, 5]):
            m = f.gen(d, shape, -2 if d != "u8" else 0, 2)
            y = np.trace(m.w.astype(np.int64) if exact else m.w, axis1=-2, axis2=-1)
            if exact:
                f.case("trace", [m], [np.asarray(y)])
            else:
                case("trace", [m], y, None, 8)
        m = f.gen(d, [0, 0])
        f.case("trace", [m], [np.zeros((), np.int64 if exact else NP[d])])
    for d in FLOATS:
        far = 4 if d in ("f32", "f64") else 0.6
        x, y = f.gen(d, [2, 3, 5]), f.gen(d, [2, 4, 5])
        for p in (2, 1, 3, 0, math.inf, 0.5):
            o = {"p": p} if p != 2 else None
            v = array(torch.cdist(t(x), t(y), p, compute_mode="donot_use_mm_for_euclid_dist"))
            f.case("cdist", [x, y], [v], o, ulp=far * (4 if p in (3, 0.5) and far > 1 else 1), t=d)
        one = f.gen(d, [1, 5])
        f.case("cdist", [x, one], [array(torch.cdist(t(x), t(one), compute_mode="donot_use_mm_for_euclid_dist"))], None,
               ulp=far, t=d)
        f.case("cdist", [f.gen(d, [0, 3]), f.gen(d, [2, 3])], [to(np.zeros((0, 2)), d)])
        x, y = f.gen(d, [4, 6]), f.gen(d, [4, 6])
        for axis in (0, 1, -1):
            v = torch.nn.functional.cosine_similarity(t(x), t(y), axis)
            f.case("cosine_similarity", [x, y], [array(v)], {"axis": axis}, ulp=far * 1.5 if far > 1 else far, t=d, scale=1)
        zero = f.gen(d, [4, 6], 0, 0)
        f.case("cosine_similarity", [x, zero], [to(np.zeros(4), d)])
        v = torch.nn.functional.cosine_similarity(t(x), t(y), 1, 4.0)
        f.case("cosine_similarity", [x, y], [array(v)], {"eps": 4.0}, ulp=far, t=d, scale=1)


# ---- losses
def losses(f):
    F = torch.nn.functional
    for d in FLOATS:
        ulp = 0.55 if d in SMALL else 12
        for shape in ([5, 4], [2, 3, 4]):
            x, target, w = f.gen(d, shape, -3, 3), f.gen("i64", shape[:-1], 0, 3), f.gen(d, [4], 0.5, 2)
            rows, classes = t(x).reshape(-1, 4), t(target).reshape(-1)
            logp = f.const(array(torch.log_softmax(t(x), -1)), d)
            for red in ("mean", "sum", "none"):
                for smoothing in (0.0, 0.2):
                    o = {**({"reduction": red} if red != "mean" else {}), **({"label_smoothing": smoothing} if smoothing else {})}
                    for ignored in (-100, 2):
                        y = F.cross_entropy(rows, classes, t(w), reduction=red, label_smoothing=smoothing, ignore_index=ignored)
                        o_ = {**o, **({"ignore_index": ignored} if ignored == 2 else {})}
                        y = array(y).reshape(shape[:-1] if red == "none" else [])
                        f.case("weighted_cross_entropy", [x, target, w], [y], o_, ulp=ulp, t=d, scale=4, zero=False)
                o = {"reduction": red} if red != "mean" else {}
                for weight in (None, w):
                    for ignored in (-100, 1):
                        y = F.nll_loss(t(logp).reshape(-1, 4), classes, None if weight is None else t(w), reduction=red,
                                       ignore_index=ignored)
                        o_ = {**o, **({"ignore_index": ignored} if ignored == 1 else {})}
                        y = array(y).reshape(shape[:-1] if red == "none" else [])
                        f.case("nll", [logp, target] + ([w] if weight is not None else []), [y], o_, ulp=ulp, t=d, scale=4,
                               zero=False)
                soft = f.gen(d, shape, 0, 1)
                y = F.cross_entropy(rows, t(soft).reshape(-1, 4), t(w), reduction=red)
                f.case("weighted_cross_entropy", [x, soft, w], [array(y).reshape(shape[:-1] if red == "none" else [])], o,
                       ulp=ulp, t=d, scale=8)
                p, y01 = f.gen(d, shape, 0.1, 0.9), f.gen(d, shape, 0, 1)
                y = F.binary_cross_entropy(t(p), t(y01), t(w), reduction=red)
                f.case("bce", [p, y01, w], [array(y)], o, ulp=ulp, t=d, scale=4)
                for weight, pos in ((w, None), (None, w), (w, w)):
                    y = F.binary_cross_entropy_with_logits(t(x), t(y01), None if weight is None else t(w), reduction=red,
                                                           pos_weight=None if pos is None else t(w))
                    ins = [x, y01] + ([weight] if weight is not None or pos is not None else []) + ([pos] if pos is not None else [])
                    f.case("bce_with_logits", ins, [array(y)], o, ulp=ulp, t=d, scale=8)


def near_losses(f):
    F = torch.nn.functional
    for d in FLOATS:
        for shape in ([7], [3, 5], [], [257]):
            x, y = f.gen(d, shape, -2, 2), f.gen(d, shape, -2, 2)
            n = max(int(np.prod(shape)), 1)
            for red in ("mean", "sum", "none"):
                size = 1 / 64 if d in SMALL else n if red == "sum" else 1
                for beta in (1.0, 0.5, 0.0):
                    o = {**({"reduction": red} if red != "mean" else {}), **({"beta": beta} if beta != 1 else {})}
                    f.case("smooth_l1", [x, y], [F.smooth_l1_loss(t(x), t(y), reduction=red, beta=beta).numpy()], o or None,
                           ulp=0.52 if d in SMALL else 6, t=d, scale=2 * size, zero=False)


# ---- functions, draws, solvers, images
def functions(f):
    import mpmath
    mp = mpmath.mp
    mp.prec = 200
    def lgamma(x):
        if x != x or math.isinf(x):
            return abs(x)
        return math.inf if x <= 0 and x == math.floor(x) else float(mp.log(abs(mp.gamma(mp.mpf(x))))) if abs(x) < 1e4 \
            else float(mp.loggamma(mp.mpf(x)).real)
    def digamma(x):
        if x == 0:
            return -math.copysign(math.inf, x)
        if x != x or x == math.inf:
            return x
        return math.nan if x == -math.inf or (x < 0 and x == math.floor(x)) else float(mp.digamma(mp.mpf(x)))
    for d in FLOATS:
        v = list(np.linspace(0.03, 12, 70)) + list(-6 * unit(20, 9)) + [0.0, -0.0, -1, -2, np.nan, 1, 2, 0.5, 1.5, 2.5, 8.5, 100, 440]
        v += [np.inf, -np.inf] if d != "fp8_e4m3" else []
        v += [1e-30, 1e5, 1e30, 3e37] if d in ("f32", "f64", "bf16") else []
        x = f.const(np.array(v), d)
        # Near the zeros the error is that of terms as large as 1.
        for row, fn in (("lgamma", lgamma), ("digamma", digamma)):
            y = np.array([fn(float(e)) for e in x.w])
            f.case(row, [x], [y], ulp={"f32": 1, "f64": 24}.get(d, NARROW), t=d, scale=1 if d == "f64" else 2.0**-9, zero=False)
    for d in ("i64", "bool"):
        x = f.const(np.array([1, 0]), d) if d == "bool" else f.const(np.array([1, 2, 5, 9]))
        f.case("lgamma", [x], [np.array([lgamma(float(e)) for e in x.v])], ulp=1, t="f32", zero=False)


def draws(f):
    from families.random import uniform
    for d in FLOATS:
        u = uniform(65, 5, 3, d)
        for rate in (1, 0.5):
            f.case("exponential", [], [-np.log1p(-u) / rate], {"shape": [65], "rate": rate, "seed": 5, "stream": 3, "dtype": d},
                   ulp=2 if d in ("f32", "f64") else NARROW, t=d, zero=False)
        x = f.const(np.array([[0.1, 0.2, 0, 0.4, 0.3], [3, 1, 2, 0, 0.5]]), d)
        wait = -np.log1p(-uniform(10, 7, 2, d)).reshape(2, 5) / np.where(x.w > 0, x.w, 1)
        order = np.argsort(np.where(x.w > 0, wait, np.inf), 1, kind="stable")
        for n in (0, 1, 3, 5):
            f.case("multinomial", [x], [order[:, :n]], {"count": n, "seed": 7, "stream": 2})
    x = f.const(np.array([0, 2, 0], np.float32))
    f.case("multinomial", [x], [np.array([1, 1, 1])], {"count": 3, "replacement": True, "seed": 1})
    f.case("exponential", [], [np.zeros((0, 2), np.float32)], {"shape": [0, 2], "seed": 1})


def gamma_numbers(a, u):
    """Marsaglia and Tsang, ACM TOMS 26 (2000) 363; u: [.., 25] uniform numbers."""
    out = np.zeros(a.shape)
    for i in np.ndindex(a.shape):
        d = (a[i] + 1 if a[i] < 1 else a[i]) - 1 / 3
        c = 1 / math.sqrt(9 * d)
        for j in range(8):
            n = math.sqrt(-2 * math.log1p(-u[i][j])) * math.cos(2 * math.pi * u[i][8 + j])
            v = (1 + c * n)**3
            if v > 0 and math.log1p(-u[i][16 + j]) < n * n / 2 + d - d * v + d * math.log(v):
                break
        out[i] = d * v * (math.exp(math.log1p(-u[i][24]) / a[i]) if a[i] < 1 else 1)
    return out


def poisson_numbers(rate, u):
    """By inversion, and PTRS of Hoermann, "The transformed rejection method for generating Poisson
    random variables" (1993); u: [.., 33] uniform numbers."""
    from scipy.special import gammaln
    from scipy.stats import poisson
    out = np.zeros(rate.shape)
    for i in np.ndindex(rate.shape):
        r = rate[i]
        if r < 10:
            out[i] = (u[i][32] >= poisson.cdf(np.arange(48), r)).sum()
            continue
        b = 0.931 + 2.53 * math.sqrt(r)
        a, sure = -0.059 + 0.02483 * b, 0.9277 - 3.6224 / (b - 2)
        for j in range(16):
            x, v = u[i][j] - 0.5, u[i][16 + j]
            left = 0.5 - abs(x)
            k = math.floor((2 * a / left + b) * x + r + 0.43)
            if left >= 0.07 and v <= sure:
                break
            if k < 0 or (left < 0.013 and v > left):
                continue
            if math.log(v * (1.1239 + 1.1328 / (b - 3.4)) / (a / (left * left) + b)) <= k * math.log(r) - r - gammaln(k + 1):
                break
        out[i] = k
    return out


def poissons(f):
    from families.random import uniform
    for d in FLOATS:
        a = f.const(np.array([[0, 0.25, 1, 3, 8], [10, 12, 20, 40, 14], [9, 30, 11, 18, 26]]), d)
        y = poisson_numbers(a.w, uniform(495, 4, 1, "f64").reshape(3, 5, 33))
        f.case("poisson", [a], [to(y, d)], {"seed": 4, "stream": 1})
    big = f.const(np.full((40,), 1e5), "f64")
    f.case("poisson", [big], [poisson_numbers(big.w, uniform(1320, 5, 2, "f64").reshape(40, 33))], {"seed": 5, "stream": 2})
    none = f.const(np.array([-1, np.nan, np.inf, 0], np.float32))
    f.case("poisson", [none], [np.array([np.nan, np.nan, np.nan, 0], np.float32)], {"seed": 1})
    f.case("poisson", [f.gen("f32", [0, 2])], [np.zeros((0, 2), np.float32)], {"seed": 1})


def more_draws(f):
    from families.random import uniform
    for d in FLOATS:
        a = f.const(np.array([[0.25, 0.5, 1.0, 2.0], [3.0, 10.0, 40.0, 0.75]]), d)
        y = gamma_numbers(a.w, uniform(200, 4, 1, d).reshape(2, 4, 25))
        for rate in (1, 4):
            f.case("gamma", [a], [y / rate], {"rate": rate, "seed": 4, "stream": 1}, ulp=256 if d in ("f32", "f64") else 0.6, t=d)
        b = f.const(np.array([1.0, 0.5, 8.0, 2.0]), d)
        both = np.stack([a.w, np.broadcast_to(b.w, a.shape)])
        g = gamma_numbers(both, uniform(400, 4, 1, d).reshape(2, 2, 4, 25))
        f.case("beta", [a, b], [g[0] / (g[0] + g[1])], {"seed": 4, "stream": 1}, ulp=256 if d in ("f32", "f64") else 0.6, t=d)
    f.case("gamma", [f.const(np.array([0.0, -1, np.nan], np.float32))], [np.full(3, np.nan, np.float32)], {"seed": 1})
    f.case("gamma", [f.gen("f32", [0, 2])], [np.zeros((0, 2), np.float32)], {"seed": 1})


def solvers(f):
    for d in FLOATS + COMPLEX:
        part = {"complex64": "f32", "complex128": "f64"}.get(d, d)
        far = 64 if part in ("f32", "f64") else 1
        for shape in ([4, 4], [2, 3, 3], [1, 1], [0, 0], [2, 0, 0]):
            x = f.gen(d, shape)
            if x.v.size:
                x = f.const(x.w + 2 * np.eye(shape[-1]), d)
            sign, log = np.linalg.slogdet(x.w)
            f.case("slogdet", [x], [np.asarray(sign), None], None, ulp=far, t=part)
            if d not in COMPLEX:
                f.case("slogdet", [x], [None, np.asarray(log)], None, ulp=far, t=part, scale=1)
        singular = f.const(np.array([[1, 2], [2, 4]]), d)
        if d not in COMPLEX:
            f.case("slogdet", [singular], [to(0.0, d), to(-np.inf, d)])
        for shape in ([5, 3], [3, 5], [3, 3], [2, 4, 2]):
            a = f.gen(d, shape)
            a = f.const(a.w + 2 * np.eye(*shape[-2:]), d)
            for k in ([2], []):
                b = f.gen(d, shape[:-1] + k)
                if len(shape) == 3 and not k:
                    continue
                y = np.linalg.pinv(a.w) @ b.w
                f.case("lstsq", [a, b], [y], None, ulp=far, t=part, scale=0.5)


def exponentials(f):
    import scipy.linalg
    for d in FLOATS + COMPLEX:
        part = {"complex64": "f32", "complex128": "f64"}.get(d, d)
        for shape, size in (([3, 3], 1), ([2, 4, 4], 1), ([2, 2, 2], 9), ([1, 1], 30)):
            if size > 8 and d not in ("f32", "f64") + tuple(COMPLEX):
                continue
            a = f.gen(d, shape, -size, size)
            y = np.stack([scipy.linalg.expm(m) for m in a.w.astype(np.complex128).reshape(-1, *shape[-2:])]).reshape(shape)
            y = y if d in COMPLEX else y.real
            f.case("matrix_exp", [a], [y], None, ulp=400 if part in ("f32", "f64") else 0.6, t=part, scale=float(np.abs(y).max()))
        f.case("matrix_exp", [f.gen(d, [2, 0, 0])], [np.zeros((2, 0, 0), NP[d])])
    far = f.const(np.array([[-1e5, 0], [0, 0]]))
    f.case("matrix_exp", [far], [np.array([[0, 0], [0, 1.0]])], None, ulp=1e8, t="f64", scale=1)
    f.case("matrix_exp", [f.const(np.full((2, 2), 1e9))], [np.full((2, 2), np.nan)])


def images(f):
    F = torch.nn.functional
    for d in FLOATS:
        for shape, size in (([1, 2, 5], [8]), ([2, 1, 4, 6], [7, 3]), ([1, 1, 3, 4, 2], [5, 3, 4])):
            x, g = f.gen(d, shape), f.gen(d, shape[:2] + size)
            place = torch.arange(1.0, x.v.size + 1).reshape(shape).double().requires_grad_()
            y = F.interpolate(place, size, mode="nearest-exact")
            o = {"size": size, "mode": "nearest_exact"}
            f.case("interpolate", [x], [x.v.reshape(-1)[array(y.detach()).astype(int) - 1]], o)
            y.backward(t(g))
            f.case("interpolate_grad", [g], [array(place.grad)], {"size": shape[2:], "mode": "nearest_exact"},
                   ulp=4 if d in ("f32", "f64") else 0.6, t=d, scale=2)
        x = f.gen(d, [1, 2, 4, 6])
        place = torch.arange(0.0, 48).reshape(1, 2, 4, 6).double()
        y = F.interpolate(place, scale_factor=[1.75, 0.5], mode="nearest-exact")
        f.case("interpolate", [x], [x.v.reshape(-1)[array(y).astype(int)]], {"scale": [1.75, 0.5], "mode": "nearest_exact"})
    for d in FLOATS:
        x, grid = f.gen(d, [2, 3, 4, 5]), f.gen(d, [2, 3, 2, 2], -1.6, 1.6)
        wild = f.gen(d, [2, 2, 2, 2], -7, 7)
        for g in (grid, wild):
            for mode in ("bilinear", "nearest"):
                for padding in ("zeros", "border", "reflection"):
                    for corners in (False, True):
                        y = F.grid_sample(t(x), t(g), mode, padding, corners)
                        o = {"mode": mode, "padding": padding, "align_corners": corners}
                        f.case("grid_sample", [x, g], [array(y)], o, ulp=32 if d in ("f32", "f64") else 0.6, t=d, scale=1,
                               zero=False)
        none = f.gen(d, [2, 0, 3, 2])
        f.case("grid_sample", [x, none], [to(np.zeros((2, 3, 0, 3)), d)])
    for d in ALL:
        for o in ({"window": 2}, {"window": [2, 3], "stride": [1, 2], "padding": [1, 0], "dilation": [2, 1]},
                  {"window": 3, "padding": 2, "dilation": 2, "stride": 2}):
            x = f.gen(d, [2, 2, 5, 6], 0, 9)
            k = lambda n, e: o.get(n, e)
            place = F.unfold(torch.arange(1.0, 121).reshape(2, 2, 5, 6).double(), k("window", 1), k("dilation", 1), k("padding", 0),
                             k("stride", 1)).long().numpy()
            flat = np.concatenate([np.zeros(1, x.v.dtype), x.v.reshape(-1)])
            f.case("im2col", [x], [flat[place]], o)


def lstm(f):
    """PyTorch's layer, whose weights of the inputs are the unit matrix: x is their product already."""
    for d in FLOATS:
        bound = dict(ulp=16, t=d, scale=1.0 if d in ("f32", "f64") else 4.0, zero=False)
        for steps, batch, n in ((3, 2, 4), (1, 1, 3)):
            x, w = f.gen(d, [steps, batch, 4 * n], -2, 2), f.gen(d, [4 * n, n])
            h, c = f.gen(d, [batch, n]), f.gen(d, [batch, n])
            layer = torch.nn.LSTM(4 * n, n, bias=False).double()
            layer.weight_ih_l0.data, layer.weight_hh_l0.data = torch.eye(4 * n, dtype=torch.float64), t(w).double()
            for reverse in (False, True):
                turn = (lambda y: y.flip(0)) if reverse else (lambda y: y)
                with torch.no_grad():
                    y, (hn, cn) = layer(turn(t(x).double()), (t(h).double()[None], t(c).double()[None]))
                f.case("lstm", [x, w, h, c], [array(turn(y)), array(hn[0]), array(cn[0])],
                       {"reverse": True} if reverse else None, **bound)


def make():
    f = Family("composed", most=Family.FEW)
    choices(f)
    sums(f)
    activations(f)
    extremes(f)
    orders(f)
    searches(f)
    counts(f)
    layouts(f)
    products(f)
    losses(f)
    functions(f)
    draws(f)
    solvers(f)
    exponentials(f)
    more_draws(f)
    images(f)
    near_losses(f)
    poissons(f)
    lstm(f)
    return f
