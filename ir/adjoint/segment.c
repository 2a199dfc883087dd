/* The adjoint of segment_reduce: rows of x get the gradient of their segment. */
#include "ir/adjoint/common.h"

enum { SEG_sum, SEG_mean, SEG_prod, SEG_min, SEG_max };

static TsVal rows(TsBuild *b, TsVal x, TsVal index) {
  return ts_build(b, TS_OP_index_select, TS_IN(x, index), TS_ATTRS({"axis", ts_b_int(0)}),
                  NULL);
}

static TsVal segment_sum(TsAdjoint *a, TsVal x) {
  return ts_build(a->b, TS_OP_segment_reduce, TS_IN(x, a->in[1]),
                  TS_ATTRS({"segments", a->attr[0]}), NULL);
}

/* A vector as a column, to meet rows of ndim axes. */
static TsVal column(TsBuild *b, TsVal v, int ndim) {
  int64_t dim[TS_MAX_RANK];
  if (!v || ndim == 1) return v;
  for (int i = 1; i < ndim; i++) dim[i] = 1;
  dim[0] = b->meta(b, v)->dim[0];
  return ts_build_reshape(b, v, dim, ndim);
}

/* Divided row by row: a segment without rows has no share. */
static TsVal share(TsAdjoint *a, TsVal count) {
  TsBuild *b = a->b;
  return ts_build_div(b, rows(b, a->grad[0], a->in[1]), rows(b, count, a->in[1]));
}

static TsVal by_mean(TsAdjoint *a) {
  TsBuild *b = a->b;
  TsMeta ids = *b->meta(b, a->in[1]);
  TsAttr shape = ts_b_ints(ids.dim, 1), whole = ts_b_dtype(TS_DT_i64);
  TsVal one =
      ts_build(b, TS_OP_ones, 0, NULL, TS_ATTRS({"shape", shape}, {"dtype", whole}), NULL);
  TsVal count = column(b, segment_sum(a, one), b->meta(b, a->in[0])->ndim);
  return share(a, count);
}

/* Equal ones share. */
static TsVal by_extreme(TsAdjoint *a) {
  TsBuild *b = a->b;
  TsVal chosen = ts_common_chosen(b, a->in[0], rows(b, a->out[0], a->in[1]));
  TsVal count = segment_sum(a, ts_build_cast(b, chosen, TS_DT_i64));
  return ts_build_where(b, chosen, share(a, count), b->number(b, 0));
}

/* The product of the other rows of the segment, without division: with the rows sorted
 * by segments, running products from both sides that start again in each. */
static TsVal others(TsBuild *b, TsVal x, TsVal ids, int ndim) {
  int64_t up = -1;
  TsAttr back = ts_b_ints(&up, 1);
  TsVal same = ts_build2(b, TS_OP_eq, ids, ts_common_previous(b, ids, 0, -1));
  TsVal more = ts_build(b, TS_OP_roll, TS_IN(same), TS_ATTRS({"shift", back}), NULL);
  TsVal zero = ts_build_zeros_like(b, x), one = b->number(b, 1);
  same = column(b, same, ndim), more = column(b, more, ndim);
  TsVal factor = ts_build_where(b, same, ts_common_previous(b, x, 0, 1), zero);
  TsVal before =
      ts_build(b, TS_OP_linear_scan, TS_IN(factor, ts_build_where(b, same, zero, one)),
               TS_ATTRS({"axis", ts_b_int(0)}), NULL);
  TsVal after = ts_common_from_end(b, ts_build_where(b, same, x, zero),
                                   ts_build_where(b, more, zero, one), 0);
  return ts_build_mul(b, before, after);
}

static TsVal by_prod(TsAdjoint *a) {
  TsBuild *b = a->b;
  TsMeta m = *b->meta(b, a->in[0]);
  if (m.dim[0] == 0) return NULL;
  TsVal ids = ts_build_cast(b, a->in[1], TS_DT_i64), order = ts_build1(b, TS_OP_argsort, ids);
  TsVal x = rows(b, ts_common_wide(b, a->in[0]), order);
  TsVal factor = others(b, x, rows(b, ids, order), m.ndim);
  factor = rows(b, factor, ts_build1(b, TS_OP_argsort, order));
  return ts_build_mul(b, rows(b, a->grad[0], ids), factor);
}

int ts_adjoint_segment_reduce(TsAdjoint *a) {
  switch (a->attr[1].i) {
  case SEG_sum: a->grad_in[0] = rows(a->b, a->grad[0], a->in[1]); break;
  case SEG_mean: a->grad_in[0] = by_mean(a); break;
  case SEG_prod: a->grad_in[0] = by_prod(a); break;
  default: a->grad_in[0] = by_extreme(a);
  }
  return 0;
}
