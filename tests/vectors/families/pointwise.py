"""Pointwise rows: special values, ordinary ones, all types; mpmath for functions."""
import math

import mpmath
import numpy as np

from common import *

mpmath.mp.prec = 240
mp = mpmath.mp
np.seterr(all="ignore")

LIMITS = {"fp8_e4m3": (2.0**-9, 2.0**-6, 448.0), "fp8_e5m2": (2.0**-16, 2.0**-14, 57344.0),
          "f16": (2.0**-24, 2.0**-14, 65504.0), "bf16": (2.0**-133, 2.0**-126, 255 * 2.0**120),
          "f32": (2.0**-149, 2.0**-126, (2 - 2.0**-23) * 2.0**127),
          "f64": (5e-324, 2.0**-1022, 1.7976931348623157e308)}


def specials(d):
    tiny, normal, most = LIMITS[d]
    v = [0.0, -0.0, 1, -1, math.nan, tiny, -tiny, 3 * tiny, normal, most, -most, 0.5, 1.5, 2.5, -2.5]
    if d != "fp8_e4m3":
        v += [math.inf, -math.inf]
    if d in ("bf16", "f32", "f64"):
        v += [88.7, -87.5, -103.9, 1e5, -3e9, 1e30, 1e-30, 22.0, 710.1, -745.2]
    return v


def pools(f):
    p = {}
    for d in FLOATS:
        n = 14 if d in ("f32", "f64") else 9
        u = unit(4 * n, 1000 + len(p))
        v = specials(d) + list(-10 + 20 * u[:n]) + list(-1 + 2 * u[n:2 * n])
        emax = min(int(math.log2(LIMITS[d][2])), 300)
        v += list(np.where(u[2 * n:3 * n] < 0.5, -1, 1) * 2.0**((u[3 * n:] - 0.5) * 2 * emax) * 1.1)
        p["any", d] = f.const(np.array(v), d)
        s = specials(d)
        s = s[:5] + s[5:6] + s[9:11] + s[15:17]
        a = [x for x in s for _ in s] + list(-8 + 16 * unit(18, 77)) + [3, -3, 3, -3, 0.5, 8, 7.5, -7.5]
        b = [y for _ in s for y in s] + list(-4 + 8 * unit(18, 78)) + [2, 2, -2, -2, 3, 0.5, -2.5, 2.5]
        p["lhs", d], p["rhs", d] = f.const(np.array(a), d), f.const(np.array(b), d)
    for d in INTS:
        i = np.iinfo(NP[d])
        s = [0, 1, 2, 3, 7, i.max, i.max - 1, i.min, i.min + 1] + ([-1, -2, -7] if i.min else [100])
        p["any", d] = f.const(np.array(s, NP[d]))
        p["lhs", d] = f.const(np.array([x for x in s for _ in s] + [5, 200 % (i.max + 1)], NP[d]))
        p["rhs", d] = f.const(np.array([y for _ in s for y in s] + [3, 9], NP[d]))
    p["any", "bool"] = f.const(np.array([False, True, True]))
    p["lhs", "bool"] = f.const(np.array([False, False, True, True]))
    p["rhs", "bool"] = f.const(np.array([False, True, False, True]))
    for d in COMPLEX:
        s = [0, 1, -1, 1j, -1j, 3 + 4j, -3 - 4j, 1e-3 + 2j, 0.5 - 1e-3j]
        w = 4 * (unit(24, 5) - 0.5) + 4j * (unit(24, 6) - 0.5)
        p["any", d] = f.const(np.concatenate([s, w]).astype(NP[d]))
        p["lhs", d] = f.const(np.concatenate([np.repeat(s[1:], 8), w]).astype(NP[d]))
        p["rhs", d] = f.const(np.concatenate([np.tile(s[1:], 8), w[::-1]]).astype(NP[d]))
    return p


def high(fn, *xs):
    """fn by mpmath on each element, as (f64, rest in f32). fn may give a float for the
    special points."""
    hi, lo = [], []
    for args in zip(*[np.ravel(x) for x in xs]):
        r = fn(*[float(a) for a in args])
        if isinstance(r, mpmath.mpf) and mp.isfinite(r):
            h = float(r)
            if abs(r) < mp.mpf(2)**-1022:  # denormal: rounded once
                h = math.copysign(math.ldexp(int(mp.nint(mp.ldexp(abs(r), 1074))), -1074), r)
            rest = float(r - mp.mpf(h)) if math.isfinite(h) else 0.0
        else:
            h, rest = float(r), 0.0
        hi.append(h)
        lo.append(rest)
    shape = np.shape(xs[0])
    return np.array(hi).reshape(shape), np.array(lo).reshape(shape)


def real(fn, at_inf=math.nan, at_ninf=math.nan, domain=None, odd=False):
    """A function of one float: mpmath inside, given values at the infinities."""
    def g(x):
        if x != x:
            return x
        if math.isinf(x):
            return at_inf if x > 0 else at_ninf
        if odd and x == 0:
            return x
        if domain and not domain(x):
            return math.nan
        return fn(mp.mpf(x))
    return g


def phi(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


def times_phi(x):
    if abs(x) < 1e-60:  # the sign of what lies beyond one half decides a tie
        return x / 2 * (1 + mp.sign(x) * mp.mpf(2)**-200)
    return x * phi(x) if x > -1e4 else -0.0


INF, NAN = math.inf, math.nan


def log_of(fn):
    def g(x):
        if x != x or x < 0:
            return NAN
        return -INF if x == 0 else INF if x == INF else fn(mp.mpf(x))
    return g


def log1p(x):
    if x != x or x < -1:
        return NAN
    return x if x == 0 else -INF if x == -1 else INF if x == INF else mp.log1p(mp.mpf(x))


def rsqrt(x):
    if x != x or x < 0:
        return NAN
    return math.copysign(INF, x) if x == 0 else 0.0 if x == INF else 1 / mp.sqrt(mp.mpf(x))


def small_exp(x):
    """exp without overflow in mpmath's reach."""
    return mp.exp(x) if abs(x) < 1e5 else (mp.mpf(0) if x < 0 else mp.mpf("inf"))


def bounded(fn, low, high_):
    """fn where its result is representable, the limits beyond."""
    return lambda x: fn(x) if abs(x) < 1e5 else (high_(x) if x > 0 else low(x))


def gelu_tanh(x):
    u = mp.sqrt(2 / mp.pi) * (x + mp.mpf("0.044715") * x**3)
    return x / (1 + mp.exp(-2 * u)) if x > -1e3 else -0.0


FUNCTIONS = {
    "exp": real(small_exp, INF, 0.0), "expm1": real(lambda x: mp.expm1(x) if abs(x) < 1e5 else
                                                   mp.mpf(-1) if x < 0 else mp.mpf("inf"), INF, -1.0, odd=True),
    "exp2": real(lambda x: mp.mpf(2)**x if abs(x) < 1e5 else mp.mpf(0) if x < 0 else mp.mpf("inf"), INF, 0.0),
    "log": log_of(mp.log), "log2": log_of(lambda x: mp.log(x, 2)), "log10": log_of(mp.log10),
    "log1p": log1p, "rsqrt": rsqrt,
    "sin": real(mp.sin, odd=True), "cos": real(mp.cos), "tan": real(mp.tan, odd=True),
    "asin": real(mp.asin, domain=lambda x: abs(x) <= 1, odd=True),
    "acos": real(mp.acos, domain=lambda x: abs(x) <= 1),
    "asinh": real(lambda x: mp.asinh(x) if abs(x) > 1e-30 else x - x**3 / 6, INF, -INF, odd=True),
    "acosh": real(mp.acosh, INF, domain=lambda x: x >= 1),
    "atanh": real(lambda x: (mp.atanh(x) if abs(x) > 1e-30 else x + x**3 / 3) if abs(x) < 1 else mp.inf * x,
                  domain=lambda x: abs(x) <= 1, odd=True),
    "atan": real(mp.atan, math.pi / 2, -math.pi / 2, odd=True),
    "sinh": real(lambda x: mp.sinh(x) if abs(x) < 1e5 else mp.mpf("inf") * mp.sign(x), INF, -INF, odd=True),
    "cosh": real(lambda x: mp.cosh(x) if abs(x) < 1e5 else mp.mpf("inf"), INF, INF),
    "tanh": real(lambda x: mp.tanh(x) if abs(x) < 1e4 else mp.sign(x), 1.0, -1.0, odd=True),
    "sigmoid": real(lambda x: 1 / (1 + small_exp(-x)), 1.0, 0.0),
    "erf": real(mp.erf, 1.0, -1.0, odd=True),
    "erfc": real(lambda x: mp.erfc(x) if x < 1e4 else mp.mpf(0), 0.0, 2.0),
    "gelu_erf": real(times_phi, INF, -0.0, odd=True),
    "gelu_tanh": real(gelu_tanh, INF, -0.0, odd=True),
    "silu": real(lambda x: x / (1 + small_exp(-x)) if x > -1e4 else -0.0, INF, -0.0, odd=True),
    "softplus": real(lambda x: mp.log1p(small_exp(x)) if x < 1e4 else x, INF, 0.0),
    "mish": real(lambda x: x * mp.tanh(mp.log1p(small_exp(x))) if abs(x) < 1e4 else x if x > 0 else -0.0, INF, -0.0, odd=True),
    "hardswish": real(lambda x: x * max(0, min(6, x + 3)) / 6 if x > -3 else -0.0, INF, -0.0, odd=True),
}
# Accuracy promised for f32 and f64, and after the one rounding to a narrower type.
ULP = {"f32": 1.0, "f64": 1.0}
NARROW = 0.505


def functions(f, p):
    for row, fn in FUNCTIONS.items():
        for d in FLOATS:
            x = p["any", d]
            hi, lo = high(fn, x.w)
            if d == "f64":
                scaled = np.where(np.isfinite(hi) & (hi != 0), lo / np.spacing(np.where(hi == 0, 1, np.abs(hi))), 0)
                f.case(row, [x], [(hi, scaled.astype(np.float32))], ulp=1.0, t=d)
            else:
                f.case(row, [x], [hi], ulp=ULP.get(d, NARROW), t=d)
    for d in ("bool", "u8", "i64"):
        f.case("exp", [p["any", d]], [np.exp(np.clip(p["any", d].v.astype(np.float64), -800, 800))], ulp=1, t="f32")


def f32_of(d):
    return np.float64 if d == "f64" else np.float32


def exact_unary(f, p):
    rules = {
        "neg": lambda x: -x, "abs": np.abs, "sign": lambda x: np.where(x == 0, x.dtype.type(0), np.sign(x)),
        "square": lambda x: x * x, "reciprocal": lambda x: 1 / x, "sqrt": np.sqrt,
        "floor": np.floor, "ceil": np.ceil, "round": np.rint, "trunc": np.trunc,
        "frac": lambda x: np.where(np.isinf(x), np.copysign(x.dtype.type(0), x), np.copysign(x - np.trunc(x), x)),
        "relu": lambda x: np.where(x <= 0, x.dtype.type(0), x),
    }
    for row, fn in rules.items():
        for d in FLOATS:
            x = p["any", d].v.astype(f32_of(d))
            y = fn(x)
            if row == "frac":  # infinite minus infinite
                y = np.where(np.isinf(x), np.nan, y)
            f.case(row, [p["any", d]], [to(y, d)], nonan=False)
    for d in FLOATS:
        x = p["any", d]
        v = x.v.astype(f32_of(d))
        f.case("clamp", [x], [to(np.where(np.isnan(v), v, np.minimum(np.maximum(v, -1), 2)), d)],
               {"min": -1, "max": 2})
        f.case("clamp", [x], [x.v], {})
        f.case("leaky_relu", [x], [to(np.where(v > 0, v, v * v.dtype.type(0.01)), d)])
        f.case("leaky_relu", [x], [to(np.where(v > 0, v, v * v.dtype.type(0.25)), d)], {"slope": 0.25})
        al = float(v.dtype.type(1.5))
        for alpha in (1.0, 1.5):
            fn = real(lambda z: z if z > 0 else alpha * (mp.expm1(z) if z > -1e5 else mp.mpf(-1)), INF, -alpha, odd=True)
            hi, _ = high(fn, x.w)
            f.case("elu", [x], [hi], {"alpha": alpha} if alpha != 1 else None,
                   ulp=(1.5 if alpha != 1 else 1.0) if d in ULP else 0.51, t=d)
        f.case("isnan", [x], [np.isnan(v)])
        f.case("isinf", [x], [np.isinf(v)])
        f.case("isfinite", [x], [np.isfinite(v)])
        f.case("logical_not", [x], [v == 0])
        f.case("real", [x], [x.v])
        f.case("imag", [x], [np.zeros_like(x.v)])
        f.case("conj", [x], [x.v])
        sign = np.signbit(v)
        f.case("angle", [x], [to(np.where(np.isnan(v), v, np.where(sign, np.float64(np.pi) if d == "f64" else np.float32(np.pi), 0)).astype(v.dtype), d)])
    for d in INTS:
        x = p["any", d]
        v = x.v
        f.case("neg", [x], [-v])
        f.case("abs", [x], [np.abs(v)])
        f.case("sign", [x], [np.sign(v)])
        f.case("square", [x], [v * v])
        for row in ("floor", "ceil", "round", "trunc", "real", "conj"):
            f.case(row, [x], [v])
        f.case("imag", [x], [np.zeros_like(v)])
        f.case("relu", [x], [np.maximum(v, 0)])
        f.case("clamp", [x], [np.clip(v, 1, 5)], {"min": 1, "max": 5})
        f.case("clamp", [x], [v])
        f.case("bitwise_not", [x], [~v])
        f.case("sqrt", [x], [np.sqrt(v.astype(np.float32))])
    for d in INTS + ["bool"]:
        v = p["any", d].v
        f.case("isnan", [p["any", d]], [np.zeros(v.shape, bool)])
        f.case("isinf", [p["any", d]], [np.zeros(v.shape, bool)])
        f.case("isfinite", [p["any", d]], [np.ones(v.shape, bool)])
        f.case("logical_not", [p["any", d]], [v == 0])
    f.case("bitwise_not", [p["any", "bool"]], [~p["any", "bool"].v])


def complex_unary(f, p):
    fns = {"exp": mp.exp, "log": mp.log, "sin": mp.sin, "cos": mp.cos, "sinh": mp.sinh, "cosh": mp.cosh,
           "tanh": mp.tanh, "sqrt": mp.sqrt, "reciprocal": lambda z: 1 / z, "square": lambda z: z * z,
           "sign": lambda z: z / abs(z) if z else z}
    for d in COMPLEX:
        part = "f32" if d == "complex64" else "f64"
        x = p["any", d]
        keep = x.v[1:]
        x1 = f.const(keep)
        for row, fn in fns.items():
            y = np.array([complex(fn(mp.mpc(complex(z)))) for z in keep])
            f.case(row, [x1], [y], ulp=4.0, t=part)
        f.case("abs", [x], [np.array([float(abs(mp.mpc(complex(z)))) for z in x.v])], ulp=1.5, t=part)
        f.case("angle", [x1], [np.array([float(mp.arg(mp.mpc(complex(z)))) for z in keep])], ulp=1.5, t=part)
        f.case("neg", [x1], [-keep])
        f.case("real", [x], [x.v.real.copy()])
        f.case("imag", [x], [x.v.imag.copy()])
        f.case("conj", [x1], [np.conj(keep)])
        f.case("logical_not", [x], [x.v == 0])
        odd = f.const(np.array([complex(NAN, 1), complex(1, INF), complex(-INF, NAN), 1 + 1j], NP[d]))
        f.case("isnan", [odd], [np.isnan(odd.v)])
        f.case("isinf", [odd], [np.isinf(odd.v)])
        f.case("isfinite", [odd], [np.isfinite(odd.v)])


def total_min(a, b, sign):
    """minimum (sign 1) or maximum (-1) with NaN winning and -0 below +0."""
    less = (a < b) | ((a == b) & np.signbit(a) & ~np.signbit(b))
    y = np.where(less if sign > 0 else ~less, a, b)
    y = np.where((a == b) & ~less & (sign > 0), b, y)
    return np.where(np.isnan(a) | np.isnan(b), np.nan, y).astype(a.dtype)


def pow_ref(x, y):
    try:
        if x == 1 or y == 0:
            return 1.0
        if x != x or y != y:
            return NAN
        if x == 0 or math.isinf(x) or math.isinf(y):
            return float(np.power(np.float64(x), np.float64(y)))
        if x < 0 and y != math.floor(y):
            return NAN
        r = mp.power(mp.mpf(abs(x)), mp.mpf(y)) if abs(y * math.log(abs(x))) < 1e5 else \
            mp.mpf(0) if y * math.log(abs(x)) < 0 else mp.mpf("inf")
        return -r if x < 0 and y % 2 == 1 else r
    except OverflowError:
        return INF


def exact_mod(x, y, want):
    """Python's floored quotient or remainder, exactly, rounded once."""
    from fractions import Fraction
    if x != x or y != y or math.isinf(x) or y == 0:
        return None
    if math.isinf(y):
        return None
    q = Fraction(x) / Fraction(y)
    fl = q.numerator // q.denominator
    r = fl if want == "floordiv" else Fraction(x) - fl * Fraction(y)
    return r


def binary(f, p):
    import torch
    for d in FLOATS:
        L, R = p["lhs", d], p["rhs", d]
        a, b = L.v.astype(f32_of(d)), R.v.astype(f32_of(d))
        for row, fn in {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}.items():
            f.case(row, [L, R], [to(fn(a, b), d)])
        f.case("minimum", [L, R], [to(total_min(a, b, 1), d)])
        f.case("maximum", [L, R], [to(total_min(a, b, -1), d)])
        f.case("heaviside", [L, R], [to(np.heaviside(a, b), d)])
        for row, fn in {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
                        "gt": np.greater, "ge": np.greater_equal}.items():
            f.case(row, [L, R], [fn(a, b)])
        za, zb = a != 0, b != 0
        f.case("logical_and", [L, R], [za & zb])
        f.case("logical_or", [L, R], [za | zb])
        f.case("logical_xor", [L, R], [za ^ zb])
        f.case("where", [f.const(a > b), L, R], [np.where(a > b, L.v, R.v)])
        cd = "complex128" if d == "f64" else "complex64"
        f.case("complex", [L, R], [(np.stack([a, b], -1)).view(NP[cd])[..., 0]])
        # Functions of two: special points of NumPy, the rest by mpmath.
        def atan2(y, x):
            if not (math.isfinite(x) and math.isfinite(y)) or y == 0:
                return float(np.arctan2(y, x))
            return mp.atan2(mp.mpf(y), mp.mpf(x))
        def hypot(x, y):
            if not (math.isfinite(x) and math.isfinite(y)):
                return float(np.hypot(x, y))
            return mp.sqrt(mp.mpf(x)**2 + mp.mpf(y)**2)
        for row, fn in {"atan2": atan2, "hypot": hypot, "pow": pow_ref}.items():
            hi, lo = high(fn, L.w, R.w)
            f.case(row, [L, R], [hi], ulp={"f32": 1.0, "f64": 1.5}.get(d, NARROW), t=d)
        f.case("copysign", [L, R], [to(np.where(np.isnan(b), np.abs(a), np.copysign(a, b)), d)])
        f.case("truncdiv", [L, R], [to(np.trunc(a / b), d)])
        f.case("fmod", [L, R], [to(np.fmod(a, b), d)])
        def logaddexp(x, y):
            if not (math.isfinite(x) and math.isfinite(y)):
                return float(np.logaddexp(x, y))
            return max(x, y) + (mp.log1p(mp.exp(-abs(mp.mpf(x) - mp.mpf(y)))) if abs(x - y) < 1e4 else 0)
        hi, lo = high(logaddexp, L.w, R.w)
        f.case("logaddexp", [L, R], [hi], ulp={"f32": 1.0, "f64": 1.5}.get(d, NARROW), t=d, scale=0.5)
        # Quotients and remainders where they are ordinary.
        fin = np.isfinite(a) & np.isfinite(b) & (b != 0) & (np.abs(a) <= 1e6) & ((np.abs(b) >= 1e-3))
        L1, R1 = f.const(L.v[fin]), f.const(R.v[fin])
        for row in ("mod", "floordiv"):
            y = [exact_mod(float(x), float(z), row) for x, z in zip(a[fin], b[fin])]
            y = np.array([math.nan if v is None else float(v) for v in y])
            f.case(row, [L1, R1], [y], ulp=0.505 if d in SMALL else 0.5001, t=d, zero=False)
        # fma: exact by fractions of mpmath.
        c = f.const(R.v[::-1].copy())
        fz = np.isfinite(a) & np.isfinite(b) & np.isfinite(c.w)
        Lf, Rf, Cf = f.const(L.v[fz]), f.const(R.v[fz]), f.const(c.v[fz])
        hi = [float(mp.mpf(float(x)) * mp.mpf(float(y)) + mp.mpf(float(z)))
              for x, y, z in zip(Lf.w, Rf.w, Cf.w)]
        f.case("fma", [Lf, Rf, Cf], [np.array(hi)], ulp=NARROW if d in SMALL else 0.5001, t=d, zero=False)
    for d in INTS + ["bool"]:
        L, R = p["lhs", d], p["rhs", d]
        a, b = L.v, R.v
        for row, fn in {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
                        "gt": np.greater, "ge": np.greater_equal}.items():
            f.case(row, [L, R], [fn(a, b)])
        f.case("logical_and", [L, R], [(a != 0) & (b != 0)])
        f.case("logical_or", [L, R], [(a != 0) | (b != 0)])
        f.case("logical_xor", [L, R], [(a != 0) ^ (b != 0)])
        f.case("bitwise_and", [L, R], [a & b])
        f.case("bitwise_or", [L, R], [a | b])
        f.case("bitwise_xor", [L, R], [a ^ b])
        f.case("minimum", [L, R], [np.minimum(a, b)])
        f.case("maximum", [L, R], [np.maximum(a, b)])
        f.case("where", [f.const(a > b), L, R], [np.where(a > b, a, b)])
        if d == "bool":
            continue
        f.case("add", [L, R], [a + b])
        f.case("sub", [L, R], [a - b])
        f.case("mul", [L, R], [a * b])
        f.case("div", [L, R], [a.astype(np.float32) / b.astype(np.float32)])
        f.case("heaviside", [L, R], [torch.heaviside(torch.from_numpy(a), torch.from_numpy(b)).numpy()])
        bits = np.iinfo(NP[d]).bits
        pa, pb = [int(v) for v in a], [int(v) for v in b]
        wrap = lambda v: ((v - np.iinfo(NP[d]).min) % 2**bits) + np.iinfo(NP[d]).min
        arr = lambda v: np.array([wrap(x) for x in v], dtype=np.int64 if d == "i64" else None).astype(NP[d])
        f.case("floordiv", [L, R], [arr([x // y if y else 0 for x, y in zip(pa, pb)])])
        f.case("mod", [L, R], [arr([x % y if y else 0 for x, y in zip(pa, pb)])])
        cut = [(abs(x) // abs(y)) * (1 if (x < 0) == (y < 0) else -1) if y else 0 for x, y in zip(pa, pb)]
        f.case("truncdiv", [L, R], [arr(cut)])
        f.case("fmod", [L, R], [arr([x - q * y if y else 0 for x, y, q in zip(pa, pb, cut)])])
        def ipow(x, y):
            if y < 0:
                return {1: 1, -1: -1 if y % 2 else 1}.get(x, 0)
            return pow(x, y, 2**bits)
        f.case("pow", [L, R], [arr([ipow(x, y) for x, y in zip(pa, pb)])])
        f.case("shift_left", [L, R], [arr([x << y if 0 <= y < bits else 0 for x, y in zip(pa, pb)])])
        f.case("shift_right", [L, R], [arr([x >> y if 0 <= y < bits else (-1 if x < 0 else 0) if y >= 0 else
                                            (-1 if x < 0 else 0) for x, y in zip(pa, pb)])])
    for d in COMPLEX:
        L, R = p["lhs", d], p["rhs", d]
        part = "f32" if d == "complex64" else "f64"
        a, b = L.v, R.v
        f.case("add", [L, R], [a + b])
        f.case("sub", [L, R], [a - b])
        for row, fn in {"mul": lambda x, y: x * y, "div": lambda x, y: x / y, "pow": lambda x, y: x**y}.items():
            y = np.array([complex(fn(mp.mpc(complex(x)), mp.mpc(complex(z)))) for x, z in zip(a, b)])
            f.case(row, [L, R], [y], ulp={"mul": 2.0, "div": 4.0, "pow": 24.0}[row], t=part)
        f.case("eq", [L, R], [a == b])
        f.case("ne", [L, R], [a != b])
        f.case("logical_and", [L, R], [(a != 0) & (b != 0)])
        f.case("logical_or", [L, R], [(a != 0) | (b != 0)])
        f.case("logical_xor", [L, R], [(a != 0) ^ (b != 0)])
        f.case("where", [f.const(a.real > 0), L, R], [np.where(a.real > 0, a, b)])


PROMOTE_RANK = ["fp8_e4m3", "fp8_e5m2", "f16", "bf16", "f32", "f64"]


def promotion(f):
    """Result types of mixed inputs, as torch.promote_types has them."""
    import torch
    T = {"bool": torch.bool, "u8": torch.uint8, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32,
         "i64": torch.int64, "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32,
         "f64": torch.float64, "complex64": torch.complex64, "complex128": torch.complex128}
    back = {v: k for k, v in T.items()}
    for a in T:
        for b in T:
            if a == b or (a in ("f16", "bf16") and b in COMPLEX) or (b in ("f16", "bf16") and a in COMPLEX):
                continue
            d = back[torch.promote_types(T[a], T[b])]
            x, y = f.gen(a, [3], 0, 1), f.gen(b, [2, 1], 0, 1)
            if d in ("f16", "bf16") or a in FLOATS + COMPLEX or b in FLOATS + COMPLEX:
                one = np.array([0, 1, 1])
                x, y = f.const(one.astype(NP[a])), f.const(one[:2, None].astype(NP[b]))
            f.case("add", [x, y], [(x.v.astype(NP[d]) + y.v.astype(NP[d]))])


def broadcasting(f):
    for d in ("i32", "f32", "bf16", "bool"):
        for s, t in (([3, 1, 5], [4, 1]), ([], [7]), ([0, 3], [1, 3]), ([2, 1, 1, 3], [5, 1, 1]), ([1], [1, 1]),
                     ([257], [1]), ([17, 1], [1, 13])):
            x, y = f.gen(d, s, 0, 9), f.gen(d, t, 0, 9)
            if d in INTS:
                f.case("sub", [x, y], [x.v - y.v])
            elif d != "bool":
                f.case("sub", [x, y], [to((x.v.astype(np.float32) - y.v.astype(np.float32)), d)])
            f.case("lt", [x, y], [np.asarray(x.v < y.v)])
    x, y, z = f.gen("f32", [4, 1]), f.gen("f32", [3]), f.gen("f32", [2, 1, 1])
    f.case("fma", [x, y, z], [fma32(*np.broadcast_arrays(x.v, y.v, z.v))])
    c, x, y = f.gen("bool", [2, 1, 4]), f.gen("i64", [3, 1], -99, 99), f.gen("i64", [4], -99, 99)
    f.case("where", [c, x, y], [np.where(c.v, x.v, y.v)])


def make():
    f = Family("pointwise")
    p = pools(f)
    functions(f, p)
    exact_unary(f, p)
    complex_unary(f, p)
    binary(f, p)
    promotion(f)
    broadcasting(f)
    return f
