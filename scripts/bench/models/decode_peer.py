"""The rows of decode.lua in PyTorch: python3 scripts/bench/models/decode_peer.py [MODEL:BATCH | MODEL:prefill ..].

transformers' Llama with a static cache; its step, with the choice of the token, is compiled as a whole and replayed as a CUDA
graph (torch.compile, reduce-overhead). Weights of the true shapes are drawn. A prompt is compiled as a whole, too, without a
cache. Each of the rows has a process: all compile at once, and measure one after the other when all have. Environment: PROMPT,
STEPS, PREFILL as for decode.lua; DEVICE=cpu and MODEL tiny to try it. Without transformers: an error, since nothing else is
the peer.
"""
import inspect
import os
import statistics
import sys
import time
import traceback

import torch
import torch.multiprocessing as processes
from transformers import LlamaConfig, LlamaForCausalLM, StaticCache

COMMON = dict(hidden_act="silu", rms_norm_eps=1e-5, vocab_size=128256, num_key_value_heads=8, max_position_embeddings=131072)


def rotated(factor):
    return dict(rope_type="llama3", rope_theta=500000.0, factor=factor, low_freq_factor=1.0, high_freq_factor=4.0,
                original_max_position_embeddings=8192)


MODELS = {
    "llama1b": dict(COMMON, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32,
                    head_dim=64, tie_word_embeddings=True, rope_parameters=rotated(32.0)),
    "llama8b": dict(COMMON, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32,
                    head_dim=128, tie_word_embeddings=False, rope_parameters=rotated(8.0)),
    "tiny": dict(COMMON, hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=8,
                 head_dim=64, tie_word_embeddings=True, rope_parameters=rotated(32.0)),
}
DEVICE = os.environ.get("DEVICE", "cuda")
PROMPT, STEPS = int(os.environ.get("PROMPT", 16)), int(os.environ.get("STEPS", 200))
PREFILL = int(os.environ.get("PREFILL", 8192))
RUNS, WAIT = 3, 600.0  # of the steps, of which the best counts; seconds for others to compile


def synchronize():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def copy_bandwidth():
    n = 2**30 if DEVICE == "cuda" else 2**20
    x = torch.zeros(n, dtype=torch.bfloat16, device=DEVICE)
    y = torch.ones_like(x)
    times = []
    for _ in range(9):
        synchronize()
        begin = time.perf_counter()
        y.copy_(x)
        synchronize()
        times.append(time.perf_counter() - begin)
    return 4 * n / statistics.median(times[2:])


def model_of(name):
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(DEVICE):
        model = LlamaForCausalLM(LlamaConfig(**MODELS[name], attn_implementation="sdpa"))
    return model.eval()


def read_bytes(model):
    total = sum(p.numel() for p in model.parameters())
    if not model.config.tie_word_embeddings:
        total -= model.model.embed_tokens.weight.numel()
    return 2 * total


def cache_word():
    """What the model's argument is called: it has two names, by version."""
    names = inspect.signature(LlamaForCausalLM.forward).parameters
    return "cache" if "cache" in names else "past_key_values"


class Decode:
    def __init__(self, name, batch):
        self.name, self.batch, self.model = name, batch, model_of(name)
        self.cache = StaticCache(config=self.model.config, max_cache_len=PROMPT + STEPS)
        self.word = {cache_word(): self.cache}
        self.step = torch.compile(self.plain, mode="reduce-overhead", fullgraph=True)
        self.run(8)  # compiles, and records

    def plain(self, token, position):
        y = self.model(token, position_ids=position, use_cache=True, **self.word)
        return y.logits[:, -1:].argmax(-1)

    def run(self, steps):
        self.cache.reset()
        ids = torch.arange(self.batch * PROMPT, device=DEVICE).reshape(self.batch, PROMPT) * 7919 % 1000
        places = torch.arange(PROMPT + steps, device=DEVICE)[None]
        y = self.model(ids, position_ids=places[:, :PROMPT], use_cache=True, logits_to_keep=1, **self.word)
        token, times = y.logits[:, -1:].argmax(-1), []
        for i in range(steps - 1):
            position = places[:, PROMPT + i : PROMPT + i + 1].clone()
            begin = time.perf_counter()
            token = self.step(token, position).clone()
            token.cpu()
            times.append(time.perf_counter() - begin)
        return statistics.median(times[len(times) * 3 // 4 :])

    def measure(self, bandwidth):
        t = min(self.run(STEPS) for _ in range(RUNS))
        print(f"{self.name}\tbatch {self.batch}\t{self.batch / t:.1f} tokens/s\t{t * 1e3:.3f} ms a step\t"
              f"{read_bytes(self.model) / bandwidth / t:.3f} of the weights at the copy's bandwidth", flush=True)


class Prefill:
    def __init__(self, name):
        self.name, self.model = name, model_of(name)
        self.ids = torch.full((1, PREFILL), 11, device=DEVICE)
        self.compiled = torch.compile(self.plain, fullgraph=True)
        self.compiled(self.ids)
        synchronize()

    def plain(self, ids):
        return self.model(ids, use_cache=False, logits_to_keep=1).logits

    def seconds(self, f):
        times = []
        for _ in range(7):
            begin = time.perf_counter()
            f(self.ids)
            synchronize()
            times.append(time.perf_counter() - begin)
        return statistics.median(times[2:])

    def measure(self, bandwidth):
        eager, compiled = self.seconds(self.plain), self.seconds(self.compiled)
        print(f"{self.name}\tprefill {PREFILL}\t{compiled * 1e3:.1f} ms compiled\t{eager * 1e3:.1f} ms eager", flush=True)


@torch.no_grad()
def row(word, compiled, turn):
    name, _, what = word.partition(":")
    try:
        job = Prefill(name) if what == "prefill" else Decode(name, int(what or 1))
    except BaseException:
        compiled.abort()  # the others measure all the same
        raise
    try:
        compiled.wait(WAIT)
    except Exception:  # one of them failed
        print(f"{word}: measured while another row may compile", flush=True)
    with turn:
        job.measure(copy_bandwidth())


def run_row(word, compiled, turn):
    """A row to its end; no exit as usual, which would wait for the compiler's own processes."""
    code = 1
    try:
        row(word, compiled, turn)
        code = 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main():
    words = sys.argv[1:] or ["llama1b:1", "llama1b:64"]
    begin, spawn = time.perf_counter(), processes.get_context("spawn")
    print(f"copy\t{copy_bandwidth() / 1e12:.3f} TB/s, torch {torch.__version__}", flush=True)
    compiled, turn = spawn.Barrier(len(words)), spawn.Lock()
    rows = [spawn.Process(target=run_row, args=(word, compiled, turn)) for word in words]
    for one in rows:
        one.start()
    for one in rows:
        one.join()
    print(f"all of it took {time.perf_counter() - begin:.0f} s", flush=True)
    sys.exit(any(one.exitcode for one in rows))


if __name__ == "__main__":
    main()
