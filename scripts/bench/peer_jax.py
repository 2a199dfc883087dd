"""Rows of JAX in peer.py."""


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
