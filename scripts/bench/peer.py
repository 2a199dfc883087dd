"""The worker for a peer in Python: `peer.py torch|numpy|scipy|jax|llama|onnx THREADS`.

Protocol: scripts/bench/worker.h; rows and sizes: rows.lua. A row is a method that takes
the sizes and returns the call to measure. `peer.py peak LIBRARY MIB` prints the peak
resident KiB of the loop in peak.lua."""
import gc
import os
import signal
import sys
import time

from peer_jax import Jax
from peer_numpy import Numpy, Scipy
from peer_torch import Compiled, Torch
from models.peer import Llama, Onnx

now = time.process_time if os.environ.get("CLOCK") == "cpu" else time.perf_counter

PATIENCE = 240  # seconds for one answer
LIBRARIES = {"numpy": Numpy, "scipy": Scipy, "torch": Torch, "compile": Compiled, "jax": Jax, "llama": Llama, "onnx": Onnx}
if os.environ.get("DEV"):
    from gpu_peer import LIBRARIES
HIDDEN = {"about", "wait", "done", "mean", "heads", "attend", "seconds_of", "wrapped", "normal", "complex", "uniform", "positive", "garbage", "jit",
          "run", "prepared", "gradients", "of", "generate", "exported"}


class Worker:
    def __init__(self, library):
        self.library, self.held, self.call, self.loop, self.calls = library, None, None, None, 1
        self.done = getattr(library, "done", None)  # of a device, where work is queued

    def set_up(self, words):
        name, sizes = words[0], [int(w) if w.isdigit() else w for w in words[1:]]
        self.held = self.call = self.loop = self.library.checked = None
        gc.collect()
        known = getattr(self.library, "ROWS", None)
        hidden = name in HIDDEN or known and name not in known
        make = None if hidden else getattr(self.library, name, None)
        call = make(*sizes) if make else None
        if call is None:
            return False
        wait = self.library.wait

        def loop(count):
            for _ in range(count):
                y = wait(call())
            return y
        self.loop = call if name == "small_add" else loop
        return True

    def time(self, count):
        start = now()
        y = self.loop(count)
        if self.done:
            self.done(y)
        return (now() - start) / count

    def warm_up(self):
        self.time(1)  # compiles, loads libraries
        if self.done:
            self.time(16)
        start, once, count = now(), self.time(1), 1
        while now() - start < 0.1 and once < 0.5:
            once = self.time(count)
            if once * count < 0.005:
                count *= 4
        self.calls = max(1, int(0.03 / once))

    def about(self, words):
        return "ok " + self.library.about()

    def bench(self, words):
        if words != self.held:
            if not self.set_up(words):
                return "none"
            self.warm_up()
            self.held = words
        if self.calls > 1:
            self.time(self.calls)  # the processors come back from the pause
        return f"ok {self.time(self.calls):.9g}"

    def check(self, words):
        checked = self.library.checked  # what the row says of its result itself
        return f"ok {self.library.mean(self.loop(1)) if checked is None else checked:.9g}"

    def drop(self, words):
        self.held = self.call = self.loop = None
        gc.collect()
        return "ok"


def serve(library):
    worker = Worker(library)
    for line in sys.stdin:
        command, *words = line.split()
        signal.alarm(PATIENCE)  # a library that hangs ends this process, not the run
        try:
            answer = getattr(worker, command)(words)
        except Exception as e:  # a row that fails must not end the run
            answer = "fail " + " ".join(f"{type(e).__name__}: {e}".split())
        signal.alarm(0)
        print(answer, flush=True)


def status(key):
    with open("/proc/self/status") as f:
        return int(next(line.split()[1] for line in f if line.startswith(key + ":")))


def peak(library, mib):
    held = library.garbage(mib)
    print(status("VmHWM"))
    return held


def peak_of_training(library, sizes):
    """Growth of the peak over what was resident before the first step, in KiB."""
    step = library.gpt_step(*sizes)
    before = status("VmRSS")
    for _ in range(5):
        step().item()
    print(status("VmHWM") - before)


def cold():
    import torch
    f = torch.compile(lambda x: torch.softmax(x / 8, 1))
    if sys.argv[2:] == ["cuda"]:
        f(torch.randn(4096, 4096, device="cuda"))
        torch.cuda.synchronize()
        print("done", flush=True)
        os._exit(0)
    x = torch.randn(512, 512)
    start = now()
    f(x)
    print((now() - start) * 1e3)


def main():
    if sys.argv[1] == "cold":
        cold()
        return
    if sys.argv[1] == "peak":
        peak(LIBRARIES[sys.argv[2]](1), int(sys.argv[3]))
        return
    if sys.argv[1] == "peak_of_training":
        peak_of_training(LIBRARIES[sys.argv[2]](2), [int(n) for n in sys.argv[3:]])
        return
    try:
        library = LIBRARIES[sys.argv[1]](int(sys.argv[2]))
    except ImportError as e:
        sys.stdin.readline()
        print(f"none {e}", flush=True)
        os._exit(0)
    serve(library)


main()
