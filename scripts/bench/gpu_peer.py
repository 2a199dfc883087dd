"""The rows of `make bench DEV=cuda` in the peers: classes as in peer.py."""


class Torch:
    def __init__(self, threads):
        import torch
        self.t, self.f = torch, torch.nn.functional
        torch.zeros(1, device="cuda")
        torch.backends.cuda.matmul.allow_tf32 = False

    def about(self):
        return f"{self.t.__version__} ({self.t.cuda.get_device_name(0)})"

    def wait(self, y):
        return y

    def done(self, y):
        self.t.cuda.synchronize()

    def mean(self, y):
        y = y[0] if isinstance(y, tuple) else y
        return y.abs().double().mean().item()

    def normal(self, *shape, dtype="f32"):
        kinds = {"f32": self.t.float32, "bf16": self.t.bfloat16}
        return self.t.randn(*shape, device="cuda").to(kinds[dtype])

    def complex(self, *shape):
        return self.normal(*shape).to(self.t.complex64)

    def run(self, f, *args):
        return lambda: f(*args)

    def copy(self, dtype, r, c):
        x = self.normal(r, c, dtype=dtype)
        y = self.t.empty_like(x)
        return lambda: y.copy_(x)

    def small_add(self, n):
        x, y = self.normal(n), self.normal(n)

        def loop(count):
            z = x
            for _ in range(count):
                z = z + y
            return z
        return loop

    def matmul(self, dtype, m, n, k, layout):
        a = self.normal(m, k, dtype=dtype) if layout[0] == "n" else self.normal(k, m, dtype=dtype).t()
        b = self.normal(k, n, dtype=dtype) if layout[1] == "n" else self.normal(n, k, dtype=dtype).t()
        return lambda: a @ b

    def ends(self, rows, groups):
        """Uneven groups, the same in each library."""
        weight = [i * 7919 % 13 + 1 for i in range(1, groups + 1)]
        sizes = [rows * w // sum(weight) for w in weight]
        sizes[-1] += rows - sum(sizes)
        return self.t.tensor(sizes, device="cuda").cumsum(0).int()

    def grouped(self, dtype, rows, groups, k, n):
        x, ends = self.normal(rows, k, dtype=dtype), self.ends(rows, groups)
        w = self.normal(groups, k, n, dtype=dtype)
        return lambda: self.t._grouped_mm(x, w, offs=ends)

    def grouped_weights(self, dtype, rows, groups, k, n):
        x, g = self.normal(rows, k, dtype=dtype), self.normal(rows, n, dtype=dtype)
        ends = self.ends(rows, groups)
        return lambda: self.t._grouped_mm(x.t(), g, offs=ends)

    def mlp(self, dtype, m, n, k):
        return self.run(lambda x, w, b: self.f.gelu(x @ w + b, approximate="tanh"),
                        self.normal(m, k, dtype=dtype), self.normal(k, n, dtype=dtype),
                        self.normal(n, dtype=dtype))

    def softmax(self, dtype, r, c):
        return self.run(lambda x: self.t.softmax(x, 1), self.normal(r, c, dtype=dtype))

    def layernorm(self, dtype, r, c):
        return self.run(lambda x, w, b: self.f.layer_norm(x, (c,), w, b),
                        self.normal(r, c, dtype=dtype), self.normal(c, dtype=dtype),
                        self.normal(c, dtype=dtype))

    def rmsnorm(self, dtype, r, c):
        return self.run(lambda x, w: self.f.rms_norm(x, (c,), w, 1e-5),
                        self.normal(r, c, dtype=dtype), self.normal(c, dtype=dtype))

    def chain(self, dtype, r, c):
        return self.run(lambda x, y, b: self.f.gelu(x + b, approximate="tanh") * y + x,
                        self.normal(r, c, dtype=dtype), self.normal(r, c, dtype=dtype),
                        self.normal(c, dtype=dtype))

    def sum_rows(self, dtype, r, c):
        return self.run(lambda x: x.sum(1), self.normal(r, c, dtype=dtype).abs())

    def sum_columns(self, dtype, r, c):
        return self.run(lambda x: x.sum(0), self.normal(r, c, dtype=dtype).abs())

    def sum_all(self, dtype, r, c):
        return self.run(lambda x: x.sum(), self.normal(r, c, dtype=dtype).abs())

    def transpose(self, dtype, r, c):
        return self.run(lambda x: x.t().contiguous(), self.normal(r, c, dtype=dtype))

    def heads(self, b, h, s, d):
        return [self.normal(b, h, s, d, dtype="bf16") for _ in range(4)]

    def attend(self, q, k, v, causal):
        """By cuDNN where it takes the shapes."""
        from torch.nn.attention import SDPBackend, sdpa_kernel
        with sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION], set_priority=True):
            return self.f.scaled_dot_product_attention(q, k, v, is_causal=causal == 1)

    def attention(self, b, h, s, d, causal):
        q, k, v, _ = self.heads(b, h, s, d)
        return lambda: self.attend(q, k, v, causal)

    def attention_grad(self, b, h, s, d, causal):
        q, k, v, g = self.heads(b, h, s, d)
        for x in (q, k, v):
            x.requires_grad_()
        return lambda: self.t.autograd.grad(self.attend(q, k, v, causal), (q, k, v), g)

    def decode(self, b, length):
        """The faster of cuDNN and flash attention, chosen by a first measurement."""
        from torch.nn.attention import SDPBackend, sdpa_kernel
        q = self.normal(b, 64, 1, 128, dtype="bf16")
        k, v = (self.normal(b, 8, length, 128, dtype="bf16") for _ in range(2))

        def by(backend):
            def run():
                with sdpa_kernel([backend]):
                    return self.f.scaled_dot_product_attention(q, k, v, enable_gqa=True)
            return run
        best, least = None, float("inf")
        for backend in (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION):
            try:
                seconds = self.seconds_of(by(backend))
            except RuntimeError:  # this backend does not take the shapes
                continue
            if seconds < least:
                best, least = by(backend), seconds
        return best

    def seconds_of(self, f):
        start, end = (self.t.cuda.Event(enable_timing=True) for _ in range(2))
        for _ in range(3):
            f()
        start.record()
        for _ in range(10):
            f()
        end.record()
        end.synchronize()
        return start.elapsed_time(end)

    def matmul_fp8(self, n):
        kind, one = self.t.float8_e4m3fn, self.t.ones((), device="cuda")
        a, b = self.normal(n, n).to(kind), self.normal(n, n).to(kind)
        return lambda: self.t._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=self.t.bfloat16)

    def fft(self, count, n):
        x = self.complex(count, n)
        return lambda: self.t.fft.fft(x)

    def fft2(self, n):
        x = self.complex(n, n)
        return lambda: self.t.fft.fft2(x)

    def gpt2(self, batch, context):
        """The model of examples/gpt2.lua by autocast, with the fused AdamW."""
        t, nn, f = self.t, self.t.nn, self.f
        width, heads, layers, rows = 768, 12, 12, 50304

        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
                self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
                self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

            def forward(self, x):
                b, s, _ = x.shape
                q, k, v = self.qkv(self.norm1(x)).view(b, s, 3, heads, -1).permute(2, 0, 3, 1, 4)
                y = f.scaled_dot_product_attention(q, k, v, is_causal=True)
                x = x + self.out(y.transpose(1, 2).reshape(b, s, width))
                return x + self.down(f.gelu(self.up(self.norm2(x)), approximate="tanh"))

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.token, self.position = nn.Embedding(rows, width), nn.Embedding(context, width)
                self.blocks = nn.Sequential(*(Block() for _ in range(layers)))
                self.norm = nn.LayerNorm(width)
                for p in self.parameters():
                    if p.dim() > 1:
                        nn.init.normal_(p, 0, 0.02)

            def forward(self, ids, targets):
                x = self.token(ids) + self.position(t.arange(context, device="cuda"))
                logits = f.linear(self.norm(self.blocks(x)), self.token.weight)
                return f.cross_entropy(logits.view(-1, rows).float(), targets.reshape(-1))

        model = Model().cuda()
        loss_of = self.wrapped(model)
        optimizer = t.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1,
                                  fused=True)
        ids = t.randint(0, 50257, (batch, context + 1), device="cuda")

        def step():
            with t.autocast("cuda", t.bfloat16):
                loss = loss_of(ids[:, :-1], ids[:, 1:])
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            return loss.detach()
        return step

    def wrapped(self, model):
        return model


class Compiled(Torch):
    def run(self, f, *args):
        compiled = self.t.compile(f, mode="max-autotune-no-cudagraphs")
        return lambda: compiled(*args)

    def wrapped(self, model):
        return self.t.compile(model)

    ROWS = {"mlp", "softmax", "layernorm", "rmsnorm", "chain", "sum_rows", "sum_columns", "sum_all", "transpose",
            "gpt2"}


class Jax:
    def __init__(self, threads):
        import jax
        self.jax, self.np = jax, jax.numpy
        self.key = jax.random.key(0)
        if jax.devices()[0].platform != "gpu":
            raise ImportError("JAX sees no GPU")

    def about(self):
        return self.jax.__version__

    def wait(self, y):
        return y

    def done(self, y):
        self.jax.block_until_ready(y)

    def mean(self, y):
        return float(self.np.abs(y.astype("float32")).mean())

    def normal(self, *shape, dtype="f32"):
        self.key, key = self.jax.random.split(self.key)
        return self.jax.random.normal(key, shape, {"f32": "float32", "bf16": "bfloat16"}[dtype])

    def run(self, f, *args):
        compiled = self.jax.jit(f)
        return lambda: compiled(*args)

    def softmax(self, dtype, r, c):
        return self.run(self.jax.nn.softmax, self.normal(r, c, dtype=dtype))

    def chain(self, dtype, r, c):
        return self.run(lambda x, y, b: self.jax.nn.gelu(x + b) * y + x,
                        self.normal(r, c, dtype=dtype), self.normal(r, c, dtype=dtype),
                        self.normal(c, dtype=dtype))

    def matmul(self, dtype, m, n, k, layout):
        if layout != "nn" or dtype != "bf16":
            return None
        return self.run(lambda a, b: a @ b, self.normal(m, k, dtype=dtype), self.normal(k, n, dtype=dtype))

    ROWS = {"softmax", "chain", "matmul"}


LIBRARIES = {"torch": Torch, "compile": Compiled, "jax": Jax}
