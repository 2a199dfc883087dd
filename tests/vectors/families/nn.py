"""Layers: PyTorch in f64; rope and attention by their formulas, attention also against
PyTorch's own. Bounds: one rounding for narrow types, chains of k products for the others."""
import numpy as np
import torch
import torch.nn.functional as F

from common import *
from families import pointwise

T = lambda x: None if x is None else torch.tensor(x.w)
MAIN = ("f32", "f64")


def kw(d, ulp, scale, steps=1):
    """Bounds: ulp of scale for f32 and f64; for narrow types one rounding (or steps)."""
    if d in SMALL:
        return dict(ulp=0.52 if steps == 1 else steps, t=d, scale=2.0**-12 if steps == 1 else scale, zero=False)
    return dict(ulp=ulp, t=d, scale=scale, zero=False)


def nhwc(a):
    return np.ascontiguousarray(np.moveaxis(a, 1, -1))


def convs(f):
    for d in FLOATS:
        x, k = f.gen(d, [1, 3, 5, 5]), f.gen(d, [2, 3, 3, 3])
        y = np.maximum(F.conv2d(T(x), T(k)).numpy(), 0)
        f.case("conv2d", [x, k], [y], {"epilogue": "relu"}, **kw(d, 8, 4))
        for dims, shape, w, o in (
                (1, [2, 3, 9], [4, 3, 3], {}), (1, [1, 4, 8], [6, 2, 3], {"stride": 2, "padding": 1, "dilation": 2, "groups": 2}),
                (2, [2, 3, 5, 6], [2, 3, 3, 2], {}), (2, [1, 4, 9, 8], [6, 2, 3, 3], {"stride": [2, 1], "padding": [1, 2], "dilation": [1, 2], "groups": 2}),
                (2, [1, 3, 5, 5], [2, 3, 1, 1], {}), (2, [1, 4, 6, 6], [8, 1, 3, 3], {"groups": 4, "padding": 1}),
                (2, [0, 3, 5, 5], [2, 3, 3, 3], {}), (2, [2, 16, 8, 8], [5, 16, 3, 3], {"padding": 1}),
                (3, [1, 2, 4, 5, 4], [3, 2, 2, 3, 2], {"stride": 2, "padding": 1})):
            if d not in ("bf16", "f32") and shape[1] == 16:
                continue
            x, k, b = f.gen(d, shape), f.gen(d, w), f.gen(d, [w[0]])
            fn = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[dims]
            args = dict(o)
            n = int(np.prod(w[1:]))
            y = fn(T(x), T(k), T(b), **args).numpy()
            row = f"conv{dims}d"
            f.case(row, [x, k, b], [y], o or None, **kw(d, 2 + n**0.5, 4))
            if not o:
                f.case(row, [x, k], [fn(T(x), T(k), None, **args).numpy()], None, **kw(d, 2 + n**0.5, 4))
            if d not in ("f32", "bf16"):
                continue
            xl, kl = f.const(nhwc(x.v)), f.const(nhwc(k.v))
            f.case(row, [xl, kl, b], [nhwc(y)], {**o, "layout": "nhwc"}, **kw(d, 2 + n**0.5, 4))
            if dims == 2 and not o:
                f.case(row, [x, k, b], [np.maximum(y, 0)], {"epilogue": "bias_relu"}, **kw(d, 2 + n**0.5, 4))
                f.case(row, [x, k, b], [F.gelu(torch.tensor(y)).numpy()], {"epilogue": "bias_gelu"}, **kw(d, 3 + n**0.5, 4))
        for dims, shape, w, o in ((1, [2, 3, 5], [3, 4, 3], {}), (2, [1, 4, 4, 3], [4, 3, 3, 2], {"stride": 2, "padding": 1, "output_padding": 1}),
                                  (2, [1, 4, 3, 3], [4, 2, 3, 3], {"groups": 2, "dilation": 2}), (3, [1, 2, 2, 3, 2], [2, 2, 2, 2, 2], {"stride": 2})):
            groups = o.get("groups", 1)
            x, k, b = f.gen(d, shape), f.gen(d, w), f.gen(d, [w[1] * groups])
            fn = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}[dims]
            f.case("conv_transpose", [x, k, b], [fn(T(x), T(k), T(b), **o).numpy()], o or None, **kw(d, 8, 4))
            f.case("conv_transpose", [x, k], [fn(T(x), T(k), None, **o).numpy()], o or None, **kw(d, 8, 4))
        x, k, b = f.gen(d, [2, 4, 6, 5]), f.gen(d, [4, 1, 3, 3]), f.gen(d, [4])
        y = F.conv2d(T(x), T(k), T(b), padding=1, stride=2, groups=4).numpy()
        f.case("depthwise_conv2d", [x, k, b], [y], {"padding": 1, "stride": 2}, **kw(d, 5, 4))
        f.case("depthwise_conv2d", [f.const(nhwc(x.v)), f.const(nhwc(k.v)), b], [nhwc(y)],
               {"padding": 1, "stride": 2, "layout": "nhwc"}, **kw(d, 5, 4))
    for c, part in (("complex64", "f32"), ("complex128", "f64")):
        x, k = f.gen(c, [2, 3, 5, 5]), f.gen(c, [4, 3, 3, 3])
        f.case("conv2d", [x, k], [F.conv2d(T(x), T(k)).numpy()], ulp=12, t=part, scale=8)
        x, k = f.gen(c, [2, 3, 9]), f.gen(c, [4, 3, 3])
        f.case("conv1d", [x, k], [F.conv1d(T(x), T(k)).numpy()], ulp=12, t=part, scale=8)


def pools(f):
    for d in FLOATS + INTS:
        for dims, shape, o in ((1, [2, 3, 9], {"window": [2]}), (2, [1, 2, 7, 6], {"window": [3, 2]}),
                               (2, [1, 2, 7, 8], {"window": [3, 3], "stride": [2, 1], "padding": [1, 1]}),
                               (2, [1, 2, 9, 8], {"window": [2, 2], "dilation": [2, 3]}), (3, [1, 1, 4, 4, 4], {"window": [2, 2, 2]})):
            x = f.gen(d, shape, -1 if d in FLOATS else 0, 1 if d in FLOATS else 99)
            w = torch.tensor(wide(x.v).astype(np.float64))
            args = {"kernel_size": o["window"], **{k: v for k, v in o.items() if k != "window"}}
            y = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}[dims](w, **args).numpy()
            f.case("max_pool", [x], [y.astype(NP[d])], o)
            f.case("max_pool", [f.const(nhwc(x.v))], [nhwc(y).astype(NP[d])], {**o, "layout": "nhwc"})
            if d in INTS or "dilation" in o:
                continue
            for inc in (True, False):
                y = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}[dims](w, **args, count_include_pad=inc).numpy()
                f.case("avg_pool", [x], [y], {**o, "count_include_pad": inc}, **kw(d, 4, 1))
            f.case("avg_pool", [f.const(nhwc(x.v))], [nhwc(y)], {**o, "count_include_pad": False, "layout": "nhwc"}, **kw(d, 4, 1))
        if d in INTS:
            continue
        for shape, size in (([2, 3, 10], [4]), ([1, 2, 7, 9], [3, 4]), ([1, 2, 5, 5], [1, 1]), ([1, 2, 3, 4], [6, 5]), ([1, 1, 4, 5, 6], [2, 3, 4])):
            x = f.gen(d, shape)
            fn = {1: F.adaptive_avg_pool1d, 2: F.adaptive_avg_pool2d, 3: F.adaptive_avg_pool3d}[len(size)]
            f.case("adaptive_avg_pool", [x], [fn(T(x), size).numpy()], {"size": size}, **kw(d, 4, 1))
        n = f.const(np.array([[[1, np.nan, 2, 3]]]), d)
        f.case("max_pool", [n], [np.array([[[np.nan, 3]]]).astype(NP[d])], {"window": [2]})


def resampling(f):
    for d in FLOATS:
        for shape, size in (([1, 2, 5], [8]), ([2, 1, 4, 6], [7, 3]), ([1, 1, 4, 4], [4, 4]), ([1, 1, 3, 4, 2], [5, 3, 4])):
            x = f.gen(d, shape)
            f.case("interpolate", [x], [F.interpolate(T(x), size, mode="nearest").numpy()], {"size": size}, **kw(d, 0.5, 1))
            mode = {1: "linear", 2: "bilinear", 3: "trilinear"}[len(size)]
            for ac in (False, True):
                f.case("interpolate", [x], [F.interpolate(T(x), size, mode=mode, align_corners=ac).numpy()],
                       {"size": size, "mode": "linear", "align_corners": ac}, **kw(d, 12, 1))
                if len(size) == 2:
                    f.case("interpolate", [x], [F.interpolate(T(x), size, mode="bicubic", align_corners=ac).numpy()],
                           {"size": size, "mode": "cubic", "align_corners": ac}, **kw(d, 16, 2))
        x = f.gen(d, [1, 2, 4, 6])
        for sc in ([2, 2], [0.5, 1.5]):
            f.case("interpolate", [x], [F.interpolate(T(x), scale_factor=sc, mode="nearest").numpy()], {"scale": sc}, **kw(d, 0.5, 1))
            f.case("interpolate", [x], [F.interpolate(T(x), scale_factor=sc, mode="bilinear", align_corners=False).numpy()],
                   {"scale": sc, "mode": "linear"}, **kw(d, 12, 1))


def rows(f):
    for d in FLOATS:
        for shape, ax in (([3, 7], -1), ([1, 257], -1), ([2, 3, 4], 1), ([6, 3], 0), ([1, 4099], -1), ([0, 3], -1), ([1], 0)):
            if shape[-1] == 4099 and d != "f32":
                continue
            x = f.gen(d, shape, -5, 5)
            o = {"axis": ax} if ax != -1 else None
            # x - max is rounded: for |x - max| < 16 by 2^-21, which is 8 ulp of e^(x - max).
            u = dict(ulp=12 if d in MAIN else 0.52, t=d, zero=False)
            f.case("softmax", [x], [F.softmax(T(x), ax).numpy()], o, **u)
            if shape[-1] != 4099:
                f.case("log_softmax", [x], [F.log_softmax(T(x), ax).numpy()], o, **dict(u, scale=4 if d in MAIN else 2.0**-6))
        x = f.const(np.array([[1000, -1000, 0], [-1e4, -1e4, -1e4]]) if d in ("bf16", *MAIN) else np.array([[200, -200, 0.0]]), d)
        f.case("softmax", [x], [F.softmax(T(x), -1).numpy()], **u)
        if d != "fp8_e4m3":
            x = f.const(np.array([[0, -np.inf, 1]]), d)
            f.case("softmax", [x], [F.softmax(T(x), -1).numpy()], **u)
            f.case("log_softmax", [x], [F.log_softmax(T(x), -1).numpy()], **u)
        for shape, dims in (([3, 7], 1), ([1, 257], 1), ([2, 3, 5], 2), ([4, 1], 1), ([0, 4], 1)):
            x = f.gen(d, shape, -2, 3)
            n = shape[-dims:]
            w, b = f.gen(d, n), f.gen(d, n)
            o = {"dims": dims} if dims > 1 else {}
            k = kw(d, 8, 3)
            for ins, ww, bb in (([x], None, None), ([x, w, b], w, b), ([x, None, b], None, b)):
                y = F.layer_norm(T(x), n, T(ww), T(bb), 1e-5).numpy()
                f.case("layernorm", ins, [y], o or None, **k)
            f.case("layernorm", [x], [F.layer_norm(T(x), n, eps=0.25).numpy()], {**o, "eps": 0.25}, **k)
            f.case("rmsnorm", [x], [F.rms_norm(T(x), n, eps=1e-5).numpy()], o or None, **k)
            f.case("rmsnorm", [x, w], [F.rms_norm(T(x), n, T(w), eps=0.5).numpy()], {**o, "eps": 0.5}, **k)
        x = f.gen(d, [2, 6, 3, 2], -2, 3)
        m, v = f.gen(d, [6]), f.gen(d, [6], 0.5, 2)
        w, b = f.gen(d, [6]), f.gen(d, [6])
        f.case("batch_norm", [x, m, v], [F.batch_norm(T(x), T(m), T(v)).numpy()], **kw(d, 8, 4, steps=3))
        f.case("batch_norm", [x, m, v, w, b], [F.batch_norm(T(x), T(m), T(v), T(w), T(b), eps=0.1).numpy()], {"eps": 0.1}, **kw(d, 8, 4, steps=4))
        f.case("group_norm", [x], [F.group_norm(T(x), 3).numpy()], {"groups": 3}, **kw(d, 8, 4))
        f.case("group_norm", [x, w, b], [F.group_norm(T(x), 2, T(w), T(b), 0.1).numpy()], {"groups": 2, "eps": 0.1}, **kw(d, 8, 4, steps=3))
        x = f.gen(d, [30], -4, 4)
        f.case("gelu", [x], [pointwise.high(pointwise.FUNCTIONS["gelu_erf"], x.w)[0]], ulp=1.01 if d in MAIN else 0.52, t=d)
        f.case("gelu", [x], [pointwise.high(pointwise.FUNCTIONS["gelu_tanh"], x.w)[0]], {"approximate": "tanh"}, ulp=1.01 if d in MAIN else 0.52, t=d)
        x, w1, b1, w2, b2 = f.gen(d, [2, 3, 4]), f.gen(d, [6, 4]), f.gen(d, [6]), f.gen(d, [4, 6]), f.gen(d, [4])
        for act in ("relu", "silu", "gelu"):
            h = getattr(F, act)(T(x) @ T(w1).T + T(b1))
            f.case("fused_mlp", [x, w1, b1, w2, b2], [(h @ T(w2).T + T(b2)).numpy()], {"activation": act}, **kw(d, 12, 4, steps=3))
            h = getattr(F, act)(T(x) @ T(w1).T)
            f.case("fused_mlp", [x, w1, None, w2], [(h @ T(w2).T).numpy()], {"activation": act}, **kw(d, 12, 4, steps=3))
        x, w, b = f.gen(d, [2, 3, 8]), f.gen(d, [16, 8]), f.gen(d, [16])
        y = (T(x) @ T(w).T + T(b)).numpy()
        cut = lambda a, h: a.reshape(2, 3, h, 2).transpose(0, 2, 1, 3)
        f.case("qkv_projection", [x, w, b], [cut(y[..., :8], 4), cut(y[..., 8:12], 2), cut(y[..., 12:], 2)],
               {"heads": 4, "kv_heads": 2}, **kw(d, 5, 4))
        w = f.gen(d, [12, 8])
        y = (T(x) @ T(w).T).numpy()
        f.case("qkv_projection", [x, w], [cut(y[..., :4], 2), cut(y[..., 4:8], 2), cut(y[..., 8:], 2)], {"heads": 2}, **kw(d, 5, 4))
    for d in ALL:
        w, i = f.gen(d, [5, 3], 0, 9), f.gen("i64", [2, 4], 0, 4)
        f.case("embedding", [w, i], [w.v[i.v]])
    f.case("embedding", [w, f.const(np.array([1, 0], np.uint8))], [w.v[[1, 0]]])


def rope_ref(x, pos, dims, theta=10000.0, interleaved=False, inv=None, conc=1.0):
    dims = dims or x.shape[-1]
    if inv is None:
        inv = theta ** (-np.arange(0, dims, 2) / dims)
    a = pos[..., None] * inv
    c, s = np.cos(a) * conc, np.sin(a) * conc
    while c.ndim < x.ndim:
        c, s = (c[None], s[None]) if pos.ndim == 1 else (c[:, None], s[:, None])
    y = x.copy()
    if interleaved:
        p, q = x[..., 0:dims:2], x[..., 1:dims:2]
        y[..., 0:dims:2], y[..., 1:dims:2] = p * c - q * s, p * s + q * c
    else:
        h = dims // 2
        p, q = x[..., :h], x[..., h:dims]
        y[..., :h], y[..., h:dims] = p * c - q * s, p * s + q * c
    return y


def yarn(dims, theta, factor, fast, slow, original):
    """The frequencies and the attention factor of the YaRN paper, by transformers."""
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
    c = LlamaConfig(hidden_size=dims, num_attention_heads=1, head_dim=dims, max_position_embeddings=int(original * factor))
    c.rope_parameters = {"rope_type": "yarn", "rope_theta": theta, "factor": factor, "beta_fast": fast, "beta_slow": slow,
                         "original_max_position_embeddings": original}
    inv, att = ROPE_INIT_FUNCTIONS["yarn"](c, "cpu")
    return inv.double().numpy(), att


def rope(f):
    for d in FLOATS:
        k = kw(d, 64, 1) if d in MAIN else dict(kw(d, 0, 0), ulp=0.56, scale=2.0**-4)
        x = f.gen(d, [2, 3, 5, 8])
        pos = np.arange(5.0)
        f.case("rope", [x], [rope_ref(x.w, pos, 8)], **k)
        f.case("rope", [x], [rope_ref(x.w, pos + 7, 8)], {"offset": 7}, **k)
        f.case("rope", [x], [rope_ref(x.w, pos, 8, interleaved=True)], {"interleaved": True}, **k)
        f.case("rope", [x], [rope_ref(x.w, pos, 4, 500.0)], {"dims": 4, "theta": 500}, **k)
        p1 = f.const(np.array([4, 0, 2, 9, 1]))
        f.case("rope", [x, p1], [rope_ref(x.w, p1.v.astype(float), 8)], **k)
        p2 = f.gen("i64", [2, 5], 0, 30)
        f.case("rope", [x, p2], [rope_ref(x.w, p2.v.astype(float), 8)], **k)
        f.case("rope", [x], [rope_ref(x.w, pos / 4, 8)], {"scaling": "linear", "factor": 4}, **k)
        z = f.gen(d, [5, 32])
        try:
            inv, att = yarn(32, 10000.0, 4.0, 32, 1, 64)
            inv = inv.astype(np.float64)
            f.case("rope", [z], [rope_ref(z.w, pos, 32, inv=inv, conc=att)],
                   {"scaling": "yarn", "factor": 4, "beta_fast": 32, "beta_slow": 1, "original_context": 64},
                   **dict(kw(d, 64, 2) if d == "f32" else dict(ulp=2.0**36, t=d, scale=1, zero=False) if d == "f64" else k))
            f.case("rope", [z], [rope_ref(z.w, pos, 32, inv=inv, conc=1.0)],
                   {"scaling": "yarn", "factor": 4, "beta_fast": 32, "beta_slow": 1, "original_context": 64, "concentration": 1},
                   **dict(kw(d, 64, 2) if d == "f32" else dict(ulp=2.0**36, t=d, scale=1, zero=False) if d == "f64" else k))
        except ImportError:
            pass


def attend(q, k, v, causal=False, window=None, scale=None, mask=None, sink=None):
    g = q.shape[-3] // k.shape[-3]
    k, v = np.repeat(k, g, -3), np.repeat(v, g, -3)
    s, t = q.shape[-2], k.shape[-2]
    z = q @ np.swapaxes(k, -1, -2) * (scale or q.shape[-1]**-0.5)
    if mask is not None:
        z = np.where(mask, z, -np.inf) if mask.dtype == bool else z + mask
    i, j = np.arange(s)[:, None] + t - s, np.arange(t)[None]
    if causal:
        z = np.where(j <= i, z, -np.inf)
    if window:
        z = np.where(j > i - window, z, -np.inf)
    m = z.max(-1, keepdims=True)
    if sink is not None:
        m = np.maximum(m, sink[:, None, None])
    e = np.exp(z - m)
    total = e.sum(-1, keepdims=True)
    if sink is not None:
        total = total + np.exp(sink[:, None, None] - m)
    return (e / total) @ v


def attention(f):
    for d in FLOATS:
        low = dict(ulp=0.6 if d in ("f16", "bf16") else 0.7, t=d, scale=0.5, zero=False)
        k_ = low if d in SMALL else dict(ulp=12, t=d, scale=1, zero=False)
        for H, Hk, S, L, D, o in ((2, 2, 3, 5, 4, {}), (4, 2, 5, 5, 8, {"causal": True}), (2, 1, 7, 7, 4, {"causal": True, "window": 3}),
                                  (1, 1, 1, 131, 8, {}), (1, 1, 3, 260, 4, {"causal": True}), (1, 1, 5, 9, 3, {"scale": 0.75, "causal": True}),
                                  (2, 2, 1, 1, 1, {})):
            q, k, v = f.gen(d, [2, H, S, D]), f.gen(d, [2, Hk, L, D]), f.gen(d, [2, Hk, L, D])
            y = attend(q.w, k.w, v.w, **o)
            if not o.get("window") and H == Hk and not (o.get("causal") and S != L):
                t = F.scaled_dot_product_attention(T(q), T(k), T(v), is_causal=o.get("causal", False), scale=o.get("scale")).numpy()
                assert np.allclose(t, y, atol=1e-12)
            f.case("attention", [q, k, v], [y], o or None, **k_)
            f.case("attention", [q, k, v], [y], {**o, "tile_shape": [16, 128]}, **k_)
            m = f.const(np.where(unit(S * L, 9).reshape(S, L) < 0.7, True, np.arange(L) == 0))
            if not o:
                f.case("attention", [q, k, v, m], [attend(q.w, k.w, v.w, mask=m.v)], **k_)
                am = f.gen(d, [S, L])
                f.case("attention", [q, k, v, am], [attend(q.w, k.w, v.w, mask=am.w)], **k_)
            sink = f.gen(d, [H])
            f.case("attention", [q, k, v, None, sink], [attend(q.w, k.w, v.w, sink=sink.w, **o)], o or None, **k_)


def vjp(fn, x, g):
    """The gradients of the tensors x for the gradient g of fn(*x)."""
    x = [T(v).requires_grad_() for v in x]
    return [v.numpy() for v in torch.autograd.grad(fn(*x), x, T(g))]


def weight_gradients(f):
    for d in FLOATS + ["complex64", "complex128"]:
        for shape, out, w, o in (([2, 3, 9], [2, 4, 7], [4, 3, 3], {}), ([2, 4, 9, 8], [2, 6, 5, 8], [6, 2, 3, 3], {"stride": [2, 1], "padding": [1, 2], "dilation": [1, 2], "groups": 2}),
                                 ([2, 6, 6, 5], [2, 6, 6, 5], [6, 1, 3, 3], {"groups": 6, "padding": 1}), ([3, 20, 4, 5], [3, 17, 4, 5], [17, 20, 1, 1], {}),
                                 ([1, 2, 4, 5, 4], [1, 3, 3, 3, 3], [3, 2, 2, 3, 2], {"stride": 2, "padding": 1})):
            x, g = f.gen(d, shape), f.gen(d, out)
            fn = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[len(shape) - 2]
            # PyTorch's gradient conjugates x; the row does not.
            wide_x = np.conj(x.w)
            k = torch.zeros(w, dtype=torch.tensor(x.w).dtype, requires_grad=True)
            y = torch.autograd.grad(fn(torch.tensor(wide_x), k, **o), k, T(g))[0].numpy()
            part = {"complex64": "f32", "complex128": "f64"}.get(d, d)
            n = int(np.prod(out)) // out[1]
            bound = kw(d, 2 + n**0.5, 4) if part == d else dict(ulp=6 + n**0.5, t=part, scale=8)
            f.case("conv_weight_grad", [x, g], [y], {**o, "window": w[2:]}, **bound)
            if d in ("f32", "bf16"):
                f.case("conv_weight_grad", [f.const(nhwc(x.v)), f.const(nhwc(g.v))], [nhwc(y)], {**o, "window": w[2:], "layout": "nhwc"}, **bound)
    for c, part in (("complex64", "f32"), ("complex128", "f64")):
        x, k, b = f.gen(c, [2, 4, 5, 3]), f.gen(c, [4, 2, 3, 2]), f.gen(c, [4])
        o = {"stride": 2, "padding": 1, "groups": 2}
        f.case("conv_transpose", [x, k, b], [F.conv_transpose2d(T(x), T(k), T(b), **o).numpy()], o, ulp=12, t=part, scale=8)


def pool_gradients(f):
    for d in FLOATS + INTS:
        for dims, shape, o in ((1, [2, 3, 9], {"window": [2]}), (2, [1, 2, 7, 8], {"window": [3, 3], "stride": [2, 1], "padding": [1, 1]}),
                               (2, [1, 2, 9, 8], {"window": [2, 2], "dilation": [2, 3]}), (3, [1, 1, 4, 4, 4], {"window": [2, 2, 2]})):
            x = f.gen(d, shape, -1 if d in FLOATS else 0, 1 if d in FLOATS else 99)
            w = torch.tensor(wide(x.v).astype(np.float64))
            args = {"kernel_size": o["window"], **{k: v for k, v in o.items() if k != "window"}}
            y = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}[dims](w, **args, return_indices=True)[1].numpy()
            f.case("max_pool_index", [x], [y], o)
            if d in ("f32", "i16"):
                f.case("max_pool_index", [f.const(nhwc(x.v))], [nhwc(y)], {**o, "layout": "nhwc"})
            if d in INTS or "dilation" in o:
                continue
            for inc in (True, False):
                fn = lambda t: {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}[dims](t, **args, count_include_pad=inc)
                g = f.gen(d, list(y.shape))
                z = vjp(fn, [x], g)[0]
                more = {**o, "size": shape[2:], "count_include_pad": inc}
                f.case("avg_pool_grad", [g], [z], more, **kw(d, 8, 1))
                if d in ("f32", "bf16"):
                    f.case("avg_pool_grad", [f.const(nhwc(g.v))], [nhwc(z)], {**more, "layout": "nhwc"}, **kw(d, 8, 1))
        if d in INTS:
            continue
        for shape, size in (([2, 3, 10], [4]), ([1, 2, 7, 9], [3, 4]), ([1, 2, 5, 5], [1, 1]), ([1, 2, 3, 4], [6, 5]), ([1, 1, 4, 5, 6], [2, 3, 4])):
            x, g = f.gen(d, shape), f.gen(d, shape[:2] + size)
            fn = {1: F.adaptive_avg_pool1d, 2: F.adaptive_avg_pool2d, 3: F.adaptive_avg_pool3d}[len(size)]
            f.case("adaptive_avg_pool_grad", [g], vjp(lambda t: fn(t, size), [x], g), {"size": shape[2:]}, **kw(d, 8, 1))


def other_gradients(f):
    for d in FLOATS:
        for shape, size in (([1, 2, 5], [8]), ([2, 1, 4, 6], [7, 3]), ([1, 1, 4, 4], [4, 4]), ([1, 1, 3, 4, 2], [5, 3, 4])):
            x, g = f.gen(d, shape), f.gen(d, shape[:2] + size)
            o = {"size": shape[2:]}
            f.case("interpolate_grad", [g], vjp(lambda t: F.interpolate(t, size, mode="nearest"), [x], g), o, **kw(d, 4, 2))
            mode = {1: "linear", 2: "bilinear", 3: "trilinear"}[len(size)]
            for ac in (False, True):
                f.case("interpolate_grad", [g], vjp(lambda t: F.interpolate(t, size, mode=mode, align_corners=ac), [x], g),
                       {**o, "mode": "linear", "align_corners": ac}, **kw(d, 24, 2))
                if len(size) == 2:
                    f.case("interpolate_grad", [g], vjp(lambda t: F.interpolate(t, size, mode="bicubic", align_corners=ac), [x], g),
                           {**o, "mode": "cubic", "align_corners": ac}, **kw(d, 32, 4))
        x, g = f.gen(d, [1, 2, 4, 6]), f.gen(d, [1, 2, 6, 7])
        f.case("interpolate_grad", [g], vjp(lambda t: F.interpolate(t, scale_factor=[1.5, 1.2], mode="bilinear", align_corners=False), [x], g),
               {"size": [4, 6], "scale": [1.5, 1.2], "mode": "linear"}, **kw(d, 24, 2))
        k = kw(d, 64, 1) if d in MAIN else dict(kw(d, 0, 0), ulp=0.56, scale=2.0**-4)
        g, pos = f.gen(d, [2, 3, 5, 8]), np.arange(5.0)
        for o, at in (({}, pos), ({"interleaved": True}, pos), ({"offset": 7}, pos + 7), ({"scaling": "linear", "factor": 4}, pos / 4)):
            f.case("rope_grad", [g], [rope_ref(g.w, -at, 8, interleaved="interleaved" in o)], o or None, **k)
        p = f.gen("i64", [2, 5], 0, 30)
        f.case("rope_grad", [g, p], [rope_ref(g.w, -p.v.astype(float), 8)], **k)


def make():
    f = Family("nn", {**Family.FEW, "f64": 14})
    convs(f)
    pools(f)
    resampling(f)
    rows(f)
    rope(f)
    attention(f)
    weight_gradients(f)
    pool_gradients(f)
    other_gradients(f)
    return f
