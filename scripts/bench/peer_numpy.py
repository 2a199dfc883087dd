"""Rows of NumPy and SciPy in peer.py."""


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
