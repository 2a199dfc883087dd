/* Adjoints of products with weights stored in blocks, which have no gradient themselves. */
#include <string.h>

#include "ir/adjoint/linalg.h"

int ts_adjoint_quantized_matmul(TsAdjoint *a) {
  TsBuild *b = a->b;
  TsVal g = a->grad[0];
  TsDtype d = (TsDtype)b->meta(b, a->in[0])->dtype;
  if (a->wanted[0])
    a->grad_in[0] = ts_build_matmul(
        b, g, ts_build_cast(b, a->in[1], d == TS_DT_f64 ? TS_DT_f64 : TS_DT_f32));
  if (ts_wanted(a, 2)) a->grad_in[2] = g;
  return b->failed ? -1 : 0;
}

/* ---- of experts */
/* The matrices as numbers, [experts, out, in]. Codes come as the floats that all integers are
 * for adjoints. */
static TsVal numbers(TsAdjoint *a, TsDtype d) {
  TsBuild *b = a->b;
  TsVal w = a->in[1];
  if (a->nin > 4 && a->in[4] && !b->failed) {
    const TsMeta *m = b->meta(b, a->in[4]);
    int64_t apart[4] = {m->dim[0], m->dim[1], m->dim[2], 1}, each[4] = {0}, whole[3] = {0};
    memcpy(each, apart, sizeof each), memcpy(whole, apart, sizeof whole);
    each[3] = ts_dtypes[TS_DT_mxfp4].block / 2, whole[2] *= each[3] + 1;
    w = ts_build(b, TS_OP_concat,
                 TS_IN(ts_build_reshape(b, a->in[4], apart, 4),
                       ts_build_reshape(b, ts_build_cast(b, w, TS_DT_u8), each, 4)),
                 TS_ATTRS({"axis", ts_b_int(-1)}), NULL);
    w = ts_build(b, TS_OP_bitcast, TS_IN(ts_build_reshape(b, w, whole, 3)),
                 TS_ATTRS({"dtype", ts_b_dtype(TS_DT_mxfp4)}), NULL);
  }
  return ts_build_cast(b, w, d == TS_DT_f64 ? TS_DT_f64 : TS_DT_f32);
}

/* g and index of choices that are experts; of others 0 of the first one. */
static void of_experts(TsBuild *b, int64_t experts, TsVal *g, TsVal *index) {
  TsVal is = ts_build2(b, TS_OP_logical_and, ts_build2(b, TS_OP_ge, *index, b->number(b, 0)),
                       ts_build2(b, TS_OP_lt, *index, b->number(b, (double)experts)));
  TsVal each = ts_build(b, TS_OP_unsqueeze, TS_IN(is), TS_ATTRS({"axis", ts_b_int(-1)}), NULL);
  *index = ts_build_where(b, is, *index, b->number(b, 0));
  *g = ts_build_where(b, each, *g, b->number(b, 0));
}

int ts_adjoint_experts_linear(TsAdjoint *a) {
  TsBuild *b = a->b;
  TsMeta x = *b->meta(b, a->in[0]), w = *b->meta(b, a->in[1]), index = *b->meta(b, a->in[2]);
  int64_t rows = ts_meta_numel(&index), out = w.dim[1];
  TsVal g = a->grad[0], at = a->in[2], of[5] = {NULL}; /* rows, sizes, place, source, dropped */
  of_experts(b, w.dim[0], &g, &at);
  ts_build(b, TS_OP_moe_dispatch,
           TS_IN(ts_build_reshape(b, g, (int64_t[]){rows, out}, 2),
                 ts_build_reshape(b, at, (int64_t[]){rows, 1}, 2)),
           TS_ATTRS({"experts", ts_b_int(w.dim[0])}), of);
  if (ts_wanted(a, 3)) {
    TsVal ones = ts_build(b, TS_OP_ones, 0, NULL,
                          TS_ATTRS({"shape", ts_b_ints((int64_t[]){rows, 1}, 2)},
                                   {"dtype", ts_b_dtype((TsDtype)x.dtype)}),
                          NULL);
    TsVal sum = ts_build(b, TS_OP_grouped_matmul_weight_grad, TS_IN(ones, of[0], of[1]),
                         TS_NO_ATTRS, NULL);
    a->grad_in[3] = ts_build_reshape(b, sum, (int64_t[]){w.dim[0], out}, 2);
  }
  if (!a->wanted[0]) return b->failed ? -1 : 0;
  TsVal y = ts_build(b, TS_OP_grouped_matmul, TS_IN(of[0], numbers(a, (TsDtype)x.dtype), of[1]),
                     TS_NO_ATTRS, NULL);
  y = ts_build(b, TS_OP_route_rows, TS_IN(y, of[2], of[3]), TS_ATTRS({"times", ts_b_int(1)}),
               NULL);
  int64_t dim[TS_MAX_RANK], last = x.dim[x.ndim - 1];
  memcpy(dim, index.dim, sizeof *dim * index.ndim);
  dim[index.ndim] = last;
  y = ts_build_reshape(b, y, dim, index.ndim + 1);
  if (x.ndim == index.ndim) y = ts_build_sum(b, y, (int64_t[]){index.ndim - 1}, 1, false);
  a->grad_in[0] = y;
  return b->failed ? -1 : 0;
}
