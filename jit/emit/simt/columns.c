/* Sums down the columns of a tile that is too large for registers, or is not yet there.
 *
 * Threads stand in a grid: a vector of columns by `deep` rows. A thread takes the lanes l of a
 * leaf with l mod deep its own row, `wide` of them side by side, so that as many loads are
 * under way; they are chosen so that what halving brings together is in one thread. What is
 * left of the lanes goes to shared memory. */
#include "jit/emit/simt/reduce.h"
#include "vm/kernels/rows/reduce.h"

typedef LLVMValueRef V;

enum { WIDE = 8, VECTOR = 16, UNDER_WAY = 32 }; /* elements that are asked for together */

/* Loads that an element is made of, as far as they are seen at once. */
static int loads_of(const TsTileValue *x, int deep) {
  const TsTileStmt *s = x->stmt;
  int n = 0;
  if (!s || !deep || !ts_gpu_is_tile(x)) return 0;
  if (s->op == TS_TILE_load) return 1;
  for (int i = 0; i < s->nin; i++) n += loads_of(s->in[i], deep - 1);
  return n;
}

/* Whether a thread's registers have room for so many lanes side by side of so many columns: their
 * chains, what is under way for them, and what else lives meanwhile: addresses of each column,
 * within the tile and at its edge, and what other reductions of the round gave. A target's number
 * of registers is that of blocks with all threads. */
static bool has_room(const TsGpuEmit *g, const TsGpuReduce *r, int64_t lanes, int vector) {
  enum { DEEP = 6, OF_COLUMN = 8, ELSE = 24, THREADS = 1024 };
  const TsTarget *t = g->e->target;
  int64_t room = (int64_t)t->registers * THREADS / (g->threads * g->phase->rounds);
  int64_t used = lanes * vector * (1 + loads_of(r->x, DEEP)) + OF_COLUMN * vector + ELSE;
  return !ts_target_gpu(t) || used <= room;
}

static int vector_of(const TsGpuEmit *g, const TsGpuReduce *r) {
  int v = g->phase->vector;
  while (v > 1 && (r->outs % v || !has_room(g, r, WIDE / 2, v))) v /= 2;
  return v;
}

static int64_t wide_of(const TsGpuEmit *g, const TsGpuReduce *r, int64_t most) {
  int64_t n = most < WIDE ? most : WIDE;
  while (n > 1 && !has_room(g, r, n, vector_of(g, r))) n /= 2;
  return n;
}

static int64_t deep_of(const TsGpuEmit *g, const TsGpuReduce *r) {
  return g->threads / (r->outs / vector_of(g, r));
}

/* What threads may as well read where they want it. */
static bool is_loaded(const TsGpuEmit *g, const TsTileValue *x) {
  const TsTileStmt *s = x->stmt;
  if (s && s->op == TS_TILE_cast) s = s->in[0]->stmt;
  return s && s->op == TS_TILE_load && ts_gpu_reads_only(g, s->in[0]);
}

bool ts_gpu_columns(TsGpuEmit *g, TsGpuReduce *r) {
  const TsTileType *t = &r->x->type;
  int64_t lanes = r->lanes;
  if (t->rank != 2 || r->axis || (ts_gpu_resident(g, t) && !is_loaded(g, r->x))) return false;
  int64_t across = r->outs / vector_of(g, r), deep = across ? g->threads / across : 0;
  if (!deep || g->threads % across || deep & (deep - 1) || deep > lanes) return false;
  r->wide = (int)wide_of(g, r, lanes / deep);
  r->lanes = lanes / r->wide;
  int64_t most = r->length < 0 || r->length > TS_RED_LEAF ? TS_RED_LEAF : r->length;
  r->steps = (most + lanes - 1) / lanes;
  return true;
}

typedef struct Place {
  TsGpuEmit *g;
  const TsGpuReduce *r;
  V row, column, left; /* the first lane's; rows from `row` on, NULL: enough of them */
  int v;
} Place;

/* x[] of the row `off` rows behind, or nothing. */
static void elements(const Place *p, V step, int64_t off, V *x) {
  TsGpuEmit *g = p->g;
  V behind = ts_gpu_add(g, step, ts_gpu_i64(g, off)), in = NULL;
  if (p->left) {
    in = LLVMBuildICmp(g->e->b, LLVMIntSLT, behind, p->left, "");
    behind = LLVMBuildSelect(g->e->b, in, behind, ts_gpu_i64(g, 0), "");
  }
  TsGpuCoord at[TS_TILE_RANK] = {{ts_gpu_add(g, p->row, behind), 0, 0}, {p->column, 0, p->v}};
  if (!p->left) at[0] = (TsGpuCoord){ts_gpu_add(g, p->row, step), off, 0};
  TsGpuFrame *f = ts_gpu_frame_at(g, &p->r->x->type, at);
  V none = ts_gpu_identity(g, p->r->f.op, p->r->f.d);
  for (int i = 0; i < p->v; i++) {
    x[i] = ts_gpu_elem(g, f, p->r->x, i);
    if (in) x[i] = LLVMBuildSelect(g->e->b, in, x[i], none, "");
  }
}

/* The chains of `wide` lanes by v columns, step by step, several steps a round of the loop. */
static void chains(const Place *p, V *acc) {
  TsGpuEmit *g = p->g;
  const TsGpuReduce *r = p->r;
  LLVMBuilderRef b = g->e->b;
  int64_t all = r->lanes * r->wide, unroll = WIDE / r->wide;
  while (unroll > 1 && unroll * r->wide * p->v > UNDER_WAY) unroll /= 2;
  int n = r->wide * p->v;
  while (r->steps % unroll) unroll /= 2;
  V begin = ts_gpu_identity(g, r->f.op, r->f.d), now[WIDE * VECTOR];
  LLVMBasicBlockRef before = LLVMGetInsertBlock(b), last;
  TsGpuLoop l = ts_gpu_loop(g, ts_gpu_i64(g, 0), ts_gpu_i64(g, r->steps * all),
                            ts_gpu_i64(g, unroll * all));
  for (int i = 0; i < n; i++) {
    acc[i] = now[i] = LLVMBuildPhi(b, r->f.type, "");
    LLVMAddIncoming(now[i], &begin, &before, 1);
  }
  V x[WIDE * VECTOR];
  for (int64_t u = 0; u < unroll; u += 1) {
    for (int j = 0; j < r->wide; j++) elements(p, l.i, u * all + r->lanes * j, x + j * p->v);
    for (int i = 0; i < n; i++) acc[i] = ts_gpu_combine(g, r->f.op, r->f.d, acc[i], x[i]);
  }
  last = LLVMGetInsertBlock(b);
  for (int i = 0; i < n; i++) LLVMAddIncoming(now[i], &acc[i], &last, 1);
  ts_gpu_loop_end(g, &l);
  for (int i = 0; i < n; i++) {
    V y = LLVMBuildPhi(b, r->f.type, "");
    LLVMAddIncoming(y, &begin, &before, 1), LLVMAddIncoming(y, &acc[i], &last, 1);
    acc[i] = y;
  }
}

/* Lane `lane` of leaf b of those taken together. */
static void put_one(const Place *p, V b, V lane, V column) {
  TsGpuEmit *g = p->g;
  const TsGpuReduce *r = p->r;
  V acc[WIDE * VECTOR];
  chains(p, acc);
  for (int h = r->wide / 2; h; h /= 2)
    for (int i = 0; i < h * p->v; i++)
      acc[i] = ts_gpu_combine(g, r->f.op, r->f.d, acc[i], acc[i + h * p->v]);
  for (int i = 0; i < p->v; i++) {
    V o = ts_gpu_add(g, column, ts_gpu_i64(g, i));
    ts_gpu_fold_put(g, &r->f, r->lane, ts_gpu_lane_place(g, r, b, o, lane),
                    (TsGpuItem){acc[i], NULL});
  }
}

static void put_leaf(TsGpuEmit *g, const TsGpuReduce *r, V leaf, V which) {
  LLVMBuilderRef b = g->e->b;
  int64_t across = r->outs / vector_of(g, r), deep = deep_of(g, r);
  Place p = {.g = g, .r = r, .v = vector_of(g, r)};
  V first = ts_gpu_mul(g, ts_gpu_add(g, leaf, which), TS_RED_LEAF), full = NULL;
  p.column = ts_gpu_mul(g, ts_gpu_mod(g, g->tid64, across), p.v);
  TsGpuLoop l = ts_gpu_loop(g, ts_gpu_div(g, g->tid64, across), ts_gpu_i64(g, r->lanes),
                            ts_gpu_i64(g, deep));
  p.row = ts_gpu_add(g, first, l.i);
  V left = LLVMBuildSub(b, r->n, p.row, "");
  int64_t all = r->lanes * r->wide;
  bool whole = r->length >= 0 && r->length % (r->length < TS_RED_LEAF ? all : TS_RED_LEAF) == 0;
  bool some = r->length < 0 || r->length > TS_RED_LEAF;
  if (whole) {
    put_one(&p, which, l.i, p.column);
  } else if (!some) {
    p.left = left;
    put_one(&p, which, l.i, p.column);
  } else { /* the same for all threads */
    V end = ts_gpu_add(g, first, ts_gpu_i64(g, TS_RED_LEAF));
    LLVMBasicBlockRef part = LLVMAppendBasicBlockInContext(g->e->ctx, g->e->fn, "");
    LLVMBasicBlockRef after = LLVMAppendBasicBlockInContext(g->e->ctx, g->e->fn, "");
    LLVMBasicBlockRef yes = LLVMAppendBasicBlockInContext(g->e->ctx, g->e->fn, "");
    full = LLVMBuildICmp(b, LLVMIntSLE, end, r->n, "");
    LLVMBuildCondBr(b, full, yes, part);
    LLVMPositionBuilderAtEnd(b, yes);
    put_one(&p, which, l.i, p.column);
    LLVMBuildBr(b, after);
    LLVMPositionBuilderAtEnd(b, part);
    p.left = left;
    put_one(&p, which, l.i, p.column);
    LLVMBuildBr(b, after);
    LLVMPositionBuilderAtEnd(b, after);
  }
  ts_gpu_loop_end(g, &l);
}

/* Leaves `leaf` on, of which there are `count`: as many as are taken together, so that threads
 * meet once for all of them, and memory does not stand still meanwhile. */
void ts_gpu_put_columns(TsGpuEmit *g, const TsGpuReduce *r, V leaf, V count) {
  V left = LLVMBuildSub(g->e->b, count, leaf, "");
  V some = ts_emit_call2(g->e, "llvm.smin", left, ts_gpu_i64(g, r->batch));
  TsGpuLoop l = ts_gpu_loop(g, ts_gpu_i64(g, 0), some, ts_gpu_i64(g, 1));
  put_leaf(g, r, leaf, l.i);
  ts_gpu_loop_end(g, &l);
  ts_gpu_sync(g);
}
