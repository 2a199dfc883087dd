"""The table of gelu_f32.inc: python3 fit_gelu.py prints its lines in two minutes.

x Phi(x) for |x| < T is x (H + t P(t)), t = x - C, with H, C and P for each of 32 stretches of x. A
stretch is what x (S - Q x) rounds to, so that they are narrow where Phi grows by a large factor and
wide where it is nearly 1. C is chosen so that Phi(C) is a number of f32 but for 2^-31, and P(0) nearly
the slope there: then no low parts are needed. Of the C that do, the one with the smallest error over
the stretch is taken. Needs numpy and mpmath."""
import math
import sys

import mpmath as mp
import numpy as np

mp.mp.prec = 120
T, S, Q, DEGREE, FIRST = 4.75, 3.3056640625, 0.294921875, 5, -22
f32, f64 = np.float32, np.float64
erfc = np.vectorize(math.erfc)


def Phi(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


def phi64(x):
    return 0.5 * erfc(-x * math.sqrt(0.5))


def edge(k):
    """Where x (S - Q x) is k - 1/2, within [-T, T]."""
    d = S * S - 4 * Q * (k - 0.5)
    return max(-T, min(T, (S - math.sqrt(d)) / (2 * Q))) if d > 0 else T


def fma(a, b, c):
    return (f64(a) * f64(b) + f64(c)).astype(f32)


def polynomial(lo, hi, c, slope):
    """P with the given P(0), smallest relative error in Phi, its coefficients rounded one by one, each
    followed by a new fit of the others."""
    w = max(abs(lo - c), abs(hi - c))
    nodes = [(lo + hi) / 2 - c + (hi - lo) / 2 * mp.cos(mp.pi * (2 * j + 1) / 72) for j in range(36)]
    fixed = [mp.mpf(slope)]
    value = [Phi(c + x) for x in nodes]
    for m in range(1, DEGREE + 1):
        n = DEGREE + 1 - m
        A, r = mp.matrix(36, n), mp.matrix(36, 1)
        for i, x in enumerate(nodes):
            rest = value[i] - Phi(c) - sum(p * x ** (j + 1) for j, p in enumerate(fixed))
            for j in range(n):
                A[i, j] = (x / w) ** (m + j + 1) / value[i]
            r[i] = rest / value[i]
        fixed.append(mp.mpf(float(f32(float(mp.qr_solve(A, r)[0][0] / w ** (m + 1))))))
    return [float(p) for p in fixed]


def error(lo, hi, row, n):
    """The largest error in ulp over n numbers of the stretch, or over all."""
    if n:
        x = np.linspace(lo, hi, n).astype(f32)
    else:
        ends = np.sort(np.abs(np.array([lo, hi], f32)).view(np.int32))
        x = np.copysign(np.arange(ends[0] - 8, ends[1] + 8, dtype=np.int32).view(f32), f32(lo))
    t = x - f32(row[0])
    p = np.full_like(x, row[-1])
    for c in row[-2:2:-1]:
        p = fma(p, t, f32(c))
    xt = x * t
    y = fma(x, f32(row[1]), fma(xt, f32(row[2]), (xt * t) * p))
    exact = x.astype(f64) * phi64(x.astype(f64))
    return np.max(np.abs(y - exact) / np.ldexp(1.0, np.frexp(exact)[1] - 24))


def stretch(k):
    lo, hi = edge(k), edge(k + 1)
    if k == 0:  # C is nearly 0, and below it: x = -0 has to give -0
        c, h = -(2.0**-100), 0.5
        return [c, h] + polynomial(lo, hi, mp.mpf(c), float(f32(1 / math.sqrt(2 * math.pi))))
    # in the middle as Phi sees it, so that t P(t) is the same part of both ends
    middle = float(mp.findroot(lambda t: 2 / Phi(t) - 1 / Phi(mp.mpf(lo)) - 1 / Phi(mp.mpf(hi)), lo / 2 + hi / 2))
    if hi > 2:
        middle = (lo + hi) / 2
    c = (middle + np.linspace(-0.15, 0.15, 100001) * (hi - lo)).astype(f32).astype(f64)
    h, slope = phi64(c), np.exp(-c * c / 2) / math.sqrt(2 * math.pi)
    off = np.abs(h.astype(f32) - h) / h
    slope_off = np.abs(slope.astype(f32) - slope) / slope
    best = np.lexsort((slope_off, off > 2.0**-31))[:40]
    rows = [[c[i], float(f32(h[i]))] + polynomial(lo, hi, mp.mpf(c[i]), float(f32(slope[i]))) for i in best]
    rows.sort(key=lambda row: error(lo, hi, row, 20000))
    return min(rows[:12], key=lambda row: error(lo, hi, row, 0))


rows = []
for k in range(FIRST, FIRST + 32):
    rows.append(stretch(k) if edge(k) < edge(k + 1) else rows[-1])
    print("%3d %8.4f %8.4f %6.3f ulp" % (k, edge(k), edge(k + 1), error(edge(k), edge(k + 1), rows[-1], 400000 if k == 0 else 0)), file=sys.stderr)
for row in rows:
    number = [float(v).hex().replace("0000000p", "p") + "f" for v in row]
    print("  X(%s, \\\n    %s) \\" % (", ".join(number[:4]), ", ".join(number[4:])))
