"""The peer of gpu_attention_device --bench: cuDNN through PyTorch, in the same bursts."""
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


print(torch.__version__, torch.backends.cudnn.version())
for d in (128, 64):
    for causal in (False, True):
        for s in (1024, 2048, 4096, 8192, 16384):
            bench(d, causal, 4, 16, 16, s)
bench(128, True, 4, 32, 4, 4096)
bench(64, True, 8, 64, 8, 2048)
