/* Gradients of weights on a matrix unit: leaves of positions (ir/tile/gpu/conv.h), added up in
 * their order. */
#include "ir/lower/conv/conv.h"

typedef TsTileVal V;

enum { PIECE = 1024, IN_FLIGHT = 8, ROWS = TS_GPU_CONV_ROWS, LEAF = TS_GPU_CONV_LEAF };

/* Sums of elements `step` apart. Sizes: elements of the leaves, of the result, step. Behind the
 * last leaf is zero, which changes no sum but -0. */
static TsTile *build_sum(void) {
  TsTile *k = ts_tile_new("conv_leaves");
  if (!k) return NULL;
  int64_t all = ts_tile_size(k, "D"), n = ts_tile_size(k, "N");
  ts_tile_size(k, "leaves");
  TsTileType td = ts_tile_vector(TS_DT_f32, all), ty = ts_tile_vector(TS_DT_f32, n);
  TsTileType t = ts_tile_vector(TS_DT_i64, PIECE);
  V d = ts_tile_param(k, "d", &td, false), y = ts_tile_param(k, "y", &ty, true);
  TsTileBuild b = ts_tile_build(k);
  TsTileAccess edge = {.edge = true};
  k->threads = PIECE / 4, k->vector = 4;
  V zero = ts_tile_index(&b, 0), step = ts_short_dim(&b, 1);
  TsTileLoop l = ts_tile_for(&b, zero, step, PIECE, true, 0, NULL);
  V e = ts_short_positions(&b, &t, l.i);
  V sum = ts_short_number(&b, &t, TS_DT_f32, -0.0), x[IN_FLIGHT];
  TsTileLoop leaf = ts_tile_for(&b, zero, ts_short_dim(&b, 2), IN_FLIGHT, false, 1, &sum);
  if (!leaf.stmt) return k;
  sum = leaf.carry[0];
  for (int i = 0; i < IN_FLIGHT; i++) {
    V at = ts_tile_op2(&b, TS_OP_add, leaf.i, ts_tile_index(&b, i));
    at = ts_short_splat(&b, &t, ts_tile_op2(&b, TS_OP_mul, at, step));
    x[i] = ts_short_gather(&b, d, ts_tile_op2(&b, TS_OP_add, e, at), true);
  }
  for (int i = 0; i < IN_FLIGHT; i++) sum = ts_tile_op2(&b, TS_OP_add, sum, x[i]);
  ts_tile_for_end(&b, &leaf, &sum, &sum);
  ts_tile_store(&b, y, &l.i, sum, &edge);
  ts_tile_for_end(&b, &l, NULL, NULL);
  return k;
}

typedef struct Grad {
  TsConvUnit u;
  int64_t taps, n, count; /* n: rows of a tap; count: leaves */
} Grad;

/* f32 [taps, n, channels] of all leaves. */
static int leaves(Grad *r, int nsm) {
  TsConvUnit *u = &r->u;
  int64_t rows = r->count * r->taps * r->n;
  /* The gradient of the result where the result's positions are, zeros elsewhere. */
  TsConvPadded from = ts_conv_unit_padded(u, &u->w->n->in[1]->meta);
  int g = ts_conv_padded_in(&u->x, 1, &from), image = ts_conv_unit_image(u);
  int to = ts_steps_temp(&u->x, rows * u->channels * ts_dtypes[TS_DT_f32].nbytes);
  ts_steps_add(&u->x, ts_tile_gpu_conv_grad(&u->k, u->x.err), (int[]){g, image, to},
               (int64_t[]){u->rows, rows, nsm});
  return to;
}

static int add_up(Grad *r, int from) {
  TsSteps *x = &r->u.x;
  int64_t n = r->taps * r->n * r->u.channels;
  if (r->count == 1) return from;
  int to = ts_steps_temp(x, n * ts_dtypes[TS_DT_f32].nbytes);
  ts_steps_add(x, build_sum(), (int[]){from, to}, (int64_t[]){n * r->count, n, r->count});
  return to;
}

/* [taps, n, channels] to the layout of weights. */
static void put_weights(Grad *r, int sum) {
  TsConvUnit *u = &r->u;
  const TsMeta *m = &u->w->n->out[0].meta;
  TsConvPadded w = ts_conv_padded(m, u->w->last ? m->ndim - 1 : 1);
  TsStepsView own = ts_steps_out_view(&u->x, 0), to = own;
  TsStepsView from = {.arg = sum, .dtype = TS_DT_f32};
  if (u->folded) {
    ts_conv_folded_strides(u, m->ndim, u->channels, from.stride);
    ts_steps_copy(&u->x, m->ndim, m->dim, &own, &from);
    return;
  }
  int64_t step = r->n * u->channels;
  for (int i = 0; i < w.ndim; i++) to.stride[i] = own.stride[w.order.at[i]];
  from.stride[0] = u->channels, from.stride[w.ndim - 1] = 1;
  for (int i = w.ndim - 1; i-- > 1; step *= w.size[i]) from.stride[i] = step;
  ts_steps_copy(&u->x, w.ndim, w.size, &to, &from);
}

int ts_conv_unit_grad(const TsConvWork *w, const TsSched *s, TsLayoutFn *layout, void *arg,
                      TsSchedKernel *out, TsError *err) {
  Grad r;
  TsConvUnit *u = &r.u;
  int nsm = ts_conv_unit_plan(u, w, s) ? ts_conv_unit_processors(u, s) : 0;
  if (!nsm) return 0;
  r.taps = u->k.window[0] * u->k.window[1] * u->k.window[2];
  r.n = (u->n + ROWS - 1) / ROWS * ROWS, r.count = (u->rows + LEAF - 1) / LEAF;
  ts_steps_begin(&u->x, s, layout, arg, w->n, err);
  put_weights(&r, add_up(&r, leaves(&r, nsm)));
  return ts_steps_end(&u->x, out);
}
