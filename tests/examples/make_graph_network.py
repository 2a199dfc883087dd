"""Makes tests/examples/graph_network.safetensors: loss and gradients of one step of both networks of
examples/graph_network.lua by PyTorch in f64, for the small network and the weights that the example begins with.
Needs bin/tessera, torch, safetensors."""
import os
import subprocess
import tempfile

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

here = os.path.dirname(os.path.abspath(__file__))
OPTIONS = "--steps 0 --nodes 40 --degree 4 --features 8 --width 6 --groups 3 --told 5".split()
TOLD = 15

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "begin.safetensors")
    words = ", ".join(f'"{w}"' for w in OPTIONS)
    code = f'arg = {{ {words} }} require "tessera".save("{path}", dofile "examples/graph_network.lua")'
    subprocess.run(["bin/tessera", "-e", code], cwd=os.path.join(here, "..", ".."), check=True)
    begin = load_file(path)

offsets, sender = begin["offsets"], begin["sender"]
degree = offsets[1:] - offsets[:-1]
receiver = torch.repeat_interleave(torch.arange(len(degree)), degree)
share = degree[receiver].double().rsqrt() * degree[sender].double().rsqrt()


def layer(p, name, x, edges):
    y = x @ p[f"{name}.own.weight"].T + p[f"{name}.own.bias"]
    if not edges:
        return y
    ends = x @ p[f"{name}.ends.weight"].T
    gate = torch.sigmoid(ends[receiver, 0] + ends[sender, 1])
    sent = (x @ p[f"{name}.sent.weight"].T)[sender] * (gate * share * 2).unsqueeze(1)
    return y + torch.zeros_like(y).index_add(0, receiver, sent)


out = {}
for name in "edges", "alone":
    p = {k[len(name) + 1:]: v.double().requires_grad_() for k, v in begin.items() if k.startswith(name + ".")}
    hidden = torch.relu(layer(p, "first", begin["features"].double(), name == "edges"))
    logits = layer(p, "last", hidden, name == "edges")
    loss = F.cross_entropy(logits[:TOLD], begin["group"][:TOLD])
    loss.backward()
    out[name + ".loss"] = loss.detach()
    for key, w in p.items():
        out[f"{name}.weight.{key}"], out[f"{name}.grad.{key}"] = w.detach().float(), w.grad
save_file(out, os.path.join(here, "graph_network.safetensors"))
