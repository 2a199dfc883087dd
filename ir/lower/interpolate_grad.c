/* The gradient of interpolate on a device, where elements were repeated: each mode that takes the nearest
 * one, by whole factors. An element is the sum of those that were made of it, in the order of
 * vm/exec/interpolate.c: along each axis one chain from +0, the first axis innermost. */
#include "ir/lower/short.h"
#include "ir/lower/steps.h"

typedef TsTileVal V;

enum { PIECE = 512, MOST = 64 };
enum { NEAREST = 0, NEAREST_EXACT = 3 };

typedef struct Repeat {
  TsDtype d, acc;
  int64_t images, in[3], by[3]; /* sizes of the result, and how often an element was repeated */
} Repeat;

typedef struct Make {
  const Repeat *r;
  TsTileBuild b;
  TsTileType t;
  V g, first; /* where in g the first of an element's own is */
} Make;

static V by(Make *m, int op, V x, int64_t y) { return ts_short_by(&m->b, op, x, y); }

/* Along the axes up to this one, from place `at` behind the first. */
static V sum_along(Make *m, int axis, int64_t at) {
  const Repeat *r = m->r;
  if (axis < 0) {
    V x = ts_short_gather(&m->b, m->g, by(m, TS_OP_add, m->first, at), true);
    return ts_tile_cast(&m->b, x, r->acc);
  }
  int64_t step = 1;
  for (int a = 3; a-- > axis + 1;) step *= r->in[a] * r->by[a];
  V sum = ts_short_number(&m->b, &m->t, r->acc, 0);
  for (int64_t k = 0; k < r->by[axis]; k++)
    sum = ts_tile_op2(&m->b, TS_OP_add, sum, sum_along(m, axis - 1, at + k * step));
  return sum;
}

static TsTile *build(const Repeat *r) {
  TsTile *k = ts_tile_new("interpolate_grad");
  if (!k) return NULL;
  Make m = {.r = r, .t = ts_tile_vector(TS_DT_i64, PIECE)};
  int64_t n = r->images, ng, step = 1;
  for (int a = 0; a < 3; a++) n *= r->in[a];
  ng = n * r->by[0] * r->by[1] * r->by[2];
  TsTileType tg = ts_tile_vector(r->d, ng), ty = ts_tile_vector(r->d, n);
  m.g = ts_tile_param(k, "g", &tg, false);
  V y = ts_tile_param(k, "y", &ty, true);
  m.b = ts_tile_build(k);
  k->threads = PIECE / 2, k->vector = 8;
  TsTileBuild *b = &m.b;
  TsTileLoop l = ts_tile_for(b, ts_tile_index(b, 0), ts_tile_index(b, n), PIECE, true, 0, NULL);
  V rest = by(&m, TS_OP_minimum, ts_short_positions(b, &m.t, l.i), n - 1), at = NULL;
  for (int a = 3; a-- > 0; rest = by(&m, TS_OP_floordiv, rest, r->in[a])) {
    V own = by(&m, TS_OP_mul, by(&m, TS_OP_mod, rest, r->in[a]), step * r->by[a]);
    at = at ? ts_tile_op2(b, TS_OP_add, at, own) : own;
    step *= r->in[a] * r->by[a];
  }
  m.first = ts_tile_op2(b, TS_OP_add, at, by(&m, TS_OP_mul, rest, step));
  TsTileAccess edge = {.edge = true};
  ts_tile_store(b, y, &l.i, ts_tile_cast(b, sum_along(&m, 2, 0), r->d), &edge);
  ts_tile_for_end(b, &l, NULL, NULL);
  return k;
}

/* Whether each element stands `by` times, one after the other. */
static bool repeats(Repeat *r, const TsMeta *g, const TsMeta *y, const TsAttr *scale) {
  int nd = g->ndim - 2;
  int64_t all = 1;
  for (int i = 0; i < 3; i++) {
    int at = i - (3 - nd);
    r->in[i] = at < 0 ? 1 : y->dim[2 + at];
    int64_t out = at < 0 ? 1 : g->dim[2 + at];
    r->by[i] = out / r->in[i];
    if (out % r->in[i] || !r->by[i]) return false;
    all *= r->by[i];
    if (at < 0 || scale->type != TS_ATTR_floats) continue;
    double said = scale->floats[scale->n == 1 ? 0 : at];
    if (said > 0 && said != (double)r->by[i]) return false;
  }
  return all <= MOST;
}

int ts_lower_interpolate_grad(const TsSched *sched, const TsGroup *group, TsLayoutFn *layout,
                              void *arg, TsSchedKernel *out, TsError *err) {
  const TsNode *n = group->node[0];
  const TsMeta *g = &n->in[0]->meta, *y = &n->out[0].meta;
  TsDtype d = (TsDtype)y->dtype;
  Repeat r = {.d = d, .acc = (TsDtype)ts_dtypes[d].accum, .images = y->dim[0] * y->dim[1]};
  int mode = (int)n->attr[2].i;
  if (mode != NEAREST && mode != NEAREST_EXACT) return 0;
  if (ts_dtype_in_blocks(d) || g->dtype != d || !ts_meta_numel(g) || !ts_meta_numel(y))
    return 0;
  if (!repeats(&r, g, y, &n->attr[1])) return 0;
  TsSteps x;
  ts_steps_begin(&x, sched, layout, arg, n, err);
  int args[] = {ts_steps_in(&x, 0, NULL), ts_steps_out(&x, 0, NULL)};
  ts_steps_add(&x, build(&r), args, NULL);
  return ts_steps_end(&x, out);
}
