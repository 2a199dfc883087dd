"""Tensors from nothing."""
import numpy as np

from common import *


def make():
    f = Family("create", {d: 2 for d in ("u8", "i8", "i16", "f64", "fp8_e4m3", "fp8_e5m2", "f16")})
    for d in ALL:
        t = NP[d]
        for shape in ([], [0], [3], [2, 0, 3], [257], [2, 3]):
            f.case("zeros", [], [np.zeros(shape, t)], {"shape": shape, "dtype": d})
        f.case("ones", [], [np.ones([5, 3], t)], {"shape": [5, 3], "dtype": d})
        f.case("full", [], [to(np.full([2, 2], 1.0 if d == "bool" else 3.0), d)],
               {"shape": [2, 2], "value": 1 if d == "bool" else 3, "dtype": d})
        f.case("eye", [], [np.eye(3, dtype=t)], {"n": 3, "dtype": d})
        f.case("eye", [], [np.eye(2, 5, dtype=t)], {"n": 2, "m": 5, "dtype": d})
        f.case("empty", [], [None], {"shape": [4], "dtype": d})
        x = f.gen(d, [3, 2], 0, 5)
        f.case("zeros_like", [x], [np.zeros([3, 2], t)])
        f.case("ones_like", [x], [np.ones([3, 2], t)])
        f.case("full_like", [x], [to(np.full([3, 2], 1.0 if d == "bool" else 2.0), d)], {"value": 1 if d == "bool" else 2})
        f.case("empty_like", [x], [None])
        f.case("ones_like", [x], [np.ones([3, 2], np.float16)], {"dtype": "f16"})
        f.case("zeros_like", [x], [np.zeros([3, 2], np.int32)], {"dtype": "i32"})
        f.case("full_like", [x], [np.full([3, 2], 7, np.int64)], {"value": 7, "dtype": "i64"})
        f.case("empty_like", [x], [None], {"dtype": "u8"})
        for k in (-2, -1, 0, 1, 2):
            y = f.gen(d, [2, 4, 3], 0, 5)
            f.case("tril", [y], [np.tril(y.v, k).astype(t)], {"diagonal": k} if k else None)
            f.case("triu", [y], [np.triu(y.v, k).astype(t)], {"diagonal": k} if k else None)
        if d not in COMPLEX and d != "bool":
            f.case("arange", [], [to(np.arange(7.0), d)], {"start": 7, "dtype": d})
            f.case("arange", [], [to(np.arange(2.0, 9, 3), d)], {"start": 2, "stop": 9, "step": 3, "dtype": d})
            f.case("linspace", [], [to(np.linspace(0, 8, 5), d)], {"start": 0, "stop": 8, "num": 5, "dtype": d})
        f.case("one_hot", [f.const(np.array([[2, 0], [1, 2]]))],
               [np.eye(3)[[[2, 0], [1, 2]]].astype(t)], {"classes": 3, "dtype": d})
    for d in INTS:
        f.case("one_hot", [f.const(np.array([0, 3, 1], NP[d]))], [np.eye(4, dtype=np.float32)[[0, 3, 1]]],
               {"classes": 4})
    e = f.gen("f32", [0, 3])
    f.case("tril", [e], [e.v])
    f.case("one_hot", [f.const(np.zeros(0, np.int64))], [np.zeros((0, 4), np.float32)], {"classes": 4})
    f.case("zeros", [], [np.zeros(3, np.float32)], {"shape": [3]})
    f.case("full", [], [np.full(3, 0.1, np.float32)], {"shape": [3], "value": 0.1})
    f.case("full", [], [np.full(3, np.inf, np.float32)], {"shape": [3], "value": float("inf")})
    f.case("arange", [], [np.arange(5)], {"start": 5})
    f.case("arange", [], [np.arange(5, -5, -2)], {"start": 5, "stop": -5, "step": -2})
    f.case("arange", [], [np.zeros(0, np.int64)], {"start": 5, "stop": 2})
    f.case("arange", [], [np.arange(0, 2, 0.25, np.float32)], {"start": 0, "stop": 2, "step": 0.25})
    f.case("arange", [], [np.arange(2.5).astype(np.float32)], {"start": 2.5})
    f.case("arange", [], [np.arange(0, 1, 0.1)], {"start": 0, "stop": 1, "step": 0.1, "dtype": "f64"},
           )
    for d in ("f32", "f64"):
        f.case("linspace", [], [np.linspace(-1, 2, 50)], {"start": -1, "stop": 2, "dtype": d}, ulp=1, t=d, scale=1)
        f.case("linspace", [], [np.linspace(3, -2, 7)], {"start": 3, "stop": -2, "num": 7, "dtype": d}, ulp=1, t=d, scale=1)
    f.case("linspace", [], [np.array([4], np.float32)], {"start": 4, "stop": 5, "num": 1})
    f.case("linspace", [], [np.zeros(0, np.float32)], {"start": 4, "stop": 5, "num": 0})
    return f
