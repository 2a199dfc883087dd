# What PyTorch makes of linear and gelu, in the bursts of epilogue_device: alone, two calls, and
# compiled with max-autotune.
import time, torch, torch.nn.functional as F

def burst(f, times):
    torch.cuda.synchronize()
    time.sleep(0.07)
    f()
    a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    a.record()
    for _ in range(times):
        f()
    b.record()
    b.synchronize()
    return a.elapsed_time(b) / times

torch.set_float32_matmul_precision("high")
for m, n, k in ((8192, 16384, 4096), (16384, 3072, 768)):
    x = torch.randn(m, k, device="cuda", dtype=torch.bfloat16) / k**0.5
    w = torch.randn(n, k, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(n, device="cuda", dtype=torch.bfloat16) / k**0.5
    flop = 2.0 * m * n * k
    times = int(10e-3 / (flop / 700e12)) + 1
    ways = {"bare": lambda: F.linear(x, w), "bias": lambda: F.linear(x, w, b),
            "two": lambda: F.gelu(F.linear(x, w, b))}
    try:
        g = torch.compile(lambda x, w, b: F.gelu(F.linear(x, w, b)), mode="max-autotune-no-cudagraphs")
        g(x, w, b)
        ways["compiled"] = lambda: g(x, w, b)
    except Exception as e:
        print("compile:", str(e)[:200])
    got = {name: [] for name in ways}
    for r in range(7):
        for name, f in ways.items():
            got[name].append(burst(f, times))
    line = " | ".join("%s %.1f" % (name, flop / sorted(t)[3] * 1e-9) for name, t in got.items())
    print("torch %dx%dx%d: %s" % (m, n, k, line), flush=True)

n = 8192
a = (torch.randn(n, n, device="cuda") / 8).to(torch.float8_e4m3fn)
b = (torch.randn(n, n, device="cuda")).to(torch.float8_e4m3fn).t()
one = torch.ones((), device="cuda")
for fast in (True, False):
    f = lambda: torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=fast)
    t = sorted(burst(f, 10) for _ in range(7))[3]
    print("scaled_mm fast_accum %s: %.1f" % (fast, 2.0 * n**3 / t * 1e-9), flush=True)
