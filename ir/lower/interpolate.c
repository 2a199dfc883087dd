/* interpolate on a device: each element of the result from its taps, axis after axis, with the
 * positions and weights of vm/exec/interpolate.c. */
#include "ir/lower/short.h"
#include "ir/lower/steps.h"

typedef TsTileVal V;

enum { PIECE = 512, MOST_TAPS = 4 };
enum { NEAREST, LINEAR, CUBIC, NEAREST_EXACT };

typedef struct Resample {
  TsDtype d, acc;
  int mode, taps;
  bool corners;
  int64_t images, in[3], out[3];
  double scale[3]; /* 0: the sizes say it */
} Resample;

typedef struct Make {
  const Resample *r;
  TsTileBuild b;
  TsTileType t;
  V x, base;
} Make;

typedef struct Taps {
  int n;
  V at[MOST_TAPS], w[MOST_TAPS]; /* w NULL: there is one, as it is */
} Taps;

static V op2(Make *m, int op, V x, V y) { return ts_tile_op2(&m->b, op, x, y); }
static V by(Make *m, int op, V x, int64_t y) { return ts_short_by(&m->b, op, x, y); }

/* Of f64. */
static V with(Make *m, int op, V x, double y) {
  return op2(m, op, x, ts_short_number(&m->b, &m->t, TS_DT_f64, y));
}

/* ---- positions */
static V position(Make *m, int a, V o) {
  const Resample *r = m->r;
  V p = ts_tile_cast(&m->b, o, TS_DT_f64);
  if (r->corners) {
    if (r->out[a] < 2) return ts_short_number(&m->b, &m->t, TS_DT_f64, 0);
    p = with(m, TS_OP_mul, p, (double)(r->in[a] - 1));
    return with(m, TS_OP_div, p, (double)(r->out[a] - 1));
  }
  double step = r->scale[a] > 0 ? 1 / r->scale[a] : (double)r->in[a] / (double)r->out[a];
  p = with(m, TS_OP_sub, with(m, TS_OP_mul, with(m, TS_OP_add, p, 0.5), step), 0.5);
  if (r->mode != LINEAR) return p;
  V zero = ts_short_number(&m->b, &m->t, TS_DT_f64, 0);
  return ts_tile_op3(&m->b, TS_OP_where, op2(m, TS_OP_lt, p, zero), zero, p);
}

static V far_weight(Make *m, V t) {
  V far = with(m, TS_OP_add, t, 1), w = with(m, TS_OP_mul, far, -0.75);
  w = op2(m, TS_OP_mul, with(m, TS_OP_add, w, 3.75), far);
  w = op2(m, TS_OP_mul, with(m, TS_OP_add, w, -6), far);
  return with(m, TS_OP_add, w, 3);
}

static V near_weight(Make *m, V t) {
  V w = with(m, TS_OP_sub, with(m, TS_OP_mul, t, 1.25), 2.25);
  w = op2(m, TS_OP_mul, op2(m, TS_OP_mul, w, t), t);
  return with(m, TS_OP_add, w, 1);
}

static V limited(Make *m, int a, V i) {
  return by(m, TS_OP_minimum, by(m, TS_OP_maximum, i, 0), m->r->in[a] - 1);
}

static V nearest(Make *m, int a, V o) {
  const Resample *r = m->r;
  bool exact = r->mode == NEAREST_EXACT;
  if (r->scale[a] <= 0 && exact) {
    V halves = by(m, TS_OP_add, by(m, TS_OP_mul, o, 2), 1);
    return by(m, TS_OP_floordiv, by(m, TS_OP_mul, halves, r->in[a]), 2 * r->out[a]);
  }
  if (r->scale[a] <= 0) return by(m, TS_OP_floordiv, by(m, TS_OP_mul, o, r->in[a]), r->out[a]);
  V p = ts_tile_cast(&m->b, o, TS_DT_f64);
  if (exact) p = with(m, TS_OP_add, p, 0.5);
  p = with(m, TS_OP_div, p, r->scale[a]);
  return ts_tile_cast(&m->b, ts_tile_op1(&m->b, TS_OP_floor, p), TS_DT_i64);
}

/* The last axis is blended even where it is one element. */
static Taps taps_of(Make *m, int a, V o) {
  const Resample *r = m->r;
  Taps t = {.n = 1};
  bool chosen = r->mode == NEAREST || r->mode == NEAREST_EXACT;
  bool alone = r->taps == 1 || (a < 2 && r->in[a] == 1 && r->out[a] == 1);
  if (chosen || alone) {
    t.at[0] = chosen ? limited(m, a, nearest(m, a, o)) : ts_short_int(&m->b, &m->t, 0);
    return t;
  }
  V p = position(m, a, o), i = ts_tile_op1(&m->b, TS_OP_floor, p);
  V rest = op2(m, TS_OP_sub, p, i), w[MOST_TAPS];
  V one = ts_short_number(&m->b, &m->t, TS_DT_f64, 1), less = op2(m, TS_OP_sub, one, rest);
  V first = ts_tile_cast(&m->b, i, TS_DT_i64);
  if (r->mode == CUBIC) {
    w[0] = far_weight(m, rest), w[1] = near_weight(m, rest);
    w[2] = near_weight(m, less), w[3] = far_weight(m, less);
    first = by(m, TS_OP_sub, first, 1);
  } else {
    w[0] = less, w[1] = rest;
  }
  t.n = r->taps;
  for (int k = 0; k < t.n; k++) {
    t.at[k] = limited(m, a, k ? by(m, TS_OP_add, first, k) : first);
    t.w[k] = ts_tile_cast(&m->b, w[k], r->acc);
  }
  return t;
}

/* ---- an element: the last axis of rows that the axes before it give */
static V blend(Make *m, const Taps *t, int axis, V at) {
  const Resample *r = m->r;
  V sum = NULL;
  if (axis == 3) {
    V x = ts_short_gather(&m->b, m->x, op2(m, TS_OP_add, m->base, at), true);
    return ts_tile_cast(&m->b, x, r->acc);
  }
  /* Sums of the first axis stand innermost: the order of axes is reversed, not that of places. */
  int a = 2 - axis;
  int64_t step = a == 2 ? 1 : a == 1 ? r->in[2] : r->in[1] * r->in[2];
  for (int k = 0; k < t[a].n; k++) {
    V own = step == 1 ? t[a].at[k] : by(m, TS_OP_mul, t[a].at[k], step);
    V x = blend(m, t, axis + 1, at ? op2(m, TS_OP_add, at, own) : own);
    if (!t[a].w[k])
      sum = x;
    else
      sum = k ? ts_tile_op3(&m->b, TS_OP_fma, x, t[a].w[k], sum)
              : op2(m, TS_OP_mul, x, t[a].w[k]);
  }
  return sum;
}

static TsTile *build(const Resample *r) {
  TsTile *k = ts_tile_new("interpolate");
  if (!k) return NULL;
  Make m = {.r = r, .t = ts_tile_vector(TS_DT_i64, PIECE)};
  int64_t nx = r->images * r->in[0] * r->in[1] * r->in[2];
  int64_t ny = r->images * r->out[0] * r->out[1] * r->out[2];
  TsTileType tx = ts_tile_vector(r->d, nx), ty = ts_tile_vector(r->d, ny);
  m.x = ts_tile_param(k, "x", &tx, false);
  V y = ts_tile_param(k, "y", &ty, true);
  m.b = ts_tile_build(k);
  k->threads = PIECE / 2, k->vector = 8;
  TsTileBuild *b = &m.b;
  TsTileLoop l =
      ts_tile_for(b, ts_tile_index(b, 0), ts_tile_index(b, ny), PIECE, true, 0, NULL);
  V rest = ts_short_positions(b, &m.t, l.i);
  rest = by(&m, TS_OP_minimum, rest, ny - 1);
  Taps taps[3];
  for (int a = 3; a-- > 0; rest = by(&m, TS_OP_floordiv, rest, r->out[a]))
    taps[a] = taps_of(&m, a, by(&m, TS_OP_mod, rest, r->out[a]));
  m.base = by(&m, TS_OP_mul, rest, r->in[0] * r->in[1] * r->in[2]);
  TsTileAccess edge = {.edge = true};
  V v = blend(&m, taps, 0, NULL);
  ts_tile_store(b, y, &l.i, ts_tile_cast(b, v, r->d), &edge);
  ts_tile_for_end(b, &l, NULL, NULL);
  return k;
}

int ts_lower_interpolate(const TsSched *sched, const TsGroup *group, TsLayoutFn *layout,
                         void *arg, TsSchedKernel *out, TsError *err) {
  static const int taps[] = {1, 2, 4, 1};
  const TsNode *n = group->node[0];
  const TsMeta *from = &n->in[0]->meta, *to = &n->out[0].meta;
  const TsAttr *scale = &n->attr[1];
  TsDtype d = (TsDtype)to->dtype;
  Resample r = {.d = d, .acc = (TsDtype)ts_dtypes[d].accum, .mode = (int)n->attr[2].i};
  if (ts_dtype_in_blocks(d) || from->dtype != d) return 0;
  if (!ts_meta_numel(from) || !ts_meta_numel(to)) return 0;
  int nd = from->ndim - 2;
  r.taps = taps[r.mode], r.corners = n->attr[3].i;
  r.images = from->dim[0] * from->dim[1];
  for (int i = 0; i < 3; i++) {
    int at = i - (3 - nd);
    r.in[i] = at < 0 ? 1 : from->dim[2 + at], r.out[i] = at < 0 ? 1 : to->dim[2 + at];
    if (at >= 0 && scale->type == TS_ATTR_floats)
      r.scale[i] = scale->floats[scale->n == 1 ? 0 : at];
  }
  TsSteps x;
  ts_steps_begin(&x, sched, layout, arg, n, err);
  int args[] = {ts_steps_in(&x, 0, NULL), ts_steps_out(&x, 0, NULL)};
  ts_steps_add(&x, build(&r), args, NULL);
  return ts_steps_end(&x, out);
}
