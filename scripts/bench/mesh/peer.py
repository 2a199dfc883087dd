"""The rows of ours.lua in PyTorch, with NCCL: python3 scripts/bench/mesh/peer.py N [SECTION..].

Collectives are timed in a CUDA graph of twenty, so that NCCL's own time shows, and as single calls. One process a GPU.
"""
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as processes
import torch.nn as nn
import torch.nn.functional as F


def median_seconds(f, repeats, rounds=5):
    for _ in range(3):
        f()
    times = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(repeats):
            f()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begin) / repeats)
    return statistics.median(times)


def in_graph(f, count=20):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        f()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(count):
            f()
    return median_seconds(graph.replay, 5) / count


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, w))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, layers, width, heads, context, vocabulary):
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids):
        x = self.token(ids) + self.position(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def collectives(say, n, which, most):
    for kib in (16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576):
        if kib > most:
            break
        dtype, size = (torch.float32, kib * 256) if which == "sums" else (torch.bfloat16, kib * 512)
        x = torch.ones(size, device="cuda", dtype=dtype)
        piece, name = torch.empty(size // n, device="cuda", dtype=dtype), {torch.float32: "f32", torch.bfloat16: "bf16"}[dtype]
        if which == "sums":
            calls = {"all-reduce": lambda: dist.all_reduce(x), "reduce-scatter": lambda: dist.reduce_scatter_tensor(piece, x)}
        else:
            y = torch.empty_like(x)
            calls = {"all-gather": lambda: dist.all_gather_into_tensor(x, piece), "all-to-all": lambda: dist.all_to_all_single(y, x)}
        for what, f in calls.items():
            say(f"{what} {name} {kib} KiB", in_graph(f) * 1e6, "us")
            say(f"{what} {name} {kib} KiB, single calls", median_seconds(f, 100 if kib <= 4096 else 5) * 1e6, "us")


def mlp(say, n):
    m, d, h = 8192, 4096, 16384
    x = torch.randn(m, d, device="cuda", dtype=torch.bfloat16)
    w1 = torch.randn(d, h // n, device="cuda", dtype=torch.bfloat16) * 0.02
    w2 = torch.randn(h // n, d, device="cuda", dtype=torch.bfloat16) * 0.02

    def layer():
        y = F.gelu(x @ w1, approximate="tanh") @ w2
        dist.all_reduce(y)
        return y

    say(f"tensor-parallel MLP {m}x{d}x{h}", 4 * m * d * h / n / median_seconds(layer, 10) * 1e-12, "TFLOP/s a GPU")


def tokens(say, name, model, batch, context, vocabulary, n, autocast):
    kinds = {}  # a fused step takes tensors of one kind
    for p in model.parameters():
        kinds.setdefault(type(p.data), []).append(p)
    optimizers = [torch.optim.AdamW(list_of, 1e-4, fused=True) for list_of in kinds.values()]
    ids = torch.randint(0, vocabulary, (batch, context), device="cuda")

    def step():
        with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
            logits = model(ids)
            loss = F.cross_entropy(logits.view(-1, vocabulary), ids.view(-1))
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    say(name, batch * context * n / median_seconds(step, 5, 3), "tokens/s")


def gpt(say, n, rank):
    model = nn.parallel.DistributedDataParallel(GPT(12, 768, 12, 1024, 50304).cuda(), device_ids=[rank])
    tokens(say, f"GPT-2 124M, dp{n}, 32 x 1024 a device", torch.compile(model), 32, 1024, 50304, n, True)


def large(say, n):
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    model = GPT(24, 2048, 16, 1024, 50304).cuda()
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.blocks:
        block.compile()
        fully_shard(block, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    tokens(say, f"GPT 1.3B, ZeRO-3 over {n}, 8 x 1024 a GPU", model, 8, 1024, 50304, n, False)


class DecoderBlock(nn.Module):
    def __init__(self, width, heads, hidden):
        super().__init__()
        self.head = width // heads
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def rope(self, x):
        half = self.head // 2
        angle = torch.arange(x.shape[2], device=x.device)[:, None] * 10000.0 ** (-torch.arange(half, device=x.device) / half)
        cos, sin, (a, b) = angle.cos().to(x.dtype), angle.sin().to(x.dtype), x.chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    def forward(self, x):
        b, t, w = x.shape
        y = self.norm1(x)
        q, k, v = (p(y).unflatten(-1, (-1, self.head)).transpose(1, 2) for p in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(self.rope(q), self.rope(k), v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).flatten(2))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    def __init__(self, layers, width, heads, hidden, vocabulary):
        super().__init__()
        self.token, self.norm = nn.Embedding(vocabulary, width), nn.RMSNorm(width)
        self.blocks = nn.ModuleList(DecoderBlock(width, heads, hidden) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids):
        x = self.token(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def seven(say, n):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    if n < 4:
        return
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    columns, rows = ("q", "k", "v", "gate", "up"), ("o", "down")
    for kind, batch in ((f"ZeRO-3 over {n}", 4 * n), (f"tp {n}", 4)):
        with torch.device("meta"):
            model = Decoder(32, 4096, 32, 11008, 32000)
        sharded = kind.startswith("ZeRO")
        if not sharded:
            mesh = init_device_mesh("cuda", (n,))
            for block in model.blocks:
                parallelize_module(block, mesh, {**{p: ColwiseParallel() for p in columns}, **{p: RowwiseParallel() for p in rows}})
        for block in model.blocks:
            if sharded:
                fully_shard(block, mp_policy=policy)
            block.compile()
        if sharded:
            fully_shard(model, mp_policy=policy)
        model.to_empty(device="cuda")
        for p in model.parameters():
            nn.init.normal_(p, std=0.02)
        tokens(say, f"7B, {kind}, {batch} x 2048 tokens", model, batch // n if sharded else batch, 2048, 32000, n if sharded else 1, not sharded)
        del model
        torch.cuda.empty_cache()


def run(rank, n, wanted, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=n, device_id=torch.device("cuda", rank))

    def say(name, value, unit):
        if rank == 0:
            print(f"{name}\t{value:.6g}\t{unit}", flush=True)

    torch.manual_seed(0)
    wanted = {name: int(kib or 1 << 30) for name, _, kib in (section.partition(":") for section in wanted)}
    for section in ("sums", "moves", "mlp", "gpt", "large", "seven"):
        if wanted and section not in wanted:
            continue
        if section in ("sums", "moves"):
            collectives(say, n, section, wanted.get(section, 1 << 30))
        else:
            {"mlp": lambda: mlp(say, n), "gpt": lambda: gpt(say, n, rank), "large": lambda: large(say, n),
             "seven": lambda: seven(say, n)}[section]()
        torch.cuda.empty_cache()
    dist.destroy_process_group()


if __name__ == "__main__":
    processes.spawn(run, args=(int(sys.argv[1]), sys.argv[2:], 29500 + os.getpid() % 1000), nprocs=int(sys.argv[1]))
