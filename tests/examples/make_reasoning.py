"""Makes tests/examples/reasoning.safetensors: two segments of training of a small HRM and a small TRM by PyTorch in f64, with AdamAtan2
between them, where puzzles that have halted begin again. Needs torch and safetensors. Names begin with hrm. and trm.: weights that both begin with (init.), puzzles and answers,
losses of both segments, what the first gives (logits, q, z1, z2), its gradients (grad.), weights behind both (after.)."""
import os
import sys

import torch
from safetensors.torch import save_file

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, "..", "..", "scripts", "bench", "models"))
import reasoning  # noqa: E402

BATCH, CELLS = 6, 16
COMMON = dict(width=16, layers=1, heads=2, expansion=4, multiple=16, words=5, cells=CELLS, dtype=torch.float64)
MODELS = {"hrm": (reasoning.HRM, dict(COMMON, cycles=2)), "trm": (reasoning.TRM, dict(COMMON, layers=2, cycles=2, inner=3, mixer=CELLS))}
out = {}
for name, (kind, o) in MODELS.items():
    torch.manual_seed(1)
    model = kind(o).double()
    with torch.no_grad():
        for p in model.parameters():  # as they are stored
            p.copy_(p.float())
        for b in model.buffers():
            b.copy_(b.float() if b.dim() == 1 else b)
        model.heads.halt.copy_((torch.randn_like(model.heads.halt) * 0.3).float())
        model.heads.halt_bias.fill_(-0.5)
    for key, value in model.state_dict().items():
        out[f"{name}.init.{key}"] = value.float().clone()
    optimizer = reasoning.AdamAtan2(model.parameters(), lr=1e-2, betas=(0.9, 0.95), weight_decay=1.0)
    answers = torch.randint(1, 5, (BATCH, CELLS))
    puzzles = torch.where(torch.rand(BATCH, CELLS) < 0.4, answers, 0)
    z = [first.expand(BATCH, CELLS, -1) for first in model.start()]
    losses, steps = [], torch.zeros(BATCH)
    for turn in range(2):
        optimizer.zero_grad()
        steps += 1
        last = steps >= 2
        loss, (z, logits, q) = reasoning.supervised(model, z, puzzles, answers, last)
        loss.backward()
        losses.append(loss.detach())
        if turn == 0:
            out.update({f"{name}.logits": logits.detach(), f"{name}.q": q.detach(), f"{name}.z1": z[0], f"{name}.z2": z[1]})
            for key, p in model.named_parameters():
                out[f"{name}.grad.{key}"] = p.grad
        optimizer.step()
        halted = last | model.halts(q)  # the same puzzle begins again in its place
        print(name, halted.tolist())
        steps[halted] = 0
        z = [torch.where(halted[:, None, None], first, x) for first, x in zip(model.start(), z)]
    for key, value in model.named_parameters():
        out[f"{name}.after.{key}"] = value.detach()
    out.update({f"{name}.puzzles": puzzles, f"{name}.answers": answers, f"{name}.loss": torch.stack(losses)})
save_file({k: (v.float() if v.is_floating_point() else v).contiguous().clone() for k, v in out.items()},
          os.path.join(here, "reasoning.safetensors"))
