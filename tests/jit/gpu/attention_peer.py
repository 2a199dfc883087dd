"""The peer of attention_device --bench, and with --grad of attention_grad_device
--bench: cuDNN through PyTorch, in the same bursts."""
import sys
import time

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as attention

BURSTS = 5


def burst(f, times):
    a, b = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    time.sleep(0.05)
    f()
    a.record()
    for _ in range(times):
        f()
    b.record()
    b.synchronize()
    return a.elapsed_time(b) / times


def bench(d, causal, b, h, j, s):
    flop = 4.0 * b * h * s * s * d * (0.5 if causal else 1)
    q = torch.randn(b, h, s, d, device="cuda").bfloat16()
    k, v = (torch.randn(b, j, s, d, device="cuda").bfloat16() for _ in range(2))
    times = int(6e-3 / (flop / 550e12)) + 1
    best = 0.0
    for backend in (SDPBackend.CUDNN_ATTENTION,):
        with sdpa_kernel(backend):
            f = lambda: attention(q, k, v, is_causal=causal, enable_gqa=h != j)
            f()
            f()
            msec = sorted(burst(f, times) for _ in range(BURSTS))[BURSTS // 2]
            best = max(best, flop / msec * 1e-9)
    word = "causal" if causal else "full"
    print(f"attention d{d} {word} B{b} H{h}/{j} S{s} cudnn {best:.1f}", flush=True)


def bench_grad(d, causal, b, h, j, s):
    """Backward pass alone, and forward and backward. PyTorch's cuDNN adds in any order; its
    FlashAttention has an order, as ours has."""
    flop = 4.0 * b * h * s * s * d * (0.5 if causal else 1)
    q = torch.randn(b, h, s, d, device="cuda").bfloat16().requires_grad_()
    k, v = (torch.randn(b, j, s, d, device="cuda").bfloat16().requires_grad_() for _ in range(2))
    g = torch.randn(b, h, s, d, device="cuda").bfloat16()
    times = int(6e-3 / (2.5 * flop / 500e12)) + 1
    line = f"attention_grad d{d} {'causal' if causal else 'full'} B{b} H{h}/{j} S{s}"
    peers = (("cudnn", SDPBackend.CUDNN_ATTENTION), ("flash", SDPBackend.FLASH_ATTENTION))
    for word, backend in peers:
        torch.use_deterministic_algorithms(word == "flash")
        with sdpa_kernel(backend):
            forward = lambda: attention(q, k, v, is_causal=causal, enable_gqa=h != j)
            y = forward()
            back = lambda: torch.autograd.grad(y, (q, k, v), g, retain_graph=True)
            both = lambda: torch.autograd.grad(forward(), (q, k, v), g)
            msec = []
            for f in (back, both):
                f()
                msec.append(sorted(burst(f, times) for _ in range(BURSTS))[BURSTS // 2])
            line += f"  {word} {2.5 * flop / msec[0] * 1e-9:.1f} both {3.5 * flop / msec[1] * 1e-9:.1f}"
    torch.use_deterministic_algorithms(False)
    print(line, flush=True)


print(torch.__version__, torch.backends.cudnn.version())
if "--grad" in sys.argv:
    for d in (128, 64):
        for causal in (False, True):
            bench_grad(d, causal, 4, 16, 16, 4096)
            bench_grad(d, causal, 1, 16, 16, 16384)
            bench_grad(d, causal, 16, 16, 16, 1024)
    bench_grad(64, True, 32, 12, 12, 1024)
    bench_grad(128, True, 4, 32, 4, 4096)
    bench_grad(64, True, 8, 64, 8, 2048)
    sys.exit()
for d in (128, 64):
    for causal in (False, True):
        for s in (1024, 2048, 4096, 8192, 16384):
            bench(d, causal, 16 if s < 4096 else 4, 16, 16, s)
bench(128, True, 4, 32, 4, 4096)
bench(64, True, 8, 64, 8, 2048)
bench(64, True, 32, 12, 12, 1024)
