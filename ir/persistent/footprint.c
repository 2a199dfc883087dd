/* What a turn of a kernel touches: positions as intervals.
 *
 * The round is known, so are sizes; a loop inside has an interval as its index, what it carries
 * is anything. An access is the hull of its tile at all positions that it may have, in bytes
 * from the first element of its memory on. What is anything means all of the memory. */
#include <string.h>

#include "ir/persistent/program.h"

enum { FAR = 1 << 30 };

typedef struct Interval {
  int64_t lo, hi;
  bool known;
} Interval;

typedef struct Walk {
  const TsTile *k;
  const int64_t *dim;
  Interval *of;             /* by value */
  int16_t *memory;          /* by value: 1 + the number of the touch that it is */
  TsPersistentBytes *touch; /* hulls so far, or NULL */
  bool lost;                /* nothing is known */
} Walk;

static const Interval anything = {.known = false};

static Interval exactly(int64_t v) { return (Interval){v, v, true}; }

/* ---- arithmetic */
static bool is_small(Interval x) {
  return x.known && x.lo > -((int64_t)FAR << 12) && x.hi < (int64_t)FAR << 12;
}

static int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

static Interval product(Interval x, Interval y) {
  int64_t a = x.lo * y.lo, b = x.lo * y.hi, c = x.hi * y.lo, d = x.hi * y.hi;
  return (Interval){least(least(a, b), least(c, d)), most(most(a, b), most(c, d)), true};
}

static Interval modulo(Interval x, Interval y) {
  if (y.lo != y.hi || y.lo <= 0) return anything;
  int64_t n = y.lo;
  if (floor_div(x.lo, n) == floor_div(x.hi, n))
    return (Interval){x.lo - floor_div(x.lo, n) * n, x.hi - floor_div(x.hi, n) * n, true};
  return (Interval){0, n - 1, true};
}

static Interval apply(int op, Interval x, Interval y) {
  if (!is_small(x) || !is_small(y)) return anything;
  switch (op) {
  case TS_OP_add: return (Interval){x.lo + y.lo, x.hi + y.hi, true};
  case TS_OP_sub: return (Interval){x.lo - y.hi, x.hi - y.lo, true};
  case TS_OP_mul:
    return is_small(x) && x.hi < FAR && y.hi < FAR && x.lo > -FAR && y.lo > -FAR ? product(x, y)
                                                                                 : anything;
  case TS_OP_floordiv:
    return y.lo == y.hi && y.lo > 0
               ? (Interval){floor_div(x.lo, y.lo), floor_div(x.hi, y.lo), true}
               : anything;
  case TS_OP_mod: return modulo(x, y);
  case TS_OP_minimum: return (Interval){least(x.lo, y.lo), least(x.hi, y.hi), true};
  case TS_OP_maximum: return (Interval){most(x.lo, y.lo), most(x.hi, y.hi), true};
  default: return anything;
  }
}

static Interval value_of(const Walk *w, const TsTileStmt *s) {
  switch (s->op) {
  case TS_TILE_const: return exactly((int64_t)ts_tile_attr(s, "value")->f);
  case TS_TILE_bits: return exactly(ts_tile_attr(s, "value")->i);
  case TS_TILE_dim: return exactly(w->dim[ts_tile_attr(s, "index")->i]);
  default: break;
  }
  if (s->op >= TS_OP_COUNT || s->nin != 2) return anything;
  return apply(s->op, w->of[s->in[0]->id], w->of[s->in[1]->id]);
}

/* ---- accesses */
static void widen(TsPersistentBytes *b, int64_t from, int64_t to) {
  if (to <= from) return;
  int64_t lo = (int64_t)b->at, hi = lo + (int64_t)b->nbytes;
  if (!b->nbytes) lo = from, hi = to;
  b->at = (uint64_t)least(lo, from);
  b->nbytes = (uint64_t)(most(hi, to) - least(lo, from));
}

static void touch_all(const Walk *w, const TsTileValue *memory) {
  int64_t below, above;
  int i = w->memory[memory->id];
  if (!i || !w->touch) return;
  ts_tile_reach(&memory->type, w->dim, &below, &above);
  widen(&w->touch[i - 1], -below, above);
}

static int64_t stride_of(const Walk *w, const TsTileType *t, int axis) {
  int64_t n = 1;
  if (t->strided) return t->stride[axis];
  for (int i = axis + 1; i < t->rank; i++) n *= ts_tile_extent(t, i, w->dim);
  return n;
}

/* How far a tile goes along an axis of the memory. */
static int64_t extent_of(const TsTileStmt *s, const Walk *w, const TsTileType *tile, int rank,
                         int axis) {
  const TsAttr *axes = ts_tile_attr(s, "axes");
  for (int i = 0; i < tile->rank; i++) {
    bool named = axes && axes->type == TS_ATTR_ints && axes->n;
    int a = named ? (int)axes->ints[i] : rank - tile->rank + i;
    if (a == axis) return ts_tile_extent(tile, i, w->dim);
  }
  return 1;
}

/* A tile at a position, operands from in[1] on. */
static void touch_tile(const Walk *w, const TsTileStmt *s, const TsTileType *tile) {
  const TsTileType *t = &s->in[0]->type;
  int64_t lo = 0, hi = 0, size = ts_dtypes[t->dtype].nbytes;
  int i = w->memory[s->in[0]->id];
  if (!i || !w->touch) return;
  for (int a = 0; a < t->rank; a++) {
    Interval x = w->of[s->in[1 + a]->id];
    int64_t all = ts_tile_extent(t, a, w->dim), step = stride_of(w, t, a);
    if (all <= 0) return;
    int64_t from = is_small(x) ? x.lo : 0;
    int64_t to = is_small(x) ? x.hi + extent_of(s, w, tile, t->rank, a) - 1 : all - 1;
    from = most(from, 0), to = least(to, all - 1);
    if (from > to) return; /* nothing of it is inside */
    lo += step < 0 ? step * to : step * from;
    hi += step < 0 ? step * from : step * to;
  }
  widen(&w->touch[i - 1], lo * size, (hi + 1) * size);
}

static void access_of(const Walk *w, const TsTileStmt *s) {
  if (s->op == TS_TILE_load && ts_tile_memory(&s->in[0]->type) &&
      s->nin == 1 + s->in[0]->type.rank)
    touch_tile(w, s, &s->out[0]->type);
  else if (s->op == TS_TILE_store && s->nin == 2 + s->in[0]->type.rank)
    touch_tile(w, s, &s->in[s->nin - 1]->type);
  else if (s->op != TS_TILE_view && s->op != TS_TILE_aligned && s->op != TS_TILE_prefetch)
    for (int i = 0; i < s->nin; i++) touch_all(w, s->in[i]);
}

/* ---- the walk */
static void region(Walk *w, const TsTileRegion *r);

static void inner_loop(Walk *w, const TsTileStmt *s) {
  Interval lo = w->of[s->in[0]->id], hi = w->of[s->in[1]->id];
  const TsTileRegion *r = s->region[0];
  bool known = is_small(lo) && is_small(hi);
  if (known && hi.hi <= lo.lo) return; /* no round of it */
  w->of[r->param[0]->id] = known ? (Interval){lo.lo, hi.hi - 1, true} : anything;
  region(w, r);
}

static void statement(Walk *w, const TsTileStmt *s) {
  access_of(w, s);
  if (s->op == TS_TILE_view) w->memory[s->out[0]->id] = w->memory[s->in[0]->id];
  if (s->op == TS_TILE_for) {
    inner_loop(w, s);
    return;
  }
  for (int i = 0; i < s->nregion; i++) region(w, s->region[i]);
  if (s->nout == 1 && !s->nregion && !s->out[0]->type.rank && !ts_tile_memory(&s->out[0]->type))
    w->of[s->out[0]->id] = value_of(w, s);
}

static void region(Walk *w, const TsTileRegion *r) {
  for (const TsTileStmt *s = r->first; s; s = s->next) statement(w, s);
}

static bool is_grid(const TsTileStmt *s) {
  return s->op == TS_TILE_for && ts_tile_attr(s, "parallel")->i;
}

static const TsTileStmt *inner_grid(const TsTileStmt *loop) {
  for (const TsTileStmt *s = loop->region[0]->first; s; s = s->next)
    if (is_grid(s)) return s;
  return NULL;
}

/* Rounds of one axis. */
static int64_t rounds_of(const Walk *w, const TsTileStmt *loop) {
  Interval lo = w->of[loop->in[0]->id], hi = w->of[loop->in[1]->id];
  int64_t step = ts_tile_attr(loop, "step")->i;
  if (!is_small(lo) || !is_small(hi) || lo.lo != lo.hi || hi.lo != hi.hi || step <= 0)
    return -1;
  return hi.lo > lo.lo ? (hi.lo - lo.lo + step - 1) / step : 0;
}

/* Rounds of the axes inside of this one, whose bounds do not depend on its position; -1: not
 * known. */
static int64_t all_rounds(Walk *w, const TsTileStmt *loop);

static int64_t inner_rounds(Walk *w, const TsTileStmt *loop, const TsTileStmt *next) {
  if (!next) return 1;
  w->of[loop->region[0]->param[0]->id] = anything;
  for (const TsTileStmt *s = loop->region[0]->first; s != next; s = s->next)
    if (s->nout == 1 && !s->nregion) w->of[s->out[0]->id] = value_of(w, s);
  return all_rounds(w, next);
}

static int64_t all_rounds(Walk *w, const TsTileStmt *loop) {
  int64_t n = rounds_of(w, loop), inner = n < 0 ? -1 : inner_rounds(w, loop, inner_grid(loop));
  return inner < 0 || (inner && n > INT32_MAX / inner) ? -1 : n * inner;
}

/* The body of a round of the grid; what is not known touches everything. */
static void grid_round(Walk *w, const TsTileStmt *loop, int64_t round) {
  const TsTileStmt *next = inner_grid(loop);
  int64_t below = inner_rounds(w, loop, next);
  if (below <= 0 || rounds_of(w, loop) < 0) {
    w->lost = true;
    return;
  }
  int64_t at = w->of[loop->in[0]->id].lo + round / below * ts_tile_attr(loop, "step")->i;
  w->of[loop->region[0]->param[0]->id] = exactly(at);
  for (const TsTileStmt *s = loop->region[0]->first; s; s = s->next)
    if (s == next)
      grid_round(w, s, round % below);
    else
      statement(w, s);
}

static bool begin(Walk *w, TsArena *arena) {
  const TsTile *k = w->k;
  w->of = ts_arena_alloc(arena, sizeof *w->of * (k->nvalue + 1));
  w->memory = ts_arena_alloc(arena, sizeof *w->memory * (k->nvalue + 1));
  if (!w->of || !w->memory) return false;
  memset(w->of, 0, sizeof *w->of * (k->nvalue + 1));
  memset(w->memory, 0, sizeof *w->memory * (k->nvalue + 1));
  for (int i = 0; i < k->nparam; i++) w->memory[k->param[i]->id] = (int16_t)(1 + i);
  int n = k->nparam;
  for (const TsTileStmt *s = k->body->first; s; s = s->next)
    if (s->op == TS_TILE_alloc && s->out[0]->type.space == TS_SPACE_scratch)
      w->memory[s->out[0]->id] = (int16_t)(1 + n++);
  return true;
}

int ts_persistent_rounds(const TsTile *k, const int64_t *dim, int most, int64_t *rounds) {
  TsArena arena = {0};
  Walk w = {.k = k, .dim = dim};
  int n = begin(&w, &arena) ? 0 : -1;
  for (const TsTileStmt *s = k->body->first; s && n >= 0; s = s->next) {
    if (!is_grid(s)) {
      if (s->op == TS_TILE_for)
        n = -1; /* not over a grid */
      else
        statement(&w, s);
      continue;
    }
    int64_t all = all_rounds(&w, s);
    if (all < 0 || n == most)
      n = -1;
    else
      rounds[n++] = all;
  }
  ts_arena_free(&arena);
  return n;
}

bool ts_persistent_footprint(const TsTile *k, int phase, int64_t from, int64_t to,
                             const int64_t *dim, TsPersistentBytes *touch) {
  TsArena arena = {0};
  Walk w = {.k = k, .dim = dim};
  bool whole = begin(&w, &arena);
  for (const TsTileStmt *s = k->body->first; s && whole; s = s->next) {
    if (!is_grid(s)) {
      statement(&w, s);
      continue;
    }
    if (phase-- != 0) continue;
    w.touch = touch;
    for (int64_t r = from; r < to; r++) grid_round(&w, s, r);
    w.touch = NULL;
  }
  ts_arena_free(&arena);
  return whole && !w.lost;
}
