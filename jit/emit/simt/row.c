/* Reductions of one row that lies in registers: the fast form.
 *
 * The largest, and sums of whole numbers, go in any order: own elements, the warp by shuffles,
 * warps by shared memory. Sums of floats have lanes: element e of a leaf belongs to lane e mod
 * 256. Long rows lie in that order (TsGpuFrame.laned) and each thread has whole lanes; so it is
 * where a chunk of the frame is no longer than the lanes. Else the row goes through shared
 * memory once, and each thread takes lanes from there, whose 16 elements lie 256 apart, so that
 * neighbours read neighbours.
 * Then each warp halves one leaf's lanes, 8 in registers and 32 by shuffles.
 *
 * Shared memory is used in turns: what one reduction wrote is read by all before the second
 * next one writes there, because all met in between. */
#include <math.h>

#include "jit/emit/simt/fold.h"
#include "vm/kernels/rows/reduce.h"

typedef LLVMValueRef V;

enum { WARP = TS_GPU_WARP, TOGETHER = 4 /* sums for which threads meet once */ };

static V lane64(TsGpuEmit *g) {
  return LLVMBuildZExt(g->e->b, g->lane, ts_emit_int_type(g->e, 64, 0), "");
}

static V warp64(TsGpuEmit *g) { return ts_gpu_div(g, g->tid64, WARP); }

static V is_lane0(TsGpuEmit *g) {
  return LLVMBuildICmp(g->e->b, LLVMIntEQ, g->lane,
                       ts_emit_int(g->e, ts_emit_int_type(g->e, 32, 0), 0), "");
}

/* ---- any order */
static TsGpuItem shuffled(TsGpuEmit *g, const TsGpuFold *f, TsGpuItem x, int mask) {
  return (TsGpuItem){ts_gpu_shuffle(g, x.x, mask),
                     f->place ? ts_gpu_shuffle(g, x.at, mask) : NULL};
}

static TsGpuItem butterfly(TsGpuEmit *g, const TsGpuFold *f, TsGpuItem x, int from) {
  for (int mask = from; mask; mask /= 2) x = ts_gpu_fold_two(g, f, x, shuffled(g, f, x, mask));
  return x;
}

/* The first place of the largest of a thread's f32: the value, then from the last place down
 * who has it; where it is NaN, who is NaN. */
static TsGpuItem own_place(TsGpuEmit *g, const TsGpuFold *f, TsGpuFrame *fr, const V *x) {
  LLVMBuilderRef b = g->e->b;
  LLVMTypeRef i32 = ts_emit_int_type(g->e, 32, 0);
  int n = fr->vector * fr->chunks;
  V *y = ts_emit_take(g->e, sizeof *y * (size_t)n), best = NULL, at[2] = {NULL, NULL};
  V least = ts_emit_number(g->e, f->d, 0, f->min ? INFINITY : -INFINITY);
  for (int i = 0; i < n; i++) {
    V valid = fr->valid[i / fr->vector];
    y[i] = valid ? LLVMBuildSelect(b, valid, x[i], least, "") : x[i];
    best = i ? ts_gpu_extreme(g, f->min, best, y[i]) : y[i];
  }
  for (int nan = 0; nan < 2; nan++) {
    LLVMBasicBlockRef before = LLVMGetInsertBlock(b), after = NULL, last;
    if (nan) after = ts_gpu_if(g, LLVMBuildFCmp(b, LLVMRealUNO, best, best, ""));
    for (int i = n; i-- > 0;) {
      V here = LLVMBuildFCmp(b, nan ? LLVMRealUNO : LLVMRealOEQ, y[i], nan ? y[i] : best, "");
      V place = ts_emit_int(g->e, i32, fr->at[i][0].off);
      at[nan] = i == n - 1 ? place : LLVMBuildSelect(b, here, place, at[nan], "");
    }
    if (!nan) continue;
    last = LLVMGetInsertBlock(b);
    ts_gpu_if_end(g, after);
    V which = LLVMBuildPhi(b, i32, "");
    LLVMAddIncoming(which, &at[0], &before, 1), LLVMAddIncoming(which, &at[1], &last, 1);
    at[0] = which;
  }
  V place = LLVMBuildZExt(b, at[0], ts_emit_int_type(g->e, 64, 0), "");
  TsGpuItem none = ts_gpu_fold_none(g, f),
            one = ts_gpu_fold_item(g, f, best, ts_gpu_add(g, fr->at[0][0].base, place));
  if (fr->valid[0]) {
    one.x = LLVMBuildSelect(b, fr->valid[0], one.x, none.x, "");
    one.at = LLVMBuildSelect(b, fr->valid[0], one.at, none.at, "");
  }
  return one;
}

static TsGpuItem own_elements(TsGpuEmit *g, const TsGpuFold *f, TsGpuFrame *fr, const V *x) {
  TsGpuItem none = ts_gpu_fold_none(g, f), all = none;
  if (f->place && f->d == TS_DT_f32) return own_place(g, f, fr, x);
  for (int i = 0; i < fr->vector * fr->chunks; i++) {
    V valid = fr->valid[i / fr->vector];
    TsGpuItem one =
        ts_gpu_fold_item(g, f, x[i], f->place ? ts_gpu_coord(g, fr->at[i][0]) : NULL);
    if (valid) one.x = LLVMBuildSelect(g->e->b, valid, one.x, none.x, "");
    if (valid && f->place) one.at = LLVMBuildSelect(g->e->b, valid, one.at, none.at, "");
    all = i ? ts_gpu_fold_two(g, f, all, one) : one;
  }
  return all;
}

TsGpuItem ts_gpu_meet(TsGpuEmit *g, const TsGpuFold *f, TsGpuItem own) {
  TsGpuItem all = butterfly(g, f, own, WARP / 2);
  int warps = g->threads / WARP, buffer = g->rows.buffer++ % 2;
  if (warps > 1) {
    if (g->rows.warps[buffer] < 0) g->rows.warps[buffer] = ts_gpu_shared_take(g, WARP * 16);
    TsGpuRoom room = {g->rows.warps[buffer], g->rows.warps[buffer] + WARP * 8};
    LLVMBasicBlockRef after = ts_gpu_if(g, is_lane0(g));
    ts_gpu_fold_put(g, f, room, warp64(g), all);
    ts_gpu_if_end(g, after);
    ts_gpu_sync(g);
    int wide = 1;
    while (wide < warps) wide *= 2;
    V from = LLVMBuildAnd(g->e->b, lane64(g), ts_gpu_i64(g, wide - 1), "");
    V some = wide > warps ? ts_gpu_below(g, from, ts_gpu_i64(g, warps)) : NULL;
    if (some) from = LLVMBuildSelect(g->e->b, some, from, ts_gpu_i64(g, 0), "");
    all = ts_gpu_fold_get(g, f, room, from);
    if (some) {
      TsGpuItem none = ts_gpu_fold_none(g, f);
      all.x = LLVMBuildSelect(g->e->b, some, all.x, none.x, "");
      if (f->place) all.at = LLVMBuildSelect(g->e->b, some, all.at, none.at, "");
    }
    all = butterfly(g, f, all, wide / 2);
  }
  return all;
}

static V any_order(TsGpuEmit *g, const TsGpuFold *f, TsGpuFrame *fr, const V *x) {
  return ts_gpu_fold_result(g, f, ts_gpu_meet(g, f, own_elements(g, f, fr, x)));
}

/* ---- the canonical order */
typedef struct Row {
  TsGpuEmit *g;
  const TsGpuFold *f;
  TsGpuFrame *fr;
  V *x; /* slots; none where there is no element */
  int64_t n, span, lanes, leaves;
  int64_t stage, acc; /* offsets in shared memory */
} Row;

static V add(const Row *r, V x, V y) { return ts_gpu_combine(r->g, r->f->op, r->f->d, x, y); }

/* Chunks are no longer than the lanes: acc[kk V + v] is lane V t + span kk + v. */
static int own_lanes(const Row *r, V *acc) {
  int v = r->fr->vector, p = (int)(r->lanes / r->span);
  for (int k = 0; k < r->fr->chunks; k++)
    for (int i = 0; i < v; i++) {
      V *to = &acc[k % p * v + i], x = r->x[k * v + i];
      *to = k < p ? x : add(r, *to, x);
    }
  if (p > r->fr->chunks)
    for (int i = r->fr->chunks * v; i < p * v; i++)
      acc[i] = ts_gpu_identity(r->g, r->f->op, r->f->d);
  return p * v;
}

/* One warp: halves by shuffles. A thread keeps half of its values and gets the other's half of
 * them, so that 32 V lanes take about V + 5 shuffles. */
V ts_gpu_halve_warp(TsGpuEmit *g, const TsGpuFold *f, V *acc, int n, int v) {
  LLVMBuilderRef b = g->e->b;
  int mask = WARP / 2, scattered = 0;
  for (; n > v; n /= 2)
    for (int i = 0; i < n / 2; i++)
      acc[i] = ts_gpu_combine(g, f->op, f->d, acc[i], acc[i + n / 2]);
  for (; n > 1; n /= 2, mask /= 2, scattered++) {
    V bit = LLVMBuildAnd(b, g->lane, ts_emit_int(g->e, LLVMTypeOf(g->lane), mask), "");
    V high = LLVMBuildICmp(b, LLVMIntNE, bit, ts_emit_int(g->e, LLVMTypeOf(g->lane), 0), "");
    for (int i = 0; i < n / 2; i++) {
      V send = LLVMBuildSelect(b, high, acc[i], acc[i + n / 2], "");
      V keep = LLVMBuildSelect(b, high, acc[i + n / 2], acc[i], "");
      acc[i] = ts_gpu_combine(g, f->op, f->d, keep, ts_gpu_shuffle(g, send, mask));
    }
  }
  for (; mask; mask /= 2)
    acc[0] = ts_gpu_combine(g, f->op, f->d, acc[0], ts_gpu_shuffle(g, acc[0], mask));
  for (int k = 0; k < scattered; k++)
    acc[0] = ts_gpu_combine(g, f->op, f->d, acc[0], ts_gpu_shuffle(g, acc[0], (WARP / 2) >> k));
  return acc[0];
}

static void store_words(const Row *r, int64_t offset, V at, int n, const V *x) {
  TsGpuEmit *g = r->g;
  LLVMTypeRef t = r->f->type;
  int each = 16 / r->f->size < n ? 16 / r->f->size : n;
  for (int i = 0; i < n; i += each) {
    V p = ts_gpu_shared_at(g, offset + (int64_t)i * r->f->size, t, at), y = x[i];
    if (each > 1) y = LLVMGetPoison(LLVMVectorType(t, (unsigned)each));
    for (int k = 0; k < each && each > 1; k++)
      y = LLVMBuildInsertElement(g->e->b, y, x[i + k],
                                 ts_emit_int(g->e, ts_emit_int_type(g->e, 32, 0), k), "");
    LLVMSetAlignment(LLVMBuildStore(g->e->b, y, p), (unsigned)(each * r->f->size));
  }
}

static V load_word(const Row *r, int64_t offset, V at) {
  return LLVMBuildLoad2(r->g->e->b, r->f->type, ts_gpu_shared_at(r->g, offset, r->f->type, at),
                        "");
}

/* V lanes of a leaf, whole. */
static void put_whole_lanes(const Row *r) {
  int v = r->fr->vector;
  V acc[8];
  for (int k = 0; k < r->fr->chunks; k++)
    for (int i = 0; i < v; i++) acc[i] = k ? add(r, acc[i], r->x[k * v + i]) : r->x[i];
  store_words(r, r->acc, ts_gpu_mul(r->g, r->g->tid64, v), v, acc);
}

static void put_own_lanes(const Row *r) {
  V acc[2 * TS_RED_LANES_f32];
  int n = own_lanes(r, acc), v = r->fr->vector;
  V at = ts_gpu_mul(r->g, r->g->tid64, v);
  for (int i = 0; i < n; i += v)
    store_words(r, r->acc + r->span * (i / v) * r->f->size, at, v, acc + i);
}

/* The chain of lane `item mod lanes` of leaf `item / lanes`, from the staged row. */
static V staged_chain(const Row *r, V item) {
  TsGpuEmit *g = r->g;
  int64_t staged = r->span * r->fr->chunks, most = staged < TS_RED_LEAF ? staged : TS_RED_LEAF;
  V leaf = r->leaves > 1 ? ts_gpu_div(g, item, r->lanes) : ts_gpu_i64(g, 0);
  V lane = r->leaves > 1 ? ts_gpu_mod(g, item, r->lanes) : item, sum = NULL;
  V first = ts_gpu_add(g, ts_gpu_mul(g, leaf, TS_RED_LEAF), lane);
  bool whole = staged % TS_RED_LEAF == 0 || r->leaves == 1;
  int64_t steps = (most + r->lanes - 1) / r->lanes;
  if (r->leaves == 1) steps = (r->n + r->lanes - 1) / r->lanes;
  for (int64_t s = 0; s < steps; s++) {
    V at = ts_gpu_add(g, first, ts_gpu_i64(g, s * r->lanes)), x, in = NULL;
    if (!whole) {
      in = ts_gpu_below(g, at, ts_gpu_i64(g, staged));
      at = LLVMBuildSelect(g->e->b, in, at, lane, "");
    }
    x = load_word(r, r->stage, at);
    if (in) x = LLVMBuildSelect(g->e->b, in, x, ts_gpu_identity(g, r->f->op, r->f->d), "");
    sum = sum ? add(r, sum, x) : x;
  }
  return sum;
}

static void put_staged_lanes(const Row *r) {
  TsGpuEmit *g = r->g;
  int v = r->fr->vector;
  int64_t items = r->lanes * r->leaves;
  V at = ts_gpu_mul(g, g->tid64, v);
  for (int k = 0; k < r->fr->chunks; k++)
    store_words(r, r->stage + r->span * k * r->f->size, at, v, r->x + k * v);
  ts_gpu_sync(g);
  for (int64_t i = 0; i < items; i += g->threads) {
    V item = ts_gpu_add(g, g->tid64, ts_gpu_i64(g, i));
    LLVMBasicBlockRef after = NULL;
    if (i + g->threads > items)
      after = ts_gpu_if(g, ts_gpu_below(g, item, ts_gpu_i64(g, items)));
    V x = staged_chain(r, item);
    store_words(r, r->acc, item, 1, &x);
    if (after) ts_gpu_if_end(g, after);
  }
}

/* A warp halves the lanes of a leaf. */
static V halve_leaf(const Row *r, V leaf) {
  TsGpuEmit *g = r->g;
  V first = ts_gpu_mul(g, leaf, r->lanes), x[TS_RED_LANES_f32 / WARP];
  int n = r->lanes > WARP ? (int)r->lanes / WARP : 1;
  V lane = lane64(g);
  if (r->lanes < WARP) lane = LLVMBuildAnd(g->e->b, lane, ts_gpu_i64(g, r->lanes - 1), "");
  for (int i = 0; i < n; i++)
    x[i] = load_word(r, r->acc + (int64_t)i * WARP * r->f->size, ts_gpu_add(g, first, lane));
  for (; n > 1; n /= 2)
    for (int i = 0; i < n / 2; i++) x[i] = add(r, x[i], x[i + n / 2]);
  int mask = (int)(r->lanes < WARP ? r->lanes : WARP) / 2;
  for (; mask; mask /= 2) x[0] = add(r, x[0], ts_gpu_shuffle(g, x[0], mask));
  return x[0];
}

/* One or two leaves are halved by each warp, more of them by one warp each. */
static V pair_leaves(const Row *r) {
  TsGpuEmit *g = r->g;
  V first =
      halve_leaf(r, r->leaves > 2 ? ts_gpu_mod(g, warp64(g), r->leaves) : ts_gpu_i64(g, 0));
  if (r->leaves == 1) return first;
  if (r->leaves == 2) return add(r, first, halve_leaf(r, ts_gpu_i64(g, 1)));
  if (g->rows.leaf < 0) g->rows.leaf = ts_gpu_shared_take(g, TS_GPU_ELEMS * 8);
  V leaf = ts_gpu_mod(g, warp64(g), r->leaves), x[TS_GPU_ELEMS];
  LLVMBasicBlockRef after = ts_gpu_if(g, is_lane0(g));
  store_words(r, g->rows.leaf, leaf, 1, &first);
  ts_gpu_if_end(g, after);
  ts_gpu_sync(g);
  for (int i = 0; i < r->leaves; i++) x[i] = load_word(r, g->rows.leaf, ts_gpu_i64(g, i));
  for (int64_t n = r->leaves; n > 1; n = (n + 1) / 2)
    for (int64_t i = 0; i < n; i += 2) x[i / 2] = i + 1 < n ? add(r, x[i], x[i + 1]) : x[i];
  return x[0];
}

/* Chunks no longer than the lanes of the only leaf: nothing is staged. */
static bool has_own_lanes(const Row *r) { return r->span <= r->lanes && r->leaves == 1; }

/* One place for rows and `count` sums that is large enough, as long as the region lasts. */
static void take_rooms(Row *r, int count) {
  TsGpuEmit *g = r->g;
  int64_t stage = r->span * r->fr->chunks * r->f->size;
  int64_t acc = r->lanes * r->leaves * r->f->size * count;
  int buffer = g->rows.buffer++ % 2;
  if (!r->fr->laned && !has_own_lanes(r) && g->rows.stage_bytes < stage) {
    g->rows.stage = ts_gpu_shared_take(g, stage);
    g->rows.stage_bytes = stage;
  }
  if (g->rows.acc_bytes[buffer] < acc) {
    g->rows.acc[buffer] = ts_gpu_shared_take(g, acc);
    g->rows.acc_bytes[buffer] = acc;
  }
  r->stage = g->rows.stage, r->acc = g->rows.acc[buffer];
}

static Row row_of(TsGpuEmit *g, const TsGpuFold *f, TsGpuFrame *fr, V *x) {
  Row r = {.g = g, .f = f, .fr = fr, .x = x, .n = fr->dim[0]};
  int64_t most = f->d == TS_DT_f64 ? TS_RED_LANES_f64 : TS_RED_LANES_f32;
  r.span = ts_gpu_frame_span(g, fr);
  r.leaves = (r.n + TS_RED_LEAF - 1) / TS_RED_LEAF;
  for (r.lanes = 1; r.lanes < r.n && r.lanes < most;) r.lanes *= 2;
  for (int i = 0; i < fr->vector * fr->chunks; i++)
    if (fr->valid[i / fr->vector])
      r.x[i] = LLVMBuildSelect(g->e->b, fr->valid[i / fr->vector], r.x[i],
                               ts_gpu_identity(g, f->op, f->d), "");
  if (!fr->laned && r.leaves == 1 && r.lanes < r.span && r.span <= most) r.lanes = r.span;
  return r;
}

static V canonical(TsGpuEmit *g, const TsGpuFold *f, TsGpuFrame *fr, V *x) {
  Row r = row_of(g, f, fr, x);
  if (!fr->laned && g->threads == WARP && has_own_lanes(&r)) {
    V acc[2 * TS_RED_LANES_f32];
    int n = own_lanes(&r, acc);
    return ts_gpu_halve_warp(g, f, acc, n, fr->vector);
  }
  take_rooms(&r, 1);
  if (has_own_lanes(&r))
    put_own_lanes(&r);
  else
    put_staged_lanes(&r);
  ts_gpu_sync(g);
  return pair_leaves(&r);
}

/* Sums that can be known as soon as s: rows of one shape in the order of lanes. */
static int find_together(TsGpuEmit *g, TsGpuFrame *fr, const TsTileStmt *s,
                         const TsTileStmt **found) {
  int n = 0;
  int64_t leaves = (fr->dim[0] + TS_RED_LEAF - 1) / TS_RED_LEAF;
  found[n++] = s;
  for (const TsTileStmt *p = s->next; p && leaves <= 2 && n < TOGETHER; p = p->next)
    if (p->op == s->op && p->in[0]->type.rank == 1 && p->in[0]->type.dim[0] == fr->dim[0] &&
        p->in[0]->type.dtype == s->in[0]->type.dtype && !g->scalar[p->out[0]->id] &&
        ts_gpu_ready(g, fr, p->in[0]))
      found[n++] = p;
  return n;
}

/* Threads meet once for all of them. */
static void sum_together(TsGpuEmit *g, const TsGpuFold *f, TsGpuFrame *fr,
                         const TsTileStmt *s) {
  const TsTileStmt *all[TOGETHER];
  Row r[TOGETHER];
  int n = find_together(g, fr, s, all);
  for (int i = 0; i < n; i++) r[i] = row_of(g, f, fr, ts_gpu_slots(g, fr, all[i]->in[0]));
  take_rooms(&r[0], n);
  for (int i = 0; i < n; i++) {
    r[i].acc = r[0].acc + r[0].lanes * r[0].leaves * f->size * i;
    put_whole_lanes(&r[i]);
  }
  ts_gpu_sync(g);
  for (int i = 0; i < n; i++) {
    V y = pair_leaves(&r[i]);
    ts_gpu_define(g, all[i]->out[0], &y);
  }
}

bool ts_gpu_reduce_row(TsGpuEmit *g, const TsTileStmt *s) {
  const TsTileType *t = &s->in[0]->type;
  if (t->rank != 1 || s->op == TS_TILE_pairs || !ts_gpu_resident(g, t) || t->dim[0] < 1)
    return false;
  TsGpuFold f = ts_gpu_fold(g, s);
  TsGpuFrame *fr = ts_gpu_frame(g, t);
  V *x = ts_gpu_slots(g, fr, s->in[0]), y;
  bool free = f.order || !ts_dtype_is(f.d, TS_KIND_F);
  if (!free && (t->dim[0] + TS_RED_LEAF - 1) / TS_RED_LEAF > g->threads / WARP) return false;
  if (!free && fr->laned) {
    sum_together(g, &f, fr, s);
    return true;
  }
  y = free ? any_order(g, &f, fr, x) : canonical(g, &f, fr, x);
  ts_gpu_define(g, s->out[0], &y);
  return true;
}
