"""What the makers of agreement vectors share: element types, inputs by formula, the
recorder of cases. An input is a formula that tests/agree/_cases.lua computes again, so
that only results are stored."""
import hashlib
import json
import math
import struct

import ml_dtypes
import numpy as np

NP = {
    "bool": np.bool_, "u8": np.uint8, "i8": np.int8, "i16": np.int16, "i32": np.int32,
    "i64": np.int64, "fp8_e4m3": ml_dtypes.float8_e4m3fn, "fp8_e5m2": ml_dtypes.float8_e5m2,
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
    "complex64": np.complex64, "complex128": np.complex128,
}
NAME = {np.dtype(t): n for n, t in NP.items()}
ST = {"bool": "BOOL", "u8": "U8", "i8": "I8", "i16": "I16", "i32": "I32", "i64": "I64",
      "fp8_e4m3": "F8_E4M3", "fp8_e5m2": "F8_E5M2", "f16": "F16", "bf16": "BF16", "f32": "F32",
      "f64": "F64", "complex64": "C64", "complex128": "C128"}
SMALL = ["fp8_e4m3", "fp8_e5m2", "f16", "bf16"]
FLOATS = SMALL + ["f32", "f64"]
INTS = ["u8", "i8", "i16", "i32", "i64"]
COMPLEX = ["complex64", "complex128"]
ALL = ["bool"] + INTS + FLOATS + COMPLEX
PRECISION = {"fp8_e4m3": 4, "fp8_e5m2": 3, "f16": 11, "bf16": 8, "f32": 24, "f64": 53}


def name_of(a):
    return NAME[np.asarray(a).dtype]


def wide(a):
    """a in f64 or complex128, exactly; integers and bool as they are."""
    d = name_of(a)
    if d in FLOATS:
        return a.astype(np.float64)
    return a.astype(np.complex128) if d in COMPLEX else a


def round_odd(a):
    """f64 to f32, rounded to odd, so that a second rounding equals a single one."""
    a = np.asarray(a, np.float64)
    with np.errstate(all="ignore"):
        r = a.astype(np.float32)
        inexact = np.isfinite(a) & (r.astype(np.float64) != a)
        down = np.where(np.abs(r.astype(np.float64)) > np.abs(a),
                        np.nextafter(r, np.float32(0)), r).astype(np.float32)
    bits = down.view(np.uint32) | inexact.astype(np.uint32)
    return np.where(inexact, bits.view(np.float32), r).astype(np.float32)


def to(a, dtype):
    """One rounding from f64 (or f32) to a float type, or a plain cast."""
    a = np.asarray(a)
    with np.errstate(all="ignore"):
        if dtype == "fp8_e4m3":  # has no infinity: the greatest number stands for what is beyond
            a = np.clip(a.astype(np.float64) if a.dtype != np.float32 else a, -448, 448)
        if dtype in SMALL:
            return (round_odd(a) if a.dtype == np.float64 else a.astype(np.float32)).astype(NP[dtype])
        return a.astype(NP[dtype])


# ---- inputs by formula: a 32-bit hash of index and seed (the finaliser of MurmurHash3)
def hash32(i, seed):
    m = 0xFFFFFFFF
    x = (i.astype(np.uint64) * 0x9E3779B1 + seed * 0x85EBCA77) & m
    x ^= x >> 16
    x = (x * 0x85EBCA6B) & m
    x ^= x >> 13
    x = (x * 0xC2B2AE35) & m
    return x ^ (x >> 16)


def unit(n, seed):
    """53 bits in [0, 1)."""
    i = np.arange(n, dtype=np.uint64)
    hi, lo = hash32(i, seed), hash32(i, seed + 40503) >> 11
    return (hi.astype(np.float64) * 2.0**21 + lo.astype(np.float64)) * 2.0**-53


class Input:
    def __init__(self, value, spec):
        self.v, self.spec, self.dtype, self.shape = value, spec, name_of(value), value.shape

    @property
    def w(self):
        return wide(self.v)


def lua(v):
    """A Python value as Lua text."""
    if v is None or isinstance(v, bool):
        return {None: "nil", True: "true", False: "false"}[v]
    if isinstance(v, (int, np.integer)):
        return str(int(v))
    if isinstance(v, (float, np.floating)):
        v = float(v)
        return "0/0" if v != v else ("1/0" if v > 0 else "-1/0") if math.isinf(v) else repr(v)
    if isinstance(v, str):
        return json.dumps(v)
    if isinstance(v, dict):
        return "{" + ", ".join(f"{k}={lua(x)}" for k, x in v.items()) + "}"
    return "{" + ", ".join(lua(x) for x in v) + "}"


class Family:
    """The cases of one family: tests/vectors/<name>.safetensors and _<name>.lua."""

    def __init__(self, name, most=None):
        """most: greatest number of cases of a row whose first input has that dtype; for the
        types whose code is that of another but for loads and stores."""
        self.name, self.tensors, self.cases, self.keys, self.seed = name, {}, [], {}, 0
        self.most, self.count = most or {}, {}

    def store(self, a):
        """Where a lies: "dtype offset shape" in the flat tensor of its dtype."""
        a = np.asarray(a)
        d, raw = name_of(a), a.tobytes()
        key = hashlib.sha1(raw + str((d, a.shape)).encode()).digest()
        if key not in self.keys:
            flat = self.tensors.setdefault(d, [])
            at = sum(v.size for v in flat)
            flat.append(np.frombuffer(raw, a.dtype))
            self.keys[key] = " ".join([d, str(at)] + [str(n) for n in a.shape])
        return self.keys[key]

    def const(self, a, dtype=None):
        a = np.asarray(a) if dtype is None else to(np.asarray(a), dtype)
        return Input(a, lua(self.store(a)))

    def gen(self, dtype, shape, lo=-1.0, hi=1.0):
        """Uniform numbers in [lo, hi), integers and bool in lo..hi."""
        self.seed += 1
        shape = tuple(shape)
        n, seed = int(np.prod(shape, dtype=np.int64)), self.seed
        spec = "{" + f"{lua(dtype)}, {lua(shape)}, {seed}, {lua(lo)}, {lua(hi)}" + "}"
        if dtype in INTS or dtype == "bool":
            if dtype == "bool":
                lo, hi = 0, 1
            v = (np.floor(unit(n, seed) * (hi - lo + 1)) + lo).astype(np.int64).astype(NP[dtype])
            return Input(v.reshape(shape), spec)
        if dtype in COMPLEX:
            part = "f64" if dtype == "complex128" else "f32"
            v = np.float64(lo) + np.float64(hi - lo) * unit(2 * n, seed)
            v = v.astype(NP[part]).view(NP[dtype])
            return Input(v.reshape(shape), spec)
        v = np.float64(lo) + np.float64(hi - lo) * unit(n, seed)
        if dtype != "f64":
            v = v.astype(np.float32).astype(NP[dtype])
        return Input(v.reshape(shape), spec)

    FEW = {"fp8_e4m3": 2, "fp8_e5m2": 2, "f16": 4, "bf16": 8, "i16": 2, "i32": 2, "u8": 2, "i8": 2}

    def case(self, row, ins, outs, o=None, ulp=None, t=None, scale=None, **more):
        """ulp None: outs are exact, in their dtype. Else they are f64 or (hi, lo), the
        result has dtype t, and may be off by ulp units in the last place of the larger
        of |out| and scale."""
        d = ins[0].dtype if ins else None
        self.count[row, d] = self.count.get((row, d), 0) + 1
        if self.count[row, d] > self.most.get(d, 1 << 30):
            return
        c = {"row": row, "x": [i.spec if i is not None else "false" for i in ins]}
        if o:
            c["o"] = o
        keys, los = [], []
        for y in outs:
            if y is None:
                keys.append(False)
                continue
            hi, low = y if isinstance(y, tuple) else (y, None)
            hi = np.asarray(hi)
            if ulp is not None and t in SMALL and hi.dtype == np.float64:
                hi = round_odd(hi)  # f32 has bits enough for these
            keys.append(self.store(hi))
            if low is not None:
                los.append(self.store(np.asarray(low)))
        c["y"] = keys
        if los:
            c["low"] = los[0]
        if ulp is not None:
            c["ulp"], c["t"] = float(f"{ulp:.5g}"), t
        if scale is not None:
            c["scale"] = float(f"{scale:.3g}")
        c.update(more)
        self.cases.append(c)

    def write(self, folder):
        head, at, parts = {}, 0, []
        for d, flat in sorted(self.tensors.items(), key=lambda e: -NP[e[0]](0).nbytes):
            raw = b"".join(a.tobytes() for a in flat)
            head[d] = {"dtype": ST[d], "shape": [len(raw) // NP[d](0).nbytes], "data_offsets": [at, at + len(raw)]}
            at += len(raw)
            parts.append(raw)
        text = json.dumps(head, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        with open(f"{folder}/{self.name}.safetensors", "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text + b"".join(parts))
        with open(f"{folder}/_{self.name}.lua", "w") as f:
            f.write(f"-- Cases of the family {self.name}, written by make_vectors.py.\nreturn {{\n")
            for c in self.cases:
                items = []
                for k, v in c.items():
                    text = "{" + ", ".join(v) + "}" if k == "x" else lua(v)
                    items.append(f"{k}={text}")
                f.write("{" + ", ".join(items) + "},\n")
            f.write("}\n")


# ---- canonical orders, as the numerics contract defines them
def canonical(x, op=np.add, start=None, lanes=None, leaf=4096):
    """Reduction of the last axis of f32 or f64 in the canonical order: leaves of 4096,
    lanes of 256 (f64: 128), halves, then leaves pairwise."""
    n, dt = x.shape[-1], x.dtype
    lanes = lanes or (128 if dt == np.float64 else 256)
    start = dt.type(-0.0) if start is None else dt.type(start)
    if n == 0:
        return np.zeros(x.shape[:-1], dt) if op is np.add else np.ones(x.shape[:-1], dt)
    sums = []
    for at in range(0, n, leaf):
        part = x[..., at:at + leaf]
        m = part.shape[-1]
        w = lanes if m >= lanes else 1 << (m - 1).bit_length()
        acc = np.full(x.shape[:-1] + (w,), start, dt)
        for i in range(0, m, w):
            row = part[..., i:i + w]
            acc[..., :row.shape[-1]] = op(acc[..., :row.shape[-1]], row)
        while w > 1:
            w //= 2
            acc = op(acc[..., :w], acc[..., w:2 * w])
        sums.append(acc[..., 0])
    while len(sums) > 1:
        sums = [op(sums[i], sums[i + 1]) if i + 1 < len(sums) else sums[i]
                for i in range(0, len(sums), 2)]
    return sums[0]


def fma32(a, b, c):
    """f32 fused multiply-add: the product is exact in f64, the sum is rounded to odd."""
    p, c = a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)
    s = p + c
    t = s - p
    e = (p - (s - t)) + (c - t)
    bits = s.view(np.int64) if s.ndim else s.reshape(1).view(np.int64)[0]
    even = (bits & 1) == 0
    toward = np.where(e > 0, np.inf, -np.inf)
    s = np.where((e != 0) & even, np.nextafter(s, toward), s)
    return s.astype(np.float32)


def chain(a, b):
    """Product of matrices in f32: each element one chain of fused multiply-adds."""
    acc = np.zeros(np.broadcast_shapes(a.shape[:-2], b.shape[:-2]) + (a.shape[-2], b.shape[-1]),
                   np.float32)
    for k in range(a.shape[-1]):
        x, y = a[..., :, k:k + 1], b[..., k:k + 1, :]
        x, y = np.broadcast_arrays(x, y)
        acc = fma32(x.astype(np.float32), y.astype(np.float32), acc)
    return acc
