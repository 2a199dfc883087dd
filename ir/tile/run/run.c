/* The interpreter of Tile IR: runs a kernel of either form as its rows say, statement by
 * statement. It is what passes and targets are checked by, so it is plain before it is fast,
 * and hard on kernels: positions outside of memory are errors, fresh memory is filled with
 * NaN, asynchronous copies come as late as they may.
 *
 * Rounds of a parallel loop run one after another. Needs a legal kernel (ts_tile_check); rows
 * that are not primitive are expanded first, so that they have one definition. This file has
 * control; ir/tile/run/value.c, memory.c and sync.c the other rows, ir/tile/run/ops.c and reduce.c
 * the arithmetic. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "ir/tile/run/state.h"

int ts_tile_run_fail(TsTileRun *r, const TsTileStmt *s, TsErrorCode code, const char *format,
                     ...) {
  char text[400];
  va_list ap;
  va_start(ap, format);
  vsnprintf(text, sizeof text, format, ap);
  va_end(ap);
  if (r->failed) return -1; /* the first one counts */
  r->failed = true;
  if (r->watch) r->watch->failed(r->watch->with, r, s, text);
  ts_error_set(r->err, code, "%s: %s: %s", r->k->name, ts_tile_op_name(s->op), text);
  return s->line ? ts_error_where(r->err, r->k->name, r->k->place[s->line]) : -1;
}

/* ---- values */
/* Sizes and strides; the bytes of a row-major array. */
static int64_t measure(const TsTileRun *r, const TsTileType *t, TsTileRunPlace *p) {
  p->n = 1;
  for (int i = t->rank; i-- > 0;) {
    p->dim[i] = ts_tile_extent(t, i, r->dim);
    p->stride[i] = t->strided ? t->stride[i] : p->n;
    p->n *= p->dim[i];
  }
  return p->n * (t->space == TS_SPACE_barrier ? (int64_t)sizeof(TsTileRunBarrier)
                                              : ts_dtypes[t->dtype].nbytes);
}

/* Elements that memory of the kernel's own takes, which may be strided. */
static int64_t span(const TsTileType *t, const TsTileRunPlace *p) {
  int64_t last = 0;
  if (!t->strided) return p->n;
  for (int i = 0; i < t->rank; i++) last += (p->dim[i] - 1) * p->stride[i];
  return p->n ? last + 1 : 0;
}

TsTileRunPlace *ts_tile_run_place(TsTileRun *r, TsTileVal v) {
  TsTileRunPlace *p = &r->place[v->id];
  if (p->at) return p;
  int64_t nbytes = measure(r, &v->type, p);
  if (v->type.strided) nbytes = span(&v->type, p) * ts_tile_run_size(v);
  p->at = ts_arena_alloc(&r->arena, (size_t)nbytes + 1);
  if (p->at) return p;
  if (!r->failed) ts_error_set(r->err, TS_ERR_memory, "%s: out of memory", r->k->name);
  r->failed = true;
  return NULL;
}

TsTileRunPlace *ts_tile_run_alias(TsTileRun *r, TsTileVal v, char *at) {
  TsTileRunPlace *p = &r->place[v->id];
  measure(r, &v->type, p);
  p->at = at;
  return p;
}

void *ts_tile_run_tile(TsTileRun *r, TsTileVal v) {
  TsTileRunPlace *p = ts_tile_run_place(r, v);
  return p ? p->at : NULL;
}

int64_t ts_tile_run_scalar(TsTileRun *r, TsTileVal v) {
  const void *at = ts_tile_run_tile(r, v);
  return at ? ts_tile_run_int((TsDtype)v->type.dtype, at, 0) : 0;
}

void *ts_tile_run_work(TsTileRun *r, const TsTileStmt *s, int64_t nbytes) {
  if ((size_t)nbytes < r->room) return r->work;
  char *p = realloc(r->work, (size_t)nbytes * 2 + 1);
  if (!p) return ts_tile_run_fail(r, s, TS_ERR_memory, "out of memory"), NULL;
  r->work = p;
  r->room = (size_t)nbytes * 2 + 1;
  return p;
}

static int copy_value(TsTileRun *r, TsTileVal to, TsTileVal from) {
  TsTileRunPlace *x = ts_tile_run_place(r, from), *y = ts_tile_run_place(r, to);
  if (!x || !y) return -1;
  memcpy(y->at, x->at, (size_t)(x->n * ts_tile_run_size(from)));
  return 0;
}

/* What a region yields, into the results of its owner. */
static int yielded(TsTileRun *r, const TsTileRegion *region, const TsTileStmt *s) {
  const TsTileStmt *y = region->last;
  int first = s->op == TS_TILE_repeat;
  if (!s->nout) return 0;
  if (!y || y->op != TS_TILE_yield || y->nin != s->nout + first)
    return ts_tile_run_fail(r, s, TS_ERR_argument, "its region yields no %d values", s->nout);
  for (int i = 0; i < s->nout; i++)
    if (copy_value(r, s->out[i], y->in[first + i])) return -1;
  return 0;
}

/* ---- control */
/* One round: carried values come from the results, which each round renews, so that a yield may
 * exchange them. */
static int round_of(TsTileRun *r, const TsTileStmt *s, int64_t i) {
  const TsTileRegion *body = s->region[0];
  int64_t *index = ts_tile_run_tile(r, body->param[0]);
  if (!index) return -1;
  *index = i;
  for (int c = 0; c < s->nout; c++)
    if (copy_value(r, body->param[1 + c], s->out[c])) return -1;
  return ts_tile_run_region(r, body) || yielded(r, body, s) ? -1 : 0;
}

static int stopped(TsTileRun *r, const TsTileStmt *s) {
  if (!r->as.stop || !r->as.stop(r->as.stopper)) return 0;
  return ts_tile_run_fail(r, s, TS_ERR_interrupt, "the run was ended");
}

/* Whether a further axis of the grid stands in this one. */
static bool has_axis(const TsTileStmt *loop) {
  for (const TsTileStmt *s = loop->region[0]->first; s; s = s->next)
    if (s->op == TS_TILE_for && ts_tile_attr(s, "parallel")->i) return true;
  return false;
}

int ts_tile_do_for(TsTileRun *r, const TsTileStmt *s) {
  bool grid =
      ts_tile_attr(s, "parallel")->i && r->now == &r->self && r->depth < TS_TILE_RUN_AXES;
  int64_t lo = ts_tile_run_scalar(r, s->in[0]), hi = ts_tile_run_scalar(r, s->in[1]);
  int64_t step = ts_tile_attr(s, "step")->i, number = 0;
  if (step <= 0) return ts_tile_run_fail(r, s, TS_ERR_value, "step %lld", (long long)step);
  for (int c = 0; c < s->nout; c++)
    if (copy_value(r, s->out[c], s->in[2 + c])) return -1;
  if (grid && !r->depth && r->as.one && r->phases++ != r->as.one->phase) return 0;
  r->depth += grid;
  bool counted = grid && r->as.one && !has_axis(s);
  int64_t every = grid && r->depth == 1 && r->as.every > 1 ? r->as.every : 1;
  for (int64_t i = lo; i < hi && !r->failed; i += step, number++) {
    bool alone = !r->as.meet && !r->as.one; /* who runs kernels looks as well */
    if (grid && alone && ts_cpu_interrupted()) break;
    if (r->as.stop && stopped(r, s)) break;
    if (number % every && hi - i > step) continue;
    if (counted && r->rounds++ != r->as.one->round) continue;
    if (grid) r->round[r->depth - 1] = number;
    if (round_of(r, s, i)) break;
    if (grid && r->depth == 1 && ts_tile_run_drain(r)) break;
    r->block += grid && r->depth == 1;
  }
  r->depth -= grid;
  return r->failed ? -1 : 0;
}

int ts_tile_do_repeat(TsTileRun *r, const TsTileStmt *s) {
  const TsTileRegion *body = s->region[0];
  for (int c = 0; c < s->nout; c++)
    if (copy_value(r, s->out[c], s->in[c])) return -1;
  do {
    if (stopped(r, s)) return -1;
    for (int c = 0; c < s->nout; c++)
      if (copy_value(r, body->param[c], s->out[c])) return -1;
    if (ts_tile_run_region(r, body) || yielded(r, body, s)) return -1;
  } while (ts_tile_run_scalar(r, body->last->in[0]));
  return 0;
}

int ts_tile_do_if(TsTileRun *r, const TsTileStmt *s) {
  const TsTileRegion *taken = s->region[ts_tile_run_scalar(r, s->in[0]) ? 0 : 1];
  return ts_tile_run_region(r, taken) || yielded(r, taken, s) ? -1 : 0;
}

int ts_tile_do_yield(TsTileRun *r, const TsTileStmt *s) {
  (void)s;
  return r->failed ? -1 : 0;
}

int ts_tile_do_program(TsTileRun *r, const TsTileStmt *s) {
  int64_t *y = ts_tile_run_tile(r, s->out[0]), axis = ts_tile_attr(s, "axis")->i;
  if (!y) return -1;
  if (axis < 0 || axis >= r->depth)
    return ts_tile_run_fail(r, s, TS_ERR_index, "no parallel loop %lld around it",
                            (long long)axis);
  *y = r->round[axis];
  return 0;
}

/* ---- statements */
static TsTileRunAction *const action[] = {
#define TILE(name, ...) ts_tile_do_##name,
#include "ir/tile/tile.def"
#undef TILE
};

static int pointwise(TsTileRun *r, const TsTileStmt *s) {
  const void *in[4];
  TsTileVal typed = s->in[s->op == TS_OP_where ? 1 : 0];
  TsTileOpFn *fn = ts_tile_run_op(s->op, (TsDtype)typed->type.dtype);
  TsTileRunPlace *y = ts_tile_run_place(r, s->out[0]);
  TS_ASSERT(fn && s->nin <= 4);
  for (int i = 0; i < s->nin; i++) {
    TsTileRunPlace *x = ts_tile_run_place(r, s->in[i]);
    if (!x || !y) return -1;
    if (x->n != y->n)
      return ts_tile_run_fail(r, s, TS_ERR_shape, "operands of different shapes");
    in[i] = x->at;
  }
  fn(y->n, y->at, in);
  return 0;
}

/* Of roles that stand side by side *s becomes the last one. */
static inline void statement(TsTileRun *r, const TsTileStmt **s) {
  r->step++;
  if (r->decides && ts_tile_run_spare(*s, r->decides)) return;
  if ((*s)->op < TS_OP_COUNT)
    pointwise(r, *s);
  else if ((*s)->op == TS_TILE_role)
    ts_tile_run_roles(r, *s, s);
  else
    action[(*s)->op - TS_OP_COUNT](r, *s);
}

static __attribute__((noinline)) int watched(TsTileRun *r, const TsTileRegion *region) {
  const TsTileWatch *w = r->watch;
  if (w->enter(w->with, r, region)) r->failed = true;
  for (const TsTileStmt *s = region->first; s && !r->failed; s = s->next) {
    const TsTileStmt *first = s;
    if (w->before(w->with, r, s)) r->failed = true;
    if (!r->failed) statement(r, &s);
    if (!r->failed && w->after(w->with, r, first)) r->failed = true;
  }
  return r->failed ? -1 : 0;
}

int ts_tile_run_region(TsTileRun *r, const TsTileRegion *region) {
  if (r->watch) return watched(r, region);
  for (const TsTileStmt *s = region->first; s && !r->failed; s = s->next) statement(r, &s);
  return r->failed ? -1 : 0;
}

/* ---- a run */
static bool primitive(const TsTileRegion *region) {
  for (const TsTileStmt *s = region->first; s; s = s->next) {
    TsTileVal typed = s->nin ? s->in[s->op == TS_OP_where ? 1 : 0] : NULL;
    if (typed && !ts_tile_primitive(s->op, (TsDtype)typed->type.dtype)) return false;
    for (int i = 0; i < s->nregion; i++)
      if (!primitive(s->region[i])) return false;
  }
  return true;
}

static int start(TsTileRun *r, void *const *arg) {
  const TsTile *k = r->k;
  r->place = ts_arena_alloc(&r->arena, sizeof *r->place * ((size_t)k->nvalue + 1));
  if (!r->place) return ts_error_set(r->err, TS_ERR_memory, "%s: out of memory", k->name);
  for (int i = 0; i < k->nparam; i++) {
    TsTileRunPlace *p = &r->place[k->param[i]->id];
    measure(r, &k->param[i]->type, p);
    p->at = arg[i];
    if (!p->at && !ts_tile_run_place(r, k->param[i])) return -1; /* of no elements */
  }
  r->now = &r->self;
  return ts_tile_run_region(r, k->body) || ts_tile_run_drain(r) ? -1 : 0;
}

int ts_tile_run(const TsTile *k, void *const *arg, const int64_t *dim, TsError *err) {
  return ts_tile_run_as(k, arg, dim, NULL, err);
}

int ts_tile_run_as(const TsTile *k, void *const *arg, const int64_t *dim, const TsTileRunAs *as,
                   TsError *err) {
  return ts_tile_run_watched(k, arg, dim, as, NULL, err);
}

int ts_tile_run_watched(const TsTile *k, void *const *arg, const int64_t *dim,
                        const TsTileRunAs *as, const TsTileWatch *watch, TsError *err) {
  TsTile *expanded = NULL;
  if (!primitive(k->body) && !(k = expanded = ts_tile_expand(k, err))) return -1;
  TsTileRun *r = calloc(1, sizeof *r);
  int failed = -1;
  if (r) {
    r->k = k, r->dim = dim, r->err = err;
    if (as) r->as = *as;
    r->watch = watch;
    if (as && as->dry && !(r->decides = ts_tile_decides(k)))
      ts_error_memory(err);
    else
      failed = start(r, arg);
    for (int i = 0; i < TS_TILE_ROLES; i++) free(r->role[i].stack);
    free(r->work);
    free(r->decides);
    ts_arena_free(&r->arena);
    free(r);
  } else
    ts_error_set(err, TS_ERR_memory, "%s: out of memory", k->name);
  ts_tile_free(expanded);
  return failed;
}
