"""Moving and selecting elements: exact, by NumPy."""
import numpy as np

from common import *


def pad_all(f, d):
    t = NP[d]
    x = f.gen(d, [3, 4], 0, 9)
    v = wide(x.v)
    for mode, np_mode in (("constant", "constant"), ("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")):
        for pads, width in (([1, 2], [(0, 0), (1, 2)]), ([2, 1, 0, 3], [(2, 1), (0, 3)])):
            f.case("pad", [x], [np.pad(v, width, np_mode).astype(t)], {"pads": pads, "mode": mode})
    f.case("pad", [x], [np.pad(v, [(0, 0), (1, 1)], constant_values=2).astype(t)], {"pads": [1, 1], "value": 2})


def windows(v, size, step=1, axis=0):
    n = (v.shape[axis] - size) // step + 1
    at = np.arange(n)[:, None] * step + np.arange(size)
    return np.moveaxis(np.take(v, at, axis), axis + 1, -1)


def moves(f, d):
    t = NP[d]
    x = f.gen(d, [2, 3, 4], 0, 9)
    v = x.v
    f.case("reshape", [x], [v.reshape(4, 6)], {"shape": [4, 6]})
    f.case("reshape", [x], [v.reshape(-1)], {"shape": [-1]})
    f.case("transpose", [x], [np.swapaxes(v, -2, -1)])
    f.case("transpose", [x], [np.swapaxes(v, 0, 2)], {"axis0": 0, "axis1": 2})
    f.case("permute", [x], [np.transpose(v, (2, 0, 1))], {"perm": [2, 0, 1]})
    f.case("flip", [x], [np.flip(v)])
    f.case("flip", [x], [np.flip(v, (0, 2))], {"axis": [0, -1]})
    f.case("slice", [x], [v[0:2, 2:0:-1, ::2]], {"start": [0, 2, 0], "stop": [2, 0, 4], "step": [1, -1, 2]})
    f.case("slice", [x], [v[-1:]], {"start": [-1], "stop": [9]})
    f.case("narrow", [x], [v[:, 1:3]], {"axis": 1, "start": 1, "length": 2})
    f.case("select", [x], [v[:, :, 1].copy()], {"axis": -1, "index": 1})
    f.case("select", [x], [v[-1]], {"axis": 0, "index": -1})
    f.case("unsqueeze", [x], [v[:, None]], {"axis": 1})
    f.case("unsqueeze", [x], [v[..., None]], {"axis": -1})
    f.case("flatten", [x], [v.reshape(-1)])
    f.case("flatten", [x], [v.reshape(2, 12)], {"start": 1})
    f.case("contiguous", [x], [v])
    f.case("clone", [x], [v])
    y = f.gen(d, [1, 3, 1], 0, 9)
    f.case("squeeze", [y], [y.v.reshape(3)])
    f.case("squeeze", [y], [y.v.reshape(1, 3)], {"axis": [-1]})
    f.case("broadcast_to", [y], [np.broadcast_to(y.v, (5, 2, 3, 4))], {"shape": [5, 2, 3, 4]})
    f.case("expand", [y], [np.broadcast_to(y.v, (2, 3, 4))], {"shape": [2, -1, 4]})
    z = f.gen(d, [11], 0, 9)
    f.case("unfold", [z], [windows(z.v, 4, 3)], {"axis": 0, "size": 4, "step": 3})
    f.case("unfold", [x], [windows(v, 2, 1, 1)], {"axis": 1, "size": 2})
    f.case("roll", [x], [np.roll(v, 5)], {"shift": [5]})
    f.case("roll", [x], [np.roll(v, (1, -2), (0, 2))], {"shift": [1, -2], "axis": [0, 2]})
    f.case("tile", [x], [np.tile(v, (2, 1, 3))], {"reps": [2, 1, 3]})
    f.case("tile", [z], [np.tile(z.v, (2, 2))], {"reps": [2, 2]})
    f.case("tile", [x], [np.tile(v, 2)], {"reps": [2]})
    f.case("rot90", [x], [np.rot90(v)])
    f.case("rot90", [x], [np.rot90(v, 2, (1, 2))], {"k": 2, "axes": [1, 2]})
    f.case("rot90", [x], [np.rot90(v, -5, (-1, 0))], {"k": -5, "axes": [-1, 0]})
    f.case("rot90", [x], [np.rot90(v, 4)], {"k": 4})
    f.case("repeat_interleave", [x], [np.repeat(v, 2, 1)], {"count": 2, "axis": 1})
    f.case("repeat_interleave", [x], [np.repeat(v, 3)], {"count": 3})
    a, b, c = f.gen(d, [2, 3], 0, 9), f.gen(d, [2, 1], 0, 9), f.gen(d, [2, 0], 0, 9)
    f.case("concat", [a, b, c], [np.concatenate([a.v, b.v, c.v], 1)], {"axis": 1})
    f.case("concat", [a, a], [np.concatenate([a.v, a.v])])
    f.case("concat", [z], [z.v], {"axis": -1})
    g = f.gen(d, [2, 3], 0, 9)
    f.case("stack", [a, g], [np.stack([a.v, g.v])])
    f.case("stack", [a, g, a], [np.stack([a.v, g.v, a.v], -1)], {"axis": -1})
    f.case("split", [z], [z.v[:4], z.v[4:8], z.v[8:]], {"size": 4})
    f.case("split", [x], [v[:, :1], v[:, 1:]], {"size": [1, 2], "axis": 1})
    f.case("chunk", [z], [z.v[:4], z.v[4:8], z.v[8:]], {"chunks": 3})
    f.case("chunk", [x], [v[..., :2], v[..., 2:]], {"chunks": 2, "axis": -1})


def indexing(f, d):
    t = NP[d]
    x = f.gen(d, [4, 3], 0, 9)
    v = x.v
    i = f.gen("i64", [2, 3], 0, 3)
    f.case("gather", [x, i], [np.take_along_axis(v, i.v, 0)], {"axis": 0})
    j = f.gen("i32", [4, 5], 0, 2)
    f.case("gather", [x, j], [np.take_along_axis(v, j.v.astype(np.int64), 1)])
    s = f.gen(d, [2, 3], 0, 9)
    y = v.copy()
    for r in range(2):
        for c in range(3):
            y[i.v[r, c], c] = s.v[r, c]
    f.case("scatter", [x, i, s], [y], {"axis": 0})
    if d != "bool":
        acc = v.astype(np.float32) if d in SMALL else v.copy()
        for r in range(2):
            for c in range(3):
                acc[i.v[r, c], c] += s.v[r, c].astype(acc.dtype)
        f.case("scatter_add", [x, i, s], [to(acc, d) if d in SMALL else acc], {"axis": 0})
    k = f.gen("i64", [2, 2], 0, 11)
    f.case("take", [x, k], [v.reshape(-1)[k.v]])
    m = f.gen("u8", [5], 0, 2)
    f.case("index_select", [x, m], [v[:, m.v]], {"axis": 1})
    f.case("index_select", [x, f.const(np.array([[3, 0]]))], [v[np.array([[3, 0]])]])
    mask = f.gen("bool", [4, 3])
    f.case("masked_select", [x, mask], [v[mask.v]])
    row = f.const(np.array([True, False, True]))
    f.case("masked_fill", [x, mask], [np.where(mask.v, to(np.float32(1), d), v).astype(t)], {"value": 1})
    f.case("masked_fill", [x, row], [np.where(row.v, to(np.float32(0), d), v).astype(t)])
    f.case("nonzero", [x], [np.argwhere(v != 0)])
    e = f.gen(d, [0, 3], 0, 9)
    f.case("nonzero", [e], [np.zeros((0, 2), np.int64)])
    f.case("masked_select", [e, f.const(np.zeros((0, 3), bool))], [np.zeros(0, t)])
    f.case("concat", [e, x], [v])
    f.case("flip", [e], [e.v])
    f.case("take", [x, f.const(np.zeros((0,), np.int64))], [np.zeros(0, t)])


def writing(f, d):
    """Copies with parts replaced or added to; SMALL floats add in f32 and round once."""
    t = NP[d]
    x, y = f.gen(d, [5, 6], 0, 9), f.gen(d, [2, 3], 0, 9)
    edge, line = f.gen(d, [2, 6], 0, 9), f.gen(d, [3], 0, 9)
    steps = {"start": [3, 0], "stop": [0, 6], "step": [-2, 2]}
    wide_of = lambda a: a.astype(np.float32) if d in SMALL else a.copy()
    back = lambda a: to(a, d) if d in SMALL else a.astype(t)
    for src, at, o in ((y, np.s_[3:0:-2, ::2], steps), (line, np.s_[3:0:-2, ::2], steps),
                       (edge, np.s_[1:3], {"start": [1], "stop": [3]})):
        z = x.v.copy()
        z[at] = src.v
        f.case("slice_update", [x, src], [z], o)
        if d != "bool":
            z = wide_of(x.v)
            z[at] += wide_of(src.v)
            f.case("slice_add", [x, src], [back(z)], o)
    mask = f.gen("bool", [5, 6])
    part = f.gen(d, [int(mask.v.sum())], 0, 9)
    z = x.v.copy()
    z[mask.v] = part.v
    f.case("masked_scatter", [x, mask, part], [z])
    row = f.const(np.array([True, False, True, False, False, True]))
    z = x.v.copy()
    z[:, row.v] = np.resize(edge.v, 15).reshape(5, 3)
    f.case("masked_scatter", [x, row, f.const(np.resize(edge.v, 15))], [z])
    if d == "bool":
        return
    i, j = f.gen("i64", [2, 2], 0, 4), f.const(np.array([1, -1, 1], np.int32))
    src, side = f.gen(d, [2, 2, 6], 0, 9), f.gen(d, [5, 3], 0, 9)
    z = wide_of(x.v)
    np.add.at(z, i.v, wide_of(src.v))
    f.case("index_add", [x, i, src], [back(z)])
    z = wide_of(x.v)
    np.add.at(z, (slice(None), j.v), wide_of(side.v))
    f.case("index_add", [x, j, side], [back(z)], {"axis": 1})
    for size, step, n in ((3, 1, 8), (3, 2, 8), (2, 4, 8), (6, 1, 8), (8, 3, 8)):
        w = f.gen(d, [2, (n - size) // step + 1, 3, size], 0, 9)
        z = wide_of(np.zeros((2, n, 3), t))
        for k in reversed(range(w.shape[1])):
            z[:, k * step:k * step + size] += np.swapaxes(wide_of(w.v[:, k]), -1, -2)
        f.case("fold", [w], [back(z)], {"axis": 1, "length": n, "step": step})


def casts(f):
    odd = [0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 127.0, 128.0, 255.0, 256.0, -129.0, 300.0, 447.0, 449.0, 460.0,
           464.0, 465.0, 57344.0, 61440.0, 61441.0, 65504.0, 65519.99, 65520.0, 1e10, -1e10, 2.0**31, -2.0**31, 2.0**63,
           -2.0**63, 1e30, 3.4e38, 3.5e38, 1e-8, 6e-8, 2.98e-8, 1e-40, 1e-46, 1e300, -1e300, np.inf, -np.inf, np.nan,
           1 + 2.0**-8, 1 + 2.0**-9 + 2.0**-30, 1 + 2.0**-11, 1 + 2.0**-11 + 2.0**-40, 1 + 3 * 2.0**-12]
    limits = {"u8": (0, 255), "i8": (-128, 127), "i16": (-2**15, 2**15 - 1), "i32": (-2**31, 2**31 - 1),
              "i64": (-2**63, 2**63 - 1)}

    def to_int(v, d):
        lo, hi = limits[d]
        return np.array([0 if x != x else lo if x < lo else hi if x > hi else int(x) for x in v.tolist()], NP[d])

    whole = np.array([0, 1, -1, 127, 128, 255, 256, -129, 32767, 65505, 65519, 65520, 2**24 + 1, 2**31, -2**31 - 1,
                      2**53 + 1, 2**62 + 2**38 + 1, 2**62 + 2**37, 2**63 - 1, -2**63, 257, 259, 1025, 2049, 449, 464, 465])
    for src in ALL:
        if src in FLOATS:
            x = f.const(np.array(odd), src)
        elif src in COMPLEX:
            x = f.const((np.array(odd) + 1j).astype(NP[src]))
        elif src == "bool":
            x = f.const(np.array([False, True]))
        else:
            x = f.const(whole.astype(NP[src]))
        v = wide(x.v)
        r = v.real.copy() if src in COMPLEX else v
        for dst in ALL:
            if src in COMPLEX and dst in COMPLEX:
                y = v.astype(NP[dst])
            elif dst == "bool":
                y = (v != 0)
            elif dst in COMPLEX:
                y = r.astype(NP[dst])
                if src in ("i64",) and dst == "complex64":
                    y = r.astype(np.float32).astype(np.complex64)
            elif dst in INTS:
                y = to_int(r, dst) if r.dtype == np.float64 else r.astype(NP[dst])
            elif dst in FLOATS:
                if r.dtype == np.int64 and dst in SMALL:  # one rounding
                    big = np.array([float(((abs(int(q)) >> 20) << 20) | (1 << 20 if abs(int(q)) & ((1 << 20) - 1) else 0))
                                    * (1 if q >= 0 else -1) if abs(int(q)) > 2**53 else float(q) for q in r])
                    y = to(big, dst)
                elif r.dtype.kind in "iub":
                    y = r.astype(np.float32 if dst != "f64" else np.float64) if dst in ("f32", "f64") else \
                        to(r.astype(np.float64), dst)
                else:
                    y = to(r, dst)
            f.case("cast", [x], [y], {"dtype": dst})


def blocks(f):
    """mxfp4 (OCP microscaling): the scale is the power of two below the largest magnitude
    over 4, elements round to e2m1; numbers that are exact come back exactly."""
    e2m1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.5, -1, -1.5, -2, -3, -4, -6, 6] * 2, np.float32)
    x = f.const(np.concatenate([e2m1, e2m1 * np.float32(2.0**-20), e2m1 * np.float32(2.0**30)]))
    f.case("cast", [x], [None], {"dtype": "mxfp4"}, check="blocks")
    f.case("cast", [f.const(x.v.reshape(3, 32))], [None], {"dtype": "mxfp4"}, check="blocks")
    f.case("cast", [f.const(np.stack([x.v, x.v[::-1]]).reshape(2, 1, 96))], [None], {"dtype": "mxfp4"}, check="blocks")


def bits(f):
    """The bytes of NumPy's view(dtype); of 16 bytes for an element of each size."""
    for d in ALL:
        x = f.gen(d, [2, 16], 0, 9) if d in INTS else f.gen(d, [2, 16])
        for to in ALL:
            if to == "bool" and d != "bool":
                continue
            f.case("bitcast", [x], [x.v.view(NP[to])], {"dtype": to})
    for d, to, shape in (("f32", "i32", []), ("f32", "i32", [0, 3]), ("f32", "i16", [0]), ("u8", "f64", [3, 0]), ("f64", "u8", [1])):
        x = f.gen(d, shape, 0, 3)
        f.case("bitcast", [x], [x.v.view(NP[to])], {"dtype": to})


def make():
    # Moving looks at the size of an element alone: one case for types of a size seen.
    f = Family("shape", {d: 1 for d in ("u8", "i8", "i16", "f64", "fp8_e4m3", "fp8_e5m2", "f16", "i32")})
    for d in ALL:
        moves(f, d)
        indexing(f, d)
        if d not in ("bool",):
            pad_all(f, d)
    for d in COMPLEX:
        x = f.gen(d, [3, 2])
        f.case("real_view", [x], [x.v.view(np.float32 if d == "complex64" else np.float64).reshape(3, 2, 2)])
    f.most = {}
    casts(f)
    blocks(f)
    # Larger ones of odd sizes, in all the ways that rows are moved.
    x = f.gen("f32", [37, 41])
    f.case("transpose", [x], [x.v.T])
    x = f.gen("u8", [7, 5, 3, 2], 0, 255)
    f.case("permute", [x], [np.transpose(x.v, (3, 1, 0, 2))], {"perm": [3, 1, 0, 2]})
    for d in ALL:
        writing(f, d)
    bits(f)
    return f
