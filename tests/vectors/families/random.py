"""Random rows: an independent Philox 4x32-10 (checked with the known answers of
Random123), and the layout of bits that vm/kernels/random.h documents."""
import numpy as np

from common import *


def philox(counter, key):
    c, k = [int(v) for v in counter], [int(v) for v in key]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def known_answers():
    f = 0xFFFFFFFF
    assert philox([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert philox([f] * 4, [f] * 2) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]
    assert philox([0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], [0xA4093822, 0x299F31D0]) == \
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]


def block(seed, stream, b):
    return philox([b & 0xFFFFFFFF, b >> 32, stream & 0xFFFFFFFF, stream >> 32], [seed & 0xFFFFFFFF, seed >> 32])


def bits32(n, seed, stream):
    return np.array([block(seed, stream, 16 * (i // 64) + i % 16)[(i // 16) % 4] for i in range(n)], np.uint64)


def bits64(n, seed, stream):
    out = []
    for i in range(n):
        w = block(seed, stream, 16 * (i // 32) + i % 16)
        h = 2 * ((i // 16) % 2)
        out.append(w[h] | w[h + 1] << 32)
    return np.array(out, np.uint64)


def uniform(n, seed, stream, d):
    if d == "f64":
        return (bits64(n, seed, stream) >> 11).astype(np.float64) * 2.0**-53
    return (bits32(n, seed, stream) >> 8).astype(np.float64) * 2.0**-24


def make():
    known_answers()
    f = Family("random")
    for k, d in enumerate(["f32", "f64", "f16", "bf16", "fp8_e4m3", "fp8_e5m2"]):
        for n, seed, stream in ((1, 0, 0), (63, 1, 2), (65, 12345, 7), (150, 2**40 + 3, 2**33 + 1)):
            u = uniform(n, seed, stream, d)
            y = to(u.astype(np.float32) if d != "f64" else u, d)
            if d in ("f32", "f64"):
                f.case("uniform", [], [y], {"shape": [n], "seed": seed, "stream": stream, "dtype": d})
                f.case("uniform", [], [-2 + 5 * u], {"shape": [n], "seed": seed, "stream": stream, "dtype": d,
                                                    "low": -2, "high": 3}, ulp=1.5, t=d, scale=2)
            else:  # rounding may not reach high
                most = np.nextafter(np.float32(1), np.float32(0)).astype(NP[d])
                below = {"f16": 1 - 2.0**-11, "bf16": 1 - 2.0**-8, "fp8_e4m3": 1 - 2.0**-4, "fp8_e5m2": 1 - 2.0**-3}
                y = np.minimum(y.astype(np.float32), np.float32(below[d])).astype(NP[d])
                f.case("uniform", [], [y], {"shape": [n], "seed": seed, "stream": stream, "dtype": d})
        f.case("uniform", [], [np.zeros([0, 3], NP[d])], {"shape": [0, 3], "seed": 1, "dtype": d})
    f.case("uniform", [], [uniform(6, 3, 0, "f32").astype(np.float32).reshape(2, 3)], {"shape": [2, 3], "seed": 3})

    for d in ["f16", "bf16", "fp8_e4m3", "fp8_e5m2"]:
        f.case("normal", [], [None], {"shape": [100], "seed": 5, "dtype": d})
    for d in FLOATS:
        f.case("normal", [], [None], {"shape": [20000], "mean": 3, "std": 2, "seed": 9, "dtype": d}, check="normal")
        f.case("truncated_normal", [], [None], {"shape": [20000], "seed": 9, "dtype": d}, check="truncated")
        f.case("truncated_normal", [], [None], {"shape": [9], "mean": 1, "std": 2, "low": 0, "high": 1,
                                                "seed": 9, "dtype": d}, check="truncated")
    for d in ["bool"] + INTS + FLOATS:
        u = uniform(200, 8, 1, "f32")
        f.case("bernoulli", [], [to((u < 0.3).astype(np.float32), d)],
               {"shape": [200], "p": 0.3, "seed": 8, "stream": 1, "dtype": d})
    f.case("bernoulli", [], [uniform(33, 8, 0, "f32") < 0.5], {"shape": [33], "seed": 8})
    f.case("bernoulli", [], [np.zeros(5, bool)], {"shape": [5], "p": 0, "seed": 8})
    f.case("bernoulli", [], [np.ones(5, bool)], {"shape": [5], "p": 1, "seed": 8})
    for d in INTS + ["f32", "f64", "f16"]:
        lo, hi = (0, 100) if d == "u8" else (-50, 77)
        y = np.array([lo + (int(w) * (hi - lo) >> 64) for w in bits64(100, 4, 2)])
        f.case("randint", [], [y.astype(NP[d])], {"shape": [100], "low": lo, "high": hi, "seed": 4, "stream": 2,
                                                  "dtype": d})
    y = np.array([-2**40 + (int(w) * 2**50 >> 64) for w in bits64(20, 4, 2)])
    f.case("randint", [], [y], {"shape": [20], "low": -2**40, "high": 2**50 - 2**40, "seed": 4, "stream": 2})
    for d in ("i64", "i32", "f32"):
        f.case("permutation", [], [None], {"n": 1000, "seed": 3, "dtype": d}, check="permutation")
    f.case("permutation", [], [np.argsort(bits64(100, 3, 0), kind="stable")], {"n": 100, "seed": 3})
    f.case("permutation", [], [np.zeros(0, np.int64)], {"n": 0, "seed": 3})
    for d in FLOATS:
        x = f.const(np.log(np.array([[0.1, 0.2, 0.7], [0.5, 0.25, 0.25]])), d)
        f.case("categorical", [x], [None], {"count": 4000, "seed": 11}, check="categorical")
        x = f.gen(d, [200], -3, 3)
        if d == "f64":
            keep = uniform(200, 6, 5, "f64") >= 0.25
            y = np.where(keep, x.v * (1 / 0.75), 0.0)
            f.case("dropout", [x], [y], {"p": 0.25, "seed": 6, "stream": 5}, ulp=1.01, t=d, zero=False)
        else:
            keep = uniform(200, 6, 5, "f32") >= 0.25
            y = to(np.where(keep, x.v.astype(np.float32) * np.float32(1 / 0.75), np.float32(0)), d)
            f.case("dropout", [x], [y], {"p": 0.25, "seed": 6, "stream": 5})
        f.case("dropout", [x], [x.v], {"p": 0, "seed": 6})
    f.case("categorical", [f.const(np.array([-np.inf, 0, -np.inf], np.float32))], [np.array([1, 1])],
           {"count": 2, "seed": 1})
    return f
