/* Linear algebra out of decompositions. */
#include <math.h>

#include "ir/compose/compose.h"

static TsVal matmul(TsBuild *b, TsVal x, TsVal y) {
  return ts_build(b, TS_OP_matmul, TS_IN(x, y), TS_NO_ATTRS, NULL);
}

static TsVal conjugate(TsBuild *b, TsVal x) {
  if (b->failed || !ts_dtype_is((TsDtype)b->meta(b, x)->dtype, TS_KIND_C)) return x;
  return ts_build1(b, TS_OP_conj, x);
}

static TsVal dagger(TsBuild *b, TsVal x) {
  return conjugate(b, ts_build(b, TS_OP_transpose, TS_IN(x), TS_NO_ATTRS, NULL));
}

static TsVal along_last(TsBuild *b, TsOp op, TsVal x) {
  int64_t last = -1;
  return ts_build(b, op, TS_IN(x), TS_ATTRS({"axis", ts_b_ints(&last, 1)}), NULL);
}

/* With p l u = a: the sign of the permutation and those of the diagonal of u. */
int ts_compose_slogdet(TsCompose *k) {
  TsBuild *b = k->b;
  TsVal part[3] = {NULL};
  const TsMeta *m = b->meta(b, k->in[0]);
  char text[TS_META_TEXT];
  if (m->ndim < 2 || m->dim[m->ndim - 1] != m->dim[m->ndim - 2])
    return ts_build_fail(b, TS_ERR_shape, "slogdet: a must be square [.., n, n], not %s",
                         ts_meta_text(m, text));
  ts_build(b, TS_OP_lu, TS_IN(k->in[0]), TS_NO_ATTRS, part);
  TsVal d = ts_build(b, TS_OP_diagonal, TS_IN(part[2]),
                     TS_ATTRS({"axis0", ts_b_int(-2)}, {"axis1", ts_b_int(-1)}), NULL);
  TsVal p = ts_build1(b, TS_OP_det, ts_build1(b, TS_OP_stop_gradient, part[0]));
  TsVal signs = ts_build1(b, TS_OP_sign, d);
  p = ts_build2(b, TS_OP_mul, p, along_last(b, TS_OP_prod, signs));
  k->out[0] = ts_build2(b, TS_OP_add, p, b->number(b, 0)); /* not -0 */
  TsVal sizes = ts_build1(b, TS_OP_log, ts_build1(b, TS_OP_abs, d));
  k->out[1] = along_last(b, TS_OP_sum, sizes);
  k->nout = 2;
  return b->failed ? -1 : 0;
}

/* Of a tall a = q r the least distance, of a wide a = r^H q^H the least x. */
int ts_compose_lstsq(TsCompose *k) {
  TsBuild *b = k->b;
  TsVal a = k->in[0], y = k->in[1], part[2] = {NULL};
  TsMeta ma = *b->meta(b, a), my = *b->meta(b, y);
  char ta[TS_META_TEXT], ty[TS_META_TEXT];
  bool vector = my.ndim == 1;
  if (ma.ndim < 2 || my.ndim < 1 || my.dim[vector ? 0 : my.ndim - 2] != ma.dim[ma.ndim - 2])
    return ts_build_fail(b, TS_ERR_shape, "lstsq: rows of a and of b differ: %s x %s",
                         ts_meta_text(&ma, ta), ts_meta_text(&my, ty));
  bool tall = ma.dim[ma.ndim - 2] >= ma.dim[ma.ndim - 1];
  if (vector)
    y = ts_build(b, TS_OP_unsqueeze, TS_IN(y), TS_ATTRS({"axis", ts_b_int(-1)}), NULL);
  ts_build(b, TS_OP_qr, TS_IN(tall ? a : dagger(b, a)), TS_NO_ATTRS, part);
  TsVal q = part[0], r = tall ? part[1] : conjugate(b, part[1]);
  if (tall) y = matmul(b, dagger(b, q), y);
  y = ts_build(b, TS_OP_tri_solve, TS_IN(r, y),
               TS_ATTRS({"lower", ts_b_bool(false)}, {"transpose", ts_b_bool(!tall)}), NULL);
  if (!tall) y = matmul(b, q, y);
  if (vector) y = along_last(b, TS_OP_squeeze, y);
  k->out[0] = y;
  return b->failed ? -1 : 0;
}

/* ---- matrix_exp. N. J. Higham, "The scaling and squaring method for the matrix exponential
 * revisited" (2005): below the norm 5.37 the approximant has the accuracy of f64. */
enum { MOST = 20 }; /* squarings */

/* c3 x3 + c2 x2 + c1 x1 */
static TsVal combined(TsBuild *b, const TsVal x[3], double c3, double c2, double c1) {
  TsVal low = ts_build_add(b, ts_build_mul(b, x[1], b->number(b, c2)),
                           ts_build_mul(b, x[0], b->number(b, c1)));
  return ts_build_add(b, ts_build_mul(b, x[2], b->number(b, c3)), low);
}

static TsVal approximant(TsBuild *b, TsVal a, TsVal one) {
  TsVal x[3] = {matmul(b, a, a)}; /* a^2, a^4, a^6 */
  x[1] = matmul(b, x[0], x[0]);
  x[2] = matmul(b, x[1], x[0]);
  TsVal u = matmul(b, x[2], combined(b, x, 1, 16380, 40840800));
  u = ts_build_add(b, u, combined(b, x, 33522128640, 10559470521600, 1187353796428800));
  u = matmul(b, a, ts_build_add(b, u, ts_build_mul(b, one, b->number(b, 32382376266240000))));
  TsVal v = matmul(b, x[2], combined(b, x, 182, 960960, 1323241920));
  v = ts_build_add(b, v, combined(b, x, 670442572800, 129060195264000, 7771770303897600));
  v = ts_build_add(b, v, ts_build_mul(b, one, b->number(b, 64764752532480000)));
  return ts_build2(b, TS_OP_solve, ts_build2(b, TS_OP_sub, v, u), ts_build_add(b, v, u));
}

/* How often each matrix is halved, [.., 1, 1], from the largest column sum. */
static TsVal halvings(TsBuild *b, TsVal a) {
  int64_t rows = -2, last[2] = {-2, -1};
  TsVal sums = ts_build_sum(b, ts_build1(b, TS_OP_abs, ts_build1(b, TS_OP_stop_gradient, a)),
                            &rows, 1, true);
  TsVal norm =
      ts_build(b, TS_OP_max, TS_IN(sums),
               TS_ATTRS({"axis", ts_b_ints(last, 2)}, {"keepdims", ts_b_bool(true)}), NULL);
  TsVal s = ts_build2(b, TS_OP_div, norm, b->number(b, 5.37));
  s = ts_build1(b, TS_OP_ceil, ts_build1(b, TS_OP_log2, s));
  return ts_build2(b, TS_OP_maximum, s, b->number(b, 0));
}

/* Each matrix is squared as often as it was halved; a square that is not taken is that of 0. */
int ts_compose_matrix_exp(TsCompose *k) {
  TsBuild *b = k->b;
  TsVal a = k->in[0], zero = b->number(b, 0);
  TsMeta m = *b->meta(b, a);
  char text[TS_META_TEXT];
  if (m.ndim < 2 || m.dim[m.ndim - 1] != m.dim[m.ndim - 2])
    return ts_build_fail(b, TS_ERR_shape, "matrix_exp: a must be square [.., n, n], not %s",
                         ts_meta_text(&m, text));
  if (ts_meta_numel(&m) == 0) {
    k->out[0] = ts_build1(b, TS_OP_clone, a);
    return b->failed ? -1 : 0;
  }
  TsVal one = ts_build(
      b, TS_OP_eye, 0, NULL,
      TS_ATTRS({"n", ts_b_int(m.dim[m.ndim - 1])}, {"dtype", ts_b_dtype((TsDtype)m.dtype)}),
      NULL);
  TsVal s = halvings(b, a);
  TsVal y = ts_build_mul(b, a, ts_build1(b, TS_OP_exp2, ts_build1(b, TS_OP_neg, s)));
  y = approximant(b, y, one);
  for (int i = 0; i < MOST; i++) {
    TsVal more = ts_build2(b, TS_OP_gt, s, b->number(b, i)),
          x = ts_build_where(b, more, y, zero);
    y = ts_build_where(b, more, matmul(b, x, x), y);
  }
  TsVal beyond = ts_build2(b, TS_OP_gt, s, b->number(b, MOST));
  k->out[0] = ts_build_where(b, beyond, b->number(b, NAN), y);
  return b->failed ? -1 : 0;
}
