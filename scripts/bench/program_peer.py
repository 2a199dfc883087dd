"""The PyTorch half of program.lua: what NAME.py of programs/ uses, and how it is set up."""
import importlib
import json
import os
import sys

import numpy
import torch

KINDS = {"F32": numpy.float32, "F64": numpy.float64, "I64": numpy.int64, "BOOL": numpy.bool_}
CHECKED = 3


def load(path):
    """The tensors of a safetensors file."""
    with open(path, "rb") as f:
        header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        content = f.read()
    header.pop("__metadata__", None)
    tensors = {}
    for name, t in header.items():
        first, last = t["data_offsets"]
        array = numpy.frombuffer(content[first:last], KINDS[t["dtype"]]).reshape(t["shape"])
        tensors[name] = torch.from_numpy(array.copy())
    return tensors


def batches(batch, data):
    at, rows = 0, len(data[0])
    while True:
        yield [x[at:at + batch] for x in data] if batch else data
        at = (at + (batch or 0)) % rows


def training(loss_of, optimizer, batch, *data):
    """One step of training, on the next rows of the data."""
    source = batches(batch, data)

    def step():
        loss = loss_of(*next(source))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()
    return step


def set_up(name):
    sys.path.insert(0, os.path.join(os.path.dirname(__file__), "programs"))
    tensors = load(f"build/bench/programs/{name}.safetensors")
    state = {k[6:]: t for k, t in tensors.items() if k.startswith("state.")}
    data = [tensors[f"data.{i}"] for i in range(len(tensors) - len(state))]
    call = importlib.import_module(name).program(state, *data)
    first = [call().detach().abs().double().mean().item() for _ in range(CHECKED)]
    return call, sum(first) / CHECKED
