/* Linear algebra out of decompositions. */
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
