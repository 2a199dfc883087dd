/* Numbers of the Poisson distribution, in f64 whatever the rates are: probabilities are differences
 * of large logarithms.
 *
 * Below a rate of 10 by inversion: how many of the first sums of probabilities a uniform number
 * reaches. From there on by transformed rejection (W. Hoermann, "The transformed rejection method
 * for generating Poisson random variables", 1993, algorithm PTRS): the first of TRIES candidates
 * that is accepted, each with more than three chances in four. All are made for every element, so
 * that an element's number follows from its place alone. */
#include <math.h>

#include "ir/compose/compose.h"

enum { TERMS = 48, TRIES = 16 }; /* beyond them: 1e-17, and 2e-10 */

static TsVal both(TsBuild *b, TsVal x, TsVal y) {
  return ts_build2(b, TS_OP_logical_and, x, y);
}
static TsVal number(TsBuild *b, double v) { return b->number(b, v); }

static TsVal counts(TsBuild *b, int n) {
  return ts_build(
      b, TS_OP_arange, 0, NULL,
      TS_ATTRS({"start", ts_b_f(0)}, {"stop", ts_b_f(n)}, {"dtype", ts_b_dtype(TS_DT_f64)}),
      NULL);
}

static TsVal along_last(TsBuild *b, TsOp op, TsVal x, bool keepdims) {
  return ts_build(b, op, TS_IN(x),
                  TS_ATTRS({"axis", ts_b_int(-1)}, {"keepdims", ts_b_bool(keepdims)}), NULL);
}

/* log of the probability of k, of which log_factorial is log k! */
static TsVal log_mass(TsBuild *b, TsVal k, TsVal rate, TsVal log_factorial) {
  TsVal y = ts_build_sub(b, ts_build_mul(b, k, ts_build1(b, TS_OP_log, rate)), rate);
  return ts_build_sub(b, y, log_factorial);
}

/* log k! by Stirling's series at k + 1: 6e-4 off at k = 0, where rates from 10 on get in 5e-5 of
 * all draws, and 1e-9 at k = 4. */
static TsVal stirling(TsBuild *b, TsVal k) {
  static const double term[] = {1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680};
  TsVal x = ts_build_add(b, k, number(b, 1)), inv = ts_build1(b, TS_OP_reciprocal, x);
  TsVal square = ts_build_mul(b, inv, inv), y = number(b, term[3]);
  for (int i = 2; i >= 0; i--)
    y = ts_build_add(b, ts_build_mul(b, y, square), number(b, term[i]));
  y = ts_build_add(b, ts_build_mul(b, y, inv),
                   number(b, 0.91893853320467274)); /* log(2 pi) / 2 */
  TsVal main = ts_build_mul(b, ts_build_add(b, k, number(b, 0.5)), ts_build1(b, TS_OP_log, x));
  return ts_build_add(b, ts_build_sub(b, main, x), y);
}

/* rate [.., 1] above 0, u [.., 1] -> [..] */
static TsVal inverted(TsBuild *b, TsVal rate, TsVal u) {
  int64_t last = -1;
  TsVal k = counts(b, TERMS),
        factorial = ts_build1(b, TS_OP_lgamma, ts_build_add(b, k, number(b, 1)));
  TsVal mass = ts_build1(b, TS_OP_exp, log_mass(b, k, rate, factorial));
  TsVal sums = ts_build(b, TS_OP_cumsum, TS_IN(mass), TS_ATTRS({"axis", ts_b_int(-1)}), NULL);
  TsVal reached = ts_build_cast(b, ts_build2(b, TS_OP_ge, u, sums), TS_DT_f64);
  return ts_build_sum(b, reached, &last, 1, false);
}

/* rate [.., 1] from 10 on, u and v [.., TRIES] -> [..] */
static TsVal rejected(TsBuild *b, TsVal rate, TsVal u, TsVal v) {
  int64_t last = -1;
  TsVal low = number(b, 0);
  TsVal wide = ts_build_add(b, ts_build_mul(b, ts_build1(b, TS_OP_sqrt, rate), number(b, 2.53)),
                            number(b, 0.931));
  TsVal a = ts_build_add(b, ts_build_mul(b, wide, number(b, 0.02483)), number(b, -0.059));
  TsVal other = ts_build_add(b, wide, number(b, -3.4));
  TsVal scale = ts_build_add(b, ts_build_div(b, number(b, 1.1328), other), number(b, 1.1239));
  TsVal sure =
      ts_build_sub(b, number(b, 0.9277),
                   ts_build_div(b, number(b, 3.6224), ts_build_add(b, wide, number(b, -2))));
  u = ts_build_add(b, u, number(b, -0.5));
  TsVal left = ts_build_sub(b, number(b, 0.5), ts_build1(b, TS_OP_abs, u));
  left = ts_build2(b, TS_OP_maximum, left, number(b, 0x1p-60));
  TsVal k = ts_build_mul(
      b, ts_build_add(b, ts_build_div(b, ts_build_mul(b, a, number(b, 2)), left), wide), u);
  k = ts_build1(b, TS_OP_floor, ts_build_add(b, ts_build_add(b, k, rate), number(b, 0.43)));
  TsVal inside = ts_build2(b, TS_OP_ge, k, low), whole = ts_build_where(b, inside, k, low);
  TsVal fast =
      both(b, ts_build2(b, TS_OP_ge, left, number(b, 0.07)), ts_build2(b, TS_OP_le, v, sure));
  TsVal far =
      both(b, ts_build2(b, TS_OP_lt, left, number(b, 0.013)), ts_build2(b, TS_OP_gt, v, left));
  TsVal bound = ts_build_add(b, ts_build_div(b, a, ts_build_mul(b, left, left)), wide);
  bound = ts_build_div(b, ts_build_mul(b, v, scale), bound);
  TsVal fits = ts_build2(b, TS_OP_le, ts_build1(b, TS_OP_log, bound),
                         log_mass(b, whole, rate, stirling(b, whole)));
  fits = both(b, fits, ts_build1(b, TS_OP_logical_not, far));
  TsVal taken = both(b, ts_build2(b, TS_OP_logical_or, fast, fits), inside);
  TsVal at = along_last(b, TS_OP_argmax, ts_build_cast(b, taken, TS_DT_u8), true);
  k = ts_build(b, TS_OP_gather, TS_IN(whole, at), TS_ATTRS({"axis", ts_b_int(-1)}), NULL);
  return ts_build(b, TS_OP_squeeze, TS_IN(k), TS_ATTRS({"axis", ts_b_ints(&last, 1)}), NULL);
}

int ts_compose_poisson(TsCompose *k) {
  TsBuild *b = k->b;
  TsMeta m = *b->meta(b, k->in[0]);
  TsDtype d = (TsDtype)m.dtype;
  TsVal given = ts_build_cast(b, ts_build1(b, TS_OP_stop_gradient, k->in[0]), TS_DT_f64);
  if (m.ndim >= TS_MAX_RANK)
    return ts_build_fail(b, TS_ERR_shape, "poisson: more than %d axes", TS_MAX_RANK - 1);
  int axis = m.ndim;
  m.dim[axis] = 2 * TRIES + 1;
  TsVal u =
      ts_build(b, TS_OP_uniform, 0, NULL,
               TS_ATTRS({"shape", ts_b_ints(m.dim, axis + 1)}, {"dtype", ts_b_dtype(TS_DT_f64)},
                        {"seed", k->attr[0]}, {"stream", k->attr[1]}),
               NULL);
  TsVal rate =
      ts_build(b, TS_OP_unsqueeze, TS_IN(given), TS_ATTRS({"axis", ts_b_int(-1)}), NULL);
  TsVal ten = number(b, 10), some = ts_build2(b, TS_OP_gt, rate, number(b, 0));
  TsVal few = both(b, some, ts_build2(b, TS_OP_lt, rate, ten));
  TsVal many = both(b, ts_build2(b, TS_OP_ge, rate, ten), ts_build1(b, TS_OP_isfinite, rate));
  TsVal low = inverted(b, ts_build_where(b, few, rate, number(b, 1)),
                       ts_build_narrow(b, u, axis, 2 * TRIES, 1));
  TsVal high =
      rejected(b, ts_build_where(b, many, rate, ten), ts_build_narrow(b, u, axis, 0, TRIES),
               ts_build_narrow(b, u, axis, TRIES, TRIES));
  TsVal y = ts_build_where(b, ts_build2(b, TS_OP_lt, given, ten), low, high);
  y = ts_build_where(b, ts_build2(b, TS_OP_eq, given, number(b, 0)), number(b, 0), y);
  TsVal good =
      both(b, ts_build2(b, TS_OP_ge, given, number(b, 0)), ts_build1(b, TS_OP_isfinite, given));
  k->out[0] = ts_build_cast(b, ts_build_where(b, good, y, number(b, NAN)), d);
  return b->failed ? -1 : 0;
}
