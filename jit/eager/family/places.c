/* Operators whose elements are another tensor's at a place that follows from their own, and
 * numbers in order: pad, roll, repeat_interleave, tril, triu, slice_update, eye, arange,
 * linspace. A kernel goes over the result by pieces; each axis says where its coordinate comes
 * from, and whether there is anything. */
#include "jit/eager/family/own.h"

#include <math.h>
#include <string.h>

#include "vm/core/element.h"

typedef TsTileVal V;

enum { PIECE = 1024 };

typedef struct Places {
  TsOp op;
  TsDtype d;              /* as bits; of numbers their type */
  TsMeta x, y, src;       /* shapes; of repeat_interleave and roll perhaps flat */
  int64_t a[TS_MAX_RANK]; /* roll: shift; pad: before; slice: start; repeat: count, or 0 */
  int64_t b[TS_MAX_RANK]; /* slice: step, which may go down */
  int64_t mode;           /* of pad; diagonal of tril and triu */
  uint64_t fill;
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

static V fill(Make *m) {
  TsTileType t = m->t;
  t.dtype = (uint8_t)m->p->d;
  return ts_tile_bits(&m->b, m->p->fill, &t);
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

/* x with src at start, start + step, .. */
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
  return sel(m, in, y, ts_short_gather(&m->b, x, from, true));
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

static TsTile *build(const void *arg) {
  const Places *p = arg;
  TsTile *k = ts_tile_new(ts_op_info(p->op)->name);
  if (!k) return NULL;
  Make m = {.p = p, .t = ts_tile_vector(TS_DT_i64, PIECE)};
  int64_t n = ts_meta_numel(&p->y), nx = ts_meta_numel(&p->x), ns = ts_meta_numel(&p->src);
  bool update = p->op == TS_OP_slice_update;
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
  m.i = op2(&m, TS_OP_add, ts_short_iota(b, &m.t, 0), ts_short_splat(b, &m.t, l.i));
  coordinates(&m);
  V value = makes(p->op) ? numbers(&m) : update ? updated(&m, x, src) : moved(&m, x);
  ts_tile_store(b, y, &l.i, value, &edge);
  ts_tile_for_end(b, &l, NULL, NULL);
  return k;
}

/* ---- calls */
static int axis_of(int64_t a, int nd) { return (int)(a < 0 ? a + nd : a); }

static void flatten(TsMeta *m) {
  m->dim[0] = ts_meta_numel(m);
  m->ndim = 1;
}

static bool set_roll(Places *p, const TsCall *call) {
  const TsAttr *shift = &call->attr[0], *axes = &call->attr[1];
  if (axes->type == TS_ATTR_none) flatten(&p->x), flatten(&p->y);
  for (int i = 0; i < shift->n; i++) {
    int a = axes->type == TS_ATTR_none ? 0 : axis_of(axes->ints[i], p->x.ndim);
    int64_t n = p->x.dim[a], s = (p->a[a] + shift->ints[i] % n) % n;
    p->a[a] = s < 0 ? s + n : s;
  }
  return true;
}

static bool set_pad(Places *p, TsCall *call) {
  const TsAttr *pads = &call->attr[0];
  _Alignas(16) char element[16] = {0};
  int first = p->y.ndim - pads->n / 2;
  p->mode = call->attr[1].i;
  for (int i = first; i < p->y.ndim; i++) p->a[i] = pads->ints[2 * (i - first)];
  if (p->mode == PAD_constant &&
      ts_element_make(call, ts_tensor_dtype(call->out[0]), call->attr[2].f, element))
    return false;
  memcpy(&p->fill, element, 8);
  return ts_meta_numel(&p->x) > 0;
}

static bool set_repeat(Places *p, const TsCall *call) {
  bool flat = call->attr[1].type == TS_ATTR_none;
  if (flat) flatten(&p->x);
  p->a[flat ? 0 : axis_of(call->attr[1].i, p->x.ndim)] = call->attr[0].i;
  return p->x.ndim == p->y.ndim;
}

static bool set_slice(Places *p, const TsCall *call) {
  const TsAttr *start = &call->attr[0], *stop = &call->attr[1], *step = &call->attr[2];
  p->src = call->in[1]->meta;
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

static bool set_numbers(Places *p, const TsCall *call) {
  const TsAttr *a = call->attr;
  p->last = NAN;
  if (call->op == TS_OP_eye) return true;
  if (call->op == TS_OP_linspace) {
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

static bool set(Places *p, TsCall *call) {
  switch (call->op) {
  case TS_OP_roll: return set_roll(p, call);
  case TS_OP_pad: return set_pad(p, call);
  case TS_OP_repeat_interleave: return set_repeat(p, call);
  case TS_OP_tril:
  case TS_OP_triu: p->mode = call->attr[0].i; return p->y.ndim >= 2;
  case TS_OP_slice_update: return set_slice(p, call);
  case TS_OP_eye:
  case TS_OP_arange:
  case TS_OP_linspace: return set_numbers(p, call);
  default: return false;
  }
}

static void add_words(TsOwn *k, const Places *p) {
  int64_t w[3];
  memcpy(w, &p->start, 8), memcpy(w + 1, &p->step, 8), memcpy(w + 2, &p->last, 8);
  ts_own_word(k, p->d | p->whole << 8 | p->y.ndim << 9 | p->src.ndim << 16);
  ts_own_word(k, p->mode), ts_own_word(k, (int64_t)p->fill);
  for (int i = 0; i < 3 && makes(p->op); i++) ts_own_word(k, w[i]);
  for (int i = 0; i < p->y.ndim; i++) {
    ts_own_word(k, p->x.dim[i]), ts_own_word(k, p->y.dim[i]);
    ts_own_word(k, p->a[i]), ts_own_word(k, p->b[i]);
  }
  for (int i = 0; i < p->src.ndim; i++) ts_own_word(k, p->src.dim[i]);
}

static bool is_of(TsOp op) {
  switch (op) {
  case TS_OP_roll:
  case TS_OP_pad:
  case TS_OP_repeat_interleave:
  case TS_OP_tril:
  case TS_OP_triu:
  case TS_OP_slice_update:
  case TS_OP_eye:
  case TS_OP_arange:
  case TS_OP_linspace: return true;
  default: return false;
  }
}

int ts_offload_places(TsOffloader *o, TsCall *call, int device) {
  if (!is_of(call->op)) return 0;
  TsTensor *y = call->out[0];
  TsDtype d = ts_tensor_dtype(y);
  int n = makes(call->op) ? 0 : call->op == TS_OP_slice_update ? 2 : 1, done = 0;
  Places p = {.op = call->op, .y = y->meta, .d = makes(call->op) ? d : ts_short_bits(d)};
  if (ts_dtypes[d].nbytes > 8 || d == TS_DT_mxfp4 || !y->contiguous) return 0;
  if (!ts_tensor_numel(y) || !y->meta.ndim) return 0;
  if (makes(call->op) && ts_dtype_is(d, TS_KIND_C)) return 0;
  for (int i = 0; i < n; i++)
    if (ts_tensor_dtype(call->in[i]) != d) return 0;
  if (n) p.x = call->in[0]->meta;
  if (!set(&p, call)) return 0;
  TsOwn k = {.build = build, .arg = &p, .nin = n, .nout = 1, .out = {y}};
  add_words(&k, &p);
  for (int i = 0; i < n && !done; i++)
    if (!(k.in[i] = ts_own_ready(call, call->in[i]))) done = -1;
  if (!done) done = ts_own_run(o, call, device, &k);
  for (int i = 0; i < n; i++) ts_tensor_unref(k.in[i]);
  return done;
}
