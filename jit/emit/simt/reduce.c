/* Reductions of any form: along any axis, of tiles in registers or too large for them, in the
 * canonical order (vm/kernels/rows/reduce_tree.h). jit/emit/simt/row.c has the fast form for
 * one row in registers.
 *
 * The work of a leaf is `lanes` chains for each result. Threads take chains, whose elements
 * they read from shared memory or compute from their coordinates, and leave the sums in shared
 * memory; there lanes meet by halves. Sums of leaves go through a binary counter, one level a
 * power of two of leaves, which is the pairing level by level. Leaves are taken some at a
 * time. */
#include "jit/emit/simt/reduce.h"
#include "vm/kernels/rows/reduce.h"

typedef LLVMValueRef V;

enum {
  LEVELS = 32,
  WORK = 8192,
  COLUMNS = 32768
}; /* levels where leaves are not known; bytes of lanes at a time */

typedef TsGpuReduce Reduce;

/* Coordinates of element e of result o. */
static void coords(TsGpuEmit *g, const Reduce *r, V o, V e, TsGpuCoord *at) {
  const TsTileType *t = &r->x->type;
  for (int i = t->rank; i-- > 0;) {
    if (i == r->axis) {
      at[i] = (TsGpuCoord){e, 0, 0};
      continue;
    }
    at[i] = (TsGpuCoord){t->dim[i] == 1 ? NULL : ts_gpu_mod(g, o, t->dim[i]), 0, 0};
    o = ts_gpu_div(g, o, t->dim[i]);
  }
}

V ts_gpu_lane_place(TsGpuEmit *g, const Reduce *r, V b, V o, V l) {
  V i = r->last ? ts_gpu_add(g, ts_gpu_mul(g, b, r->outs), o)
                : ts_gpu_add(g, ts_gpu_mul(g, b, r->lanes), l);
  return r->last ? ts_gpu_add(g, ts_gpu_mul(g, i, r->lanes), l)
                 : ts_gpu_add(g, ts_gpu_mul(g, i, r->outs), o);
}

typedef struct Work { /* an item as leaf, result, lane */
  TsGpuLoop loop;
  V b, o, l;
} Work;

/* The loop of this thread over items of `lanes` lanes. */
static Work work_begin(TsGpuEmit *g, const Reduce *r, int64_t lanes) {
  Work w = {.loop = ts_gpu_loop(g, g->tid64, ts_gpu_i64(g, r->batch * r->outs * lanes),
                                ts_gpu_i64(g, g->threads))};
  V i = w.loop.i;
  if (r->last) {
    w.l = ts_gpu_mod(g, i, lanes), i = ts_gpu_div(g, i, lanes);
    w.o = ts_gpu_mod(g, i, r->outs), w.b = ts_gpu_div(g, i, r->outs);
  } else {
    w.o = ts_gpu_mod(g, i, r->outs), i = ts_gpu_div(g, i, r->outs);
    w.l = ts_gpu_mod(g, i, lanes), w.b = ts_gpu_div(g, i, lanes);
  }
  return w;
}

/* The chain of one lane: elements from `start`, every lanes-th, below end. */
static TsGpuItem chain(TsGpuEmit *g, const Reduce *r, V o, V start, V end) {
  LLVMBuilderRef b = g->e->b;
  TsGpuItem begin = ts_gpu_fold_none(g, &r->f), now = begin, after = begin;
  LLVMBasicBlockRef before = LLVMGetInsertBlock(b), last;
  TsGpuLoop l = ts_gpu_loop(g, start, end, ts_gpu_i64(g, r->lanes));
  TsGpuCoord at[TS_TILE_RANK] = {{0}};
  now.x = LLVMBuildPhi(b, r->f.type, "");
  if (r->f.place) now.at = LLVMBuildPhi(b, ts_emit_int_type(g->e, 64, 0), "");
  coords(g, r, o, l.i, at);
  V x = ts_gpu_elem_at(g, r->x, at);
  TsGpuItem next = ts_gpu_fold_two(g, &r->f, now, ts_gpu_fold_item(g, &r->f, x, l.i));
  last = LLVMGetInsertBlock(b);
  LLVMAddIncoming(now.x, &begin.x, &before, 1), LLVMAddIncoming(now.x, &next.x, &last, 1);
  if (r->f.place)
    LLVMAddIncoming(now.at, &begin.at, &before, 1), LLVMAddIncoming(now.at, &next.at, &last, 1);
  ts_gpu_loop_end(g, &l);
  after.x = LLVMBuildPhi(b, r->f.type, "");
  LLVMAddIncoming(after.x, &begin.x, &before, 1), LLVMAddIncoming(after.x, &next.x, &last, 1);
  if (r->f.place) {
    after.at = LLVMBuildPhi(b, ts_emit_int_type(g->e, 64, 0), "");
    LLVMAddIncoming(after.at, &begin.at, &before, 1);
    LLVMAddIncoming(after.at, &next.at, &last, 1);
  }
  return after;
}

static void put_lanes(TsGpuEmit *g, const Reduce *r, V leaf) {
  Work w = work_begin(g, r, r->lanes);
  V first = ts_gpu_mul(g, ts_gpu_add(g, leaf, w.b), TS_RED_LEAF);
  V end =
      ts_emit_call2(g->e, "llvm.smin", r->n, ts_gpu_add(g, first, ts_gpu_i64(g, TS_RED_LEAF)));
  TsGpuItem x = chain(g, r, w.o, ts_gpu_add(g, first, w.l), end);
  ts_gpu_fold_put(g, &r->f, r->lane, ts_gpu_lane_place(g, r, w.b, w.o, w.l), x);
  ts_gpu_loop_end(g, &w.loop);
  ts_gpu_sync(g);
}

static void halve_lanes(TsGpuEmit *g, const Reduce *r) {
  for (int64_t h = r->lanes / 2; h; h /= 2) {
    Work w = work_begin(g, r, h);
    V low = ts_gpu_lane_place(g, r, w.b, w.o, w.l);
    V high = ts_gpu_lane_place(g, r, w.b, w.o, ts_gpu_add(g, w.l, ts_gpu_i64(g, h)));
    TsGpuItem x = ts_gpu_fold_two(g, &r->f, ts_gpu_fold_get(g, &r->f, r->lane, low),
                                  ts_gpu_fold_get(g, &r->f, r->lane, high));
    ts_gpu_fold_put(g, &r->f, r->lane, low, x);
    ts_gpu_loop_end(g, &w.loop);
    ts_gpu_sync(g);
  }
}

static V level_place(TsGpuEmit *g, const Reduce *r, V level, V o) {
  return ts_gpu_add(g, ts_gpu_mul(g, level, r->outs), o);
}

/* Merges of a binary counter: level by level while the bit of q is set. Gives the level where x
 * goes to. */
static TsGpuItem carry(TsGpuEmit *g, const Reduce *r, V o, V q, TsGpuItem x, V *level) {
  TsEmit *e = g->e;
  LLVMBuilderRef b = e->b;
  LLVMTypeRef i64 = ts_emit_int_type(e, 64, 0);
  LLVMBasicBlockRef before = LLVMGetInsertBlock(b), last;
  LLVMBasicBlockRef head = LLVMAppendBasicBlockInContext(e->ctx, e->fn, "");
  LLVMBasicBlockRef body = LLVMAppendBasicBlockInContext(e->ctx, e->fn, "");
  LLVMBasicBlockRef after = LLVMAppendBasicBlockInContext(e->ctx, e->fn, "");
  LLVMBuildBr(b, head);
  LLVMPositionBuilderAtEnd(b, head);
  V l = LLVMBuildPhi(b, i64, ""), zero = ts_gpu_i64(g, 0);
  TsGpuItem now = {LLVMBuildPhi(b, r->f.type, ""), NULL};
  if (r->f.place) now.at = LLVMBuildPhi(b, i64, "");
  LLVMAddIncoming(l, &zero, &before, 1), LLVMAddIncoming(now.x, &x.x, &before, 1);
  if (r->f.place) LLVMAddIncoming(now.at, &x.at, &before, 1);
  V bit = LLVMBuildAnd(b, LLVMBuildLShr(b, q, l, ""), ts_gpu_i64(g, 1), "");
  LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntNE, bit, zero, ""), body, after);
  LLVMPositionBuilderAtEnd(b, body);
  TsGpuItem next = ts_gpu_fold_two(
      g, &r->f, ts_gpu_fold_get(g, &r->f, r->level, level_place(g, r, l, o)), now);
  V up = ts_gpu_add(g, l, ts_gpu_i64(g, 1));
  last = LLVMGetInsertBlock(b);
  LLVMAddIncoming(l, &up, &last, 1), LLVMAddIncoming(now.x, &next.x, &last, 1);
  if (r->f.place) LLVMAddIncoming(now.at, &next.at, &last, 1);
  LLVMBuildBr(b, head);
  LLVMPositionBuilderAtEnd(b, after);
  *level = l;
  return now;
}

/* One thread a result takes the leaves of a batch one after the other. */
static void count_leaves(TsGpuEmit *g, const Reduce *r, V leaf, V leaves) {
  TsGpuLoop l = ts_gpu_loop(g, g->tid64, ts_gpu_i64(g, r->outs), ts_gpu_i64(g, g->threads));
  V end =
      ts_emit_call2(g->e, "llvm.smin", leaves, ts_gpu_add(g, leaf, ts_gpu_i64(g, r->batch)));
  TsGpuLoop each = ts_gpu_loop(g, leaf, end, ts_gpu_i64(g, 1));
  V b = LLVMBuildSub(g->e->b, each.i, leaf, ""), level;
  TsGpuItem x =
      ts_gpu_fold_get(g, &r->f, r->lane, ts_gpu_lane_place(g, r, b, l.i, ts_gpu_i64(g, 0)));
  x = carry(g, r, l.i, each.i, x, &level);
  ts_gpu_fold_put(g, &r->f, r->level, level_place(g, r, level, l.i), x);
  ts_gpu_loop_end(g, &each);
  ts_gpu_loop_end(g, &l);
  ts_gpu_sync(g);
}

/* What is left in the counter, from the lowest level up: into level 0. */
static void end_count(TsGpuEmit *g, const Reduce *r, V leaves) {
  TsEmit *e = g->e;
  LLVMBuilderRef b = e->b;
  LLVMTypeRef i64 = ts_emit_int_type(e, 64, 0);
  TsGpuLoop l = ts_gpu_loop(g, g->tid64, ts_gpu_i64(g, r->outs), ts_gpu_i64(g, g->threads));
  V low = ts_emit_call(e, "llvm.cttz", 1, &i64, 2,
                       (V[]){leaves, ts_emit_int(e, ts_emit_int_type(e, 1, 0), 0)});
  V some = LLVMBuildICmp(b, LLVMIntSGT, leaves, ts_gpu_i64(g, 0), "");
  low = LLVMBuildSelect(b, some, low, ts_gpu_i64(g, 0), "");
  TsGpuItem first = ts_gpu_fold_get(g, &r->f, r->level, level_place(g, r, low, l.i)),
            empty = ts_gpu_fold_none(g, &r->f);
  first.x = LLVMBuildSelect(
      b, some, first.x,
      r->f.order || r->f.op == TS_TILE_prod ? empty.x : LLVMConstNull(r->f.type), "");
  if (r->f.place) first.at = LLVMBuildSelect(b, some, first.at, ts_gpu_i64(g, -1), "");
  ts_gpu_fold_put(g, &r->f, r->level, level_place(g, r, ts_gpu_i64(g, r->levels - 1), l.i),
                  first);
  TsGpuLoop up = ts_gpu_loop(g, ts_gpu_add(g, low, ts_gpu_i64(g, 1)),
                             ts_gpu_i64(g, r->levels - 1), ts_gpu_i64(g, 1));
  V bit = LLVMBuildAnd(b, LLVMBuildLShr(b, leaves, up.i, ""), ts_gpu_i64(g, 1), "");
  LLVMBasicBlockRef after =
      ts_gpu_if(g, LLVMBuildICmp(b, LLVMIntNE, bit, ts_gpu_i64(g, 0), ""));
  V total = level_place(g, r, ts_gpu_i64(g, r->levels - 1), l.i);
  TsGpuItem x = ts_gpu_fold_two(
      g, &r->f, ts_gpu_fold_get(g, &r->f, r->level, level_place(g, r, up.i, l.i)),
      ts_gpu_fold_get(g, &r->f, r->level, total));
  ts_gpu_fold_put(g, &r->f, r->level, total, x);
  ts_gpu_if_end(g, after);
  ts_gpu_loop_end(g, &up);
  ts_gpu_loop_end(g, &l);
  ts_gpu_sync(g);
}

static void define_results(TsGpuEmit *g, const Reduce *r) {
  TsTileVal y = r->s->out[0];
  V top = ts_gpu_i64(g, r->levels - 1);
  if (!y->type.rank) {
    V x = ts_gpu_fold_result(
        g, &r->f,
        ts_gpu_fold_get(g, &r->f, r->level, level_place(g, r, top, ts_gpu_i64(g, 0))));
    ts_gpu_define(g, y, &x);
    return;
  }
  TsGpuFrame *f = ts_gpu_frame(g, &y->type);
  int n = f->vector * f->chunks;
  V *list = ts_emit_take(g->e, sizeof *list * (size_t)n);
  for (int i = 0; i < n; i++) {
    V o = NULL;
    TsGpuCoord at[TS_TILE_RANK];
    ts_gpu_slot_at(g, f, i, at);
    for (int k = 0; k < y->type.rank; k++)
      o = ts_gpu_add(g, o ? ts_gpu_mul(g, o, y->type.dim[k]) : NULL, ts_gpu_coord(g, at[k]));
    list[i] = ts_gpu_fold_result(
        g, &r->f, ts_gpu_fold_get(g, &r->f, r->level, level_place(g, r, top, o)));
  }
  ts_gpu_define(g, y, list);
}

static int64_t lanes_of(const Reduce *r) {
  bool wide = r->f.d == TS_DT_f64;
  int64_t most = wide ? TS_RED_LANES_f64 : TS_RED_LANES_f32, w = most;
  if (r->length >= 0)
    for (w = 1; w < r->length && w < most;) w *= 2;
  return w;
}

/* As many leaves at a time as `room` bytes of lanes have room for. */
static void take_together(Reduce *r, int64_t room, int64_t leaves) {
  r->batch = room / (r->outs * r->lanes * r->f.size);
  if (r->batch > leaves) r->batch = leaves;
  if (r->batch < 1) r->batch = 1;
}

void ts_gpu_reduce(TsGpuEmit *g, const TsTileStmt *s) {
  const TsTileType *t = &s->in[0]->type;
  Reduce r = {
      .s = s, .x = s->in[0], .f = ts_gpu_fold(g, s), .axis = (int)ts_tile_attr(s, "axis")->i};
  if (!s->out[0]->type.rank && g->scalar[s->out[0]->id]) return; /* with an earlier one */
  if (ts_gpu_matrix_reduce(g, s) || ts_gpu_reduce_row(g, s) || ts_gpu_walk_reduce(g, s)) return;
  if (s->op == TS_TILE_pairs) {
    ts_gpu_pairs(g, s);
    return;
  }
  r.last = r.axis == t->rank - 1;
  r.outs = 1;
  for (int i = 0; i < t->rank; i++)
    if (i != r.axis && ts_tile_dim_is(t->dim[i]))
      ts_emit_fail(g->e, "%s: as many results as a size says", ts_tile_op_name(s->op));
    else if (i != r.axis)
      r.outs *= t->dim[i];
  r.length = ts_tile_dim_is(t->dim[r.axis]) ? -1 : t->dim[r.axis];
  r.n = ts_emit_size(g->e, t->dim[r.axis]);
  r.lanes = lanes_of(&r);
  bool free = r.f.order || !ts_dtype_is(r.f.d, TS_KIND_F); /* in any order */
  while (free && r.lanes > 1 && r.lanes * r.outs > 2 * g->threads) r.lanes /= 2;
  int64_t leaves = r.length < 0 ? INT64_MAX : (r.length + TS_RED_LEAF - 1) / TS_RED_LEAF;
  r.levels = LEVELS;
  for (int n = 2; r.length >= 0 && n <= LEVELS; n++)
    if (leaves >> (n - 1) == 0) r.levels = n + 1, n = LEVELS;
  take_together(&r, WORK, leaves);
  if (!free && ts_gpu_columns(g, &r)) take_together(&r, COLUMNS, leaves);
  int64_t before = g->shared_used;
  TsGpuHome *homes = g->homes;
  if (ts_gpu_resident(g, t) && !r.wide)
    ts_gpu_home(g, s->in[0]);
  else
    ts_gpu_prepare(g, s->in[0]);
  r.lane = ts_gpu_fold_take(g, &r.f, r.batch * r.outs * r.lanes);
  r.level = ts_gpu_fold_take(g, &r.f, r.levels * r.outs);
  V count = LLVMBuildSDiv(g->e->b, ts_gpu_add(g, r.n, ts_gpu_i64(g, TS_RED_LEAF - 1)),
                          ts_gpu_i64(g, TS_RED_LEAF), "");
  TsGpuLoop l = ts_gpu_loop(g, ts_gpu_i64(g, 0), count, ts_gpu_i64(g, r.batch));
  if (r.wide)
    ts_gpu_put_columns(g, &r, l.i, count);
  else
    put_lanes(g, &r, l.i);
  halve_lanes(g, &r);
  count_leaves(g, &r, l.i, count);
  ts_gpu_loop_end(g, &l);
  end_count(g, &r, count);
  define_results(g, &r);
  ts_gpu_sync(g);
  g->shared_used = before;
  g->homes = homes;
}
