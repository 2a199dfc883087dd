"""PyTorch's side of scripts/bench/models/spectral.lua: python3 spectral_peer.py [cuda] [transforms|steps|edges]."""
import os
import sys
import time

import torch
import torch.nn.functional as F

device = sys.argv[1] if len(sys.argv) > 1 else "cuda"
what = sys.argv[2] if len(sys.argv) > 2 else None
WIDTH, DTYPE = int(os.environ.get("WIDTH", 1024)), os.environ.get("DTYPE", "bf16")
SIZES = [int(n) for n in os.environ.get("SIZES", "4096 16384 65536").split()]
HIDDEN, EXPERTS, CHOSEN, DEPTH = 4096, 16, 2, 3
half = torch.bfloat16


def wait():
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def seconds(f):
    for _ in range(3):
        f()
    wait()
    times = []
    for _ in range(10):
        begin = time.perf_counter()
        f()
        wait()
        times.append(time.perf_counter() - begin)
    times.sort()
    return (times[4] + times[5]) / 2


class Mixture(torch.nn.Module):
    def __init__(self, tokens):
        super().__init__()
        w = 2 * WIDTH
        self.place = torch.nn.Parameter(torch.randn(tokens, w))
        self.router = torch.nn.Linear(w, EXPERTS, bias=False)
        self.up = torch.nn.Parameter(torch.randn(EXPERTS, w, HIDDEN) / w ** 0.5)
        self.down = torch.nn.Parameter(torch.randn(EXPERTS, HIDDEN, w) / HIDDEN ** 0.5)

    def forward(self, z):
        cost = 0
        for _ in range(DEPTH):
            h = F.rms_norm(z, z.shape[-1:])
            logits = self.router(h + self.place).float()
            best, index = logits.topk(CHOSEN, -1)
            gate = best.softmax(-1)
            order = index.reshape(-1).argsort(stable=True)
            sizes = torch.bincount(index.reshape(-1), minlength=EXPERTS)
            rows = h.reshape(-1, z.shape[-1])[order // CHOSEN].to(half)
            ends = sizes.cumsum(0).to(torch.int32)
            y = F.gelu(torch._grouped_mm(rows, self.up.to(half), offs=ends))
            y = torch._grouped_mm(y, self.down.to(half), offs=ends).float() * gate.reshape(-1)[order].unsqueeze(1)
            z = z + torch.zeros_like(z.reshape(-1, z.shape[-1])).index_add(0, order // CHOSEN, y).reshape(z.shape)
            share = sizes.float() / index.numel()
            cost = cost + EXPERTS * (share * logits.softmax(-1).mean((0, 1))).sum()
        return z, cost


class Dense(torch.nn.Module):
    def __init__(self, tokens):
        super().__init__()
        w, wide = 2 * WIDTH, CHOSEN * HIDDEN + EXPERTS // 2
        self.place = torch.nn.Parameter(torch.randn(tokens, w))
        self.first, self.last = torch.nn.Linear(w, wide), torch.nn.Linear(wide, w)

    def forward(self, z):
        for _ in range(DEPTH):
            z = z + self.last(F.gelu(self.first(F.rms_norm(z, z.shape[-1:]) + self.place)))
        return z, 0


def step_of(Net, n, compiled):
    model = Net(n // 2 + 1).to(device)
    net = torch.compile(model) if compiled else model
    optimizer = torch.optim.AdamW(model.parameters(), fused=device.startswith("cuda"))

    def step(x, y):
        z = torch.fft.rfft(x, dim=1, norm="ortho")
        with torch.autocast(device.split(":")[0], half, enabled=DTYPE == "bf16"):
            z, cost = net(torch.cat([z.real, z.imag], -1))
        z = z.float()
        made = torch.fft.irfft(torch.complex(z[..., :WIDTH], z[..., WIDTH:]), n=n, dim=1, norm="ortho")
        loss = (made - y).square().mean() + 0.01 * cost
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


if what in (None, "transforms"):
    for n in SIZES:
        x = torch.randn(1, n, WIDTH, device=device)
        z = torch.fft.rfft(x, dim=1, norm="ortho")
        size = 4 * x.numel() + 8 * z.numel()
        there = seconds(lambda: torch.fft.rfft(x, dim=1, norm="ortho"))
        back = seconds(lambda: torch.fft.irfft(z, n=n, dim=1, norm="ortho"))
        print(f"torch rfft [1, {n}, {WIDTH}] along 1: {there * 1e6:.1f} us, {size / there / 1e9:.0f} GB/s; "
              f"irfft: {back * 1e6:.1f} us, {size / back / 1e9:.0f} GB/s", flush=True)

if what in (None, "steps"):
    for n in SIZES:
        x, y = torch.randn(1, n, WIDTH, device=device), torch.randn(1, n, WIDTH, device=device)
        for name, Net, compiled in ("mixture", Mixture, False), ("dense", Dense, False), ("dense", Dense, True):
            try:
                step = step_of(Net, n, compiled)
                took = seconds(lambda: step(x, y))
                flop = 3 * 2 * (n // 2 + 1) * 3 * (4 * WIDTH * 2 * HIDDEN + 2 * WIDTH * EXPERTS)
                print(f"torch {name}{' compiled' if compiled else ''}, step of [1, {n}, {WIDTH}] {DTYPE}: {took * 1e3:.2f} ms, "
                      f"{(n // 2 + 1) / took:.0f} tokens/s, {flop / took / 1e12:.0f} TFLOP/s", flush=True)
            except Exception as e:  # what this version of PyTorch has not
                print(f"torch {name}: {type(e).__name__}: {str(e).splitlines()[0][:120]}", flush=True)

if what in (None, "edges"):
    nodes, degree, width = int(os.environ.get("NODES", 200000)), 17, 128
    receiver = torch.arange(nodes, device=device).repeat_interleave(degree)
    sender = torch.randint(0, nodes, (nodes * degree,), device=device)
    x = torch.randn(nodes, 16, device=device)
    layers = [torch.nn.ModuleDict({"own": torch.nn.Linear(i, o), "sent": torch.nn.Linear(i, o, bias=False),
                                   "ends": torch.nn.Linear(i, 2, bias=False)}).to(device) for i, o in ((16, width), (width, 5))]
    optimizer = torch.optim.AdamW([p for m in layers for p in m.parameters()])
    target = torch.randint(0, 5, (100,), device=device)

    def layer(m, h):
        ends = m["ends"](h)
        gate = torch.sigmoid(ends[receiver, 0] + ends[sender, 1])
        y = m["own"](h)
        return y.index_add(0, receiver, m["sent"](h)[sender] * gate.unsqueeze(1))

    def step():
        loss = F.cross_entropy(layer(layers[1], torch.relu(layer(layers[0], x)))[:100], target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    took = seconds(step)
    print(f"torch graph network, {nodes} members, {nodes * degree} edges, width {width}: {took * 1e3:.2f} ms, "
          f"{nodes * degree / took / 1e6:.0f} million edges/s")
