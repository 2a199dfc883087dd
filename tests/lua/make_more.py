"""What make_rest.py has no room for, by PyTorch: writes more.safetensors beside it, which _layers.lua reads.
python3 tests/lua/make_more.py"""
import torch
import torch.nn as nn
import torch.nn.functional as F

from torch_cases import *

torch.manual_seed(11)
O = torch.optim

# ---- optimisers
steps("Adam_most", lambda p: O.Adam(p, 0.01, amsgrad=True))
steps("Adam_most_all", lambda p: O.Adam(p, 0.02, (0.8, 0.7), 1e-3, 0.1, amsgrad=True))
steps("AdamW_most", lambda p: O.AdamW(p, 0.02, (0.8, 0.7), 1e-3, 0.1, amsgrad=True))


# ---- images at places
for mode in "bicubic",:
    for outside in "zeros", "border", "reflection":
        for corners in False, True:
            case(f"grid_{mode}_{outside}_{corners}", None, [R(2, 2, 4, 5), R(2, 3, 2, 2) * 1.2],
                 lambda x, g, m=mode, o=outside, c=corners: F.grid_sample(x, g, m, o, c))
for corners in False, True:
    case(f"affine2_{corners}", None, [R(2, 2, 3)], lambda t, c=corners: F.affine_grid(t, (2, 3, 4, 5), c))
    case(f"affine3_{corners}", None, [R(2, 3, 4)], lambda t, c=corners: F.affine_grid(t, (2, 3, 2, 3, 4), c))

# ---- quantiles of what are numbers
holes = R(4, 5)
holes[0, 1] = holes[2] = holes[3, 4] = float("nan")
put("nanquantile/x", holes)
for name, q in ("one", 0.3), ("some", torch.tensor([0.0, 0.25, 0.9, 1.0])):
    for axis in None, 0, 1:
        put(f"nanquantile/{name}_{axis}", torch.nanquantile(holes, q, dim=axis))
for method in "lower", "higher", "midpoint", "nearest":
    put(f"nanquantile/{method}", torch.nanquantile(holes, 0.4, dim=1, interpolation=method, keepdim=True))
case("nanquantile", None, [R(3, 4)], lambda x: torch.nanquantile(torch.where(x > 0.8, float("nan"), x), 0.35, dim=1))

# ---- pools and their reverse
for axes, size, window, o in ((1, (7,), 3, {}), (2, (6, 5), (3, 2), {"padding": 1}), (3, (4, 4, 5), 2, {})):
    pool = getattr(nn, f"MaxPool{axes}d")(window, return_indices=True, **o)
    back = getattr(nn, f"MaxUnpool{axes}d")(window, o.get("stride"), o.get("padding", 0))
    x = R(2, 3, *size)
    case(f"pool_places{axes}", None, [x], lambda x, m=pool: m(x)[0])
    put(f"pool_places{axes}/places", pool(x)[1])
    case(f"unpool{axes}", None, [x], lambda x, m=pool, b=back, s=size: b(*m(x), output_size=x.shape))

# ---- transformers
torch.manual_seed(12)
for name, o in ("plain", {}), ("first", {"norm_first": True, "batch_first": True, "activation": "gelu"}):
    m = nn.Transformer(8, 2, 2, 1, 12, 0.0, **o).double()
    shape = (lambda n: (2, n, 8)) if o else (lambda n: (n, 2, 8))
    case(f"transformer_{name}", m, [R(*shape(3)), R(*shape(4))], lambda m, s, t: m(s, t))
    case(f"transformer_{name}_causal", m, [R(*shape(3)), R(*shape(4))], lambda m, s, t: m(
        s, t, tgt_mask=nn.Transformer.generate_square_subsequent_mask(4), tgt_is_causal=True))

write("more.safetensors")
