"""A step of training of the reasoning models in PyTorch (reasoning.py), compiled; reasoning.lua is ours:
    python scripts/bench/models/reasoning_peer.py [cuda|cpu [hrm|trm [BATCH]]]
SIZE=laptop: that of examples/hrm.lua. MODE: of torch.compile; "blocks", which compiles in seconds: transformer blocks alone, once for all; or "eager"."""
import os
import statistics
import sys
import time

import torch

import reasoning

DEVICE, NAME = (sys.argv[1:] + ["cuda"])[0], (sys.argv[2:] + ["hrm"])[0]
LAPTOP = os.environ.get("SIZE", "gpu") == "laptop"
GPU = dict(width=512, heads=8, expansion=4, multiple=256, words=10, dtype=torch.bfloat16)
SMALL = dict(width=64, heads=4, layers=2, expansion=4, multiple=256, words=5, dtype=torch.float32)
SIZES = {"hrm": dict(GPU, layers=4, cycles=2), "trm": dict(GPU, layers=2, cycles=3, inner=6, mixer=81)}
if LAPTOP:
    SIZES = {"hrm": dict(SMALL, cycles=2), "trm": dict(SMALL, cycles=2, inner=3)}
BATCH = int((sys.argv[3:] + [64 if LAPTOP else {"hrm": 384, "trm": 768}[NAME]])[0])
CELLS, MODE = 16 if LAPTOP else 81, os.environ.get("MODE", "default")
SEGMENTS, EXPLORE = 4 if LAPTOP else 16, 0.1


def wait():
    if DEVICE.startswith("cuda"):
        torch.cuda.synchronize()


def main():
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    o = dict(SIZES[NAME], cells=CELLS)
    model = (reasoning.HRM if NAME == "hrm" else reasoning.TRM)(o).to(DEVICE)
    optimizer = reasoning.AdamAtan2(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=1.0)
    z = [torch.zeros(BATCH, CELLS, o["width"], dtype=o["dtype"], device=DEVICE) for _ in model.start()]
    fresh_answers = torch.randint(1, o["words"], (BATCH, CELLS), device=DEVICE)
    fresh = torch.where(torch.rand(BATCH, CELLS, device=DEVICE) < 0.35, fresh_answers, 0)
    state = dict(z=z, ids=fresh, answers=fresh_answers, steps=torch.zeros(BATCH, dtype=torch.long, device=DEVICE),
                 halted=torch.ones(BATCH, dtype=torch.bool, device=DEVICE))

    def forward(z, ids, answers, steps, halted, fresh, fresh_answers):
        ids = torch.where(halted[:, None], fresh, ids)
        answers = torch.where(halted[:, None], fresh_answers, answers)
        z = [torch.where(halted[:, None, None], first.to(x.dtype), x) for first, x in zip(model.start(), z)]
        steps = torch.where(halted, 0, steps) + 1
        last = steps >= SEGMENTS
        loss, (z, logits, q) = reasoning.supervised(model, z, ids, answers, last)
        least = torch.where(torch.rand_like(q[:, 0]) < EXPLORE, torch.randint_like(steps, 2, SEGMENTS + 1), 0)
        halted = last | (model.halts(q) & (steps >= least))
        return loss, dict(z=z, ids=ids, answers=answers, steps=steps, halted=halted)

    if MODE == "blocks":
        reasoning.Block.forward = torch.compile(reasoning.Block.forward)
        optimizer.step = torch.compile(optimizer.step)
    elif MODE != "eager":
        forward = torch.compile(forward, mode=None if MODE == "default" else MODE)
        optimizer.step = torch.compile(optimizer.step) if DEVICE.startswith("cuda") else optimizer.step

    def step():
        nonlocal state
        optimizer.zero_grad(set_to_none=True)
        loss, state = forward(fresh=fresh, fresh_answers=fresh_answers, **state)
        loss.backward()
        optimizer.step()
        return loss

    begin = time.perf_counter()
    step()
    wait()
    first = time.perf_counter() - begin
    for _ in range(12):
        step()
    times = []
    for _ in range(7):
        wait()
        begin = time.perf_counter()
        for _ in range(10):
            step()
        wait()
        times.append((time.perf_counter() - begin) / 10)
    print(f"{NAME}\tbatch {BATCH}\t{statistics.median(times) * 1e3:.2f} ms a step\tPyTorch {torch.__version__} {MODE}\tfirst step {first:.1f} s",
          flush=True)


main()
