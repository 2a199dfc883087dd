"""What is stored in blocks, read and written by the Python package gguf (0.19): blocks.safetensors, with
random bytes as blocks (x.read) and their numbers in f32 (x.is), and what is left of some f32 (x.left of
`numbers`, where that package writes the format, and of the format's structure alone elsewhere). NaN as
scales are among them.

    pip install gguf==0.19.0; python3 tests/vectors/blocks.py
"""
import json
import os
import struct

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf.quants import dequantize, quantize, QuantError

FORMATS = {"q4_0": (T.Q4_0, 32, 18, [0]), "q4_1": (T.Q4_1, 32, 20, [0, 2]), "q5_0": (T.Q5_0, 32, 22, [0]),
           "q5_1": (T.Q5_1, 32, 24, [0, 2]), "q8_0": (T.Q8_0, 32, 34, [0]), "iq4_nl": (T.IQ4_NL, 32, 18, [0]),
           "q4_k": (T.Q4_K, 256, 144, [0, 2]), "q5_k": (T.Q5_K, 256, 176, [0, 2]), "q6_k": (T.Q6_K, 256, 210, [208])}
SCALES = np.array([0, 0x8000, 1, 0x83ff, 0x0400, 0x3c00, 0xbc00, 0x2e66, 0x7bff, 0x7c00, 0x7e00], np.uint16)

rng = np.random.default_rng(7)
tensors = {}


def put(name, dtype, shape, data):
    tensors[name] = (dtype, shape, data)


numbers = (rng.standard_normal((8, 256)) * np.exp(rng.standard_normal((8, 1)))).astype(np.float32)
numbers[3, 32:64] = 0
put("numbers", "F32", [8, 256], numbers.tobytes())
for name, (kind, size, nbytes, scales) in FORMATS.items():
    n = 16 * 256 // size
    blocks = rng.integers(0, 256, (n, nbytes), np.uint8)
    for at in scales:
        d = (rng.standard_normal(n) * 0.1).astype(np.float16).view(np.uint16)
        d[: len(SCALES)] = rng.permutation(SCALES)
        blocks[:, at:at + 2] = d[:, None].view(np.uint8)
    with np.errstate(all="ignore"):
        got = dequantize(blocks, kind).astype(np.float32)
    put(name + ".read", name.upper(), [16, 256], blocks.tobytes())
    put(name + ".is", "F32", [16, 256], got.tobytes())
    try:
        with np.errstate(all="ignore"):
            left = dequantize(quantize(numbers, kind), kind).astype(np.float32)
        put(name + ".left", "F32", [8, 256], left.tobytes())
    except (NotImplementedError, QuantError):
        pass

header, at = {}, 0
for name, (dtype, shape, data) in tensors.items():
    header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
    at += len(data)
text = json.dumps(header, separators=(",", ":")).encode()
text += b" " * (-len(text) % 8)
with open(os.path.join(os.path.dirname(__file__), "blocks.safetensors"), "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text + b"".join(d for _, _, d in tensors.values()))
