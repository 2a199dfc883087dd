/* Functions of 16-bit floats, rounded to 16 bits: ir/tile/gpu/quick.h.
 *
 * There are 65536 arguments, so what is quick can be known to be right: the polynomials are fit
 * to the intervals that round to the right result, for all arguments at once, and the least
 * room that is left is twelve times what the processor's 2^x and the roundings on the way can
 * be off by. tests/ir/tile_gpu_epilogue_test.c goes through all arguments.
 *
 * gelu(x) = max(x, 0) - a Phi(-a), a = |x|; 2^12 Phi(-a) = 2^p(b), b = -a 2^-12: without the
 * factors small results would be lost on the way. p(0) = 11 exactly, so that denormals are
 * halved exactly. From 13.5 on the result is x or -0.
 *
 * silu(x) = max(x, 0) - a s(a), s(a) = e / (1 + e), e = 2^(-a log2 e). The logarithm is 16
 * bits, with which a has an exact product, and a rest, which multiplies what comes out. Its
 * results lie closer to where rounding turns than f32 can tell, so a is taken 7e-7 too large in
 * front of s: the four nearest of them lie above. The least room that is left is three times
 * what the processor's functions can be off by. 2^16 keeps e a normal number to the end, 97.5.
 *
 * Other gates have their definition, with the processor's functions. */
#include "ir/tile/gpu/quick.h"

#include "ir/tile/gpu/build.h"

typedef TsTileVal V;

enum { GELU_DEGREE = 9 };
static const double SCALE = -0x1p-12;
static const double gelu[GELU_DEGREE + 1] = {11,
                                             0x1.26b0e8p+12,
                                             -0x1.d5ea98p+22,
                                             0x1.b6cc0ep+31,
                                             0x1.132b46p+41,
                                             0x1.eb2160p+49,
                                             0x1.23f396p+58,
                                             0x1.a9b126p+65,
                                             0x1.4924c8p+72,
                                             0x1.77b37cp+77};

/* The larger one, NaN if one is: +0 is above -0. */
static V larger(TsTileBuild *b, V x, V y) {
  TsAttr nan = {.type = TS_ATTR_bool, .i = 1};
  return ts_gpu_give(b, TS_TILE_larger, TS_GPU_IN(x, y), TS_GPU_SET({"nan", nan}), &x->type);
}

/* a times the scale, which is below 0; a is not above end. */
static V low_of(TsTileBuild *b, V x, double scale, double end) {
  const TsTileType *t = &x->type;
  V a = ts_tile_op1(b, TS_OP_abs, x);
  V low = ts_tile_op2(b, TS_OP_mul, a, ts_gpu_all(b, scale, t));
  return larger(b, low, ts_gpu_all(b, end * scale, t));
}

/* max(x, 0) + low q, q: the share of -a over the scale. */
static V joined(TsTileBuild *b, V x, V low, V q) {
  V most = larger(b, x, ts_gpu_all(b, -0.0, &x->type));
  return ts_tile_op3(b, TS_OP_fma, low, q, most);
}

static V function(TsTileBuild *b, int op, V x) {
  return ts_gpu_give(b, op, TS_GPU_IN(x), TS_GPU_PLAIN, &x->type);
}

static V fma3(TsTileBuild *b, V x, V y, double z) {
  return ts_tile_op3(b, TS_OP_fma, x, y, ts_gpu_all(b, z, &x->type));
}

static V quick_gelu(TsTileBuild *b, V x) {
  V low = low_of(b, x, SCALE, 13.75), p = ts_gpu_all(b, gelu[GELU_DEGREE], &x->type);
  for (int i = GELU_DEGREE; i-- > 0;) p = fma3(b, p, low, gelu[i]);
  return joined(b, x, low, function(b, TS_TILE_ex2, p));
}

/* x / (1 + e^-w) of w = x (c1 + c2 x^2): e / (1 + e) is the share of -a, e = e^-|w|. */
static V quick_gelu_tanh(TsTileBuild *b, V x) {
  const double log2_e = 1.4426950408889634, c1 = 1.5957691216057308 * log2_e; /* 2 sqrt(2/pi) */
  const TsTileType *t = &x->type;
  V low = low_of(b, x, SCALE, 10.75), square = ts_tile_op2(b, TS_OP_mul, low, low);
  V g =
      fma3(b, square, ts_gpu_all(b, c1 * 0.044715 / -(SCALE * SCALE * SCALE), t), c1 / -SCALE);
  V e = function(b, TS_TILE_ex2, fma3(b, low, g, 12));
  V below = fma3(b, e, ts_gpu_all(b, -SCALE, t), 1);
  return joined(b, x, low, ts_tile_op2(b, TS_OP_mul, e, function(b, TS_TILE_inv, below)));
}

static V quick_silu(TsTileBuild *b, V x) {
  const double scale = -0x1p-16, log2_e = 1.4426950408889634, high = 0x1.7154p+0,
               ln2 = 0.6931471805599453, more = 7e-7;
  const TsTileType *t = &x->type;
  V low = low_of(b, x, scale, 97.75);
  V e = function(b, TS_TILE_ex2, fma3(b, low, ts_gpu_all(b, high / -scale, t), 16));
  V rest = ts_tile_op2(b, TS_OP_mul, low, ts_gpu_all(b, (log2_e - high) * ln2 / -scale, t));
  e = ts_tile_op3(b, TS_OP_fma, e, rest, e);
  V below = fma3(b, e, ts_gpu_all(b, -scale, t), 1);
  V share = ts_tile_op2(b, TS_OP_mul, e, function(b, TS_TILE_inv, below));
  return joined(b, x, ts_tile_op3(b, TS_OP_fma, low, ts_gpu_all(b, more, t), low), share);
}

bool ts_gpu_quick_has(int op, TsDtype d) {
  return d == TS_DT_bf16 && (op == TS_OP_gelu_erf || op == TS_OP_gelu_tanh || op == TS_OP_silu);
}

V ts_gpu_quick(TsTileBuild *b, int op, const V *in) {
  if (op == TS_OP_silu) return quick_silu(b, in[0]);
  return op == TS_OP_gelu_tanh ? quick_gelu_tanh(b, in[0]) : quick_gelu(b, in[0]);
}
