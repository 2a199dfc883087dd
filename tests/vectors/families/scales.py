"""Numbers of few bits with scales beside them, by NumPy and ml_dtypes, exactly: one f32 operation after the other."""
from common import *

KINDS = {"fp8_e4m3": 448, "fp8_e5m2": 57344, "i8": 127, "u8": 255, "i4": 7, "u4": 15}
# shape, block
SHAPES = [([4, 6], None), ([4, 6], [1, 6]), ([4, 6], [3, 4]), ([2, 3, 8], [2, 4]), ([8], [4]), ([5, 64], [1, 32]),
          ([130, 20], [128, 16])]


def blocks_of(shape, block):
    """Of each block its place among the scales, and its slices."""
    first = len(shape) - len(block)
    counts = list(shape[:first]) + [-(-n // b) for n, b in zip(shape[first:], block)]
    for at in np.ndindex(*counts):
        yield at, tuple(slice(i, i + 1) if a < first else slice(i * block[a - first], (i + 1) * block[a - first])
                        for a, i in enumerate(at))


def pack(q):
    low, high = q[..., 0::2].astype(np.int64) & 15, q[..., 1::2].astype(np.int64) & 15
    return (low | high << 4).astype(np.uint8).view(q.dtype)


def one(x, kind):
    """q, scale and zero of the elements of a block."""
    most, f = np.float32(KINDS[kind]), np.float32
    if kind[0] == "u":
        low = min(x.min(), f(0))
        scale = f(max(x.max(), f(0)) - low) / most or f(1)
        zero = np.clip(np.round(-low / scale), 0, most)
        return np.clip(np.round(x / scale) + zero, 0, most).astype(np.uint8), scale, zero.astype(np.uint8)
    scale = f(np.abs(x).max()) / most or f(1)
    q = x / scale
    if kind[0] == "i":
        return np.clip(np.round(q), -most, most).astype(np.int8), scale, None
    return np.clip(q, -most, most).astype(NP[kind]), scale, None


def there_and_back(f, d, shape, block, kind):
    x = f.gen(d, shape)
    v = x.v.astype(np.float32)
    v[tuple(slice(0, 1) for _ in shape[:-1])] = 0  # a block of zeros, if blocks are rows
    x = f.const(v, d)
    v = x.v.astype(np.float32)
    sizes = block or shape
    scale = np.zeros([-(-n // b) for n, b in zip(shape[len(shape) - len(sizes):], sizes)], np.float32)
    scale = np.zeros(list(shape[:len(shape) - len(sizes)]) + list(scale.shape), np.float32)
    zero = np.zeros(scale.shape, np.uint8)
    q = np.zeros(shape, NP[kind] if kind[0] == "f" else np.uint8 if kind[0] == "u" else np.int8)
    y = np.zeros(shape, np.float32)
    for at, part in blocks_of(shape, sizes):
        q[part], scale[at], z = one(v[part], kind)
        if z is not None:
            zero[at] = z
        y[part] = (q[part].astype(np.float32) - np.float32(zero[at])) * scale[at]
    if not block:
        scale, zero = scale.reshape([]), zero.reshape([])
    pairs = kind[1] == "4"
    q, shifted = pack(q) if pairs else q, kind[0] == "u"
    o = {"block": block} if block else {}
    f.case("quantize", [x], [q, scale] + ([zero] if shifted else []), {"to": kind, **o})
    if pairs:
        o["packed"] = True
    rest = [f.const(q), f.const(scale)] + ([f.const(zero)] if shifted else [])
    f.case("dequantize", rest, [y], o)
    f.case("dequantize", rest, [to(y, "bf16")], {"dtype": "bf16", **o})
    if len(shape) == 2:
        w = f.gen(d, [3, shape[1]])
        acc = chain(w.v.astype(np.float32), y.T)
        if not shifted:
            rest.append(None)
        b = f.gen(d, [shape[0]])
        f.case("scaled_linear", [w] + rest, [to(acc, d)], o)
        f.case("scaled_linear", [w] + rest + [b], [to(acc + b.v.astype(np.float32), d)], o)


def make():
    f = Family("scales")
    for d in ("f32", "bf16", "f16"):
        for shape, block in SHAPES:
            for kind in KINDS:
                if np.prod(shape) < 1000 or (d == "bf16" and kind in ("fp8_e4m3", "u4")):
                    there_and_back(f, d, shape, block, kind)
    return f
