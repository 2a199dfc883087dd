/* Operators whose elements are another tensor's at a place that follows from their own, and
 * numbers in order: pad, roll, repeat_interleave, tril, triu, slice_update, slice_add, eye,
 * arange, linspace. A kernel goes over the result by pieces; each axis says where its
 * coordinate comes from, and whether there is anything. */
#include "ir/lower/short.h"
#include "ir/lower/steps.h"

#include <math.h>
#include <string.h>

typedef TsTileVal V;

enum { PIECE = 1024 };

typedef struct Places {
  TsOp op;
  TsDtype d;              /* as bits; of numbers their type */
  TsMeta x, y, src;       /* shapes; of repeat_interleave and roll perhaps flat */
  int64_t a[TS_MAX_RANK]; /* roll: shift; pad: before; slice: start; repeat: count, or 0 */
  int64_t b[TS_MAX_RANK]; /* slice: step, which may go down */
  int64_t mode;           /* of pad; diagonal of tril and triu */
  double fill;
  TsDtype of; /* whose bits those are */
  bool whole;
  double start, step, last;
} Places;

enum { PAD_constant, PAD_reflect, PAD_replicate, PAD_circular };

typedef struct Make {
  const Places *p;
  TsTileBuild b;
  TsTileType t;
  V i, c[TS_MAX_RANK]; /* index and coordinates of the elements */
} Make;

static V op2(Make *m, int op, V x, V y) { return ts_tile_op2(&m->b, op, x, y); }
static V by(Make *m, int op, V x, int64_t y) { return ts_short_by(&m->b, op, x, y); }
static V sel(Make *m, V c, V x, V y) { return ts_tile_op3(&m->b, TS_OP_where, c, x, y); }

static void coordinates(Make *m) {
  const TsMeta *y = &m->p->y;
  V rest = m->i;
  for (int a = y->ndim; a-- > 0;) {
    m->c[a] = a ? by(m, TS_OP_mod, rest, y->dim[a]) : rest;
    if (a) rest = by(m, TS_OP_floordiv, rest, y->dim[a]);
  }
}

/* Where coordinate c of axis a comes from; *in: whether it comes from there. */
static V source(Make *m, int a, V c, V *in) {
  const Places *p = m->p;
  int64_t n = p->x.dim[a];
  switch (p->op) {
  case TS_OP_roll:
    if (!p->a[a]) return c;
    c = by(m, TS_OP_sub, c, p->a[a]);
    return sel(m, by(m, TS_OP_lt, c, 0), by(m, TS_OP_add, c, n), c);
  case TS_OP_repeat_interleave: return p->a[a] ? by(m, TS_OP_floordiv, c, p->a[a]) : c;
  case TS_OP_pad: {
    if (p->y.dim[a] == n) return c;
    c = by(m, TS_OP_sub, c, p->a[a]);
    V low = by(m, TS_OP_lt, c, 0), high = by(m, TS_OP_ge, c, n), before = c, after = c;
    if (p->mode == PAD_constant) {
      *in = ts_tile_op1(&m->b, TS_OP_logical_not, op2(m, TS_OP_logical_or, low, high));
      return c;
    }
    if (p->mode == PAD_reflect) {
      before = op2(m, TS_OP_sub, ts_short_int(&m->b, &m->t, 0), c);
      after = op2(m, TS_OP_sub, ts_short_int(&m->b, &m->t, 2 * n - 2), c);
    } else if (p->mode == PAD_replicate) {
      before = ts_short_int(&m->b, &m->t, 0), after = ts_short_int(&m->b, &m->t, n - 1);
    } else {
      before = by(m, TS_OP_add, c, n), after = by(m, TS_OP_sub, c, n);
    }
    return sel(m, low, before, sel(m, high, after, c));
  }
  default: return c;
  }
}

static V both(Make *m, V x, V y) { return !x ? y : !y ? x : op2(m, TS_OP_logical_and, x, y); }

/* The number that pads, rounded to its type, as bits. */
static V fill(Make *m) {
  const Places *p = m->p;
  TsTileType t = m->t;
  float re = (float)p->fill;
  uint32_t low;
  memcpy(&low, &re, 4);
  t.dtype = (uint8_t)p->d;
  if (ts_dtype_is(p->of, TS_KIND_C)) return ts_tile_bits(&m->b, low, &t);
  t.dtype = (uint8_t)p->of;
  V x = ts_tile_const(&m->b, p->fill, &t);
  return p->of == p->d ? x : ts_tile_bitcast(&m->b, x, p->d);
}

static V moved(Make *m, V x) {
  const Places *p = m->p;
  V at = ts_short_int(&m->b, &m->t, 0), in = NULL;
  int64_t stride = 1;
  for (int a = p->y.ndim; a-- > 0;) {
    V own = NULL, c = source(m, a, m->c[a], &own);
    at = op2(m, TS_OP_add, at, by(m, TS_OP_mul, c, stride));
    in = both(m, in, own);
    stride *= p->x.dim[a];
  }
  if (p->op == TS_OP_tril || p->op == TS_OP_triu) {
    int nd = p->y.ndim;
    V cut = by(m, TS_OP_add, m->c[nd - 2], p->mode + (p->op == TS_OP_tril));
    in = op2(m, p->op == TS_OP_tril ? TS_OP_lt : TS_OP_ge, m->c[nd - 1], cut);
  }
  /* Elements behind the last one read nothing. */
  V there = by(m, TS_OP_lt, m->i, ts_meta_numel(&p->y));
  at = sel(m, both(m, in, there), at, ts_short_int(&m->b, &m->t, -1));
  V y = ts_short_gather(&m->b, x, at, true);
  return in ? sel(m, in, y, fill(m)) : y;
}

static bool writes(TsOp op) { return op == TS_OP_slice_update || op == TS_OP_slice_add; }

/* Of an element's bits its number, in the type in which it is added. */
static V number_of(Make *m, V x) {
  const Places *p = m->p;
  if (p->of != p->d) x = ts_tile_bitcast(&m->b, x, p->of);
  return ts_tile_cast(&m->b, x, (TsDtype)ts_dtypes[p->of].compute);
}

static V sum(Make *m, V x, V y) {
  const Places *p = m->p;
  V s = op2(m, TS_OP_add, number_of(m, x), number_of(m, y));
  s = ts_tile_cast(&m->b, s, p->of);
  return p->of == p->d ? s : ts_tile_bitcast(&m->b, s, p->d);
}

/* x with src at start, start + step, .., or added there */
static V updated(Make *m, V x, V src) {
  const Places *p = m->p;
  V at = ts_short_int(&m->b, &m->t, 0), in = by(m, TS_OP_lt, m->i, ts_meta_numel(&p->y));
  V none = ts_short_int(&m->b, &m->t, -1), from = sel(m, in, m->i, none);
  int64_t stride = 1;
  int skip = p->y.ndim - p->src.ndim;
  for (int a = p->y.ndim; a-- > 0;) {
    int64_t n = p->x.dim[a]; /* x: sizes of the slice */
    V c = by(m, TS_OP_sub, m->c[a], p->a[a]), k = c;
    if (p->b[a] != 1) {
      k = by(m, TS_OP_floordiv, c, p->b[a]);
      in = both(m, in, op2(m, TS_OP_eq, by(m, TS_OP_mul, k, p->b[a]), c));
    }
    in = both(m, in, both(m, by(m, TS_OP_ge, k, 0), by(m, TS_OP_lt, k, n)));
    int64_t size = a < skip ? 1 : p->src.dim[a - skip];
    if (size > 1) at = op2(m, TS_OP_add, at, by(m, TS_OP_mul, k, stride));
    stride *= size;
  }
  V y = ts_short_gather(&m->b, src, sel(m, in, at, none), true);
  V own = ts_short_gather(&m->b, x, from, true);
  if (p->op == TS_OP_slice_add) y = sum(m, own, y);
  return sel(m, in, y, own);
}

static V numbers(Make *m) {
  const Places *p = m->p;
  TsTileBuild *b = &m->b;
  TsDtype d = p->d;
  if (p->op == TS_OP_eye) {
    V same = op2(m, TS_OP_eq, m->c[0], m->c[1]);
    return ts_tile_cast(b, same, d);
  }
  if (p->whole)
    return ts_tile_cast(
        b, by(m, TS_OP_add, by(m, TS_OP_mul, m->i, (int64_t)p->step), (int64_t)p->start), d);
  V x = op2(m, TS_OP_mul, ts_tile_cast(b, m->i, TS_DT_f64),
            ts_short_number(b, &m->t, TS_DT_f64, p->step));
  x = op2(m, TS_OP_add, x, ts_short_number(b, &m->t, TS_DT_f64, p->start));
  if (!isnan(p->last)) {
    V end = by(m, TS_OP_eq, m->i, ts_meta_numel(&p->y) - 1);
    x = sel(m, end, ts_short_number(b, &m->t, TS_DT_f64, p->last), x);
  }
  return ts_tile_cast(b, x, d);
}

static bool makes(TsOp op) {
  return op == TS_OP_eye || op == TS_OP_arange || op == TS_OP_linspace;
}

static TsTile *build(const Places *p) {
  TsTile *k = ts_tile_new(ts_op_info(p->op)->name);
  if (!k) return NULL;
  Make m = {.p = p, .t = ts_tile_vector(TS_DT_i64, PIECE)};
  int64_t n = ts_meta_numel(&p->y), nx = ts_meta_numel(&p->x), ns = ts_meta_numel(&p->src);
  bool update = writes(p->op);
  TsTileType tx = ts_tile_vector(p->d, update ? n : nx), ty = ts_tile_vector(p->d, n);
  TsTileType ts = ts_tile_vector(p->d, ns);
  V x = makes(p->op) ? NULL : ts_tile_param(k, "x", &tx, false);
  V src = update ? ts_tile_param(k, "src", &ts, false) : NULL;
  V y = ts_tile_param(k, "y", &ty, true);
  m.b = ts_tile_build(k);
  k->threads = PIECE / 4, k->vector = 8;
  TsTileBuild *b = &m.b;
  TsTileLoop l = ts_tile_for(b, ts_tile_index(b, 0), ts_tile_index(b, n), PIECE, true, 0, NULL);
  TsTileAccess edge = {.edge = true};
  m.i = ts_short_positions(b, &m.t, l.i);
  coordinates(&m);
  V value = makes(p->op) ? numbers(&m) : update ? updated(&m, x, src) : moved(&m, x);
  ts_tile_store(b, y, &l.i, value, &edge);
  ts_tile_for_end(b, &l, NULL, NULL);
  return k;
}

/* ---- nodes */
static int axis_of(int64_t a, int nd) { return (int)(a < 0 ? a + nd : a); }

static void flatten(TsMeta *m) {
  m->dim[0] = ts_meta_numel(m);
  m->ndim = 1;
}

static bool set_roll(Places *p, const TsNode *n) {
  const TsAttr *shift = &n->attr[0], *axes = &n->attr[1];
  if (axes->type == TS_ATTR_none) flatten(&p->x), flatten(&p->y);
  for (int i = 0; i < shift->n; i++) {
    int a = axes->type == TS_ATTR_none ? 0 : axis_of(axes->ints[i], p->x.ndim);
    int64_t size = p->x.dim[a], s = (p->a[a] + shift->ints[i] % size) % size;
    p->a[a] = s < 0 ? s + size : s;
  }
  return true;
}

static bool set_pad(Places *p, const TsNode *n) {
  const TsAttr *pads = &n->attr[0];
  TsError err;
  int first = p->y.ndim - pads->n / 2;
  p->mode = n->attr[1].i;
  for (int i = first; i < p->y.ndim; i++) p->a[i] = pads->ints[2 * (i - first)];
  if (p->mode == PAD_constant) p->fill = n->attr[2].f;
  if (ts_dtype_check_number(p->of, p->fill, "pad", &err)) return false; /* the VM says so */
  return ts_meta_numel(&p->x) > 0;
}

static bool set_repeat(Places *p, const TsNode *n) {
  bool flat = n->attr[1].type == TS_ATTR_none;
  if (flat) flatten(&p->x);
  p->a[flat ? 0 : axis_of(n->attr[1].i, p->x.ndim)] = n->attr[0].i;
  return p->x.ndim == p->y.ndim;
}

static bool set_slice(Places *p, const TsNode *n) {
  const TsAttr *start = &n->attr[0], *stop = &n->attr[1], *step = &n->attr[2];
  p->src = n->in[1]->meta;
  for (int i = 0; i < p->y.ndim; i++) {
    p->a[i] = 0, p->b[i] = 1, p->x.dim[i] = p->y.dim[i];
    if (i >= start->n) continue;
    p->a[i] = start->ints[i];
    if (step->type == TS_ATTR_ints) p->b[i] = step->ints[i];
    p->x.dim[i] = ts_slice_count(p->y.dim[i], &p->a[i], stop->ints[i], p->b[i]);
  }
  return ts_meta_numel(&p->src) > 0;
}

static bool is_whole(double v) { return v == floor(v) && fabs(v) < 9007199254740992.0; }

static bool set_numbers(Places *p, const TsNode *n) {
  const TsAttr *a = n->attr;
  p->last = NAN;
  if (n->op == TS_OP_eye) return true;
  if (n->op == TS_OP_linspace) {
    double steps = (double)(a[2].i - 1);
    if (!isfinite(a[1].f - a[0].f)) return false;
    p->start = a[0].f, p->last = steps > 0 ? a[1].f : NAN;
    p->step = steps > 0 ? (a[1].f - a[0].f) / steps : 0;
    return true;
  }
  p->start = a[1].type == TS_ATTR_f ? a[0].f : 0, p->step = a[2].f;
  bool integers = ts_dtype_is(p->d, TS_KIND_B | TS_KIND_U | TS_KIND_I);
  p->whole = integers && is_whole(p->start) && is_whole(p->step);
  /* Ends that do not fit their type are the CPU's to refuse. */
  int64_t lo, hi;
  if (!integers) return true;
  double end = p->start + (double)(ts_meta_numel(&p->y) - 1) * p->step;
  ts_dtype_int_range(p->d, &lo, &hi);
  return p->start >= (double)lo && p->start <= (double)hi && end >= (double)lo &&
         end <= (double)hi;
}

static bool set(Places *p, const TsNode *n) {
  switch (n->op) {
  case TS_OP_roll: return set_roll(p, n);
  case TS_OP_pad: return set_pad(p, n);
  case TS_OP_repeat_interleave: return set_repeat(p, n);
  case TS_OP_tril:
  case TS_OP_triu: p->mode = n->attr[0].i; return p->y.ndim >= 2;
  case TS_OP_slice_update:
  case TS_OP_slice_add: return set_slice(p, n);
  case TS_OP_eye:
  case TS_OP_arange:
  case TS_OP_linspace: return set_numbers(p, n);
  default: return false;
  }
}

/* What is written into x, a number for all of it or a tensor, may be of another type. */
static bool takes(const TsNode *n, int i, TsDtype d) {
  TsDtype own = (TsDtype)n->in[i]->meta.dtype;
  if (i == 0 || own == d) return own == d;
  if (n->op == TS_OP_slice_add) return false; /* added in the wider one of both */
  bool parts = ts_dtype_is(own, TS_KIND_C) && !ts_dtype_is(d, TS_KIND_C);
  return ts_dtypes[own].nbytes <= 8 && !ts_dtype_in_blocks(own) && !parts;
}

int ts_lower_places(const TsSched *sched, const TsGroup *g, TsLayoutFn *layout, void *arg,
                    TsSchedKernel *out, TsError *err) {
  const TsNode *n = g->node[0];
  const TsMeta *y = &n->out[0].meta;
  TsDtype d = (TsDtype)y->dtype;
  bool numbers = makes((TsOp)n->op), adds = n->op == TS_OP_slice_add;
  int nin = numbers ? 0 : writes((TsOp)n->op) ? 2 : 1;
  Places p = {.op = (TsOp)n->op, .y = *y, .of = d, .d = numbers ? d : ts_short_bits(d)};
  if (ts_dtypes[d].nbytes > 8 || ts_dtype_in_blocks(d) || !ts_meta_numel(y) || !y->ndim)
    return 0;
  if ((numbers || adds) && ts_dtype_is(d, TS_KIND_C)) return 0;
  for (int i = 0; i < nin; i++)
    if (!takes(n, i, d)) return 0;
  if (nin) p.x = n->in[0]->meta;
  if (!set(&p, n)) return 0;
  TsSteps x;
  ts_steps_begin(&x, sched, layout, arg, n, err);
  int list[3];
  if (nin) list[0] = ts_steps_in(&x, 0, NULL);
  if (nin > 1) list[1] = ts_steps_in_as(&x, 1, NULL, d);
  list[nin] = ts_steps_out(&x, 0, NULL);
  ts_steps_add(&x, build(&p), list, NULL);
  return ts_steps_end(&x, out);
}
