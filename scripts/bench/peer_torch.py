"""Rows of PyTorch in peer.py, called and compiled; single operators: peer_operators.py."""
from peer_numpy import Numpy
from peer_operators import Operators


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

    def model_embed(self, batch, n):
        from models.peer import torch_embed
        return torch_embed(self.t, batch, n)

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
