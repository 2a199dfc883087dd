"""Writes the agreement vectors: for every family a manifest _<family>.lua and the
expected results <family>.safetensors. References: NumPy, SciPy, mpmath, PyTorch,
computed from the rounded inputs in f64 or exactly.
Needs numpy, scipy, mpmath, torch, ml_dtypes.

    python3 tests/vectors/make_vectors.py [family ...]
"""
import importlib
import os
import sys

FAMILIES = ["pointwise", "create", "random", "shape", "reduce", "linalg", "nn", "gradient", "loss", "spectral",
            "differential", "optim", "composed", "moe", "sparse", "scales"]


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path.insert(0, here)
    for name in sys.argv[1:] or FAMILIES:
        family = importlib.import_module(f"families.{name}").make()
        family.write(here)
        size = sum(os.path.getsize(f"{here}/{n}") for n in (f"{name}.safetensors", f"_{name}.lua"))
        print(f"{name}: {len(family.cases)} cases, {size} bytes")


main()
