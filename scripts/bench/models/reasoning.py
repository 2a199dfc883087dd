"""The reasoning models of examples/hrm.lua and examples/trm.lua in PyTorch, with the same names of weights, and one segment of their training.
tests/examples/make_reasoning.py makes vectors of it, reasoning_peer.py measures it."""
import math

import torch
import torch.nn.functional as F
from torch import nn


def drawn(*shape, std):
    return nn.init.trunc_normal_(torch.empty(*shape), std=std / 0.87962566103423978, a=-2 * std / 0.87962566103423978,
                                 b=2 * std / 0.87962566103423978)


class Linear(nn.Module):
    def __init__(self, inner, outer, dtype):
        super().__init__()
        self.weight, self.dtype = nn.Parameter(drawn(outer, inner, std=inner ** -0.5)), dtype

    def forward(self, x):
        return F.linear(x, self.weight.to(self.dtype))


def rmsnorm(x):
    wide = x if x.dtype == torch.float64 else x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5)).to(x.dtype)


def tables(length, dims):
    """Cosines and sines of rotary positions, [length, dims / 2] each."""
    frequency = 10000.0 ** (-torch.arange(dims // 2, dtype=torch.float64) / (dims // 2))
    angle = torch.arange(length, dtype=torch.float64)[:, None] * frequency
    return angle.cos(), angle.sin()


def turned(x, cos, sin):
    """Heads [B, H, L, D] turned by their positions, pairs (i, i + D / 2)."""
    a, b = x.to(cos.dtype).chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(x.dtype)


class Attention(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.heads = o["heads"]
        self.qkv, self.out = Linear(o["width"], 3 * o["width"], o["dtype"]), Linear(o["width"], o["width"], o["dtype"])
        cos, sin = tables(o["cells"], o["width"] // o["heads"])
        wide = torch.promote_types(o["dtype"], torch.float32)
        self.register_buffer("cos", cos.to(wide), persistent=False)
        self.register_buffer("sin", sin.to(wide), persistent=False)

    def forward(self, x):
        b, n, width = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(turned(q, self.cos, self.sin), turned(k, self.cos, self.sin), v)
        return self.out(y.transpose(1, 2).reshape(b, n, width))


class SwiGLU(nn.Module):
    def __init__(self, width, o):
        super().__init__()
        multiple = o["multiple"]
        hidden = math.ceil(round(o["expansion"] * width * 2 / 3) / multiple) * multiple
        self.gate_up, self.down = Linear(width, 2 * hidden, o["dtype"]), Linear(hidden, width, o["dtype"])

    def forward(self, x):
        gate, up = self.gate_up(x).chunk(2, -1)
        return self.down(F.silu(gate) * up)


class Block(nn.Module):
    def __init__(self, o):
        super().__init__()
        if o.get("mixer"):
            self.mixer = SwiGLU(o["mixer"], o)
        else:
            self.attention = Attention(o)
        self.mlp = SwiGLU(o["width"], o)

    def forward(self, x):
        if hasattr(self, "mixer"):
            y = x.transpose(1, 2)
            x = rmsnorm(y + self.mixer(y)).transpose(1, 2)
        else:
            x = rmsnorm(x + self.attention(x))
        return rmsnorm(x + self.mlp(x))


class Stack(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.blocks = nn.ModuleList(Block(o) for _ in range(o["layers"]))

    def forward(self, z, injected):
        z = z + injected
        for block in self.blocks:
            z = block(z)
        return z


class Heads(nn.Module):
    def __init__(self, o, outputs):
        super().__init__()
        self.width, self.dtype = o["width"], o["dtype"]
        self.embedding = nn.Parameter(drawn(o["words"], o["width"], std=o["width"] ** -0.5))
        self.word = Linear(o["width"], o["words"], o["dtype"])
        self.halt, self.halt_bias = nn.Parameter(torch.zeros(outputs, o["width"])), nn.Parameter(torch.full((outputs,), -5.0))

    def embed(self, ids):
        return F.embedding(ids, self.embedding).to(self.dtype) * math.sqrt(self.width)

    def words(self, z):
        return self.word(z).to(self.halt.dtype)

    def halting(self, z):
        return F.linear(z[:, 0].to(self.halt.dtype), self.halt, self.halt_bias)


class HRM(nn.Module):
    """Two stacks, slow and fast; gradients of the last step of each alone."""
    looks_ahead = True

    def __init__(self, o):
        super().__init__()
        self.cycles, self.heads = o["cycles"], Heads(o, 2)
        self.slow, self.fast = Stack(o), Stack(o)
        self.register_buffer("slow_start", drawn(o["width"], std=1))
        self.register_buffer("fast_start", drawn(o["width"], std=1))

    def start(self):
        return [self.slow_start, self.fast_start]

    def segment(self, z, ids):
        slow, fast = z
        given = self.heads.embed(ids)
        with torch.no_grad():
            for h in range(self.cycles):
                for step in range(self.cycles):
                    if h < self.cycles - 1 or step < self.cycles - 1:
                        fast = self.fast(fast, slow + given)
                if h < self.cycles - 1:
                    slow = self.slow(slow, fast)
        fast = self.fast(fast, slow + given)
        slow = self.slow(slow, fast)
        return [slow.detach(), fast.detach()], self.heads.words(slow), self.heads.halting(slow)

    def halts(self, q):
        return q[:, 0] > q[:, 1]

    def halt_loss(self, q, right, last, ahead):
        goes_on = torch.sigmoid(torch.where(last, ahead[:, 0], ahead.amax(1)))
        return 0.5 * (F.binary_cross_entropy_with_logits(q[:, 0], right) + F.binary_cross_entropy_with_logits(q[:, 1], goes_on))


class TRM(nn.Module):
    """One stack for both; gradients of the whole last recursion."""
    looks_ahead = False

    def __init__(self, o):
        super().__init__()
        self.cycles, self.inner, self.heads = o["cycles"], o["inner"], Heads(o, 1)
        self.net = Stack(o)
        self.register_buffer("answer_start", drawn(o["width"], std=1))
        self.register_buffer("latent_start", drawn(o["width"], std=1))

    def start(self):
        return [self.answer_start, self.latent_start]

    def recursion(self, answer, latent, given):
        for _ in range(self.inner):
            latent = self.net(latent, answer + given)
        return self.net(answer, latent), latent

    def segment(self, z, ids):
        answer, latent = z
        given = self.heads.embed(ids)
        with torch.no_grad():
            for _ in range(self.cycles - 1):
                answer, latent = self.recursion(answer, latent, given)
        answer, latent = self.recursion(answer, latent, given)
        return [answer.detach(), latent.detach()], self.heads.words(answer), self.heads.halting(answer)

    def halts(self, q):
        return q[:, 0] > 0

    def halt_loss(self, q, right, last, ahead):
        return 0.5 * F.binary_cross_entropy_with_logits(q[:, 0], right)


def stablemax_loss(logits, answers):
    x = logits.double()
    s = torch.where(x < 0, 1 / (1 - x.clamp(max=0)), x + 1)
    own = s.gather(2, answers[..., None])[..., 0]
    return (s.sum(2) / own).log().mean().to(logits.dtype)


def supervised(model, z, ids, answers, last):
    """The loss of one segment, and (z, logits, q) behind it."""
    z, logits, q = model.segment(z, ids)
    right = (logits.argmax(2) == answers).all(1).to(logits.dtype)
    ahead = None
    if model.looks_ahead:
        with torch.no_grad():
            ahead = model.segment(z, ids)[2]
    return stablemax_loss(logits, answers) + model.halt_loss(q, right, last, ahead), (z, logits, q)


class AdamAtan2(torch.optim.Optimizer):
    def __init__(self, params, lr, betas, weight_decay):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            grads, (b1, b2), lr = [p.grad for p in params], group["betas"], group["lr"]
            for p in params:
                if not self.state[p]:
                    self.state[p].update(m=torch.zeros_like(p), v=torch.zeros_like(p))
            group["count"] = group.get("count", 0) + 1
            t = group["count"]
            ms, vs = [self.state[p]["m"] for p in params], [self.state[p]["v"] for p in params]
            torch._foreach_mul_(params, 1 - lr * group["weight_decay"])
            torch._foreach_lerp_(ms, grads, 1 - b1)
            torch._foreach_mul_(vs, b2)
            torch._foreach_addcmul_(vs, grads, grads, 1 - b2)
            ups = torch._foreach_div(ms, 1 - b1 ** t)
            roots = torch._foreach_sqrt(vs)
            torch._foreach_div_(roots, math.sqrt(1 - b2 ** t))
            for p, up, root in zip(params, ups, roots):
                p.sub_(torch.atan2(up, root), alpha=lr)
