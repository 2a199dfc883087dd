/* Rows that are too long for registers: walks of a loop for each reduction and each store.
 *
 * A warp takes whole leaves of the canonical order (docs/numerics.md). Of a leaf each thread
 * has neighbouring lanes, a vector of which is what one step of the loop reads: so the chains
 * of the lanes stay in registers, and 32 threads halve them by shuffles. What several walks
 * read lies in shared memory, copied there at once; two blocks of a processor then take turns
 * at waiting for memory and computing.
 *
 * Of e^(x - largest) most steps are for results that are denormal or 0. The walk for the
 * largest looks for the smallest too, and where the two are near, which is known for all
 * threads of the row alike, later walks leave these steps out (jit/emit/simt/short.c).
 *
 * Rejected: keeping what a walk computed for the next one. In f32 it takes twice the room of
 * the row, so that one block is left, which waits. */
#include <math.h>

#include "jit/emit/simt/fold.h"
#include "vm/kernels/rows/reduce.h"

typedef LLVMValueRef V;

enum {
  WARP = TS_GPU_WARP,
  MOST = TS_RED_LANES_f32 / WARP, /* lanes of a thread */
  WORDS = 4,                      /* of what is read at once */
  ROOM = 112 << 10,               /* bytes of rows in shared memory: half of a processor's */
  OTHERS = 16 << 10,              /* of shared memory, for what is not a row */
};

static bool walks(const TsGpuEmit *g, const TsTileType *t) {
  return g->phase->walk && t->rank == 1 && t->dim[0] == g->phase->walk;
}

static int vector_of(TsDtype d) {
  return (d == TS_DT_f64 ? TS_RED_LANES_f64 : TS_RED_LANES_f32) / WARP;
}

static V i32(TsGpuEmit *g, int64_t v) {
  return ts_emit_int(g->e, ts_emit_int_type(g->e, 32, 0), v);
}

static V lane64(TsGpuEmit *g) {
  return LLVMBuildZExt(g->e->b, g->lane, ts_emit_int_type(g->e, 64, 0), "");
}

/* ---- what a walk is of */
typedef bool TestFn(const TsTileValue *v, const TsTileStmt *of);

/* Whether the test holds for something that elements of v are made of. */
static bool some(TsGpuEmit *g, TsTileVal v, TestFn *test, const TsTileStmt *of) {
  const TsTileStmt *s = v->stmt;
  if (!s || !walks(g, &v->type) || g->visit[v->id] == g->visits) return false;
  g->visit[v->id] = g->visits;
  if (test(v, of)) return true;
  for (int i = 0; i < s->nin; i++)
    if (some(g, s->in[i], test, of)) return true;
  return false;
}

static bool is_it(const TsTileValue *v, const TsTileStmt *of) { return v->stmt == of; }

static bool is_below(const TsTileValue *v, const TsTileStmt *of) {
  return ts_gpu_row_max(v) == of;
}

/* Reductions and stores of the region whose elements are made of some that the test is for. */
static int count_walks(TsGpuEmit *g, const TsTileRegion *r, TestFn *test,
                       const TsTileStmt *of) {
  int n = 0;
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    bool store = s->op == TS_TILE_store;
    bool reduce = s->op >= TS_TILE_sum && s->op <= TS_TILE_argmin;
    for (int i = 0; i < s->nregion; i++) n += count_walks(g, s->region[i], test, of);
    g->visits++;
    if (store || reduce) n += some(g, s->in[store ? s->nin - 1 : 0], test, of);
  }
  return n;
}

/* ---- a row in shared memory */
static void copy_vector(TsGpuEmit *g, V to, V from) {
  LLVMTypeRef four = LLVMVectorType(ts_emit_int_type(g->e, 32, 0), WORDS);
  if (g->maker->copy) {
    g->maker->copy(g, to, from);
    return;
  }
  V x = LLVMBuildLoad2(g->e->b, four, from, "");
  LLVMSetAlignment(x, 16);
  LLVMSetAlignment(LLVMBuildStore(g->e->b, x, to), 16);
}

static void wait_copies(TsGpuEmit *g) {
  if (g->maker->wait_copies) g->maker->wait_copies(g);
}

void ts_gpu_walk_load(TsGpuEmit *g, const TsTileStmt *s) {
  TsTileVal v = s->out[0];
  int size = ts_dtypes[v->type.dtype].nbytes, each = 16 / size;
  if (!walks(g, &v->type) || v->type.dim[0] % each) return;
  int64_t nbytes = v->type.dim[0] * size;
  V row = ts_gpu_row_at(g, s);
  int64_t room = ts_gpu_shared_most(g) - OTHERS;
  if (!row || g->shared_used + nbytes > (room < ROOM ? room : ROOM)) return;
  if (count_walks(g, g->phase->loop->region[0], is_it, s) < 2) return;
  TsGpuHome *h = ts_emit_take(g->e, sizeof *h);
  *h = (TsGpuHome){.v = v, .offset = ts_gpu_shared_take(g, nbytes), .row = true};
  LLVMTypeRef t = ts_gpu_stored(g, (TsDtype)v->type.dtype);
  TsGpuLoop l = ts_gpu_loop(g, ts_gpu_mul(g, g->tid64, each), ts_gpu_i64(g, v->type.dim[0]),
                            ts_gpu_i64(g, (int64_t)g->threads * each));
  copy_vector(g, ts_gpu_shared_at(g, h->offset, t, l.i),
              LLVMBuildGEP2(g->e->b, t, row, &l.i, 1, ""));
  ts_gpu_loop_end(g, &l);
  wait_copies(g);
  ts_gpu_sync(g);
  h->next = g->homes;
  g->homes = h;
}

/* ---- loops */
typedef struct Walk {
  TsGpuEmit *g;
  const TsTileStmt *s;
  TsGpuFold f;
  TsTileVal x;
  int n;      /* numbers that go round the loop */
  int64_t by; /* elements from one step to the next */
  void (*begin)(const struct Walk *w, V *acc);
  void (*step)(const struct Walk *w, V at, V *acc); /* of a vector from element `at` on */
} Walk;

static TsGpuFrame *frame_at(const Walk *w, V at) {
  return ts_gpu_frame_row(w->g, &w->x->type, at, vector_of(w->f.d));
}

static void go(const Walk *w, V first, V end, V *acc) {
  TsGpuEmit *g = w->g;
  LLVMBuilderRef b = g->e->b;
  V begin[2 * MOST], now[2 * MOST];
  w->begin(w, begin);
  LLVMBasicBlockRef before = LLVMGetInsertBlock(b), last;
  TsGpuLoop l = ts_gpu_loop(g, first, end, ts_gpu_i64(g, w->by));
  for (int i = 0; i < w->n; i++) {
    acc[i] = now[i] = LLVMBuildPhi(b, LLVMTypeOf(begin[i]), "");
    LLVMAddIncoming(now[i], &begin[i], &before, 1);
  }
  w->step(w, l.i, acc);
  last = LLVMGetInsertBlock(b);
  for (int i = 0; i < w->n; i++) LLVMAddIncoming(now[i], &acc[i], &last, 1);
  ts_gpu_loop_end(g, &l);
  for (int i = 0; i < w->n; i++) {
    V y = LLVMBuildPhi(b, LLVMTypeOf(begin[i]), "");
    LLVMAddIncoming(y, &begin[i], &before, 1), LLVMAddIncoming(y, &acc[i], &last, 1);
    acc[i] = y;
  }
}

/* The walk in two forms, where it is of e^(x - largest): c says which. */
static const TsTileStmt *near_of(TsGpuEmit *g, TsTileVal x) {
  if (!g->rows.max) return NULL;
  g->visits++;
  return some(g, x, is_below, g->rows.max) ? g->rows.max : NULL;
}

typedef struct Fork {
  LLVMBasicBlockRef after, other, end[2];
  bool two;
} Fork;

static Fork fork_begin(TsGpuEmit *g, TsTileVal x) {
  const TsTileStmt *max = near_of(g, x);
  Fork k = {.two = max != NULL};
  if (!max) return k;
  LLVMBasicBlockRef yes = LLVMAppendBasicBlockInContext(g->e->ctx, g->e->fn, "");
  k.other = LLVMAppendBasicBlockInContext(g->e->ctx, g->e->fn, "");
  k.after = LLVMAppendBasicBlockInContext(g->e->ctx, g->e->fn, "");
  LLVMBuildCondBr(g->e->b, g->rows.near, yes, k.other);
  LLVMPositionBuilderAtEnd(g->e->b, yes);
  g->rows.now = max;
  return k;
}

static void fork_next(TsGpuEmit *g, Fork *k) {
  k->end[0] = LLVMGetInsertBlock(g->e->b);
  LLVMBuildBr(g->e->b, k->after);
  LLVMMoveBasicBlockAfter(k->other, k->end[0]);
  LLVMPositionBuilderAtEnd(g->e->b, k->other);
  g->rows.now = NULL;
}

static void fork_end(TsGpuEmit *g, Fork *k) {
  k->end[1] = LLVMGetInsertBlock(g->e->b);
  LLVMBuildBr(g->e->b, k->after);
  LLVMMoveBasicBlockAfter(k->after, k->end[1]);
  LLVMPositionBuilderAtEnd(g->e->b, k->after);
}

static void go_forked(const Walk *w, V first, V end, V *acc) {
  TsGpuEmit *g = w->g;
  V other[2 * MOST];
  Fork k = fork_begin(g, w->x);
  go(w, first, end, acc);
  if (!k.two) return;
  fork_next(g, &k);
  go(w, first, end, other);
  fork_end(g, &k);
  for (int i = 0; i < w->n; i++) {
    V y = LLVMBuildPhi(g->e->b, LLVMTypeOf(acc[i]), "");
    LLVMAddIncoming(y, &acc[i], &k.end[0], 1), LLVMAddIncoming(y, &other[i], &k.end[1], 1);
    acc[i] = y;
  }
}

/* ---- sums */
static void begin_sum(const Walk *w, V *acc) {
  for (int i = 0; i < w->n; i++) acc[i] = ts_gpu_identity(w->g, w->f.op, w->f.d);
}

static void step_sum(const Walk *w, V at, V *acc) {
  TsGpuFrame *f = frame_at(w, at);
  for (int i = 0; i < w->n; i++) {
    TsGpuItem x = ts_gpu_fold_item(w->g, &w->f, ts_gpu_elem(w->g, f, w->x, i), NULL);
    acc[i] = ts_gpu_combine(w->g, w->f.op, w->f.d, acc[i], x.x);
  }
}

/* Leaves in pairs, level by level, from shared memory. */
static V pair_up(const Walk *w, int64_t room, int64_t leaves) {
  TsGpuEmit *g = w->g;
  V x[TS_GPU_ELEMS];
  for (int64_t i = 0; i < leaves; i++)
    x[i] = LLVMBuildLoad2(g->e->b, w->f.type,
                          ts_gpu_shared_at(g, room + i * w->f.size, w->f.type, NULL), "");
  for (int64_t n = leaves; n > 1; n = (n + 1) / 2)
    for (int64_t i = 0; i < n; i += 2)
      x[i / 2] = i + 1 < n ? ts_gpu_combine(g, w->f.op, w->f.d, x[i], x[i + 1]) : x[i];
  return x[0];
}

static V sum(Walk *w) {
  TsGpuEmit *g = w->g;
  int64_t n = g->phase->walk, leaves = (n + TS_RED_LEAF - 1) / TS_RED_LEAF;
  int buffer = g->rows.buffer++ % 2;
  if (g->rows.walk[buffer] < 0) g->rows.walk[buffer] = ts_gpu_shared_take(g, TS_GPU_ELEMS * 8);
  V acc[2 * MOST];
  w->n = vector_of(w->f.d), w->by = WARP * w->n;
  w->begin = begin_sum, w->step = step_sum;
  TsGpuLoop l = ts_gpu_loop(g, ts_gpu_div(g, g->tid64, WARP), ts_gpu_i64(g, leaves),
                            ts_gpu_i64(g, g->threads / WARP));
  V begin = ts_gpu_mul(g, l.i, TS_RED_LEAF);
  V first = ts_gpu_add(g, begin, ts_gpu_mul(g, lane64(g), w->n));
  V end = ts_gpu_add(g, begin, ts_gpu_i64(g, TS_RED_LEAF));
  end = ts_emit_call2(g->e, "llvm.smin", end, ts_gpu_i64(g, n));
  go_forked(w, first, end, acc);
  V y = ts_gpu_halve_warp(g, &w->f, acc, w->n, w->n);
  LLVMBasicBlockRef after =
      ts_gpu_if(g, LLVMBuildICmp(g->e->b, LLVMIntEQ, g->lane, i32(g, 0), ""));
  LLVMBuildStore(g->e->b, y, ts_gpu_shared_at(g, g->rows.walk[buffer], w->f.type, l.i));
  ts_gpu_if_end(g, after);
  ts_gpu_loop_end(g, &l);
  ts_gpu_sync(g);
  return pair_up(w, g->rows.walk[buffer], leaves);
}

/* ---- the largest and the smallest */
/* acc: of each element of a vector the one that is asked for, then, for a largest that
 * exponentials are taken below, the other one. */
static void begin_extreme(const Walk *w, V *acc) {
  for (int i = 0; i < w->n; i++) {
    bool min = w->f.min != (i >= MOST);
    acc[i] = ts_emit_number(w->g->e, w->f.d, 0, min ? INFINITY : -INFINITY);
  }
}

static void step_extreme(const Walk *w, V at, V *acc) {
  TsGpuFrame *f = frame_at(w, at);
  for (int i = 0; i < w->n; i++) {
    V x = ts_gpu_elem(w->g, f, w->x, i % MOST);
    acc[i] = ts_gpu_extreme(w->g, w->f.min != (i >= MOST), acc[i], x);
  }
}

static void begin_pairs(const Walk *w, V *acc) {
  for (int i = 0; i < w->n; i++) {
    bool min = w->f.min != (i >= WORDS);
    acc[i] = i32(w->g, min ? 0x7f807f80 : (int32_t)0xff80ff80);
  }
}

static const TsGpuHome *home_of(const TsGpuEmit *g, TsTileVal v) {
  for (const TsGpuHome *h = g->homes; h; h = h->next)
    if (h->v == v && h->row) return h;
  return NULL;
}

static void step_pairs(const Walk *w, V at, V *acc) {
  TsGpuEmit *g = w->g;
  const TsGpuHome *h = home_of(g, w->x->stmt->in[0]);
  LLVMTypeRef word = ts_emit_int_type(g->e, 32, 0);
  V p = ts_gpu_shared_at(g, h->offset, ts_gpu_stored(g, TS_DT_bf16), at);
  V x = LLVMBuildLoad2(g->e->b, LLVMVectorType(word, WORDS), p, "");
  LLVMSetAlignment(x, 16);
  for (int i = 0; i < w->n; i++) {
    V y = LLVMBuildExtractElement(g->e->b, x, i32(g, i % WORDS), "");
    acc[i] = g->maker->extreme_two(g, w->f.min != (i >= WORDS), acc[i], y);
  }
}

static V half_of(TsGpuEmit *g, V pair, int which) {
  V x = which ? LLVMBuildAnd(g->e->b, pair, i32(g, (int32_t)0xffff0000), "")
              : LLVMBuildShl(g->e->b, pair, i32(g, 16), "");
  return LLVMBuildBitCast(g->e->b, x, ts_emit_elem(g->e, TS_DT_f32), "");
}

/* Of all threads, from n values of this one. */
static V meet(const Walk *w, const TsGpuFold *f, bool pairs, const V *acc, int n) {
  V all = acc[0];
  for (int i = 1; i < n; i++)
    all = pairs ? w->g->maker->extreme_two(w->g, f->min, all, acc[i])
                : ts_gpu_extreme(w->g, f->min, all, acc[i]);
  if (pairs) all = ts_gpu_extreme(w->g, f->min, half_of(w->g, all, 0), half_of(w->g, all, 1));
  return ts_gpu_meet(w->g, f, (TsGpuItem){all, NULL}).x;
}

/* e^(smallest - largest) is a normal number, as is its power of two. */
static V is_near(TsGpuEmit *g, V largest, V smallest) {
  V d = LLVMBuildFSub(g->e->b, smallest, largest, "");
  return LLVMBuildFCmp(g->e->b, LLVMRealOGE, d, ts_emit_number(g->e, TS_DT_f32, 0, -86), "");
}

static V extreme(Walk *w) {
  TsGpuEmit *g = w->g;
  const TsTileStmt *from = w->x->stmt;
  bool pairs = g->maker->extreme_two && from && from->op == TS_TILE_cast &&
               from->in[0]->type.dtype == TS_DT_bf16 && home_of(g, from->in[0]);
  bool both = w->s->op == TS_TILE_max && !g->rows.max &&
              count_walks(g, g->phase->loop->region[0], is_below, w->s);
  int each = pairs ? WORDS : MOST;
  V acc[2 * MOST];
  w->n = both ? 2 * each : each;
  w->begin = pairs ? begin_pairs : begin_extreme, w->step = pairs ? step_pairs : step_extreme;
  w->by = (int64_t)MOST * g->threads;
  go(w, ts_gpu_mul(g, g->tid64, MOST), ts_gpu_i64(g, g->phase->walk), acc);
  V y = meet(w, &w->f, pairs, acc, each);
  if (both) {
    TsGpuFold least = w->f;
    least.min = !least.min;
    g->rows.near = is_near(g, y, meet(w, &least, pairs, acc + each, each));
    g->rows.max = w->s;
  }
  return ts_gpu_fold_result(g, &w->f, (TsGpuItem){y, NULL});
}

/* ---- statements */
bool ts_gpu_walk_reduce(TsGpuEmit *g, const TsTileStmt *s) {
  if (!walks(g, &s->in[0]->type) || s->op == TS_TILE_pairs) return false;
  Walk w = {.g = g, .s = s, .x = s->in[0], .f = ts_gpu_fold(g, s)};
  bool adds = !w.f.order && !ts_dtype_is(w.f.d, TS_KIND_C);
  if (!adds && !w.f.plain) return false;
  ts_gpu_prepare(g, w.x);
  V y = adds ? sum(&w) : extreme(&w);
  ts_gpu_define(g, s->out[0], &y);
  return true;
}

/* where(place == number, ..): one element of the row is another one. */
static TsTileVal place_of(const TsTileStmt *s) {
  const TsTileStmt *c = s && s->op == TS_OP_where ? s->in[0]->stmt : NULL;
  if (!c || c->op != TS_OP_eq || !c->in[0]->stmt || !c->in[1]->stmt) return NULL;
  const TsTileStmt *spread = c->in[1]->stmt;
  bool place = c->in[0]->stmt->op == TS_TILE_iota && spread->op == TS_TILE_broadcast;
  return place && !spread->in[0]->type.rank ? spread->in[0] : NULL;
}

static const TsTileStmt *find_place(TsGpuEmit *g, TsTileVal v) {
  const TsTileStmt *s = v->stmt, *found = NULL;
  if (!s || !walks(g, &v->type) || g->visit[v->id] == g->visits) return NULL;
  g->visit[v->id] = g->visits;
  if (place_of(s)) return s;
  for (int i = 0; i < s->nin && !found; i++) found = find_place(g, s->in[i]);
  return found;
}

static void store_loop(TsGpuEmit *g, const TsTileStmt *s, TsTileVal x) {
  TsGpuLoop l = ts_gpu_loop(g, ts_gpu_mul(g, g->tid64, MOST), ts_gpu_i64(g, g->phase->walk),
                            ts_gpu_i64(g, (int64_t)MOST * g->threads));
  ts_gpu_store_chunk(g, s, ts_gpu_frame_row(g, &x->type, l.i, MOST));
  ts_gpu_loop_end(g, &l);
}

/* The element itself, by the thread that has stored what is around it. */
static void store_place(TsGpuEmit *g, const TsTileStmt *s, TsTileVal x, TsTileVal place) {
  LLVMBuilderRef b = g->e->b;
  V at = LLVMBuildSExt(b, ts_gpu_scalar(g, place), ts_emit_int_type(g->e, 64, 0), "");
  V in = ts_gpu_below(g, at, ts_gpu_i64(g, g->phase->walk));
  V zero = ts_gpu_i64(g, 0), near = LLVMBuildSelect(b, in, at, zero, "");
  V who = ts_gpu_mod(g, ts_gpu_div(g, near, MOST), g->threads);
  V own = LLVMBuildICmp(b, LLVMIntEQ, who, g->tid64, "");
  LLVMBasicBlockRef after = ts_gpu_if(g, ts_gpu_and(g, in, own));
  ts_gpu_store_chunk(g, s, ts_gpu_frame_row(g, &x->type, near, 1));
  ts_gpu_if_end(g, after);
}

bool ts_gpu_walk_store(TsGpuEmit *g, const TsTileStmt *s) {
  TsTileVal x = s->in[s->nin - 1];
  if (!walks(g, &x->type)) return false;
  ts_gpu_prepare(g, x);
  g->visits++;
  const TsTileStmt *other = find_place(g, x);
  g->rows.else_of = other;
  Fork k = fork_begin(g, x);
  store_loop(g, s, x);
  if (k.two) {
    fork_next(g, &k);
    store_loop(g, s, x);
    fork_end(g, &k);
  }
  g->rows.else_of = NULL;
  if (other) store_place(g, s, x, place_of(other));
  return true;
}
