"""Composite functions by PyTorch and JAX: values, gradients, jvp and hvp in f64. Writes
peers.safetensors beside it; tests/graph/peers.lua has the same functions.
python3 tests/graph/make_vectors.py

Each function maps f64 tensors to one number. Stored by name: x0, x1.. the inputs, v0, v1..
the directions, y, g0.. the gradients, d the derivative along v, h0.. the Hessian times v.
Complex numbers occur inside; the functions with complex parameters take pairs of f64, so
that no convention for complex gradients enters. Where one does (f_fft_direct), it is
PyTorch's and ours, dL/da + i dL/db for z = a + i b; JAX gives the conjugate."""
import os

import jax
import jax.numpy as jnp
import numpy as np
import torch
import torch.nn.functional as F
from safetensors.numpy import save_file

jax.config.update("jax_enable_x64", True)
HERE = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(5)
tensors = {}
LABELS = torch.tensor([1, 0, 3, 2])
INDEX = torch.tensor([2, 0, 2, 1])


def R(*shape, low=-1.0):
    return rng.uniform(low, 1, shape)


def store(name, xs, vs, y, g, d, h):
    for kind, values in (("x", xs), ("v", vs), ("g", g), ("h", h)):
        for i, a in enumerate(values):
            tensors[f"{name}.{kind}{i}"] = np.array(a, dtype=np.float64, order="C")
    tensors[f"{name}.y"] = np.array(y, dtype=np.float64)
    tensors[f"{name}.d"] = np.array(d, dtype=np.float64)


def by_torch(name, f, *xs):
    vs = [R(*x.shape) for x in xs]
    x = tuple(torch.tensor(a) for a in xs)
    v = tuple(torch.tensor(a) for a in vs)
    # Twice backwards: not every operator of PyTorch has a forward derivative.
    xg = [t.clone().requires_grad_() for t in x]
    y = f(*xg)
    g = torch.autograd.grad(y, xg, create_graph=True, allow_unused=True)
    g = [torch.zeros_like(t) if k is None else k for t, k in zip(xg, g)]
    d = sum((k * w).sum() for k, w in zip(g, v))
    h = torch.autograd.grad(d, xg, allow_unused=True) if d.requires_grad else [None] * len(xg)
    h = [torch.zeros_like(t) if k is None else k for t, k in zip(xg, h)]
    n = lambda t: t.detach().resolve_conj().resolve_neg().numpy()
    store(name, xs, vs, n(y), [n(t) for t in g], n(d), [n(t) for t in h])


def by_jax(name, f, *xs):
    vs = [R(*x.shape) for x in xs]
    argnums = tuple(range(len(xs)))
    grad = jax.grad(f, argnums)
    y, d = jax.jvp(f, tuple(xs), tuple(vs))
    g, h = jax.jvp(grad, tuple(xs), tuple(vs))
    store(name, xs, vs, y, g, d, h)


def attention(q, k, v):
    s = q @ k.transpose(-1, -2) / 2.0
    mask = torch.triu(torch.ones(5, 5, dtype=torch.bool), 1)
    return (torch.softmax(s.masked_fill(mask, -torch.inf), -1) @ v).square().sum()


def block(x, wq, wk, wv, wo, w1, w2):
    h = F.layer_norm(x, (4,))
    a = torch.softmax((h @ wq) @ (h @ wk).T / 2.0, -1) @ (h @ wv) @ wo
    x = x + a
    return (x + F.gelu(F.layer_norm(x, (4,)) @ w1) @ w2).square().mean()


def by_pytorch():
    t = by_torch
    t("mlp", lambda x, a, b, c: torch.tanh(torch.tanh(x @ a + b) @ c).square().sum(), R(3, 4), R(4, 5), R(5), R(5, 2))
    t("mlp_cross_entropy", lambda x, a, b: F.cross_entropy(F.silu(x @ a) @ b, LABELS), R(4, 3), R(3, 6), R(6, 5))
    t("attention", attention, R(2, 5, 4), R(2, 5, 4), R(2, 5, 3))
    t("block", block, R(5, 4), R(4, 4), R(4, 4), R(4, 4), R(4, 4), R(4, 8), R(8, 4))
    t("layernorm", lambda x, w, b: (F.layer_norm(x, (6,), w, b) ** 3).sum(), R(3, 6), R(6), R(6))
    t("rmsnorm", lambda x, w: (x * torch.rsqrt(x.square().mean(-1, True) + 1e-6) * w).exp().sum(), R(3, 6), R(6))
    t("batchnorm", lambda x, w, b: F.batch_norm(x, None, None, w, b, True, 0, 1e-5).sin().sum(), R(6, 3), R(3), R(3))
    t("groupnorm", lambda x: F.group_norm(x, 2).square().mul(x).sum(), R(2, 4, 3))
    t("conv1d", lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=1).tanh().sum(), R(2, 3, 8), R(4, 3, 3), R(4))
    t("conv_net", lambda x, a, b: F.avg_pool2d(torch.tanh(F.conv2d(torch.tanh(F.conv2d(x, a, padding=1)), b, stride=2)), 2).square().sum(),
      R(1, 2, 7, 7), R(3, 2, 3, 3), R(4, 3, 2, 2))
    t("conv_groups", lambda x, w: F.conv2d(x, w, groups=2, dilation=2).exp().mean(), R(1, 4, 6, 6), R(4, 2, 2, 2))
    t("conv_transpose", lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1).sin().sum(), R(1, 2, 4, 4), R(2, 3, 3, 3))
    t("max_pool", lambda x: F.max_pool2d(x, 2).square().sum(), R(1, 2, 6, 6))
    t("logsumexp", lambda x: torch.logsumexp(x * 3, 1).square().sum(), R(4, 5))
    t("log_softmax", lambda x: (F.log_softmax(x, 0) * torch.softmax(x, 1)).sum(), R(4, 5))
    t("cumsum", lambda x: torch.cumsum(x, 1).tanh().cumsum(0).square().sum(), R(4, 5))
    t("cumprod", lambda x: torch.cumprod(x, 1).sin().sum(), R(3, 5))
    t("logcumsumexp", lambda x: torch.logcumsumexp(x, 1).square().sum(), R(3, 5))
    t("norms", lambda x: torch.linalg.vector_norm(x, dim=1).prod() + x.std(0).sum() + x.var(1, unbiased=False).square().sum(), R(3, 5))
    t("prod", lambda x: x.prod(1).exp().sum(), R(3, 4))
    t("max_sort", lambda x: (torch.sort(x, 1)[0] * torch.arange(1.0, 6.0, dtype=torch.float64)).square().sum() + x.amax(0).exp().sum(), R(4, 5))
    t("topk", lambda x: torch.topk(x, 2, 1)[0].square().sum(), R(4, 5))
    t("gather", lambda x, w: (x[INDEX].exp() * torch.gather(w, 1, LABELS.unsqueeze(1))).sum(), R(4, 3), R(4, 5))
    t("embedding", lambda w: F.embedding(INDEX, w).cumsum(0).sin().sum(), R(4, 3))
    t("scatter", lambda x, y: x.index_add(0, INDEX, y).square().mul(x).sum(), R(4, 3), R(4, 3))
    t("where", lambda x, y: torch.where(x > y, x.exp() * y, x * y.square()).sum(), R(4, 5), R(4, 5))
    t("solve", lambda a, b: torch.linalg.solve(a + 4 * torch.eye(4, dtype=torch.float64), b).square().sum(), R(4, 4), R(4, 2))
    t("cholesky_solve", lambda a, b: torch.cholesky_solve(b, torch.linalg.cholesky(a @ a.T + 2 * torch.eye(4, dtype=torch.float64))).square().sum(), R(4, 4), R(4, 2))
    t("logdet", lambda a: torch.linalg.slogdet(a @ a.T + torch.eye(4, dtype=torch.float64))[1], R(4, 4))
    t("inverse", lambda a: torch.linalg.inv(a + 4 * torch.eye(3, dtype=torch.float64)).sin().sum(), R(3, 3))
    t("eigvalsh", lambda a: torch.linalg.eigvalsh(a + a.T).pow(3).sum(), R(4, 4))
    t("qr", lambda a: (torch.linalg.qr(a)[1].abs() * torch.arange(1.0, 17.0, dtype=torch.float64).reshape(4, 4)).sum(), R(5, 4))
    t("svdvals", lambda a: torch.linalg.svdvals(a).square().cumsum(0).sin().sum(), R(4, 3))
    t("einsum", lambda a, b, c: torch.einsum("bij,jk,bk->bi", a, b, c).tanh().sum(), R(2, 3, 4), R(4, 5), R(2, 5))
    t("losses", lambda x, y: F.huber_loss(x * 3, y, delta=0.7) + F.binary_cross_entropy_with_logits(x, torch.sigmoid(y)) + F.kl_div(F.log_softmax(x, 1), F.softmax(y, 1), reduction="sum"), R(4, 5), R(4, 5))
    t("activations", lambda x: (F.gelu(x) * F.softplus(x) + F.elu(x) * F.silu(x) + F.mish(x) * torch.erf(x)).square().sum(), R(4, 5))
    t("special", lambda x: (torch.erf(x) * torch.expm1(x) + torch.log1p(x.square()) * torch.atan2(x, x.square() + 1) + torch.asin(x / 2) * torch.tan(x / 2)).sum(), R(4))
    t("spectrum", lambda x: (torch.fft.rfft(x).abs() + 0.1).log().sum(), R(3, 8))
    t("fft_product", lambda x, y: torch.fft.ifft(torch.fft.fft(x) * torch.fft.fft(y).conj()).real.pow(3).sum(), R(2, 6), R(2, 6))
    t("complex_matrix", lambda a, b: (torch.complex(a, b) @ torch.complex(b, a)).exp().abs().sum(), R(3, 3), R(3, 3))
    t("interpolate", lambda x: F.interpolate(x, scale_factor=2, mode="bilinear").square().mul(2).tanh().sum(), R(1, 1, 3, 4))
    # The gradient by a complex number itself: pairs are stored.
    z = torch.tensor(R(2, 6)) + 1j * torch.tensor(R(2, 6))
    z.requires_grad_()
    y = (torch.fft.fft(z).abs().square() * torch.arange(6.0, dtype=torch.float64)).sum().log()
    (g,) = torch.autograd.grad(y, z)
    tensors["f_fft_direct.z"] = np.array(torch.view_as_real(z.detach()).numpy(), order="C")
    tensors["f_fft_direct.g"] = np.array(torch.view_as_real(g.resolve_conj()).numpy(), order="C")


def by_jax_control():
    def rnn(w, u, xs, h):
        def step(c, x):
            n = jnp.tanh(c @ w + x @ u)
            return n, n * c
        last, ys = jax.lax.scan(step, h, xs)
        return (last ** 2).sum() + jnp.sin(ys).sum()

    def reverse(w, xs, h):
        last, ys = jax.lax.scan(lambda c, x: (jnp.sin(c * w + x), c.sum()), h, xs, reverse=True)
        return last.sum() + (ys ** 2).sum()

    def choice(x, y):
        return jax.lax.cond(x.sum() > 0, lambda a, b: (jnp.exp(a) * b).sum(), lambda a, b: jnp.cos(a * b).sum(), x, y)

    def bounded(x, w):
        def step(c, _):
            return jax.lax.cond(c.sum() < 9, lambda t: t * (1 + w ** 2), lambda t: t, c), None
        return (jax.lax.scan(step, x, None, length=7)[0] ** 2).sum()

    by_jax("scan_rnn", rnn, R(3, 3), R(2, 3), R(6, 2), R(3))
    by_jax("scan_reverse", reverse, R(3), R(5, 3), R(3))
    by_jax("cond", choice, R(4, low=0.2), R(4))
    by_jax("cond_else", choice, -R(4, low=0.2), R(4))
    by_jax("while_bounded", bounded, R(3, low=0.5), R(3))
    by_jax("map", lambda x, w: (jax.lax.map(lambda r: jax.nn.softmax(r * w) * r.sum(), x) ** 2).sum(), R(4, 3), R(3))
    by_jax("jax_mlp", lambda x, a, b: (jax.nn.softplus(x @ a) @ b).prod(), R(2, 3), R(3, 4), R(4, 1))


by_pytorch()
by_jax_control()
save_file(tensors, os.path.join(HERE, "peers.safetensors"))
print(len({k.split(".")[0] for k in tensors}), "functions,", sum(a.nbytes for a in tensors.values()), "bytes")
