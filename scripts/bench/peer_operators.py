"""Rows of PyTorch in peer.py beside those of ours_operators.lua."""


class Operators:
    def linalg(self, name, n, batch):
        t = self.t
        m = t.randn(batch, n, n, dtype=t.float64)
        a = m @ m.mT / n + t.eye(n, dtype=t.float64)
        b = t.randn(batch, n, 8, dtype=t.float64)
        if batch == 1:
            a, b = a[0], b[0]
        la = t.linalg
        return {"solve": lambda: la.solve(a, b), "inv": lambda: la.inv(a), "cholesky": lambda: la.cholesky(a),
                "qr": lambda: la.qr(a)[1], "eigh": lambda: la.eigh(a)[0],
                "svd": lambda: la.svd(a, full_matrices=False)[1]}[name]

    def categorical(self, rows, n, count):
        logits = self.normal(n) if rows == 1 else self.normal(rows, n)
        return lambda: self.t.multinomial(logits.softmax(-1), count, replacement=True)

    def batch_norm(self, b, c, size):
        x, norm = self.normal(b, c, size, size), self.t.nn.BatchNorm2d(c).eval()
        return self.t.no_grad()(lambda: norm(x))

    def permutation(self, n):
        return lambda: self.t.randperm(n)

    def cumsum(self, r, c, axis):
        x = self.t.rand(r, c)
        return lambda: x.cumsum(axis)

    def sum_axis(self, r, c, axis):
        x = self.t.rand(r, c)
        return lambda: x.sum(axis)

    def depthwise(self, b, c, size, window):
        x, w = self.normal(b, c, size, size), self.normal(c, 1, window, window)
        return lambda: self.f.conv2d(x, w, padding=(window - 1) // 2, groups=c)

    def conv_transpose(self, b, cin, cout, size, window, padding, stride):
        x, w = self.normal(b, cin, size, size), self.normal(cin, cout, window, window)
        return lambda: self.f.conv_transpose2d(x, w, stride=stride, padding=padding)

    def lstm(self, steps, b, width):
        lstm, x = self.t.nn.LSTM(width, width), self.normal(steps, b, width)
        return self.t.no_grad()(lambda: lstm(x)[0])

    def lstm_grad(self, steps, b, width):
        lstm, x = self.t.nn.LSTM(width, width), self.normal(steps, b, width)

        def call():
            lstm.zero_grad()
            y = lstm(x)[0]
            y.sum().backward()
            return y.detach()
        return call

    def cdist(self, n, width):
        x, y = self.normal(n, width), self.normal(n, width)
        return lambda: self.t.cdist(x, y)

    def distances(self, n, width):
        x, y = self.normal(n, width), self.normal(n, width)
        return lambda: (x[:, None] - y[None]).square().sum(-1).sqrt()

    def times_length(self, n):
        x, y = self.normal(n, n, 3), self.normal(n, n, 1)
        return lambda: x * y

    def heat_step(self, n):
        u = self.t.rand(n, n)
        return lambda: u + (u.roll(1, 0) + u.roll(-1, 0) + u.roll(1, 1) + u.roll(-1, 1) - 4 * u) * 0.2

    def totable(self, r, c):
        x = self.normal(r, c)

        def call():
            assert len(x.tolist()) == r
            return x
        return call
