"""A small GGUF file by the Python package gguf (0.19), with all kinds of metadata and tensors, and what is in it:
small.gguf, small.safetensors.

    pip install gguf==0.19.0; python3 tests/vectors/gguf_file.py
"""
import json
import os
import struct

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T
from gguf.quants import dequantize

here = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(11)
w = gguf.GGUFWriter(os.path.join(here, "small.gguf"), "llama")
w.add_uint8("n.u8", 200)
w.add_int8("n.i8", -100)
w.add_uint16("n.u16", 60000)
w.add_int16("n.i16", -30000)
w.add_uint32("n.u32", 4000000000)
w.add_int32("n.i32", -2000000000)
w.add_float32("n.f32", 1.5)
w.add_bool("n.bool", True)
w.add_string("n.text", "häuser\n")
w.add_uint64("n.u64", 1 << 40)
w.add_int64("n.i64", -(1 << 62) - 1)
w.add_float64("n.f64", 0.1)
w.add_array("tokenizer.ggml.tokens", ["<s>", "", "a b", "é"])
w.add_array("scores", [0.5, -1.25, 3.0])
w.add_array("types", [1, 2, 3, 4])
w.add_array("flags", [True, False, True])

known = {}
for name, kind, size, nbytes in (("q4_0", T.Q4_0, 32, 18), ("q5_1", T.Q5_1, 32, 24), ("q8_0", T.Q8_0, 32, 34), ("q4_k", T.Q4_K, 256, 144),
                                 ("q6_k", T.Q6_K, 256, 210), ("mxfp4", T.MXFP4, 32, 17)):
    blocks = rng.integers(0, 256, (3 * 256 // size, nbytes), np.uint8)
    for at in {"q4_0": [0], "q5_1": [0, 2], "q8_0": [0], "q4_k": [0, 2], "q6_k": [208]}.get(name, []):
        blocks[:, at:at + 2] = rng.standard_normal((len(blocks), 1)).astype(np.float16).view(np.uint8)
    if name == "mxfp4":
        blocks[:, 0] = rng.integers(100, 150, len(blocks))
    rows = blocks.reshape(3, -1)
    w.add_tensor(name, rows, raw_dtype=kind)
    known[name] = dequantize(rows, kind).astype(np.float32)
for name, dtype in (("plain", np.float32), ("half", np.float16), ("wide", np.float64), ("i8", np.int8), ("i32", np.int32)):
    x = (rng.standard_normal((2, 3, 5)) * 50).astype(dtype)
    w.add_tensor(name, x)
    known[name] = x.astype(np.float32)
w.write_header_to_file()
w.write_kv_data_to_file()
w.write_tensors_to_file()
w.close()

header, parts, at = {}, [], 0
for name, x in known.items():
    header[name] = {"dtype": "F32", "shape": list(x.shape), "data_offsets": [at, at + x.nbytes]}
    parts.append(x.tobytes())
    at += x.nbytes
text = json.dumps(header, separators=(",", ":")).encode()
text += b" " * (-len(text) % 8)
with open(os.path.join(here, "small.safetensors"), "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text + b"".join(parts))
