"""Losses, by PyTorch in f64."""
import torch
import torch.nn.functional as F

from common import *

T = torch.tensor
# Compositions round after every step, relative to their largest term; narrow types once, at the end.
STEPS = {d: 0.52 if d in SMALL else 6 for d in FLOATS}


def make():
    f = Family("loss", Family.FEW)
    for d in FLOATS:
        low = d in SMALL
        for shape, n in (([5, 7], 7), ([2, 3, 10], 10), ([1, 1], 1), ([0, 3], 3), ([3, 300], 300)):
            x = f.gen(d, shape, -4, 4)
            t = f.gen("i64" if n != 10 else "i32", shape[:-1], 0, n - 1)
            lx = T(x.w).reshape(-1, n)
            lt = T(t.v.reshape(-1).astype(np.int64))
            for red in ("mean", "sum", "none"):
                for ls in (0.0, 0.1):
                    if ls and n == 1:
                        continue
                    y = F.cross_entropy(lx, lt, reduction=red, label_smoothing=ls).numpy()
                    y = y.reshape(shape[:-1]) if red == "none" else y
                    o = {"reduction": red}
                    if ls:
                        o["label_smoothing"] = ls
                    f.case("cross_entropy", [x, t], [np.asarray(y)], o, ulp=0.52 if low else 8, t=d,
                           scale=None if low else 4, zero=False)
            if n == 7:
                y = F.cross_entropy(lx, lt, ignore_index=int(lt[0])).numpy()
                f.case("cross_entropy", [x, t], [np.asarray(y)], {"ignore_index": int(lt[0])}, ulp=0.52 if low else 8, t=d, scale=None if low else 4)
                q = f.const(np.full(shape, 1 / 8), d)
                y = F.cross_entropy(lx, T(q.w)).numpy()
                f.case("cross_entropy", [x, q], [np.asarray(y)], ulp=0.52 if low else 8, t=d, scale=None if low else 4)
        logp = f.const(np.log(0.05 + 0.9 * unit(12, 3)).reshape(4, 3), d)
        t = f.gen("i64", [4], 0, 2)
        for red in ("mean", "sum", "none"):
            y = F.nll_loss(T(logp.w), T(t.v), reduction=red).numpy()
            f.case("nll", [logp, t], [np.asarray(y)], {"reduction": red}, ulp=0.52 if low else 3, t=d, scale=None if low else 2)
        for shape in ([7], [3, 5], [], [257]):
            x, y = f.gen(d, shape, -2, 2), f.gen(d, shape, -2, 2)
            p, q = f.gen(d, shape, 0.05, 0.95), f.gen(d, shape, 0.05, 0.95)
            X, Y, P, Q = T(x.w), T(y.w), T(p.w), T(q.w)
            n = max(X.numel(), 1)
            for red in ("mean", "sum", "none"):
                size = 1 / 64 if low else n if red == "sum" else 1
                kw = dict(ulp=STEPS[d], t=d, zero=False)
                o = {"reduction": red} if red != "mean" else None
                f.case("mse", [x, y], [F.mse_loss(X, Y, reduction=red).numpy()], o, scale=4 * size, **kw)
                f.case("l1", [x, y], [F.l1_loss(X, Y, reduction=red).numpy()], o, scale=2 * size, **kw)
                f.case("huber", [x, y], [F.huber_loss(X, Y, reduction=red).numpy()], o, scale=2 * size, **kw)
                f.case("huber", [x, y], [F.huber_loss(X, Y, reduction=red, delta=0.5).numpy()],
                       {**(o or {}), "delta": 0.5}, scale=2 * size, **kw)
                f.case("bce", [p, q], [F.binary_cross_entropy(P, Q, reduction=red).numpy()], o, scale=2 * size, **kw)
                f.case("bce_with_logits", [x, q], [F.binary_cross_entropy_with_logits(X, Q, reduction=red).numpy()], o,
                       scale=2 * size, **kw)
            if shape:
                lp = f.const(np.log(p.w), d)
                L = T(lp.w)
                for red in ("batchmean", "sum", "none", "mean"):
                    size = n if red == "sum" else n / shape[0] if red == "batchmean" else 1
                    size = 1 / 64 if low else max(size, 1)
                    f.case("kl_divergence", [lp, q], [F.kl_div(L, Q, reduction=red).numpy()], {"reduction": red},
                           ulp=STEPS[d], t=d, scale=2 * size, zero=False)
    z, o = f.const(np.array([0.0, 1.0, 0.0, 1.0], np.float32)), f.const(np.array([0.0, 1.0, 1.0, 0.0], np.float32))
    f.case("bce", [z, o], [np.array([0, 0, 100, 100.0])], {"reduction": "none"}, ulp=1, t="f32", scale=1)
    lp = f.const(np.array([-1.0, -2], np.float32))
    f.case("kl_divergence", [lp, f.const(np.array([0.0, 1.0], np.float32))], [np.array([0, 2.0])], {"reduction": "none"},
           ulp=1, t="f32", scale=1)
    return f
