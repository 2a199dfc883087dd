"""The rows of everyday.lua in PyTorch: python3 scripts/bench/models/everyday_peer.py [MODEL:BATCH:DTYPE ..].

The nets of tests/examples/everyday/make.py, steps with the optimisers of examples/, eagerly and by torch.compile; bf16 by autocast, the
fastest of contiguous and channels-last memory. Without a GPU: on the CPU (SIZE=small), to see that it runs.
"""
import os
import statistics
import sys
import time

import torch

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "..", "tests", "examples", "everyday"))
import make

STEPS = int(os.environ.get("STEPS", 20))
SMALL = os.environ.get("SIZE") == "small"
device = "cuda" if torch.cuda.is_available() else "cpu"
rows = sys.argv[1:] or ["resnet18:128:f32", "resnet18:128:bf16", "resnet18:256:bf16", "unet:128:f32", "unet:128:bf16"]


def wait():
    if device == "cuda":
        torch.cuda.synchronize()


def median(step):
    times = []
    for _ in range(2 * STEPS):
        wait()
        begin = time.perf_counter()
        step()
        wait()
        times.append(time.perf_counter() - begin)
    return statistics.median(times[STEPS:])


def augment(x):
    """As examples/resnet18.lua moves, mirrors and lights pictures."""
    n, channels, height, width = x.shape
    by = width // 8
    rows = torch.arange(height, device=x.device).view(1, 1, -1, 1) + torch.randint(2 * by + 1, (n, 1, 1, 1), device=x.device)
    columns = torch.arange(width, device=x.device).view(1, 1, 1, -1)
    columns = torch.where(torch.randint(2, (n, 1, 1, 1), device=x.device) == 1, width - 1 - columns, columns)
    columns = columns + torch.randint(2 * by + 1, (n, 1, 1, 1), device=x.device)
    x = torch.nn.functional.pad(x, (by, by, by, by))
    x = x.gather(2, rows.expand(n, channels, height, width + 2 * by)).gather(3, columns.expand(n, channels, height, width))
    return x * (0.8 + 0.4 * torch.rand(n, 1, 1, 1, device=x.device))


def program(name, batch):
    if name == "resnet18":
        width, image, classes = (16, 32, 10) if SMALL else (64, 224, 1000)
        model = make.ResNet(width, image, classes)
        x, y = torch.randn(batch, 3, image, image), torch.randint(classes, (batch,))
        x, y = x.to(device), y.to(device)
        return model, x, lambda m, x: torch.nn.functional.cross_entropy(m(augment(x)), y), None
    sizes = dict(width=24, times=(1, 2, 2), blocks=1, attend=4, groups=8) if SMALL else dict(
        width=128, times=(1, 2, 2, 2), blocks=2, attend=16, groups=32)
    image = 16 if SMALL else 32
    model = make.UNet(image, **sizes)

    def loss(m, x):
        return make.unet_loss(m, x, torch.randint(make.TIMES, (batch,), device=device), torch.randn_like(x))
    return model, torch.randn(batch, 3, image, image, device=device), loss, 0.9999


def steps_of(name, batch, dtype, layout):
    model, x, loss_of, decay = program(name, batch)
    model = model.to(device, memory_format=layout)
    x = x.contiguous(memory_format=layout)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=device == "cuda")
    averages = [p.detach().clone() for p in model.parameters()] if decay else None

    def forward(x):
        with torch.autocast(device, torch.bfloat16, enabled=dtype == "bf16"):
            return loss_of(model, x)

    def step_with(f):
        def step():
            loss = f(x)
            optimizer.zero_grad()
            loss.backward()
            if averages:  # the U-Net
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1)
            optimizer.step()
            if averages:
                with torch.no_grad():
                    torch._foreach_lerp_(averages, list(model.parameters()), 1 - decay)
        return step
    return step_with(forward), step_with(torch.compile(forward))


for row in rows:
    name, batch, dtype = row.split(":")
    best = [float("inf"), float("inf")]
    for layout in (torch.contiguous_format, torch.channels_last):
        for i, step in enumerate(steps_of(name, int(batch), dtype, layout)):
            try:
                best[i] = min(best[i], median(step))
            except Exception as error:  # a compiler that is not there
                print(f"{row}: {str(error).splitlines()[0]}", file=sys.stderr)
    n = int(batch)
    print(f"{name}\tbatch {batch}\t{dtype}\teager {n / best[0]:.1f} pictures/s {best[0] * 1e3:.2f} ms\t"
          f"torch.compile {n / best[1]:.1f} pictures/s {best[1] * 1e3:.2f} ms", flush=True)
