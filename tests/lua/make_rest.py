"""What make_layers.py has no room for, by PyTorch: writes rest.safetensors beside it, which _layers.lua reads.
python3 tests/lua/make_rest.py"""
import torch
import torch.nn as nn
import torch.nn.functional as F

from torch_cases import *

torch.manual_seed(7)

# ---- convolutions that keep the size
for axes, image, window, o in ((1, [7], [4], {}), (2, [5, 6], [3, 2], {"dilation": (2, 1)}), (2, [5, 4], [3, 3], {"groups": 2}), (3, [3, 4, 5], [2, 3, 2], {})):
    conv = getattr(F, f"conv{axes}d")
    for word in "same", "valid":
        name = f"conv{axes}d_{word}_{len(o) and list(o)[0]}"
        case(name, None, [R(2, 4, *image), R(6, 4 // o.get("groups", 1), *window), R(6)],
             lambda x, w, b, o=o, c=conv, p=word: c(x, w, b, padding=p, **o))

# ---- images of three axes at places
for mode in "bilinear", "nearest":
    for outside in "zeros", "border", "reflection":
        for corners in False, True:
            case(f"grid3_{mode}_{outside}_{corners}", None, [R(2, 2, 3, 4, 2), R(2, 2, 3, 1, 3) * 1.3],
                 lambda x, g, m=mode, o=outside, c=corners: F.grid_sample(x, g, m, o, c))

# ---- changes in place of parts of a tensor; what is read is copied, since PyTorch keeps no old values
def change(name, f, *shape):
    def g(x):
        y = x * 1.5
        out = f(y)
        return (y, out) if out is not None else y
    case("change_" + name, None, [R(*(shape or (3, 4)))], g)


def recur(y):
    for i in range(1, 4):
        y[:, i] = y[:, i - 1].clone() * y[:, i].clone()


def both(y):
    a, b = y[:, :3], y[:, 1:]
    a.mul_(b.clone().sin())
    return b * 2


def looked(y):
    row = y[1]
    y.mul_(y.clone())
    row.add_(1)
    return row.exp()


def chain(y):
    y.t()[1:].reshape(3, 3)[2].mul_(y[0, 0].clone())  # a flip is a copy here
    return y.flatten()[3:]


change("row", lambda y: y[1].add_(y[0].clone() * y[1].clone()) * 2)
change("rows", lambda y: y[1:].mul_(3).sum(0))
change("narrow", lambda y: y.narrow(1, 1, 2).mul_(y.narrow(1, 0, 2).clone().cos()) * 1)
change("set", lambda y: y.__setitem__((0, slice(1, None)), y[1, 1:].clone() ** 2))
change("number", lambda y: y.__setitem__((slice(None), 2), 7.0))
change("step", lambda y: y[::2, 1::2].copy_(y[1, 0]) * 1)
change("transposed", lambda y: y.t()[0].mul_(y.t()[1].clone()) * 1)
change("diagonal", lambda y: y.diagonal().mul_(2).sin())
change("masked", lambda y: y[1].masked_fill_(y[1].clone() > 0, 0.5) * 1)
change("reshaped", lambda y: y.view(2, 6)[1].clamp_(-0.5, 0.5) * 1)
change("squeezed", lambda y: y.squeeze(1)[0].mul_(2) * 1, 3, 1, 2)
change("permuted", lambda y: y.permute(2, 0, 1)[1].sin_() * 1, 2, 3, 4)
change("recur", recur)
change("both", both)
change("looked", looked)
change("chain", chain)

def sixth(x):
    """hardsigmoid, whose slope is 1/6 of f32 in PyTorch."""
    return F.relu6(x + 3) / 6


# ---- functions: name, inputs, what PyTorch calls it
def fn(name, f, *inputs):
    case("fn_" + name, None, inputs, f)


S, L = torch.special, torch.linalg
U = torch.rand(7) * 0.8 + 0.1
fn("logit", torch.logit, U)
fn("logit_eps", lambda x: torch.logit(x, 0.3), U)
fn("xlogy", torch.xlogy, torch.tensor([0.0, 0, 2, 0.5]), torch.tensor([0.5, 2, 3, 0.5]))
fn("xlog1py", S.xlog1py, torch.tensor([0.0, 0, 2, 0.5]), torch.tensor([-0.5, 2, 3, 0.5]))
fn("entr", S.entr, U)
fn("sinc", torch.sinc, R(7))
fn("erfinv", torch.erfinv, torch.tensor([-0.999, -0.7, -0.3, 0.01, 0.49, 0.51, 0.9, 0.999999]))
fn("ndtr", S.ndtr, R(7))
fn("ndtri", S.ndtri, U)
fn("i0", torch.i0, torch.tensor([-30.0, -3, 0.1, 1, 19.9, 20.1, 80]))
# polygamma by zeta, which has all digits
fn("trigamma", lambda x: S.zeta(2.0, x), torch.tensor([0.2, 1, 3.3, 20]))
fn("polygamma", lambda x: S.zeta(4.0, x) * 6, torch.tensor([0.2, 1, 3.3, 20]))
fn("logaddexp2", torch.logaddexp2, R(7), R(7))
fn("deg2rad", torch.deg2rad, R(7))
fn("rad2deg", torch.rad2deg, R(7))
fn("addcmul", lambda a, b, c: torch.addcmul(a, b, c, value=0.5), R(3, 4), R(3, 4), R(4))
fn("addcdiv", lambda a, b, c: torch.addcdiv(a, b, c, value=0.5), R(3, 4), R(3, 4), R(4))
fn("lerp", lambda a, b: torch.lerp(a, b, 0.3), R(3, 4), R(3, 4))
for name, f in dict(relu6=lambda x: F.relu6(x * 4), hardtanh=lambda x: F.hardtanh(x, -0.5, 0.7), hardsigmoid=lambda x: sixth(x * 3),
                    hardshrink=F.hardshrink, softshrink=lambda x: F.softshrink(x, 0.3), tanhshrink=F.tanhshrink, softsign=F.softsign,
                    logsigmoid=F.logsigmoid, softmin=lambda x: F.softmin(x, 0), threshold=lambda x: F.threshold(x, 0.1, 20.0),
                    glu=lambda x: F.glu(x, 0), normalize=lambda x: F.normalize(x, 3.0, 0)).items():
    fn(name, f, R(4, 5))
fn("pairwise", lambda x, y: F.pairwise_distance(x, y, 3.0, keepdim=True), R(4, 5), R(4, 5))
fn("movedim", lambda x: torch.movedim(x, (0, 2), (-1, 0)) * 1, R(2, 3, 4))
fn("unflatten", lambda x: torch.unflatten(x, 1, (3, -1)) * 1, R(2, 12))
for name, f in dict(hstack=torch.hstack, vstack=torch.vstack, dstack=torch.dstack, column_stack=torch.column_stack).items():
    fn(name, lambda *l, f=f: f(l), R(3), R(3))
    fn(name + "_2", lambda *l, f=f: f(l), R(3, 2), R(3, 2))
fn("broadcast_tensors", lambda *l: [v * 1 for v in torch.broadcast_tensors(*l)], R(3, 1), R(4), R(2, 1, 1))
fn("take_along_dim", lambda x, i: torch.take_along_dim(x, i, 1), R(3, 4), torch.tensor([[1, 0]]))
fn("index_copy", lambda x, i, s: x.index_copy(1, i, s), R(2, 3), torch.tensor([2, 0]), R(2, 2))
fn("index_fill", lambda x, i: x.index_fill(1, i, 0.25), R(2, 3), torch.tensor([2, 0]))
fn("block_diag", torch.block_diag, R(2, 2), R(3), R(1, 2))
fn("cartesian_prod", torch.cartesian_prod, R(2), R(3), R(2))
fn("combinations", lambda x: torch.combinations(x, 3), R(5))
fn("combinations_again", lambda x: torch.combinations(x, 2, True), R(3))
# vander, whose gradient fails in PyTorch, by its definition
fn("vander", lambda x: torch.stack([x**k for k in (3, 2, 1, 0)], -1), R(3))
fn("vander_up", lambda x: torch.stack([x**k for k in (0, 1, 2)], -1), R(4))
fn("std_mean", lambda x: torch.std_mean(x, 1), R(3, 4))
fn("var_mean", lambda x: torch.var_mean(x, 0, correction=0), R(3, 4))
fn("aminmax", lambda x: list(torch.aminmax(x, dim=1)), R(3, 4))
fn("cov", torch.cov, R(3, 5))
fn("cov_line", torch.cov, R(5))
fn("corrcoef", torch.corrcoef, R(3, 5))
fn("cumulative_trapezoid", lambda x: torch.cumulative_trapezoid(x, dx=0.5, dim=0), R(3, 4))
fn("dist", lambda x, y: torch.dist(x, y, 3), R(3, 4), R(3, 4))
fn("col2im", lambda x: F.fold(x, (5, 6), (2, 3), (2, 1), (1, 0), (1, 2)), R(2, 12, 10))
fn("svdvals", L.svdvals, R(3, 4))
fn("eigvalsh", lambda x: L.eigvalsh(x + x.T), R(3, 3))
fn("matrix_power", lambda x: L.matrix_power(x, 5), R(2, 3, 3))
fn("matrix_power_back", lambda x: L.matrix_power(x, -2), R(3, 3))
fn("multi_dot", lambda *l: L.multi_dot(l), R(4), R(4, 2), R(2, 5), R(5, 3))
for ord in "fro", "nuc", 1, -1, 2, -2, float("inf"), -float("inf"):
    fn(f"matrix_norm_{ord}", lambda x, o=ord: L.matrix_norm(x, o), R(2, 3, 4))
for p in None, -2, 1, "fro":
    fn(f"cond_{p}", lambda x, p=p: L.cond(x, p) if p in (None, -2) else L.matrix_norm(x, p) * L.matrix_norm(L.inv(x), p), R(3, 3))
fn("cholesky_solve", lambda b, x: torch.cholesky_solve(b, L.cholesky(x @ x.T + torch.eye(3))), R(3, 2), R(3, 3))
fn("vecdot", lambda x, y: L.vecdot(x, y, dim=0), R(3, 2), R(3, 2))

# ---- layers
for name, m in dict(relu6=nn.ReLU6(), tanhshrink=nn.Tanhshrink(), softsign=nn.Softsign(), logsigmoid=nn.LogSigmoid(),
                    selu=nn.SELU(), celu=nn.CELU(2.0), hardtanh=nn.Hardtanh(-0.4, 0.6), hardshrink=nn.Hardshrink(0.3), softshrink=nn.Softshrink(0.3),
                    softmin=nn.Softmin(0), glu=nn.GLU(0), rrelu=nn.RReLU(0.1, 0.5).eval(), threshold=nn.Threshold(0.1, 20.0)).items():
    case("layer_" + name, m, [R(4, 5)])
case("layer_hardsigmoid", None, [R(4, 5)], sixth)
case("layer_pixel_shuffle", nn.PixelShuffle(2), [R(1, 8, 2, 3)])
case("layer_pixel_unshuffle", nn.PixelUnshuffle(2), [R(1, 2, 4, 6)])
case("layer_channel_shuffle", nn.ChannelShuffle(3), [R(2, 6, 2)], lambda m, x: F.channel_shuffle(x, 3) * 1)
case("layer_unflatten", nn.Unflatten(1, (2, 3)), [R(4, 6)], lambda m, x: m(x) * 1)
case("layer_unfold", nn.Unfold((2, 3), 1, 1, 2), [R(2, 3, 5, 6)])
case("layer_fold", nn.Fold((5, 6), 3, 1, 1, 2), [R(2, 18, 9)])
pads = {1: (1, 2), 2: (1, 2, 2, 0), 3: (1, 0, 1, 1, 0, 1)}
for n, size in (1, (4,)), (2, (4, 5)), (3, (3, 4, 2)):
    for kind in "Zero", "Reflection", "Replication", "Circular":
        case(f"layer_{kind}{n}", getattr(nn, f"{kind}Pad{n}d")(pads[n]), [R(2, 2, *size)])
    case(f"layer_Constant{n}", getattr(nn, f"ConstantPad{n}d")(pads[n], 0.5), [R(2, 2, *size)])
case("layer_cut", nn.ZeroPad2d((-1, 1, 0, -2)), [R(1, 2, 4, 5)])
case("layer_lrn", nn.LocalResponseNorm(3, 0.2, 0.6, 1.5), [R(2, 5, 3, 2)])
case("layer_cosine", nn.CosineSimilarity(1), [R(4, 3), R(4, 3)])
case("layer_pairwise", nn.PairwiseDistance(1.5), [R(4, 3), R(4, 3)])
case("layer_lp1", nn.LPPool1d(1.5, 2, 1), [torch.rand(2, 3, 6) + 0.1])
case("layer_lp2", nn.LPPool2d(2, (2, 3)), [torch.rand(2, 3, 4, 6) + 0.1])
for n, size in (1, (5,)), (2, (3, 4)), (3, (2, 3, 2)):
    case(f"layer_instance{n}", getattr(nn, f"InstanceNorm{n}d")(3, 1e-3, affine=n == 2), [R(2, 3, *size)])
case("layer_bilinear", nn.Bilinear(3, 4, 5), [R(2, 3), R(2, 4)])
case("layer_bilinear_plain", nn.Bilinear(3, 4, 2, bias=False), [R(3), R(4)])

# ---- losses
sides, some, labels = torch.tensor([1.0, -1, 1, -1, -1]), torch.tensor([0, 3, 1, 3, 2]), (torch.rand(5, 4) < 0.5).double()
weights = torch.rand(4) + 0.5
put("margin/weight", weights)
for red in "mean", "sum", "none":
    for name, m, *inputs in (
            ("poisson", nn.PoissonNLLLoss(reduction=red), R(5, 4), torch.rand(5, 4) * 4),
            ("poisson_full", nn.PoissonNLLLoss(False, True, eps=1e-3, reduction=red), torch.rand(5, 4), torch.rand(5, 4) * 4),
            ("gauss", nn.GaussianNLLLoss(reduction=red), R(5, 4), R(5, 4), torch.rand(5, 4)),
            ("gauss_full", nn.GaussianNLLLoss(full=True, eps=0.3, reduction=red), R(5, 4), R(5, 4), torch.rand(5, 1)),
            ("hinge", nn.HingeEmbeddingLoss(0.7, reduction=red), R(5), sides),
            ("ranking", nn.MarginRankingLoss(0.3, reduction=red), R(5), R(5), sides),
            ("soft", nn.SoftMarginLoss(reduction=red), R(5), sides),
            ("cosine", nn.CosineEmbeddingLoss(0.1, reduction=red), R(5, 3), R(5, 3), sides),
            ("triplet", nn.TripletMarginLoss(0.8, 3.0, reduction=red), R(5, 3), R(5, 3), R(5, 3)),
            ("triplet_swap", nn.TripletMarginLoss(swap=True, reduction=red), R(5, 3), R(5, 3), R(5, 3)),
            ("multi", nn.MultiMarginLoss(reduction=red), R(5, 4), some),
            ("multi_square", nn.MultiMarginLoss(2, 0.7, weights, reduction=red), R(5, 4), some),
            ("labels", nn.MultiLabelSoftMarginLoss(weights, reduction=red), R(5, 4), labels)):
        case(f"margin_{name}_{red}", None, inputs, lambda *xs, m=m: m(*xs[:-1], xs[-1] if xs[-1].shape == (5, 3) else xs[-1].detach()))

# ---- optimisers
O = torch.optim
steps("Adamax", lambda p: O.Adamax(p, 0.01))
steps("Adamax_all", lambda p: O.Adamax(p, 0.01, (0.8, 0.9), 1e-3, 0.1))
steps("Adadelta", lambda p: O.Adadelta(p))
steps("Adadelta_all", lambda p: O.Adadelta(p, 0.5, 0.8, 1e-3, 0.1))
steps("ASGD", lambda p: O.ASGD(p))
steps("ASGD_all", lambda p: O.ASGD(p, 0.1, 0.05, 0.6, 3, 0.1))
steps("Rprop", lambda p: O.Rprop(p))
steps("Rprop_all", lambda p: O.Rprop(p, 0.02, (0.4, 1.5), (0.001, 0.1)))

# ---- values at indices, in place
def put_at(y, i, v):
    y[i] = v
    return y


I = torch.tensor
case("put_rows", None, [R(4, 3), I([2, 0]), R(2, 3)], lambda x, i, v: put_at(x * 1.5, i, v))
case("put_one", None, [R(4, 3), I([2, 0]), R(3)], lambda x, i, v: put_at(x * 1.5, i, v))
case("put_grid", None, [R(5, 2), I([[2, 0], [1, 4]]), R(2, 1, 2)], lambda x, i, v: put_at(x * 1.5, i, v))
case("put_number", None, [R(5), I([4, 0])], lambda x, i: put_at(x * 1.5, i, 7.0))

write("rest.safetensors")
