/* Adjoints of reading and writing by index and by mask. What was read is added up where
 * it came from. g stands for the gradient of the result. */
#include "ir/adjoint/common.h"

static int normal_axis(int64_t axis, int ndim) { return (int)(axis < 0 ? axis + ndim : axis); }

static TsMeta meta_of(TsAdjoint *a, int i) { return *a->b->meta(a->b, a->in[i]); }

static TsDtype dtype_of(TsBuild *b, TsVal v) { return (TsDtype)b->meta(b, v)->dtype; }

/* A row (x, index[, src]) with the same axis as the call's. */
static TsVal indexed(TsAdjoint *a, TsOp op, TsVal x, TsVal src) {
  return ts_build(a->b, op, src ? 3 : 2, (TsVal[]){x, a->in[1], src},
                  TS_ATTRS({"axis", a->attr[0]}), NULL);
}

/* Of a row that reads at indices: the gradient is added at them. */
static int read_at(TsAdjoint *a, TsOp add) {
  TsMeta x = meta_of(a, 0);
  TsVal z = ts_common_zeros(a->b, dtype_of(a->b, a->grad[0]), &x);
  a->grad_in[0] = indexed(a, add, z, a->grad[0]);
  return 0;
}

/* Of a row that adds at indices: the source's gradient is read at them. */
static int added_at(TsAdjoint *a, TsOp read) {
  a->grad_in[0] = a->grad[0];
  if (ts_wanted(a, 2)) a->grad_in[2] = indexed(a, read, a->grad[0], NULL);
  return 0;
}

int ts_adjoint_gather(TsAdjoint *a) { return read_at(a, TS_OP_scatter_add); }
int ts_adjoint_scatter_add(TsAdjoint *a) { return added_at(a, TS_OP_gather); }

/* Of equal indices the last one won: the source's places are scattered as it was and
 * read back, and only those that find themselves have a gradient. */
static TsVal winners(TsAdjoint *a) {
  TsBuild *b = a->b;
  TsMeta x = meta_of(a, 0), index = meta_of(a, 1);
  int axis = normal_axis(a->attr[0].i, index.ndim);
  int64_t dim[TS_MAX_RANK];
  for (int i = 0; i < index.ndim; i++) dim[i] = i == axis ? index.dim[i] : 1;
  TsVal place = ts_build(b, TS_OP_arange, 0, NULL,
                         TS_ATTRS({"start", ts_b_f((double)index.dim[axis])}), NULL);
  place = ts_build_reshape(b, place, dim, index.ndim);
  TsVal last = indexed(a, TS_OP_scatter, ts_common_zeros(b, TS_DT_i64, &x), place);
  return ts_build2(b, TS_OP_eq, indexed(a, TS_OP_gather, last, NULL), place);
}

int ts_adjoint_scatter(TsAdjoint *a) {
  TsBuild *b = a->b;
  if (ts_wanted(a, 0)) a->grad_in[0] = indexed(a, TS_OP_scatter, a->grad[0], b->number(b, 0));
  if (ts_wanted(a, 2)) {
    TsVal g = indexed(a, TS_OP_gather, a->grad[0], NULL);
    a->grad_in[2] = ts_build_where(b, winners(a), g, b->number(b, 0));
  }
  return 0;
}

int ts_adjoint_take(TsAdjoint *a) {
  TsBuild *b = a->b;
  TsMeta x = meta_of(a, 0), flat = {.ndim = 1, .dim = {ts_meta_numel(&x)}};
  TsVal z = ts_common_zeros(b, dtype_of(b, a->grad[0]), &flat);
  TsVal g = ts_build(b, TS_OP_index_add, TS_IN(z, a->in[1], a->grad[0]), TS_NO_ATTRS, NULL);
  a->grad_in[0] = ts_build_reshape(b, g, x.dim, x.ndim);
  return 0;
}

int ts_adjoint_index_select(TsAdjoint *a) { return read_at(a, TS_OP_index_add); }
int ts_adjoint_index_add(TsAdjoint *a) { return added_at(a, TS_OP_index_select); }

/* ---- masks */
int ts_adjoint_masked_select(TsAdjoint *a) {
  TsBuild *b = a->b;
  TsMeta x = meta_of(a, 0), mask = meta_of(a, 1);
  ts_meta_broadcast(&x, &mask, &x);
  TsVal z = ts_common_zeros(b, dtype_of(b, a->grad[0]), &x);
  a->grad_in[0] =
      ts_build(b, TS_OP_masked_scatter, TS_IN(z, a->in[1], a->grad[0]), TS_NO_ATTRS, NULL);
  return 0;
}

static TsVal flattened(TsBuild *b, TsVal x) {
  return ts_build_reshape(b, x, (int64_t[]){b->failed ? 0 : ts_meta_numel(b->meta(b, x))}, 1);
}

/* The source's element k went where the mask is true for the k-th time. masked_select reads
 * it back, but has no size that a graph could know: g is added up at the counts of the mask,
 * zeros where it is false. */
static TsVal read_back(TsAdjoint *a, const TsMeta *src) {
  TsBuild *b = a->b;
  TsMeta flat = {.ndim = 1, .dim = {ts_meta_numel(src)}}, x = meta_of(a, 0);
  TsVal zero = b->number(b, 0), g = flattened(b, ts_build_where(b, a->in[1], a->grad[0], zero));
  TsVal count = flattened(b, ts_build_expand(b, a->in[1], x.dim, x.ndim));
  count = ts_build1(b, TS_OP_cumsum, ts_build_cast(b, count, TS_DT_i64));
  count = ts_build(b, TS_OP_clamp, TS_IN(ts_build_sub(b, count, b->number(b, 1))),
                   TS_ATTRS({"min", ts_b_f(0)}), NULL);
  TsVal z = b->failed ? NULL : ts_common_zeros(b, dtype_of(b, g), &flat);
  g = ts_build(b, TS_OP_index_add, TS_IN(z, count, g), TS_NO_ATTRS, NULL);
  return ts_build_reshape(b, g, src->dim, src->ndim);
}

int ts_adjoint_masked_scatter(TsAdjoint *a) {
  TsBuild *b = a->b;
  TsMeta src = meta_of(a, 2);
  if (ts_wanted(a, 0)) a->grad_in[0] = ts_build_where(b, a->in[1], b->number(b, 0), a->grad[0]);
  if (ts_wanted(a, 2) && ts_meta_numel(&src) > 0) a->grad_in[2] = read_back(a, &src);
  return 0;
}

/* ---- rows at other places: back by the places that source says. What stood several times is
 * added up, for the rows of one token in the order of its choices. */
int ts_adjoint_route_rows(TsAdjoint *a) {
  TsBuild *b = a->b;
  TsMeta x = meta_of(a, 0);
  int64_t times = a->attr[0].i, dim[TS_MAX_RANK + 1];
  int n = x.ndim - 1;
  TsVal g =
      ts_build(b, TS_OP_route_rows, TS_IN(a->grad[0], a->in[2], a->in[1]), TS_NO_ATTRS, NULL);
  for (int i = 0; i < n; i++) dim[i] = x.dim[i];
  if (times == 1) {
    dim[n] = x.dim[n];
    a->grad_in[0] = ts_build_reshape(b, g, dim, n + 1);
    return 0;
  }
  dim[n] = times, dim[n + 1] = x.dim[n];
  g = ts_build_reshape(b, g, dim, n + 2);
  TsVal sum = NULL;
  TsDtype d = (TsDtype)x.dtype, wide = (TsDtype)ts_dtypes[d].compute;
  for (int64_t j = 0; j < times && !b->failed; j++) {
    TsVal row = ts_build(b, TS_OP_select, TS_IN(g),
                         TS_ATTRS({"axis", ts_b_int(n)}, {"index", ts_b_int(j)}), NULL);
    row = ts_build_cast(b, row, wide);
    sum = ts_build_add(b, row, sum ? sum : b->number(b, 0));
  }
  a->grad_in[0] = ts_build_cast(b, sum, d);
  return 0;
}
