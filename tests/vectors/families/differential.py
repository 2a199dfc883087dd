"""Derivatives on grids, by their formulas in f64 with NumPy; integrals by NumPy."""
import numpy as np

from common import *

LOW = ("f16", "bf16", "fp8_e4m3", "fp8_e5m2")


def fd(v, axis, h, order, boundary):
    w = np.moveaxis(v, axis, -1)
    a, b = np.roll(w, 1, -1), np.roll(w, -1, -1)
    y = (b - a) / (2 * h) if order == 1 else (b - 2 * w + a) / h**2
    if boundary == "edge":
        if order == 1:
            y[..., 0] = (-1.5 * w[..., 0] + 2 * w[..., 1] - 0.5 * w[..., 2]) / h
            y[..., -1] = (1.5 * w[..., -1] - 2 * w[..., -2] + 0.5 * w[..., -3]) / h
        else:
            y[..., 0] = (2 * w[..., 0] - 5 * w[..., 1] + 4 * w[..., 2] - w[..., 3]) / h**2
            y[..., -1] = (2 * w[..., -1] - 5 * w[..., -2] + 4 * w[..., -3] - w[..., -4]) / h**2
    return np.moveaxis(y, -1, axis)


def spectral(v, axis, h, order, boundary=None):
    n = v.shape[axis]
    k = 2j * np.pi * np.fft.fftfreq(n, h)
    if order == 1 and n % 2 == 0:
        k[n // 2] = 0
    shape = [1] * v.ndim
    shape[axis] = n
    return np.fft.ifft(np.fft.fft(v, axis=axis) * (k**order).reshape(shape), axis=axis).real


def make():
    f = Family("differential", Family.FEW)
    for d in FLOATS:
        low = d in LOW
        ulp = 0.52 if low else 32  # narrow types are rounded once, at the end
        scale = lambda y, least: 1 / 16 if low else max(np.abs(y).max(), least)
        x = f.gen(d, [6, 9])
        for method, fn in (("fd", fd), ("spectral", spectral)):
            for boundary in ("periodic", "edge") if method == "fd" else ("periodic",):
                for order in (1, 2):
                    for axis, h in ((-1, 1), (0, 0.5)):
                        y = fn(x.w, axis, h, order, boundary)
                        o = {"axis": axis, "order": order, "method": method, "boundary": boundary, "spacing": h}
                        f.case("d", [x], [y], o, ulp=ulp, t=d, scale=scale(y, 4 / h**order), zero=False)
                o = {"method": method, "boundary": boundary, "spacing": [0.5, 2]}
                y = fn(x.w, 0, 0.5, 2, boundary) + fn(x.w, 1, 2, 2, boundary)
                f.case("laplacian", [x], [y], o, ulp=ulp, t=d, scale=scale(y, 16), zero=False)
                y = fn(x.w, 1, 1, 2, boundary)
                f.case("laplacian", [x], [y], {"method": method, "boundary": boundary, "axes": [-1]}, ulp=ulp, t=d, scale=scale(y, 4), zero=False)
                v = f.gen(d, [2, 5, 8])
                y = fn(v.w[0], 0, 0.5, 1, boundary) + fn(v.w[1], 1, 2, 1, boundary)
                f.case("divergence", [v], [y], o, ulp=ulp, t=d, scale=scale(y, 4), zero=False)
                y = fn(v.w[1], 0, 0.5, 1, boundary) - fn(v.w[0], 1, 2, 1, boundary)
                f.case("curl", [v], [y], o, ulp=ulp, t=d, scale=scale(y, 4), zero=False)
                v = f.gen(d, [3, 5, 4, 6])
                g = lambda c, a: fn(v.w[c], a, 1, 1, boundary)
                y = np.stack([g(2, 1) - g(1, 2), g(0, 2) - g(2, 0), g(1, 0) - g(0, 1)])
                f.case("curl", [v], [y], {"method": method, "boundary": boundary}, ulp=ulp, t=d, scale=scale(y, 4), zero=False)
    x = f.gen("f32", [1])
    f.case("d", [x], [np.zeros(1)], ulp=1, t="f32", scale=1)
    for d in FLOATS + COMPLEX:
        part = {"complex64": "f32", "complex128": "f64"}.get(d, d)
        y, line = f.gen(d, [3, 7, 4]), f.const(np.array([-2, -1, 0.5, 0.75, 2, 2, 5]), part)
        points = f.gen(part, [3, 7, 1])
        o = {"ulp": 8 if d in LOW else 16, "t": part, "scale": 4, "zero": False}
        f.case("trapezoid", [y], [np.trapezoid(y.w)], **o)
        f.case("trapezoid", [y], [np.trapezoid(y.w, dx=0.5, axis=0)], {"dx": 0.5, "axis": 0}, **o)
        f.case("trapezoid", [y, line], [np.trapezoid(y.w, line.w, axis=1)], {"axis": 1}, **o)
        f.case("trapezoid", [y, points], [np.trapezoid(y.w, points.w, axis=-2)], {"axis": -2}, **o)
    for n in (0, 1):
        y = f.gen("f64", [2, n])
        f.case("trapezoid", [y], [np.trapezoid(y.w)])
    y = f.gen("i32", [5], 0, 9)
    f.case("trapezoid", [y], [np.trapezoid(y.v).astype(np.float32)])
    return f
