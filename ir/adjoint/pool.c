/* Adjoints of pools and of resampling: linear maps and their transposes, which are rows of
 * their own; a maximum passes its gradient to the first largest element. */
#include "ir/adjoint/common.h"

/* The axes of x that hold places: first, and how many. */
typedef struct Places {
  int first, nd;
} Places;

static Places places(const TsMeta *x, bool last) { return (Places){last ? 1 : 2, x->ndim - 2}; }

/* Places as one axis. */
static TsVal flat(TsBuild *b, TsVal x, bool last) {
  if (b->failed) return NULL;
  const TsMeta *m = b->meta(b, x);
  Places p = places(m, last);
  return ts_build(
      b, TS_OP_flatten, TS_IN(x),
      TS_ATTRS({"start", ts_b_int(p.first)}, {"stop", ts_b_int(p.first + p.nd - 1)}), NULL);
}

int ts_adjoint_max_pool(TsAdjoint *a) {
  TsBuild *b = a->b;
  TsVal at = NULL, g = a->grad[0];
  TsMeta x = *b->meta(b, a->in[0]), row = x;
  bool last = a->attr[4].i == 1;
  Places p = places(&x, last);
  row.ndim = 3, row.dim[0] = x.dim[0], row.dim[last ? 2 : 1] = x.dim[last ? x.ndim - 1 : 1];
  row.dim[p.first] = 1;
  for (int i = 0; i < p.nd; i++) row.dim[p.first] *= x.dim[p.first + i];
  at = flat(b, b->emit(b, TS_OP_max_pool_index, 1, a->in, a->attr, NULL), last);
  TsVal zero = ts_common_zeros(b, (TsDtype)x.dtype, &row);
  g = ts_build(b, TS_OP_scatter_add, TS_IN(zero, at, flat(b, g, last)),
               TS_ATTRS({"axis", ts_b_int(p.first)}), NULL);
  a->grad_in[0] = ts_build_reshape(b, g, x.dim, x.ndim);
  return 0;
}

int ts_adjoint_avg_pool(TsAdjoint *a) {
  TsBuild *b = a->b;
  TsMeta x = *b->meta(b, a->in[0]);
  Places p = places(&x, a->attr[4].i == 1);
  TsAttr attr[TS_MAX_ATTR] = {ts_b_ints(x.dim + p.first, p.nd)};
  for (int i = 0; i < 6; i++) attr[1 + i] = a->attr[i];
  a->grad_in[0] = b->emit(b, TS_OP_avg_pool_grad, 1, a->grad, attr, NULL);
  return 0;
}

int ts_adjoint_avg_pool_grad(TsAdjoint *a) {
  a->grad_in[0] = a->b->emit(a->b, TS_OP_avg_pool, 1, a->grad, a->attr + 1, NULL);
  return 0;
}

/* Both ways: places in the sizes of the input. */
static int adaptive(TsAdjoint *a, TsOp op) {
  TsMeta x = *a->b->meta(a->b, a->in[0]);
  a->grad_in[0] = ts_build(a->b, op, TS_IN(a->grad[0]),
                           TS_ATTRS({"size", ts_b_ints(x.dim + 2, x.ndim - 2)}), NULL);
  return 0;
}

int ts_adjoint_adaptive_avg_pool(TsAdjoint *a) {
  return adaptive(a, TS_OP_adaptive_avg_pool_grad);
}

int ts_adjoint_adaptive_avg_pool_grad(TsAdjoint *a) {
  return adaptive(a, TS_OP_adaptive_avg_pool);
}

/* A scale, if that was given, also says where the positions lie. */
int ts_adjoint_interpolate(TsAdjoint *a) {
  TsMeta x = *a->b->meta(a->b, a->in[0]);
  a->grad_in[0] =
      ts_build(a->b, TS_OP_interpolate_grad, TS_IN(a->grad[0]),
               TS_ATTRS({"size", ts_b_ints(x.dim + 2, x.ndim - 2)}, {"scale", a->attr[1]},
                        {"mode", a->attr[2]}, {"align_corners", a->attr[3]}),
               NULL);
  return 0;
}

int ts_adjoint_interpolate_grad(TsAdjoint *a) {
  TsMeta g = *a->b->meta(a->b, a->in[0]);
  bool scaled = a->attr[1].type == TS_ATTR_floats;
  TsAttr size = scaled ? (TsAttr){0} : ts_b_ints(g.dim + 2, g.ndim - 2);
  a->grad_in[0] = ts_build(a->b, TS_OP_interpolate, TS_IN(a->grad[0]),
                           TS_ATTRS({"size", size}, {"scale", a->attr[1]}, {"mode", a->attr[2]},
                                    {"align_corners", a->attr[3]}),
                           NULL);
  return 0;
}
