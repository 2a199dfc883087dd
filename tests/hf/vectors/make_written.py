"""A GGUF file by the Python package gguf (0.19), which tests/hf/gguf_write.lua writes byte for byte: written.gguf. With the path of another
GGUF file it reads that, and the same with llama.cpp (package xllamacpp) if it is a model.

    pip install gguf==0.19.0 xllamacpp; python3 tests/hf/vectors/make_written.py [model.gguf]
"""
import os
import sys

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T
from gguf.quants import dequantize, quantize


def make(path):
    x = (np.arange(4 * 64, dtype=np.float32).reshape(4, 64) * 37 % 101 - 50) / 8
    x[2, 32:] = 0
    w = gguf.GGUFWriter(path, "llama")
    w.add_string("general.name", "häuser")
    w.add_bool("is", True)
    w.add_array("list.numbers", [1, 2, -3])
    w.add_array("list.parts", [0.5, -1.25])
    w.add_array("list.texts", ["a", "", "é"])
    w.add_float32("number.part", 0.5)
    w.add_uint32("number.whole", 4000000000)
    w.add_tensor("plain", x[:, :5])
    for name in ("bf16", "f16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0"):
        kind = T[name.upper()]
        w.add_tensor("weights." + name, quantize(x, kind), raw_dtype=kind)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def read(path):
    r = gguf.GGUFReader(path)
    for t in r.tensors:
        y = dequantize(t.data, t.tensor_type) if t.tensor_type not in (T.F32, T.F16) else t.data
        print(t.name, t.tensor_type.name, list(t.shape), float(abs(y.astype(np.float64)).mean()))
    if "tokenizer.ggml.tokens" in r.fields:
        import xllamacpp
        p = xllamacpp.CommonParams()
        p.model.path, p.n_ctx, p.n_parallel, p.verbosity = path, 512, 1, 0
        print(xllamacpp.Server(p).handle_completions({"prompt": "The capital of France is", "max_tokens": 8, "temperature": 0})["choices"][0]["text"])


if len(sys.argv) > 1:
    read(sys.argv[1])
else:
    make(os.path.join(os.path.dirname(os.path.abspath(__file__)), "written.gguf"))
