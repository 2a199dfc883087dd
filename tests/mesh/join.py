"""Puts a checkpoint together again by its manifest alone, from what the package safetensors reads of its files: prints for
each tensor the CRC-32 of its bytes. checkpoint.lua beside it compares them with those of the tensors."""
import json
import os
import sys
import zlib

try:
    from safetensors import deserialize
except ImportError:
    print("no safetensors")
    sys.exit()

SIZE = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "BF16": 2, "F16": 2, "BOOL": 1, "U8": 1, "I8": 1}
folder = sys.argv[1]
with open(os.path.join(folder, "manifest.json")) as f:
    manifest = json.load(f)
files = {}
for name in manifest["files"]:
    with open(os.path.join(folder, name), "rb") as f:
        files[name] = dict(deserialize(f.read()))


def places(runs, shape):
    """Row-major numbers of a part's elements within the whole, in the part's order."""
    at = [0]
    for axis, n in zip(runs, shape):
        index = [i for first, count in axis for i in range(first, first + count)]
        at = [a * n + i for a in at for i in index]
    return at


for name, tensor in sorted(manifest["tensors"].items()):
    size, n = SIZE[tensor["dtype"]], 1
    for d in tensor["shape"]:
        n *= d
    whole, seen = bytearray(n * size), 0
    for part in tensor["parts"]:
        found = files[part["file"]][part["name"]]
        assert found["dtype"] == tensor["dtype"], name
        at = places(part["runs"], tensor["shape"])
        assert len(at) * size == len(found["data"]), name
        for k, i in enumerate(at):
            whole[i * size:(i + 1) * size] = found["data"][k * size:(k + 1) * size]
        seen += len(at)
    assert seen == n, name
    print(name, "%08x" % zlib.crc32(bytes(whole)))
