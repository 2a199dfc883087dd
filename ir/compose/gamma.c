/* The logarithm of the gamma function and its derivative, in f64 for every type: what narrower
 * types hold is rounded once. */
#include <math.h>

#include "ir/compose/compose.h"

static TsVal num(TsBuild *b, double v) { return b->number(b, v); }
static TsVal above(TsBuild *b, TsVal x, double y) {
  return ts_build2(b, TS_OP_gt, x, num(b, y));
}

/* x within limits: what is computed elsewhere is not chosen, but has slopes that must be numbers.
 * */
static TsVal within(TsBuild *b, TsVal x, double low, double high) {
  TsVal inside = ts_build2(b, TS_OP_logical_and, ts_build2(b, TS_OP_ge, x, num(b, low)),
                           ts_build2(b, TS_OP_le, x, num(b, high)));
  return ts_build_where(b, inside, x, num(b, low));
}

/* Horner's rule, the highest coefficient last. */
static TsVal polynomial(TsBuild *b, TsVal t, const double *c, int n) {
  TsVal y = num(b, c[n - 1]);
  for (int i = n - 1; i-- > 0;)
    y = i == n - 2 ? ts_build_add(b, ts_build_mul(b, t, y), num(b, c[i]))
                   : ts_build(b, TS_OP_fma, TS_IN(t, y, num(b, c[i])), TS_NO_ATTRS, NULL);
  return y;
}

/* zeta(k) - 1, k = 2, 3, .. */
static const double zeta_1[] = {
    0x1.4a34cc4a60fa6p-1,  0x1.9dd002780310ap-3,  0x1.51322ac7d8483p-4,  0x1.2e831d94f99b7p-5,
    0x1.1c26130249124p-6,  0x1.1196d0a679c47p-7,  0x1.0b36af86396e9p-8,  0x1.073e7b02d6ae0p-9,
    0x1.04b8ce96ee5f8p-10, 0x1.0318df2459954p-11, 0x1.020a5b2cd3042p-12, 0x1.01593a1177bd6p-13,
    0x1.00e4af2b4e156p-14, 0x1.0097bcbf11bedp-15, 0x1.0064cdeb22f0fp-16, 0x1.0043073686681p-17,
    0x1.002c9953744ccp-18, 0x1.001db08f9ba4ap-19, 0x1.0013c594466eap-20, 0x1.000d2bab28121p-21,
    0x1.0008c66cec77dp-22, 0x1.0005d8f13858cp-23, 0x1.0003e59ffde12p-24, 0x1.000298ea55633p-25,
    0x1.0001bb316ccdap-26};

enum { TERMS = 26, STEPS = 6 };
static const double FAR = 8.5, EULER = 0.57721566490153286061;

/* lgamma(2 + t) = t ((1 - C) + sum of (-1)^k (zeta(k) - 1) t^(k-1) / k), |t| <= 1/2 (DLMF 5.7.3);
 * slope: its derivative. */
static TsVal near_2(TsBuild *b, TsVal t, bool slope) {
  double c[TERMS];
  c[0] = 1 - EULER;
  for (int k = 2; k <= TERMS; k++) {
    double v = (k % 2 ? -1 : 1) * zeta_1[k - 2];
    c[k - 1] = slope ? v : v / k;
  }
  TsVal y = polynomial(b, t, c, TERMS);
  return slope ? y : ts_build_mul(b, t, y);
}

/* B_2k / (2k (2k - 1)), of which the slope needs B_2k / 2k (DLMF 5.11.1, 5.11.2). */
static const double bernoulli[] = {1.0 / 6,  -1.0 / 30,     1.0 / 42, -1.0 / 30,
                                   5.0 / 66, -691.0 / 2730, 7.0 / 6,  -3617.0 / 510};
enum { NB = sizeof bernoulli / sizeof *bernoulli };

static TsVal stirling(TsBuild *b, TsVal x) {
  double c[NB];
  for (int k = 1; k <= NB; k++) c[k - 1] = bernoulli[k - 1] / (2.0 * k * (2 * k - 1));
  TsVal r = ts_build1(b, TS_OP_reciprocal, x), log_x = ts_build1(b, TS_OP_log, x);
  TsVal rest = ts_build_mul(b, polynomial(b, ts_build1(b, TS_OP_square, r), c, NB), r);
  TsVal y = ts_build_mul(b, x, ts_build_sub(b, log_x, num(b, 1)));
  y = ts_build_sub(b, y, ts_build_mul(b, log_x, num(b, 0.5)));
  return ts_build_add(b, y, ts_build_add(b, rest, num(b, 0.91893853320467274178)));
}

static TsVal stirling_slope(TsBuild *b, TsVal x) {
  double c[NB];
  for (int k = 1; k <= NB; k++) c[k - 1] = -bernoulli[k - 1] / (2.0 * k);
  TsVal r = ts_build1(b, TS_OP_reciprocal, x), s = ts_build1(b, TS_OP_square, r);
  TsVal y = ts_build_mul(b, polynomial(b, s, c, NB), s);
  return ts_build_add(b, ts_build1(b, TS_OP_log, x),
                      ts_build_sub(b, y, ts_build_mul(b, r, num(b, 0.5))));
}

/* Of x in (0, 8.5): steps down to 2 + t by the recurrence, one of them up below 3/2 and one more
 * below 1/2. */
static TsVal moderate(TsBuild *b, TsVal x, bool slope) {
  TsVal whole = ts_build1(b, TS_OP_round, x); /* up to 8 */
  whole = ts_build(b, TS_OP_clamp, TS_IN(whole), TS_ATTRS({"max", ts_b_f(8)}), NULL);
  TsVal t = ts_build_sub(b, x, whole), n = ts_build_sub(b, whole, num(b, 2)), one = num(b, 1);
  TsVal product = NULL, sum = NULL;
  for (int k = 1; k <= STEPS; k++) {
    TsVal far = ts_build2(b, TS_OP_ge, n, num(b, k)),
          f = ts_build_where(b, far, ts_build_sub(b, x, num(b, k)), one);
    TsVal part =
        slope ? ts_build_where(b, far, ts_build1(b, TS_OP_reciprocal, f), num(b, 0)) : NULL;
    if (slope)
      sum = sum ? ts_build_add(b, sum, part) : part;
    else
      product = product ? ts_build_mul(b, product, f) : f;
  }
  TsVal y = near_2(b, t, slope);
  y = ts_build_add(b, y, slope ? sum : ts_build1(b, TS_OP_log, product));
  /* x = 1 + t, and x = t */
  TsVal low = ts_build2(b, TS_OP_lt, n, num(b, 0)),
        least = ts_build2(b, TS_OP_lt, n, num(b, -1));
  TsVal t1 = ts_build_where(b, low, t, num(b, 0)), x1 = ts_build_where(b, least, x, one);
  if (slope) {
    TsVal up = ts_build_where(b, low, ts_build1(b, TS_OP_reciprocal, ts_build_add(b, t1, one)),
                              num(b, 0));
    TsVal up2 = ts_build_where(b, least, ts_build1(b, TS_OP_reciprocal, x1), num(b, 0));
    return ts_build_sub(b, y, ts_build_add(b, up, up2));
  }
  return ts_build_sub(
      b, y, ts_build_add(b, ts_build1(b, TS_OP_log1p, t1), ts_build1(b, TS_OP_log, x1)));
}

static TsVal positive(TsBuild *b, TsVal x, bool slope) {
  TsVal far = above(b, x, FAR), close = within(b, x, 0x1p-1074, FAR);
  TsVal distant = ts_build_where(b, far, x, num(b, FAR));
  TsVal y = slope ? stirling_slope(b, distant) : stirling(b, distant);
  return ts_build_where(b, far, y, moderate(b, close, slope));
}

static int finish(TsCompose *k, TsVal v, TsDtype d) {
  TsBuild *b = k->b;
  k->out[0] = b->failed || d == TS_DT_f64 ? v : ts_build_cast(b, v, d);
  return b->failed ? -1 : 0;
}

static TsVal start(TsCompose *k, TsDtype *d) {
  *d = ts_dtype_float((TsDtype)k->b->meta(k->b, k->in[0])->dtype);
  return ts_build_cast(k->b, k->in[0], TS_DT_f64);
}

/* The distance from the nearest whole number, times pi. */
static TsVal angle(TsBuild *b, TsVal x) {
  return ts_build_mul(b, ts_build_sub(b, x, ts_build1(b, TS_OP_round, x)),
                      num(b, 3.14159265358979323846));
}

/* lgamma(x) = log(pi / |sin(pi x)|) - lgamma(1 - x) below 0. */
int ts_compose_lgamma(TsCompose *k) {
  TsBuild *b = k->b;
  TsDtype d;
  TsVal x = start(k, &d), inf = num(b, INFINITY), one = num(b, 1);
  TsVal below = ts_build2(b, TS_OP_lt, x, num(b, 0));
  TsVal v = positive(b, ts_build_where(b, below, ts_build_sub(b, one, x), x), false);
  TsVal pole = ts_build2(b, TS_OP_logical_and, ts_build2(b, TS_OP_le, x, num(b, 0)),
                         ts_build2(b, TS_OP_eq, x, ts_build1(b, TS_OP_floor, x)));
  TsVal ordinary =
      ts_build2(b, TS_OP_logical_and, below, ts_build1(b, TS_OP_logical_not, pole));
  TsVal s =
      ts_build1(b, TS_OP_abs,
                ts_build1(b, TS_OP_sin, angle(b, ts_build_where(b, ordinary, x, num(b, 0.5)))));
  TsVal turned = ts_build_sub(b, num(b, 1.14472988584940017414),
                              ts_build_add(b, ts_build1(b, TS_OP_log, s), v));
  v = ts_build_where(b, ordinary, turned, v);
  v = ts_build_where(b, ts_build2(b, TS_OP_logical_or, pole, ts_build1(b, TS_OP_isinf, x)), inf,
                     v);
  return finish(k, ts_build_where(b, ts_build1(b, TS_OP_isnan, x), x, v), d);
}

/* digamma(x) = digamma(1 - x) - pi / tan(pi x) below 0. */
int ts_compose_digamma(TsCompose *k) {
  TsBuild *b = k->b;
  TsDtype d;
  TsVal x = start(k, &d), one = num(b, 1), zero = num(b, 0);
  TsVal below = ts_build2(b, TS_OP_lt, x, zero);
  TsVal v = positive(b, ts_build_where(b, below, ts_build_sub(b, one, x), x), true);
  TsVal pole = ts_build2(b, TS_OP_logical_and, below,
                         ts_build2(b, TS_OP_eq, x, ts_build1(b, TS_OP_floor, x)));
  TsVal ordinary =
      ts_build2(b, TS_OP_logical_and, below, ts_build1(b, TS_OP_logical_not, pole));
  TsVal s = ts_build1(b, TS_OP_tan, angle(b, ts_build_where(b, ordinary, x, num(b, 0.25))));
  v = ts_build_where(b, ordinary,
                     ts_build_sub(b, v, ts_build_div(b, num(b, 3.14159265358979323846), s)), v);
  v = ts_build_where(b, pole, num(b, NAN), v);
  TsVal at_0 = ts_build(b, TS_OP_copysign, TS_IN(num(b, -INFINITY), ts_build1(b, TS_OP_neg, x)),
                        TS_NO_ATTRS, NULL);
  v = ts_build_where(b, ts_build2(b, TS_OP_eq, x, zero), at_0, v);
  v = ts_build_where(b, ts_build2(b, TS_OP_eq, x, num(b, INFINITY)), x, v);
  return finish(k, ts_build_where(b, ts_build1(b, TS_OP_isnan, x), x, v), d);
}
