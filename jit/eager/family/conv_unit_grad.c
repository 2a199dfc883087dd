/* Gradients of weights on a matrix unit: leaves of positions (ir/tile/gpu/conv.h), added up in
 * their order. */
#include "jit/eager/family/conv_unit.h"

typedef TsTileVal V;

enum { PIECE = 1024, AHEAD = 8, ROWS = TS_GPU_CONV_ROWS, LEAF = TS_GPU_CONV_LEAF };

static TsTile *build_leaves(const void *arg) {
  TsError err = {0};
  return ts_tile_gpu_conv_grad(arg, &err);
}

/* Sums of elements `step` apart. Sizes: elements of the leaves, of the result, step. Behind the
 * last leaf is zero, which changes no sum but -0. */
static TsTile *build_sum(const void *arg) {
  (void)arg;
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
  V e = ts_tile_op2(&b, TS_OP_add, ts_short_iota(&b, &t, 0), ts_short_splat(&b, &t, l.i));
  V sum = ts_short_number(&b, &t, TS_DT_f32, -0.0), x[AHEAD];
  TsTileLoop leaf = ts_tile_for(&b, zero, ts_short_dim(&b, 2), AHEAD, false, 1, &sum);
  if (!leaf.stmt) return k;
  sum = leaf.carry[0];
  for (int i = 0; i < AHEAD; i++) {
    V at = ts_tile_op2(&b, TS_OP_add, leaf.i, ts_tile_index(&b, i));
    at = ts_short_splat(&b, &t, ts_tile_op2(&b, TS_OP_mul, at, step));
    x[i] = ts_short_gather(&b, d, ts_tile_op2(&b, TS_OP_add, e, at), true);
  }
  for (int i = 0; i < AHEAD; i++) sum = ts_tile_op2(&b, TS_OP_add, sum, x[i]);
  ts_tile_for_end(&b, &leaf, &sum, &sum);
  ts_tile_store(&b, y, &l.i, sum, &edge);
  ts_tile_for_end(&b, &l, NULL, NULL);
  return k;
}

typedef struct Grad {
  TsConvJob j;
  TsTensor *g, *leaves, *sum;
  int64_t taps, n, count; /* n: rows of a tap; count: leaves */
} Grad;

/* The gradient of the result where the result's positions are, zeros elsewhere. */
static int make_g(Grad *r) {
  const TsConvJob *j = &r->j;
  const TsConv *c = &j->u->c;
  TsTensor *g = j->u->w;
  bool same = j->u->last && ts_conv_lies_well(g);
  for (int a = 0; a < 3; a++) same = same && j->q[a] == c->out[a];
  if (same) return (r->g = ts_tensor_ref(g)) ? 0 : -1;
  if (!(r->g = ts_conv_room(j, ts_tensor_dtype(g), j->rows * j->n))) return -1;
  bool covered = true;
  for (int a = 0; a < 3; a++) covered = covered && j->q[a] == c->out[a];
  if (!covered && ts_conv_zero(j, r->g)) return -1;
  TsConvView vt = ts_conv_padded(j, r->g, j->q, j->n),
             vf = ts_conv_image_of(j, g, c->out, j->n);
  for (int i = 0; i < vt.m.ndim; i++) vt.m.dim[i] = vf.m.dim[i];
  return ts_conv_move(j, r->g, &vt, g, &vf);
}

static int make_leaves(Grad *r, int nsm) {
  TsConvJob *j = &r->j;
  int64_t rows = r->count * r->taps * r->n;
  TsOwn k = {.build = build_leaves, .arg = &j->k, .nin = 2, .nout = 1, .ndim = 3};
  if (!(r->leaves = ts_conv_room(j, TS_DT_f32, rows * j->channels))) return -1;
  k.in[0] = r->g, k.in[1] = j->a, k.out[0] = r->leaves;
  k.dim[0] = j->rows, k.dim[1] = rows, k.dim[2] = nsm;
  ts_own_word(&k, 'D' << 8);
  ts_conv_words(&k, &j->k);
  return ts_own_run(j->o, j->call, j->device, &k);
}

static int add_up(Grad *r) {
  TsConvJob *j = &r->j;
  int64_t n = r->taps * r->n * j->channels;
  if (r->count == 1) return (r->sum = ts_tensor_ref(r->leaves)) ? 1 : -1;
  TsOwn k = {.build = build_sum, .arg = &j->k, .nin = 1, .nout = 1, .ndim = 3};
  if (!(r->sum = ts_conv_room(j, TS_DT_f32, n))) return -1;
  k.in[0] = r->leaves, k.out[0] = r->sum;
  k.dim[0] = ts_tensor_numel(r->leaves), k.dim[1] = n, k.dim[2] = r->count;
  ts_own_word(&k, 'E' << 8);
  return ts_own_run(j->o, j->call, j->device, &k);
}

/* [taps, out, channels] to the layout of weights. */
static int put_weights(Grad *r) {
  const TsConvJob *j = &r->j;
  const TsConv *c = &j->u->c;
  TsTensor *y = j->call->out[0];
  TsConvView vf = ts_conv_view(r->sum), vt = ts_conv_view(y);
  int first = j->u->last ? 1 : 2;
  int64_t step = r->taps * r->n * j->channels;
  ts_conv_axis(&vf, j->n, j->channels), ts_conv_axis(&vt, j->n, y->stride[0]);
  for (int a = 3 - c->nd; a < 3; a++) {
    step /= c->window[a];
    ts_conv_axis(&vf, c->window[a], step);
    ts_conv_axis(&vt, c->window[a], y->stride[first + a - (3 - c->nd)]);
  }
  ts_conv_axis(&vf, j->channels, 1);
  ts_conv_axis(&vt, j->channels, y->stride[j->u->last ? 1 + c->nd : 1]);
  return ts_conv_move(j, y, &vt, r->sum, &vf);
}

static int run(Grad *r, int nsm) {
  if (make_g(r) || ts_conv_make_image(&r->j)) return -1;
  int done = make_leaves(r, nsm);
  if (done == 1) done = add_up(r);
  return done == 1 && put_weights(r) ? -1 : done;
}

int ts_conv_unit_grad(TsOffloader *o, const TsCall *call, int device, const TsConvUnit *u) {
  Grad r = {.j = {.o = o, .call = call, .device = device, .u = u}};
  TsConvJob *j = &r.j;
  if (!ts_conv_plan(j)) return 0;
  int nsm = ts_conv_processors(j);
  r.taps = u->c.window[0] * u->c.window[1] * u->c.window[2];
  r.n = (j->n + ROWS - 1) / ROWS * ROWS, r.count = (j->rows + LEAF - 1) / LEAF;
  int done = nsm ? run(&r, nsm) : 0;
  ts_tensor_unref(j->a), ts_tensor_unref(r.g);
  ts_tensor_unref(r.leaves), ts_tensor_unref(r.sum);
  return done;
}
