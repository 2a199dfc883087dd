"""Contractions and dense linear algebra. Products of f32 are compared bit for bit with the
chain of fused multiply-adds, the rest with f64, relative to the sum of |a| |b|."""
import numpy as np

from common import *

np.seterr(all="ignore")


def acc32(v):
    return v.astype(np.float32)


def product(f, d, s, t, o=None, row="matmul", fn=None, **more):
    """A product with inputs of shapes s and t."""
    if d in INTS:
        x, y = f.gen(d, s, 0, 3), f.gen(d, t, 0, 3)
        f.case(row, [x, y], [np.matmul(x.v.astype(np.int64), y.v.astype(np.int64)).astype(NP[d])], o)
        return
    x, y = f.gen(d, s), f.gen(d, t)
    if d in FLOATS and d != "f64":
        a = acc32(x.v) if len(s) > 1 else acc32(x.v)[None]
        b = acc32(y.v) if len(t) > 1 else acc32(y.v)[:, None]
        c = chain(a, b)
        c = c[..., 0, :] if len(s) == 1 else c
        c = c[..., 0] if len(t) == 1 else c
        f.case(row, [x, y], [to(c, d)], o)
        return
    part = "f32" if d == "complex64" else "f64"
    ref = np.matmul(x.v.astype(np.clongdouble if d in COMPLEX else np.longdouble),
                    y.v.astype(np.clongdouble if d in COMPLEX else np.longdouble))
    scale = np.abs(np.matmul(np.abs(x.w), np.abs(y.w))).max() if ref.size else None
    f.case(row, [x, y], [ref.astype(np.complex128 if d in COMPLEX else np.float64)], o,
           ulp=2 + s[-1]**0.5, t=part, scale=scale or 1)


def gelu(x):
    from scipy.special import ndtr
    return x * ndtr(x)


ACT = {"relu": lambda x: np.maximum(x, 0), "silu": lambda x: x / (1 + np.exp(-x)), "gelu": gelu}


def products(f):
    for d in FLOATS + COMPLEX + ["u8", "i8", "i16", "i32", "i64"]:
        sizes = [([2, 3], [3, 4]), ([1, 1], [1, 1]), ([5], [5]), ([3], [3, 2]), ([2, 3], [3]), ([0, 3], [3, 2]),
                 ([2, 0], [0, 2]), ([4, 2, 3], [3, 5]), ([2, 1, 3, 4], [5, 4, 2]), ([17, 31], [31, 13]),
                 ([1, 129], [129, 7]), ([7, 65], [65, 1])]
        if d in ("f32", "bf16", "f64", "i32"):
            sizes += [([33, 257], [257, 5]), ([1, 517], [517, 19]), ([8, 64], [64, 33])]
        for s, t in sizes:
            product(f, d, s, t)
    for d in ("f16", "bf16", "f32", "f64"):
        x, y = f.gen(d, [3, 5]), f.gen(d, [5, 4])
        b, r = f.gen(d, [4]), f.gen(d, [3, 4])
        p = x.w @ y.w
        u = 3 if d in ("f32", "f64") else 0.51
        for ep, ins in (("bias", [b]), ("relu", []), ("silu", []), ("gelu", []), ("residual", [None, r]),
                        ("bias_gelu_residual", [b, r]), ("bias_relu", [b]), ("silu_residual", [None, r])):
            z = p
            for w in ep.split("_"):
                z = z + b.w if w == "bias" else z + r.w if w == "residual" else ACT[w](z)
            f.case("matmul", [x, y] + ins, [z], {"epilogue": ep}, ulp=u, t=d, scale=2 if u == 3 else None, zero=False)
        f.case("matmul", [x, y], [p], {"tile_shape": [2, 2, 2]}, ulp=2 if u == 3 else 0.51, t=d, scale=2 if u == 3 else 0)
        w, z = f.gen(d, [4, 5]), f.gen(d, [2, 3, 5])
        kw = dict(ulp=3 if u == 3 else 0.51, t=d, scale=2 if u == 3 else 0)
        f.case("linear", [z, w], [z.w @ w.w.T], **kw)
        f.case("linear", [x, w, b], [x.w @ w.w.T + b.w], **kw)
        f.case("linear", [x, w, b], [ACT["gelu"](x.w @ w.w.T + b.w)], {"epilogue": "bias_gelu"}, **kw)
    for d, e in (("f16", "f32"), ("bf16", "f32"), ("f32", "f64"), ("i8", "i32"), ("u8", "i64")):
        x, y = (f.gen(d, [3, 70]), f.gen(d, [70, 2])) if d in FLOATS else (f.gen(d, [3, 70], 0, 99), f.gen(d, [70, 2], 0, 99))
        if e == "f32":
            f.case("matmul", [x, y], [chain(acc32(x.v), acc32(y.v))], {"accumulate": e})
        elif e == "f64":
            f.case("matmul", [x, y], [x.w @ y.w], {"accumulate": e}, ulp=9, t="f64", scale=9)
        else:
            f.case("matmul", [x, y], [(x.v.astype(np.int64) @ y.v.astype(np.int64)).astype(NP[e])], {"accumulate": e})


def composed(f):
    for d in ("f16", "bf16", "f32", "f64", "complex64", "complex128"):
        part = {"complex64": "f32", "complex128": "f64"}.get(d, d)
        low = d in ("f16", "bf16")
        a, b, c = f.gen(d, [4, 3]), f.gen(d, [3, 5]), f.gen(d, [4, 5])
        at, bt = f.gen(d, [3, 4]), f.gen(d, [5, 3])
        kw = dict(t=part, scale=2)
        f.case("gemm", [a, b, c], [a.w @ b.w + c.w], ulp=3, **kw)
        f.case("gemm", [a, b], [0.5 * (a.w @ b.w)], {"alpha": 0.5}, ulp=3, **kw)
        f.case("gemm", [at, bt, c], [2 * (at.w.T @ bt.w.T) - 0.25 * c.w],
               {"alpha": 2, "beta": -0.25, "trans_a": True, "trans_b": True}, ulp=6, **kw)
        x, y = f.gen(d, [31]), f.gen(d, [31])
        f.case("dot", [x, y], [np.asarray((x.w * y.w).sum())], ulp=8, t=part, scale=8)
        w = f.gen(d, [7])
        f.case("outer", [x, w], [np.outer(x.w, w.w)], ulp=1.5, t=part)
        u, v = f.gen(d, [6, 2]), f.gen(d, [2, 3])
        z = f.gen(d, [2, 4, 6])
        f.case("factorized_matmul", [z, u, v], [z.w @ u.w @ v.w], ulp=8, t=part, scale=4)
        for eq, shapes in (("ij,jk->ik", ([3, 4], [4, 2])), ("bij,bjk->bik", ([2, 3, 4], [2, 4, 5])), ("ii->", ([4, 4],)),
                           ("ii->i", ([4, 4],)), ("ij->ji", ([3, 4],)), ("ij->j", ([3, 4],)), ("ij", ([3, 4],)),
                           ("i,j->ij", ([3], [4])), ("...i,...i->...", ([2, 3, 4], [3, 4])), ("ij,jk,kl->il", ([2, 3], [3, 4], [4, 2])),
                           ("bhqd,bhkd->bhqk", ([1, 2, 3, 4], [1, 2, 5, 4])), ("ij,ij->", ([3, 4], [3, 4])), ("ij,kj", ([2, 3], [4, 3]))):
            ins = [f.gen(d, s) for s in shapes]
            f.case("einsum", ins, [np.asarray(np.einsum(eq, *[i.w for i in ins]))], {"equation": eq}, ulp=10, t=part,
                   scale=4, zero=False)
    for d in ("i32", "i64", "u8"):
        x, y = f.gen(d, [3, 4], 0, 5), f.gen(d, [4, 2], 0, 5)
        f.case("einsum", [x, y], [x.v @ y.v], {"equation": "ij,jk->ik"})
        p, q = f.gen(d, [5], 0, 5), f.gen(d, [5], 0, 5)
        f.case("dot", [p, q], [np.asarray((p.v * q.v).sum(dtype=NP[d]))])
        f.case("outer", [p, q], [np.outer(p.v, q.v)])


def dense(f):
    for d in ("f32", "f64", "complex64", "complex128", "f16", "bf16"):
        part = {"complex64": "f32", "complex128": "f64"}.get(d, d)
        low = d in ("f16", "bf16")
        for shape in ([4, 4], [2, 3, 3], [1, 1], [5, 3], [3, 5], [0, 0], [2, 0, 0], [31, 31] if d == "f32" else [6, 6]):
            x = f.gen(d, shape, -1, 1)
            for row, n in (("qr", 2), ("svd", 3), ("lu", 3)):
                f.case(row, [x], [None] * n, check=row)
            f.case("qr", [x], [None] * 2, {"mode": "complete"}, check="qr")
            f.case("svd", [x], [None] * 3, {"full": True}, check="svd")
            if shape[-1] != shape[-2]:
                continue
            n = shape[-1]
            f.case("eigh", [x], [None] * 2, check="eigh")
            g = x.w @ np.conj(np.swapaxes(x.w, -1, -2)) + 2 * np.eye(n)
            spd = f.const(g.astype(NP[d]) if d in COMPLEX else to(g, d))
            f.case("cholesky", [spd], [None], check="cholesky")
            f.case("cholesky", [spd], [None], {"upper": True}, check="cholesky")
            diag = spd
            w = diag.w
            if n and n < 10:
                cond = 40 * np.linalg.cond(w).max()
                inv = np.linalg.inv(w)
                u = 0.6 if low else cond
                f.case("inv", [diag], [inv], ulp=u, t=part, scale=None if low else np.abs(inv).max())
                f.case("det", [diag], [np.asarray(np.linalg.det(w))], ulp=0.6 if low else cond, t=part)
                b = f.gen(d, shape[:-1] + [2])
                y = np.linalg.solve(w, b.w)
                f.case("solve", [diag, b], [y], ulp=u if not low else 0.6, t=part, scale=None if low else np.abs(y).max())
                v = f.gen(d, [n])
                if len(shape) == 2:
                    f.case("solve", [diag, v], [np.linalg.solve(w, v.w)], ulp=u, t=part,
                           scale=None if low else np.abs(np.linalg.solve(w, v.w)).max())
                for lower in (True, False):
                    for tr in (False, True):
                        for un in (False, True):
                            tri = np.tril(w) if lower else np.triu(w)
                            if un:
                                tri = tri - tri * np.eye(n) + np.eye(n)
                            m = np.swapaxes(tri, -1, -2) if tr else tri
                            y = np.linalg.solve(m, b.w)
                            f.case("tri_solve", [diag, b], [y], {"lower": lower, "transpose": tr, "unit": un},
                                   ulp=0.6 if low else 40 * np.linalg.cond(m).max(), t=part, scale=None if low else np.abs(y).max())
            else:
                f.case("inv", [diag], [w if n == 0 else np.linalg.inv(w)], ulp=500, t=part, scale=4)
                f.case("det", [diag], [np.asarray(np.linalg.det(w)) if n == 0 else None], ulp=1, t=part)


def cofactors(f):
    """By determinants of minors; also of singular matrices."""
    for d in ("f32", "f64", "complex64", "complex128", "f16", "bf16"):
        part = {"complex64": "f32", "complex128": "f64"}.get(d, d)
        thin = f.gen(d, [4, 2]).w.round(1)
        low = thin @ thin.T if d in COMPLEX + ["f64"] else np.diag([1.0, 2.0, 0.0, -1.0])
        for x in (f.gen(d, [4, 4]), f.gen(d, [2, 3, 3]), f.gen(d, [1, 1]), f.gen(d, [0, 0]),
                  f.const(np.diag([1, 2, 0, -1.0]).astype(NP[d])), f.const(low.astype(NP[d]))):
            n = x.shape[-1]
            y = np.zeros(x.shape, x.w.dtype)
            for i in range(n):
                for j in range(n):
                    minor = np.delete(np.delete(x.w, i, -2), j, -1)
                    y[..., i, j] = (-1) ** (i + j) * np.linalg.det(minor)
            f.case("cofactor", [x], [y], ulp=0.7 if d in ("f16", "bf16") else 200, t=part,
                   scale=None if d in ("f16", "bf16") else max(1.0, np.abs(y).max(initial=0)), zero=False)


def spectra(f):
    """Eigenvalues in the order of LAPACK's geev, which NumPy calls; pseudoinverses."""
    for d in ("f32", "f64", "complex64", "complex128", "f16", "bf16"):
        part = {"complex64": "f32", "complex128": "f64"}.get(d, d)
        low = d in ("f16", "bf16")
        t = "f64" if part == "f64" else "f32"
        for shape in ([4, 4], [2, 3, 3], [1, 1], [0, 0], [2, 0, 0], [9, 9]):
            x = f.gen(d, shape, -1, 1)
            w, v = np.linalg.eig(x.w.astype(np.complex128 if d in COMPLEX else np.float64))
            w = w.astype(np.complex128)
            cond = 40 * (np.linalg.cond(v).max() if v.size else 1)
            if shape == [9, 9]:  # large enough that the order of values is that of the library
                f.case("eig", [x], [None, None], check="eig")
                continue
            f.case("eigvals", [x], [w], ulp=cond, t=t, scale=max(np.abs(w).max(initial=0), 1e-3), zero=False)
            f.case("eig", [x], [w, None], ulp=cond, t=t, scale=max(np.abs(w).max(initial=0), 1e-3), zero=False, check="eig")
        turn = f.const(np.array([[0, -1], [1, 0]]).astype(NP[d]))
        f.case("eigvals", [turn], [np.array([1j, -1j])], ulp=4, t=t, scale=1, zero=False)
        for shape in ([4, 4], [2, 5, 3], [3, 5], [0, 3], [2, 3, 0], [1, 1]):
            x = f.gen(d, shape, -1, 1)
            y = np.linalg.pinv(x.w) if 0 not in shape else np.zeros(shape[:-2] + [shape[-1], shape[-2]], x.w.dtype)
            kw = dict(ulp=0.7 if low else 40 * (np.linalg.cond(x.w).max() if 0 not in shape else 1), t=part, zero=False,
                      scale=max(np.abs(y).max(initial=0), 1e-3) if not low else 0)
            f.case("pinv", [x], [y], **kw)
        thin = f.gen(d, [4, 2]).w.round(1)
        full = to(thin @ thin.T.conj(), d) if d not in COMPLEX else (thin @ thin.T.conj()).astype(NP[d])
        lost = f.const(full)
        wide = lost.w
        if not low:
            kw = dict(ulp=4000, t=part, zero=False)
            y = np.linalg.pinv(wide, rcond=1e-4)
            f.case("pinv", [lost], [y], {"rcond": 1e-4}, scale=np.abs(y).max(), **kw)
            y = np.linalg.pinv(wide, rcond=1e-4, hermitian=True)
            f.case("pinv", [lost], [y], {"rcond": 1e-4, "hermitian": True}, scale=np.abs(y).max(), **kw)
            y = np.linalg.pinv(wide, rcond=0.5)
            f.case("pinv", [lost], [y], {"rcond": 0.5}, scale=np.abs(y).max(), **kw)
            import torch
            y = torch.linalg.pinv(torch.from_numpy(wide), atol=0.2).numpy()
            f.case("pinv", [lost], [y], {"atol": 0.2}, scale=np.abs(y).max(), **kw)
            f.case("pinv", [f.const(np.zeros([2, 3], NP[d]))], [np.zeros([3, 2], wide.dtype)], ulp=1, t=part)


# ---- products of groups of rows: [rows, k, n, sizes]
GROUPED = [(7, 3, 4, [2, 0, 5]), (6, 5, 3, [1, 3]), (5, 4, 6, [3, 4]), (9, 17, 8, [0, 9, 0]), (4, 6, 5, [4]),
           (0, 3, 2, [0, 0]), (3, 0, 2, [1, 2]), (21, 33, 9, [10, 1, 0, 9]), (10, 3, 5, [1, 2, 0, 1] * 3)]


def groups_of(sizes, rows):
    """First row and end of each group; groups end where the rows do."""
    ends = np.minimum(np.cumsum(sizes), rows)
    return list(zip([0, *ends[:-1]], ends))


def grouped(f, d, rows, k, n, sizes, index, o=None):
    """Both operators: each group by the reference of matmul."""
    ints, part = d in INTS, {"complex64": "f32", "complex128": "f64"}.get(d, d)
    acc = o["accumulate"] if o else d
    low = not ints and part != "f64" and d not in COMPLEX and acc != "f64"
    make = (lambda s: f.gen(d, s, 0, 3)) if ints else (lambda s: f.gen(d, s))
    wide = np.int64 if ints else np.float32 if low else np.clongdouble if d in COMPLEX else np.longdouble
    times = chain if low else np.matmul
    x, w, g = make([rows, k]), make([len(sizes), k, n]), make([rows, n])
    y, dw = np.zeros([rows, n], wide), np.zeros([len(sizes), k, n], wide)
    most = 1.0
    for i, (lo, hi) in enumerate(groups_of(sizes, rows)):
        a, b = x.v[lo:hi].astype(wide), g.v[lo:hi].astype(wide)
        y[lo:hi], dw[i] = times(a, w.v[i].astype(wide)), times(a.T, b)
        size = np.matmul(np.abs(a), np.abs(w.v[i].astype(wide)))
        most = max(most, size.max(initial=0), np.matmul(np.abs(a).T, np.abs(b)).max(initial=0))
    s = f.const(np.array(sizes, NP[index]))
    for row, ins, out, steps in (("grouped_matmul", [x, w, s], y, k), ("grouped_matmul_weight_grad", [x, g, s], dw, rows)):
        if ints:
            f.case(row, ins, [out.astype(NP[acc])], o)
        elif low:
            f.case(row, ins, [to(out, acc)], o)
        else:
            f.case(row, ins, [out.astype(np.complex128 if d in COMPLEX else np.float64)], o, ulp=2 + steps**0.5,
                   t="f64" if acc == "f64" else part, scale=float(most))


def all_grouped(f):
    for d in FLOATS + COMPLEX + INTS:
        for i, (rows, k, n, sizes) in enumerate(GROUPED):
            grouped(f, d, rows, k, n, sizes, "i64" if i % 2 else ("i32", "u8", "i16")[i // 2 % 3])
    for d, e in (("f16", "f32"), ("bf16", "f32"), ("f32", "f64"), ("i8", "i32"), ("u8", "i64")):
        grouped(f, d, 9, 37, 5, [4, 0, 3], "i64", {"accumulate": e})


def make():
    f = Family("linalg", {**Family.FEW, "f16": 12, "bf16": 30, "i32": 20, "u8": 20, "f64": 36, "complex128": 36, "i64": 8})
    products(f)
    composed(f)
    dense(f)
    cofactors(f)
    all_grouped(f)
    spectra(f)
    return f
