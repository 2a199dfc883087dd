"""Products with sparse matrices: entries added one after the other in the type of the sums, and
compared with SciPy's products in f64; products of blocks by chains of fused multiply-adds."""
import numpy as np
import scipy.sparse

from common import *

# rows, columns, columns of x (None: a vector), entries
SHAPES = [(4, 5, 3, 9), (3, 4, None, 6), (5, 2, 1, 0), (0, 3, 2, 0), (2, 3, 0, 4), (6, 7, 17, 40), (1, 300, 2, 300)]
BLOCKS = [(2, 3, 2, 3, 4, 3), (3, 2, 4, 4, None, 5), (2, 2, 1, 5, 2, 0), (4, 4, 16, 16, 8, 7), (0, 2, 2, 2, 3, 0)]


def compute(d):
    return np.float64 if d == "f64" else np.float32


def agree(ours, theirs):
    assert np.allclose(ours, theirs, rtol=1e-4, atol=1e-4), (ours, theirs)


def summed(rows, row, parts):
    """parts[e] added to row[e] of zeros, in order."""
    y = np.zeros((rows,) + parts.shape[1:], parts.dtype)
    for r, part in zip(row, parts):
        y[r] += part
    return y


def products(f, d, at, rows, columns, n, entries):
    t = compute(d)
    v, x = f.gen(d, [entries]), f.gen(d, [columns] if n is None else [columns, n])
    row, column = f.gen(at, [entries], 0, rows - 1), f.gen(at, [entries], 0, columns - 1)
    c = column.v.astype(np.int64)
    scale = v.v.astype(t) if n is None else v.v.astype(t)[:, None]
    parts = scale * x.v.astype(t)[c]
    y = summed(rows, row.v, parts)
    agree(y, scipy.sparse.coo_matrix((v.w, (row.v, c)), (rows, columns)) @ x.w if rows else y)
    f.case("spmm_coo", [v, row, column, x], [to(y, d)], {"rows": rows})
    count = np.bincount(row.v.astype(np.int64), minlength=rows)
    offsets = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
    by_row = np.repeat(np.arange(rows), count)
    y = summed(rows, by_row, parts)
    agree(y, scipy.sparse.csr_matrix((v.w, c, offsets), (rows, columns)) @ x.w if rows else y)
    offsets = f.const(offsets.astype(NP[at]))
    f.case("csr_rows", [offsets], [by_row.astype(np.int64)], {"entries": entries})
    f.case("spmm_csr", [v, offsets, column, x], [to(y, d)])


def sampled(f, d, rows, columns, k, entries):
    t = compute(d)
    a, b, v = f.gen(d, [rows, k]), f.gen(d, [k, columns]), f.gen(d, [entries])
    row, column = f.gen("i64", [entries], 0, rows - 1), f.gen("i64", [entries], 0, columns - 1)
    y = canonical(a.v.astype(t)[row.v] * b.v.astype(t).T[column.v]) if entries else np.zeros([0], t)
    y = y + t(0) if k == 0 else y
    agree(y, (a.w @ b.w)[row.v, column.v] if entries else y)
    f.case("sddmm", [a, b, row, column], [to(y, d)])
    f.case("sddmm", [a, b, row, column, v], [to(v.v.astype(t) * y, d)])


def blocks(f, d, rows, columns, p, q, n, entries):
    t = compute(d)
    w, x = f.gen(d, [entries, p, q]), f.gen(d, [columns * q] if n is None else [columns * q, n])
    row, index = np.sort(f.gen("i64", [entries], 0, rows - 1).v), f.gen("i64", [entries], 0, columns - 1)
    offsets = np.searchsorted(row, np.arange(rows + 1)).astype(np.int64)
    a, b = w.v.astype(t), x.v.astype(t).reshape(columns, q, -1)[index.v]
    parts = chain(a, b) if t == np.float32 else a @ b
    y = summed(rows, row, parts).reshape([rows * p] if n is None else [rows * p, n])
    if rows:
        agree(y, scipy.sparse.bsr_matrix((w.w, index.v, offsets), (rows * p, columns * q)) @ x.w)
    exact = {} if t == np.float32 else {"ulp": 8, "t": d, "scale": 4}
    f.case("bsmm", [w, f.const(offsets), index, x], [to(y, d)], **exact)


def make():
    f = Family("sparse")
    for d in ("fp8_e4m3", "fp8_e5m2", "f16", "bf16", "f32", "f64"):
        for i, shape in enumerate(SHAPES):
            products(f, d, "i64" if i or d == "f64" else "u8", *shape)
        for shape in ((3, 4, 5, 7), (4, 2, 300, 5), (2, 2, 3, 0), (2, 3, 0, 4)):
            sampled(f, d, *shape)
        for shape in BLOCKS:
            blocks(f, d, *shape)
    return f
