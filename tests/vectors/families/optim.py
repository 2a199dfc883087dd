"""One step of each optimiser: PyTorch in f64 where it has it, else the papers' formulas."""
import numpy as np
import torch

from common import *


def step(kind, p, grads, **kw):
    t = torch.tensor(p, requires_grad=True)
    opt = kind([t], **kw)
    for g in grads:
        t.grad = torch.tensor(g)
        opt.step()
    return t.detach().numpy(), {k: v.numpy() for k, v in opt.state[t].items() if torch.is_tensor(v)}


def make():
    f = Family("optim", Family.FEW)
    for d in FLOATS:
        low = d in SMALL
        kw = dict(ulp=0.6 if low else 4, t=d, zero=False)
        for shape in ([7], [3, 5], [0]):
            p, g, m = f.gen(d, shape), f.gen(d, shape), f.gen(d, shape)
            v = f.gen(d, shape, 0.01, 1)
            k = dict(kw, scale=None if low else 1)
            P, G, M, V = p.w, g.w, m.w, v.w
            # sgd
            for o in ({}, {"momentum": 0.5}, {"momentum": 0.5, "nesterov": True}, {"weight_decay": 0.125},
                      {"momentum": 0.75, "dampening": 0.5}, {"momentum": 0.5, "first": True}):
                gg = G + o.get("weight_decay", 0) * P
                mom = o.get("momentum", 0)
                mm = gg if o.get("first") else mom * M + (1 - o.get("dampening", 0)) * gg
                y = P - 0.25 * (gg + mom * mm if o.get("nesterov") else mm)
                if mom:
                    f.case("sgd_step", [p, g, m], [y, mm], {"lr": 0.25, **o}, **k)
                else:
                    f.case("sgd_step", [p, g], [P - 0.25 * gg] + ([None] if False else []), {"lr": 0.25, **o}, outputs=1, **k)
            for o in ({}, {"weight_decay": 0.1}, {"weight_decay": 0.1, "decoupled": True}, {"beta1": 0.5, "beta2": 0.75, "eps": 1e-3}):
                b1, b2, eps, wd = o.get("beta1", 0.9), o.get("beta2", 0.999), o.get("eps", 1e-8), o.get("weight_decay", 0)
                gg, pp = (G, P * (1 - 0.01 * wd)) if o.get("decoupled") else (G + wd * P, P)
                mm, vv = b1 * M + (1 - b1) * gg, b2 * V + (1 - b2) * gg**2
                y = pp - 0.01 * (mm / (1 - b1**3)) / (np.sqrt(vv / (1 - b2**3)) + eps)
                f.case("adam_step", [p, g, m, v], [y, mm, vv], {"lr": 0.01, "step": 3, **o}, **k)
            for o in ({}, {"weight_decay": 0.5}, {"beta1": 0.5, "beta2": 0.75}):
                b1, b2, wd = o.get("beta1", 0.9), o.get("beta2", 0.99), o.get("weight_decay", 0)
                y = P - 0.125 * (np.sign(b1 * M + (1 - b1) * G) + wd * P)
                f.case("lion_step", [p, g, m], [y, b2 * M + (1 - b2) * G], {"lr": 0.125, **o}, **k)
            if not len(P.reshape(-1)):
                continue
            # Adafactor: the update is u / max(1, rms(u) / clip)
            b2 = 0.75
            for o in ({}, {"clip": 0.5, "weight_decay": 0.25}):
                clip, wd = o.get("clip", 1), o.get("weight_decay", 0)
                if len(shape) == 2:
                    r, c = f.gen(d, [shape[0]], 0.1, 1), f.gen(d, [shape[1]], 0.1, 1)
                    rr = b2 * r.w + (1 - b2) * (G**2 + 1e-30).mean(1)
                    cc = b2 * c.w + (1 - b2) * (G**2 + 1e-30).mean(0)
                    u = G / np.sqrt(np.outer(rr / rr.mean(), cc))
                else:
                    r, c = f.gen(d, shape, 0.1, 1), None
                    rr, cc = b2 * r.w + (1 - b2) * (G**2 + 1e-30), None
                    u = G / np.sqrt(rr)
                u = u / max(1, np.sqrt((u**2).mean()) / clip)
                y = P - 0.125 * u - 0.125 * wd * P
                f.case("adafactor_step", [p, g, r] + ([c] if c else []), [y, rr] + ([cc] if c else []),
                       {"lr": 0.125, "beta2": b2, **o}, **dict(k, ulp=0.6 if low else 8))
    # The formulas above against PyTorch's own steps, from zero state.
    p, g = np.array([0.5, -1, 2]), np.array([0.25, -0.5, 1])
    y, s = step(torch.optim.Adam, p, [g], lr=0.01, weight_decay=0.1)
    z = np.zeros(3)
    q = [f.const(a) for a in (p, g, z, z)]
    f.case("adam_step", q, [y, s["exp_avg"], s["exp_avg_sq"]], {"lr": 0.01, "weight_decay": 0.1, "step": 1}, ulp=8, t="f64")
    y, s = step(torch.optim.AdamW, p, [g], lr=0.01, weight_decay=0.1)
    f.case("adam_step", q, [y, s["exp_avg"], s["exp_avg_sq"]], {"lr": 0.01, "weight_decay": 0.1, "step": 1, "decoupled": True}, ulp=8, t="f64")
    y, s = step(torch.optim.SGD, p, [g], lr=0.01, momentum=0.9, nesterov=True, weight_decay=0.1)
    f.case("sgd_step", q[:3], [y, s["momentum_buffer"]], {"lr": 0.01, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1, "first": True}, ulp=8, t="f64")
    return f
