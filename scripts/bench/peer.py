"""The worker for a peer in Python: `peer.py torch|numpy|scipy|jax THREADS`.

Protocol: scripts/bench/worker.h; rows and sizes: rows.lua. A row is a method that takes
the sizes and returns the call to measure. `peer.py peak LIBRARY MIB` prints the peak
resident KiB of the loop in peak.lua."""
import gc
import os
import signal
import sys
import time

from peer_operators import Operators

now = time.process_time if os.environ.get("CLOCK") == "cpu" else time.perf_counter


class Numpy:
    def __init__(self, threads):
        import numpy
        self.np, self.rng = numpy, numpy.random.default_rng(0)

    def about(self):
        blas = self.np.show_config(mode="dicts")["Build Dependencies"]["blas"]
        return f"{self.np.__version__} ({blas['name']} {blas['version']})"

    def wait(self, y):
        return y

    def mean(self, y):
        return float(self.np.abs(y).mean(dtype="float64"))

    def normal(self, *shape, dtype="f32"):
        x = self.rng.standard_normal(shape, dtype=self.np.float32)
        return x.astype(self.np.float64) if dtype == "f64" else x

    def complex(self, *shape):
        return self.normal(*shape).astype(self.np.complex64)

    def uniform(self, *shape):
        return self.rng.random(shape, dtype=self.np.float32)

    def small_add(self, n):
        x, y = self.normal(n), self.normal(n)

        def loop(count):
            z = x
            for _ in range(count):
                z = z + y
            return z
        return loop

    def matmul(self, dtype, m, k, n, layout):
        if dtype == "bf16":
            return None
        a = self.normal(m, k, dtype=dtype)
        b = self.normal(k, n, dtype=dtype) if layout == "nn" else self.normal(n, k, dtype=dtype).T
        return lambda: a @ b

    def add(self, r, c):
        x, y = self.normal(r, c), self.normal(r, c)
        return lambda: x + y

    def scale(self, r, c):
        x = self.normal(r, c)
        return lambda: x * 1.5

    def bias(self, r, c):
        x, y = self.normal(r, c), self.normal(c)
        return lambda: x + y

    def clone(self, r, c):
        x = self.normal(r, c)
        return lambda: x.copy()

    def exp(self, r, c):
        x = self.normal(r, c)
        return lambda: self.np.exp(x)

    def sum(self, r, c, over):
        x, axis = self.uniform(r, c), {"rows": 1, "columns": 0, "all": None}[over]
        return lambda: x.sum(axis)

    def max(self, r, c, over):
        x = self.uniform(r, c)
        return lambda: x.max(1)

    def transpose(self, r, c):
        x = self.normal(r, c)
        return lambda: self.np.ascontiguousarray(x.T)

    def nhwc(self, *shape):
        x = self.normal(*shape)
        return lambda: self.np.ascontiguousarray(x.transpose(0, 2, 3, 1))

    def nchw(self, *shape):
        x = self.normal(*shape)
        return lambda: self.np.ascontiguousarray(x.transpose(0, 3, 1, 2))

    def concat(self, r, c, axis):
        x, y = self.normal(r, c), self.normal(r, c)
        return lambda: self.np.concatenate((x, y), axis)

    def fft(self, count, n):
        x = self.complex(count, n)
        return lambda: self.np.fft.fft(x)

    def fft2(self, n):
        x = self.complex(n, n)
        return lambda: self.np.fft.fft2(x)

    def sort(self, n):
        x = self.normal(n)
        return lambda: self.np.sort(x)

    def positive(self, n):
        m = self.normal(n, n)
        return m @ m.T + n * self.np.eye(n, dtype=self.np.float32)

    def cholesky(self, n):
        a = self.positive(n)
        return lambda: self.np.linalg.cholesky(a)

    def svd(self, n):
        x = self.normal(n, n)
        return lambda: self.np.linalg.svd(x)[1]

    def garbage(self, mib):
        live = [self.normal(1 << 20) for _ in range(mib // 4)]
        x = self.normal(1 << 18)
        for _ in range(2000):
            y = x + 1
        return live, y


class Scipy(Numpy):
    """What SciPy does itself."""

    def __init__(self, threads):
        super().__init__(threads)
        import scipy.fft
        import scipy.linalg
        import scipy.special
        self.sp, self.threads = scipy, threads

    def about(self):
        return self.sp.__version__

    def fft(self, count, n):
        x = self.complex(count, n)
        return lambda: self.sp.fft.fft(x, workers=self.threads)

    def fft2(self, n):
        x = self.complex(n, n)
        return lambda: self.sp.fft.fft2(x, workers=self.threads)

    def softmax(self, r, c):
        x = self.normal(r, c)
        return lambda: self.sp.special.softmax(x, axis=1)

    def cholesky(self, n):
        a = self.positive(n)
        return lambda: self.sp.linalg.cholesky(a)

    def svd(self, n):
        x = self.normal(n, n)
        return lambda: self.sp.linalg.svd(x)[1]

    ROWS = {"fft", "fft2", "softmax", "cholesky", "svd"}


class Torch(Operators):
    def __init__(self, threads):
        import torch
        self.t, self.f = torch, torch.nn.functional
        torch.set_num_threads(threads)

    def about(self):
        mkl = self.t.__config__.show().split("Math Kernel Library Version ")[-1].split()[0]
        return f"{self.t.__version__} (MKL {mkl})"

    def wait(self, y):
        return y

    def mean(self, y):
        return y.abs().double().mean().item()

    def normal(self, *shape, dtype="f32"):
        kinds = {"f32": self.t.float32, "f64": self.t.float64, "bf16": self.t.bfloat16}
        return self.t.randn(*shape).to(kinds[dtype])

    def near_one(self, n):
        return self.normal(n) * 0.125 + 1

    small_add, add, scale, bias = Numpy.small_add, Numpy.add, Numpy.scale, Numpy.bias
    garbage = Numpy.garbage

    def matmul(self, dtype, m, k, n, layout):
        a = self.normal(m, k, dtype=dtype)
        b = self.normal(k, n, dtype=dtype) if layout == "nn" else self.normal(n, k, dtype=dtype).t()
        return lambda: a @ b

    def fast_matmul(self, *row):
        return self.matmul(*row)

    def gpt_step(self, layers, width, heads, context, batch, vocabulary):
        """One step of AdamW on the model of gpt.lua."""
        t, nn, f = self.t, self.t.nn, self.f

        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
                self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
                self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

            def forward(self, x):
                b, s, _ = x.shape
                q, k, v = (y.view(b, s, heads, -1).transpose(1, 2)
                           for y in self.qkv(self.norm1(x)).split(width, 2))
                y = f.scaled_dot_product_attention(q, k, v, is_causal=True)
                x = x + self.out(y.transpose(1, 2).reshape(b, s, width))
                return x + self.down(f.gelu(self.up(self.norm2(x))))

        token, position = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        blocks = nn.Sequential(*(Block() for _ in range(layers)))
        end = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False))
        for table in (token, position):
            nn.init.normal_(table.weight, std=0.02)
        optimizer = t.optim.AdamW([p for m in (token, position, blocks, end) for p in m.parameters()],
                                  lr=1e-4)

        def loss_of(x, y):
            logits = end(blocks(token(x) + position(t.arange(context))))
            return f.cross_entropy(logits.view(-1, vocabulary), y.view(-1))
        loss_of = self.prepared(loss_of)

        def step():
            x = t.randint(vocabulary, (batch, context))
            y = t.randint(vocabulary, (batch, context))
            loss = loss_of(x, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.detach()
        return step

    def prepared(self, f):
        return f

    def run(self, f, *args):
        f = self.prepared(f)
        return lambda: f(*args)

    def gradients(self, f, *args):
        """By all arguments but the last, which is the gradient of f's result; tells the first."""
        *xs, g = args
        xs, f = [x.requires_grad_() for x in xs], self.prepared(f)
        return lambda: self.t.autograd.grad(f(*xs), xs, g)[0]

    def program(self, name):
        import program_peer
        call, self.checked = program_peer.set_up(name)
        return call

    def fused_chain(self, r, c):
        return self.run(lambda x, y, b: x * 2 - y * x + b,
                        self.normal(r, c), self.normal(r, c), self.normal(c))

    def fused_gelu(self, r, c):
        return self.run(lambda x, y, b: self.f.gelu(x + b) * y + x,
                        self.normal(r, c), self.normal(r, c), self.normal(c))

    def fused_softmax(self, r, c):
        return self.run(lambda x: self.t.softmax(x / 8, 1), self.normal(r, c))

    def fused_layernorm(self, r, c):
        return self.run(lambda x, y, w, b: self.f.layer_norm(x + y, (c,), w, b),
                        self.normal(r, c), self.normal(r, c), self.near_one(c), self.normal(c))

    def fused_rmsnorm(self, r, c):
        return self.run(lambda x, y, w: self.f.rms_norm(x + y, (c,), w, 1e-5),
                        self.normal(r, c), self.normal(r, c), self.near_one(c))

    def fused_layernorm_grad(self, r, c):
        return self.gradients(lambda x, w, b: self.f.layer_norm(x, (c,), w, b),
                              self.normal(r, c), self.near_one(c), self.normal(c), self.normal(r, c))

    def fused_rmsnorm_grad(self, r, c):
        return self.gradients(lambda x, w: self.f.rms_norm(x, (c,), w, 1e-5),
                              self.normal(r, c), self.near_one(c), self.normal(r, c))

    def fused_cross_entropy(self, r, c):
        y = self.t.randint(c, (r,))
        return self.gradients(lambda x: self.f.cross_entropy(x, y), self.normal(r, c), None)

    def fused_adamw(self, r, c):
        w = self.normal(r, c)
        w.grad = self.normal(r, c)
        adamw = self.t.optim.AdamW([w], lr=1e-4, **self.ADAMW)
        step = self.prepared(adamw.step)

        def call():
            step()
            return w
        return call

    ADAMW = {"fused": True}

    def fused_product(self, m, k, n):
        return self.run(lambda x, w, b, r: self.f.gelu(self.t.addmm(b, x, w)) + r,
                        self.normal(m, k), self.normal(k, n) * k ** -0.5, self.normal(n), self.normal(m, n))

    def fast_product(self, m, k, n):
        narrow = self.t.bfloat16
        return self.run(lambda x, w, b, r: self.f.gelu(x @ w + b) + r, self.normal(m, k).to(narrow),
                        (self.normal(k, n) * k ** -0.5).to(narrow), self.normal(n).to(narrow),
                        self.normal(m, n).to(narrow))

    def fused_dot(self, r, c):
        return self.run(lambda x, y: (x * y).sum(1), self.normal(r, c), self.normal(r, c))

    def clone(self, r, c):
        x = self.normal(r, c)
        return lambda: x.clone()

    def exp(self, r, c):
        x = self.normal(r, c)
        return lambda: self.t.exp(x)

    def gelu(self, r, c):
        x = self.normal(r, c)
        return lambda: self.f.gelu(x)

    def softmax(self, r, c):
        x = self.normal(r, c)
        return lambda: self.t.softmax(x, 1)

    def layernorm(self, r, c):
        x, w, b = self.normal(r, c), self.normal(c), self.normal(c)
        return lambda: self.f.layer_norm(x, (c,), w, b)

    def rmsnorm(self, r, c):
        x, w = self.normal(r, c), self.normal(c)
        return lambda: self.f.rms_norm(x, (c,), w, 1e-5)

    def sum(self, r, c, over):
        x, axis = self.t.rand(r, c), {"rows": 1, "columns": 0, "all": None}[over]
        return lambda: x.sum(axis)

    def max(self, r, c, over):
        x = self.t.rand(r, c)
        return lambda: x.amax(1)

    def transpose(self, r, c):
        x = self.normal(r, c)
        return lambda: x.t().contiguous()

    def nhwc(self, *shape):
        x = self.normal(*shape)
        return lambda: x.permute(0, 2, 3, 1).contiguous()

    def nchw(self, *shape):
        x = self.normal(*shape)
        return lambda: x.permute(0, 3, 1, 2).contiguous()

    def cast(self, source, target):
        x = self.normal(4096, 4096, dtype=source)
        to = self.t.bfloat16 if target == "bf16" else self.t.float32
        return lambda: x.to(to)

    def concat(self, r, c, axis):
        x, y = self.normal(r, c), self.normal(r, c)
        return lambda: self.t.cat((x, y), axis)

    def attention(self, b, h, s, d):
        q, k, v = (self.normal(b, h, s, d) for _ in range(3))
        return lambda: self.f.scaled_dot_product_attention(q, k, v, is_causal=True)

    def attention_grad(self, b, h, s, d):
        f = self.f.scaled_dot_product_attention
        return self.gradients(lambda q, k, v: f(q, k, v, is_causal=True),
                              *(self.normal(b, h, s, d) for _ in range(4)))

    def fused_conv(self, b, cin, cout, size, window):
        pad = (window - 1) // 2
        def f(x, w, bias):
            return self.f.relu(self.f.conv2d(x * 2, w, bias, padding=pad))
        return self.run(f, self.normal(b, cin, size, size),
                        self.normal(cout, cin, window, window), self.normal(cout))

    def conv2d(self, b, cin, cout, size, window):
        x, w = self.normal(b, cin, size, size), self.normal(cout, cin, window, window)
        return lambda: self.f.conv2d(x, w, padding=(window - 1) // 2)

    def fft(self, count, n):
        x = self.normal(count, n).to(self.t.complex64)
        return lambda: self.t.fft.fft(x)

    def fft2(self, n):
        x = self.normal(n, n).to(self.t.complex64)
        return lambda: self.t.fft.fft2(x)

    def sort(self, n):
        x = self.normal(n)
        return lambda: self.t.sort(x).values

    def topk(self, n, k):
        x = self.normal(n)
        return lambda: self.t.topk(x, k).values

    def cholesky(self, n):
        m = self.normal(n, n)
        a = m @ m.t() + n * self.t.eye(n)
        return lambda: self.t.linalg.cholesky(a)

    def svd(self, n):
        x = self.normal(n, n)
        return lambda: self.t.linalg.svd(x)[1]


class Compiled(Torch):
    """The functions of several operators through torch.compile."""
    ROWS = {"fused_chain", "fused_gelu", "fused_softmax", "fused_layernorm", "fused_rmsnorm",
            "fused_dot", "fused_product", "fast_product", "fused_layernorm_grad", "fused_rmsnorm_grad",
            "fused_cross_entropy", "fused_adamw", "fused_conv", "gpt_step"}
    ADAMW = {}  # torch.compile does not look into the fused one

    def prepared(self, f):
        return self.t.compile(f)


class Jax:
    """Each row as one jitted function of its inputs."""

    def __init__(self, threads):
        import jax
        jax.config.update("jax_enable_x64", True)
        self.jax, self.np, self.seed = jax, jax.numpy, 0

    def about(self):
        return self.jax.__version__

    def wait(self, y):
        return y.block_until_ready()

    def mean(self, y):
        return float(self.np.abs(y).astype("float64").mean())

    def normal(self, *shape, dtype="f32"):
        self.seed += 1
        x = self.jax.random.normal(self.jax.random.key(self.seed), shape, "float32")
        return x.astype({"f32": "float32", "f64": "float64", "bf16": "bfloat16"}[dtype])

    def near_one(self, n):
        return self.normal(n) * 0.125 + 1

    def uniform(self, *shape):
        self.seed += 1
        return self.jax.random.uniform(self.jax.random.key(self.seed), shape, "float32")

    def jit(self, f, *args):
        f = self.jax.jit(f)
        return lambda: f(*args)

    def fused_chain(self, r, c):
        return self.jit(lambda x, y, b: x * 2 - y * x + b,
                        self.normal(r, c), self.normal(r, c), self.normal(c))

    def fused_gelu(self, r, c):
        return self.jit(lambda x, y, b: self.jax.nn.gelu(x + b, approximate=False) * y + x,
                        self.normal(r, c), self.normal(r, c), self.normal(c))

    def fused_softmax(self, r, c):
        return self.jit(lambda x: self.jax.nn.softmax(x / 8, 1), self.normal(r, c))

    def fused_layernorm(self, r, c):
        def f(x, y, w, b):
            h = x + y
            d = h - h.mean(1, keepdims=True)
            return d * self.jax.lax.rsqrt((d * d).mean(1, keepdims=True) + 1e-5) * w + b
        return self.jit(f, self.normal(r, c), self.normal(r, c), self.near_one(c), self.normal(c))

    def fused_rmsnorm(self, r, c):
        def f(x, y, w):
            h = x + y
            return h * self.jax.lax.rsqrt((h * h).mean(1, keepdims=True) + 1e-5) * w
        return self.jit(f, self.normal(r, c), self.normal(r, c), self.near_one(c))

    def gradients(self, f, *args):
        def slopes(*args):
            return self.jax.vjp(f, *args[:-1])[1](args[-1])
        run = self.jit(slopes, *args)
        return lambda: run()[0]

    def fused_layernorm_grad(self, r, c):
        def f(x, w, b):
            d = x - x.mean(1, keepdims=True)
            return d * self.jax.lax.rsqrt((d * d).mean(1, keepdims=True) + 1e-5) * w + b
        return self.gradients(f, self.normal(r, c), self.near_one(c), self.normal(c), self.normal(r, c))

    def fused_rmsnorm_grad(self, r, c):
        def f(x, w):
            return x * self.jax.lax.rsqrt((x * x).mean(1, keepdims=True) + 1e-5) * w
        return self.gradients(f, self.normal(r, c), self.near_one(c), self.normal(r, c))

    def fused_cross_entropy(self, r, c):
        y = self.jax.random.randint(self.jax.random.key(0), (r,), 0, c)

        def loss(x):
            chosen = self.np.take_along_axis(self.jax.nn.log_softmax(x, 1), y[:, None], 1)
            return -chosen.mean()
        run = self.jit(self.jax.value_and_grad(loss), self.normal(r, c))
        return lambda: run()[1]

    def fused_adamw(self, r, c):
        """Its buffers are given to it, as an optimiser's are."""
        def update(w, m, v, g, i):
            m = 0.9 * m + 0.1 * g
            v = 0.999 * v + 0.001 * g * g
            a, b = 1 - 0.9 ** i, 1 - 0.999 ** i
            return w * (1 - 1e-6) - 1e-4 * (m / a) / (self.np.sqrt(v / b) + 1e-8), m, v
        f = self.jax.jit(update, donate_argnums=(0, 1, 2))
        g, zero = self.normal(r, c), self.np.zeros((r, c), "float32")
        state = [self.normal(r, c), zero, zero + 0]
        count = [0.0]

        def call():
            count[0] += 1
            state[:] = f(*state, g, count[0])
            return state[0]
        return call

    def fused_product(self, m, k, n):
        return self.jit(lambda x, w, b, r: self.jax.nn.gelu(x @ w + b, approximate=False) + r,
                        self.normal(m, k), self.normal(k, n) * k ** -0.5, self.normal(n), self.normal(m, n))

    def fused_dot(self, r, c):
        return self.jit(lambda x, y: (x * y).sum(1), self.normal(r, c), self.normal(r, c))

    def small_add(self, n):
        x, y, add = self.normal(n), self.normal(n), self.jax.jit(lambda a, b: a + b)

        def loop(count):
            z = x
            for _ in range(count):
                z = add(z, y)
            return z.block_until_ready()
        return loop

    def matmul(self, dtype, m, k, n, layout):
        a = self.normal(m, k, dtype=dtype)
        if layout == "nn":
            return self.jit(lambda a, b: a @ b, a, self.normal(k, n, dtype=dtype))
        return self.jit(lambda a, b: a @ b.T, a, self.normal(n, k, dtype=dtype))

    def add(self, r, c):
        return self.jit(lambda x, y: x + y, self.normal(r, c), self.normal(r, c))

    def scale(self, r, c):
        return self.jit(lambda x: x * 1.5, self.normal(r, c))

    def bias(self, r, c):
        return self.jit(lambda x, y: x + y, self.normal(r, c), self.normal(c))

    def clone(self, r, c):
        return self.jit(self.np.copy, self.normal(r, c))

    def exp(self, r, c):
        return self.jit(self.np.exp, self.normal(r, c))

    def gelu(self, r, c):
        return self.jit(lambda x: self.jax.nn.gelu(x, approximate=False), self.normal(r, c))

    def softmax(self, r, c):
        return self.jit(self.jax.nn.softmax, self.normal(r, c))

    def layernorm(self, r, c):
        def f(x, w, b):
            m = x.mean(1, keepdims=True)
            v = self.np.square(x - m).mean(1, keepdims=True)
            return (x - m) * self.jax.lax.rsqrt(v + 1e-5) * w + b
        return self.jit(f, self.normal(r, c), self.normal(c), self.normal(c))

    def rmsnorm(self, r, c):
        def f(x, w):
            return x * self.jax.lax.rsqrt(self.np.square(x).mean(1, keepdims=True) + 1e-5) * w
        return self.jit(f, self.normal(r, c), self.normal(c))

    def sum(self, r, c, over):
        axis = {"rows": 1, "columns": 0, "all": None}[over]
        return self.jit(lambda x: x.sum(axis), self.uniform(r, c))

    def max(self, r, c, over):
        return self.jit(lambda x: x.max(1), self.uniform(r, c))

    def transpose(self, r, c):
        return self.jit(lambda x: x.T, self.normal(r, c))

    def nhwc(self, *shape):
        return self.jit(lambda x: x.transpose(0, 2, 3, 1), self.normal(*shape))

    def nchw(self, *shape):
        return self.jit(lambda x: x.transpose(0, 3, 1, 2), self.normal(*shape))

    def cast(self, source, target):
        to = "bfloat16" if target == "bf16" else "float32"
        return self.jit(lambda x: x.astype(to), self.normal(4096, 4096, dtype=source))

    def concat(self, r, c, axis):
        return self.jit(lambda x, y: self.np.concatenate((x, y), axis), self.normal(r, c),
                        self.normal(r, c))

    def attention(self, b, h, s, d):
        q, k, v = (self.normal(b, s, h, d) for _ in range(3))
        f = self.jax.nn.dot_product_attention
        return self.jit(lambda q, k, v: f(q, k, v, is_causal=True), q, k, v)

    def attention_grad(self, b, h, s, d):
        f = self.jax.nn.dot_product_attention
        return self.gradients(lambda q, k, v: f(q, k, v, is_causal=True),
                              *(self.normal(b, s, h, d) for _ in range(4)))

    def conv2d(self, b, cin, cout, size, window):
        def f(x, w):
            return self.jax.lax.conv_general_dilated(x, w, (1, 1), "SAME")
        return self.jit(f, self.normal(b, cin, size, size), self.normal(cout, cin, window, window))

    def fused_conv(self, b, cin, cout, size, window):
        def f(x, w, bias):
            x = x * 2
            y = self.jax.lax.conv_general_dilated(x, w, (1, 1), "SAME")
            return self.jax.nn.relu(y + bias)
        return self.jit(f, self.normal(b, cin, size, size),
                        self.normal(cout, cin, window, window), self.normal(cout, 1, 1))

    def fft(self, count, n):
        return self.jit(self.np.fft.fft, self.normal(count, n).astype("complex64"))

    def fft2(self, n):
        return self.jit(self.np.fft.fft2, self.normal(n, n).astype("complex64"))

    def sort(self, n):
        return self.jit(self.np.sort, self.normal(n))

    def topk(self, n, k):
        return self.jit(lambda x: self.jax.lax.top_k(x, k)[0], self.normal(n))

    def cholesky(self, n):
        m = self.normal(n, n)
        return self.jit(self.np.linalg.cholesky, m @ m.T + n * self.np.eye(n, dtype="float32"))

    def svd(self, n):
        return self.jit(lambda x: self.np.linalg.svd(x)[1], self.normal(n, n))


PATIENCE = 240  # seconds for one answer
LIBRARIES = {"numpy": Numpy, "scipy": Scipy, "torch": Torch, "compile": Compiled, "jax": Jax}
if os.environ.get("DEV"):
    from gpu_peer import LIBRARIES
HIDDEN = {"about", "wait", "done", "mean", "heads", "attend", "seconds_of", "wrapped", "normal", "complex", "uniform", "positive", "garbage", "jit",
          "run", "prepared", "gradients"}


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
