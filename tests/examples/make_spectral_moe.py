"""Makes tests/examples/spectral_moe.safetensors: loss and gradients of one step of both networks of
examples/spectral_moe.lua by PyTorch in f64, with the weights and signals that they are of. Needs torch, safetensors."""
import os

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

BATCH, N, WIDTH, HIDDEN, EXPERTS, CHOSEN, DEPTH = 2, 16, 4, 8, 4, 2, 3
TOKENS, NUMBERS = N // 2 + 1, 2 * WIDTH
torch.manual_seed(1)
torch.set_default_dtype(torch.float64)


def drawn(*shape, scale=1.0):
    return (torch.randn(*shape) * scale).float().double().requires_grad_()


def frequencies(x):
    z = torch.fft.rfft(x, dim=1, norm="ortho")
    return torch.cat([z.real, z.imag], -1)


def signals(z):
    return torch.fft.irfft(torch.complex(z[..., :WIDTH], z[..., WIDTH:]), n=N, dim=1, norm="ortho")


def rmsnorm(z):
    return z / torch.sqrt(z.square().mean(-1, keepdim=True) + 1e-5)


def mixture(p, x):
    z, cost = frequencies(x), 0
    for _ in range(DEPTH):
        h = rmsnorm(z)
        logits = (h + p["place"]) @ p["moe.router.weight"].T
        best, index = logits.topk(CHOSEN, -1)
        gate = best.softmax(-1)
        hidden = torch.einsum("bfw,ewh->bfeh", h, p["moe.experts.up"]) + p["moe.experts.up_bias"][:, 0]
        made = torch.einsum("bfeh,ehw->bfew", F.gelu(hidden), p["moe.experts.down"]) + p["moe.experts.down_bias"][:, 0]
        at = index.unsqueeze(-1).expand(-1, -1, -1, NUMBERS)
        z = z + (made.gather(2, at) * gate.unsqueeze(-1)).sum(2)
        share = F.one_hot(index, EXPERTS).double().mean((0, 1, 2))
        cost = cost + EXPERTS * (share * logits.softmax(-1).mean((0, 1))).sum()
    return signals(z), cost


def dense(p, x):
    z = frequencies(x)
    for _ in range(DEPTH):
        h = F.gelu((rmsnorm(z) + p["place"]) @ p["layers.0.weight"].T + p["layers.0.bias"])
        z = z + h @ p["layers.2.weight"].T + p["layers.2.bias"]
    return signals(z), 0


wide = CHOSEN * HIDDEN + EXPERTS // 2
networks = {
    "mixture": (mixture, {
        "place": drawn(TOKENS, NUMBERS), "moe.router.weight": drawn(EXPERTS, NUMBERS),
        "moe.experts.up": drawn(EXPERTS, NUMBERS, HIDDEN, scale=0.4), "moe.experts.up_bias": drawn(EXPERTS, 1, HIDDEN, scale=0.2),
        "moe.experts.down": drawn(EXPERTS, HIDDEN, NUMBERS, scale=0.4), "moe.experts.down_bias": drawn(EXPERTS, 1, NUMBERS, scale=0.2)}),
    "dense": (dense, {
        "place": drawn(TOKENS, NUMBERS), "layers.0.weight": drawn(wide, NUMBERS, scale=0.4), "layers.0.bias": drawn(wide, scale=0.2),
        "layers.2.weight": drawn(NUMBERS, wide, scale=0.4), "layers.2.bias": drawn(NUMBERS, scale=0.2)}),
}
x, y = drawn(BATCH, N, WIDTH).detach(), drawn(BATCH, N, WIDTH).detach()
out = {"x": x.float(), "y": y.float()}
for name, (network, weights) in networks.items():
    made, cost = network(weights, x)
    loss = (made - y).square().mean()
    (loss + 0.01 * cost).backward()
    out[name + ".loss"], out[name + ".whole"] = loss.detach(), (loss + 0.01 * cost).detach()
    for key, w in weights.items():
        out[f"{name}.weight.{key}"], out[f"{name}.grad.{key}"] = w.detach().float(), w.grad
save_file(out, os.path.join(os.path.dirname(os.path.abspath(__file__)), "spectral_moe.safetensors"))
