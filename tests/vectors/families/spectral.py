"""Transforms, by NumPy and SciPy in f64 (scipy.fft in f64 of the rounded input)."""
import numpy as np
import scipy.fft as sf
import scipy.signal as ss
import torch

from common import *

LENGTHS = [1, 2, 3, 5, 7, 8, 30, 97]
PART = {"f64": "f64", "complex128": "f64"}


def make():
    f = Family("spectral", {**Family.FEW, "bf16": 4, "i64": 3, "bool": 2, "complex128": 12, "f64": 12})
    for d in ["bool"] + INTS + FLOATS + COMPLEX:
        part = PART.get(d, "f32")
        real = d not in COMPLEX
        lengths = LENGTHS if d in ("f32", "complex64") else [3, 8, 30] if d in ("f64", "complex128") else [1, 7]
        for n in lengths:
            x = f.gen(d, [n], -1, 1) if d in FLOATS + COMPLEX else f.gen(d, [n], 0, 9)
            w = wide(x.v).astype(np.float64) if real else x.w
            top = np.sqrt(n) * max(np.abs(w).max(), 1e-3)
            for norm in ("ortho", "backward", "forward") if n in (7, 8) else ("ortho",):
                o = {"norm": norm} if norm != "ortho" else None
                k = dict(ulp=6 + 2 * np.log2(n + 1), t=part, scale=top * {"ortho": 1, "backward": np.sqrt(n), "forward": 1 / np.sqrt(n)}[norm])
                f.case("fft", [x], [sf.fft(w, norm=norm)], o, **k)
                ki = dict(k, scale=top * {"ortho": 1, "forward": np.sqrt(n), "backward": 1 / np.sqrt(n)}[norm])
                f.case("ifft", [x], [sf.ifft(w, norm=norm)], o, **ki)
                if real:
                    f.case("rfft", [x], [sf.rfft(w, norm=norm)], o, **k)
                if n > 1:
                    ki["scale"] *= 2
                    f.case("irfft", [x], [sf.irfft(w, norm=norm)], o, **ki)
                    f.case("irfft", [x], [sf.irfft(w, n=2 * n - 1, norm=norm)], {**(o or {}), "n": 2 * n - 1}, **ki)
                if d in FLOATS:
                    low = d in SMALL
                    kd = dict(ulp=0.52 if low else 8 + 2 * np.log2(n + 1), t=d, scale=None if low else 2 * k["scale"], zero=False)
                    if low:
                        kd["scale"] = np.abs(sf.dct(w, norm=norm)).max() * 2.0**-6
                    f.case("dct", [x], [sf.dct(w, norm=norm)], o, **kd)
                    kd2 = dict(kd, scale=kd["scale"] if low else 2 * ki["scale"])
                    f.case("idct", [x], [sf.idct(w, norm=norm)], o, **kd2)
        x = f.gen(d, [2, 10, 3], -1, 1) if d in FLOATS + COMPLEX else f.gen(d, [2, 10, 3], 0, 9)
        w = wide(x.v).astype(np.float64) if real else x.w
        k = dict(ulp=12, t=part, scale=4 * np.abs(w).max())
        if d in ("u8", "i16", "i32", "fp8_e5m2"):
            continue
        for n in (6, 13):
            f.case("fft", [x], [sf.fft(w, n, 1, norm="ortho")], {"axis": 1, "n": n}, **k)
            f.case("ifft", [x], [sf.ifft(w, n, 1, norm="ortho")], {"axis": 1, "n": n}, **k)
            if real:
                f.case("rfft", [x], [sf.rfft(w, n, 1, norm="ortho")], {"axis": 1, "n": n}, **k)
            if d in FLOATS and d not in SMALL:
                f.case("dct", [x], [sf.dct(w, 2, n, 1, norm="ortho")], {"axis": 1, "n": n}, ulp=16, t=d, scale=k["scale"])
                f.case("idct", [x], [sf.idct(w, 2, n, 1, norm="ortho")], {"axis": 1, "n": n}, ulp=16, t=d, scale=k["scale"])
        for row, fn in (("fft2", sf.fft2), ("ifft2", sf.ifft2), ("fftn", sf.fftn), ("ifftn", sf.ifftn)):
            f.case(row, [x], [fn(w, norm="ortho")], None, **dict(k, scale=k["scale"] * 3))
            f.case(row, [x], [fn(w, axes=(0, 2), norm="ortho")], {"axes": [0, 2]}, **k)
            f.case(row, [x], [fn(w, axes=(0, 2), norm="backward")], {"axes": [0, 2], "norm": "backward"}, **dict(k, scale=k["scale"] * 4))
    for d in ("f32", "f64", "f16", "bf16"):
        part = "f64" if d == "f64" else "f32"
        x = f.gen(d, [2, 50])
        for frame, hop, center in ((8, None, True), (16, 8, False), (7, 3, True)) if d in ("f32", "f64") else ((16, 5, True),):
            h = hop or (frame + 3) // 4
            win = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(frame) / frame)
            y = torch.stft(torch.tensor(x.w), frame, h, window=torch.tensor(win), center=center, normalized=False,
                           onesided=True, return_complex=True, pad_mode="reflect").numpy()
            o = {"frame": frame, "center": center}
            if hop:
                o["hop"] = hop
            k = dict(ulp=24, t=part, scale=2)
            f.case("stft", [x], [y / np.sqrt(frame)], o, **k)
            f.case("stft", [x], [y], {**o, "norm": "backward"}, **dict(k, scale=8))
            own = f.const(np.linspace(0.25, 1, frame), d)
            y = torch.stft(torch.tensor(x.w), frame, h, window=torch.tensor(own.w), center=center, return_complex=True).numpy()
            # A window of a narrow type gives products of that type.
            if d in SMALL:
                k["ulp"] = 2.0**(25 - PRECISION[d])
            f.case("stft", [x, own], [y / np.sqrt(frame)], o, **k)
            if center and d in ("f32", "f64"):
                s = f.const(y.astype(np.complex64 if d == "f32" else np.complex128))
                z = torch.istft(torch.tensor(s.w), frame, h, window=torch.tensor(own.w), center=True).numpy()
                f.case("istft", [s, own], [z], {**o, "norm": "backward"}, ulp=48, t=part, scale=2)
                z = torch.istft(torch.tensor(s.w), frame, h, window=torch.tensor(own.w), center=True, length=40).numpy()
                f.case("istft", [s, own], [z], {**o, "norm": "backward", "length": 40}, ulp=48, t=part, scale=2)
        w = f.gen(d, [5])
        for mode in ("full", "same", "valid"):
            y = np.stack([np.convolve(r, w.w, mode) for r in x.w])
            f.case("conv_fft", [x, w], [y], {"mode": mode}, ulp=0.75 if d in SMALL else 24, t=d, scale=2)
    for d, c in (("f32", "complex64"), ("f64", "complex128")):
        k = dict(ulp=24, t=d, scale=2)
        x, h = f.gen(d, [3, 20]), f.gen(c, [11])
        f.case("spectral_filter", [x, h], [sf.irfft(sf.rfft(x.w) * h.w, 20)], **k)
        z, h = f.gen(c, [3, 9]), f.gen(c, [9])
        for norm in ("backward", "forward"):
            f.case("spectral_filter", [z, h], [sf.ifft(sf.fft(z.w) * h.w)], {"norm": norm}, **k)
        x, h = f.gen(d, [15]), f.gen(d, [8])
        f.case("spectral_filter", [x, h], [sf.irfft(sf.rfft(x.w) * h.w, 15)], **k)
        # Several axes, in their order; axes in front; a length of its own; a filter for each row.
        x, h = f.gen(d, [2, 5, 6]), f.gen(c, [5, 4])
        f.case("spectral_filter", [x, h], [sf.irfftn(sf.rfftn(x.w, axes=(1, 2)) * h.w, (5, 6), (1, 2))], {"axes": [1, -1]}, **k)
        h = f.gen(c, [2, 3, 1])
        f.case("spectral_filter", [x, h], [sf.irfft(sf.rfft(x.w, axis=1) * h.w, 5, axis=1)], {"axes": [1]}, **k)
        for n in (4, 9):
            h = f.gen(c, [2, 1, n // 2 + 1])
            f.case("spectral_filter", [x, h], [sf.irfft(sf.rfft(x.w, n) * h.w, n)], {"n": n}, **k)
        z, h = f.gen(c, [4, 3, 5]), f.gen(d, [3, 5])
        f.case("spectral_filter", [z, h], [sf.ifft2(sf.fft2(z.w) * h.w)], {"axes": [-2, -1]}, **k)
        h = f.gen(c, [4, 3, 5])
        f.case("spectral_filter", [z, h], [sf.ifftn(sf.fftn(z.w) * h.w)], {"axes": [2, 0, 1]}, **k)
        x, h = f.gen(d, [7]), f.gen(c, [3, 4])
        f.case("spectral_filter", [x, h], [sf.irfft(sf.rfft(x.w) * h.w, 7)], **k)
    for d in ("f16", "bf16"):
        x, h = f.gen(d, [3, 20]), f.gen(d, [11])
        f.case("spectral_filter", [x, h], [sf.irfft(sf.rfft(x.w) * h.w, 20)], ulp=0.75, t=d, scale=2)
    return f
