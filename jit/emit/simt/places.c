/* Stable places by digits. Each warp has its own elements and its own counters in shared
 * memory: lanes of one digit find each other by votes, the first of them moves the warp's
 * counter of that digit by their number. Nobody writes what another warp writes, so there are
 * no atomics and one result. Then counters are added up over digits and warps: where a warp's
 * elements of a digit begin. */
#include "jit/emit/simt/emit.h"

typedef LLVMValueRef V;

enum { WARP = TS_GPU_WARP };

typedef struct Places {
  TsGpuEmit *g;
  const TsGpuFrame *f;
  int bins, bits, warps;
  int64_t counter, sums; /* [warps, bins]; a sum of each warp */
  LLVMTypeRef i32;
  V warp, own; /* this warp, and its first counter */
} Places;

static V num(Places *p, int64_t v) { return ts_emit_int(p->g->e, p->i32, v); }

static V index_of(Places *p, V x) {
  return LLVMBuildZExt(p->g->e->b, x, ts_emit_int_type(p->g->e, 64, 0), "");
}

static V counter_at(Places *p, V i) { return ts_gpu_shared_at(p->g, p->counter, p->i32, i); }

static V load(Places *p, V at) { return LLVMBuildLoad2(p->g->e->b, p->i32, at, ""); }

static void clear(Places *p) {
  TsGpuEmit *g = p->g;
  TsGpuLoop l = ts_gpu_loop(g, g->tid64, ts_gpu_i64(g, (int64_t)p->warps * p->bins),
                            ts_gpu_i64(g, g->threads));
  LLVMBuildStore(g->e->b, num(p, 0), counter_at(p, l.i));
  ts_gpu_loop_end(g, &l);
  ts_gpu_sync(g);
}

/* The place of an element among its warp's of the same digit. */
static V count(Places *p, V digit) {
  TsGpuEmit *g = p->g;
  LLVMBuilderRef b = g->e->b;
  V equals = ts_gpu_equals(g, digit, p->bits);
  V below = LLVMBuildSub(b, LLVMBuildShl(b, num(p, 1), g->lane, ""), num(p, 1), "");
  V before = LLVMBuildAnd(b, equals, below, "");
  V at = counter_at(p, ts_gpu_add(g, p->own, index_of(p, digit)));
  V seen = load(p, at);
  ts_gpu_warp_sync(g);
  LLVMBasicBlockRef after = ts_gpu_if(g, LLVMBuildICmp(b, LLVMIntEQ, before, num(p, 0), ""));
  LLVMBuildStore(b, LLVMBuildAdd(b, seen, ts_emit_call1(g->e, "llvm.ctpop", equals), ""), at);
  ts_gpu_if_end(g, after);
  ts_gpu_warp_sync(g);
  return LLVMBuildAdd(b, seen, ts_emit_call1(g->e, "llvm.ctpop", before), "");
}

/* The sum of x of the threads before this one. */
static V sum_before(Places *p, V x) {
  TsGpuEmit *g = p->g;
  LLVMBuilderRef b = g->e->b;
  V sum = x, before = num(p, 0);
  for (int mask = 1; mask < WARP; mask *= 2) {
    V other = ts_gpu_shuffle(g, sum, mask);
    V upper = LLVMBuildAnd(b, g->lane, num(p, mask), "");
    upper = LLVMBuildICmp(b, LLVMIntNE, upper, num(p, 0), "");
    before = LLVMBuildAdd(b, before, LLVMBuildSelect(b, upper, other, num(p, 0), ""), "");
    sum = LLVMBuildAdd(b, sum, other, "");
  }
  int of_bins = (p->bins + WARP - 1) / WARP;
  if (of_bins == 1) return before;
  LLVMBasicBlockRef after = ts_gpu_if(g, LLVMBuildICmp(b, LLVMIntEQ, g->lane, num(p, 0), ""));
  LLVMBuildStore(b, sum, ts_gpu_shared_at(g, p->sums, p->i32, p->warp));
  ts_gpu_if_end(g, after);
  ts_gpu_sync(g);
  for (int w = 0; w + 1 < of_bins; w++) {
    V other = load(p, ts_gpu_shared_at(g, p->sums, p->i32, ts_gpu_i64(g, w)));
    V earlier = LLVMBuildICmp(b, LLVMIntUGT, p->warp, ts_gpu_i64(g, w), "");
    before = LLVMBuildAdd(b, before, LLVMBuildSelect(b, earlier, other, num(p, 0), ""), "");
  }
  return before;
}

/* Counters become places; thread d has what there is of digit d. */
static void add_up(Places *p, V *start, V *total) {
  TsGpuEmit *g = p->g;
  LLVMBuilderRef b = g->e->b;
  V *each = ts_emit_take(g->e, sizeof *each * (size_t)p->warps), sum = num(p, 0);
  V has = ts_gpu_below(g, g->tid64, ts_gpu_i64(g, p->bins));
  V bin = LLVMBuildSelect(b, has, g->tid64, ts_gpu_i64(g, 0), "");
  ts_gpu_sync(g);
  for (int w = 0; w < p->warps; w++) {
    each[w] = load(p, counter_at(p, ts_gpu_add(g, bin, ts_gpu_i64(g, (int64_t)w * p->bins))));
    sum = LLVMBuildAdd(b, sum, each[w], "");
  }
  *total = LLVMBuildSelect(b, has, sum, num(p, 0), "");
  *start = sum_before(p, *total);
  if (p->bins < p->g->threads) ts_gpu_sync(g); /* others have read the first digit's */
  LLVMBasicBlockRef after = ts_gpu_if(g, has);
  V run = *start;
  for (int w = 0; w < p->warps; w++) {
    LLVMBuildStore(b, run,
                   counter_at(p, ts_gpu_add(g, bin, ts_gpu_i64(g, (int64_t)w * p->bins))));
    run = LLVMBuildAdd(b, run, each[w], "");
  }
  ts_gpu_if_end(g, after);
  ts_gpu_sync(g);
}

void ts_gpu_places(TsGpuEmit *g, const TsTileStmt *s) {
  const TsTileType *t = &s->in[0]->type;
  Places p = {.g = g, .f = ts_gpu_frame(g, t), .i32 = ts_emit_int_type(g->e, 32, 0)};
  p.bins = (int)ts_tile_attr(s, "bins")->i;
  p.warps = (int)t->dim[1];
  while (1 << p.bits < p.bins) p.bits++;
  if (g->threads != p.warps * WARP || g->phase->rounds != 1 || p.f->vector != 1 || p.f->laned ||
      p.bins > g->threads)
    ts_emit_fail(g->e, "places: a block has w x 32 threads, of which each has k digits");
  int64_t before = g->shared_used;
  int n = p.f->chunks;
  V *digit = ts_gpu_slots(g, ts_gpu_frame(g, t), s->in[0]);
  V *place = ts_emit_take(g->e, sizeof *place * (size_t)n);
  p.counter = ts_gpu_shared_take(g, (int64_t)p.warps * p.bins * 4);
  p.sums = ts_gpu_shared_take(g, WARP * 4);
  p.warp = ts_gpu_div(g, g->tid64, WARP);
  p.own = ts_gpu_mul(g, p.warp, p.bins);
  clear(&p);
  for (int i = 0; i < n; i++) place[i] = count(&p, digit[i]);
  V *list = ts_emit_take(g->e, sizeof *list * 2);
  add_up(&p, &list[0], &list[1]);
  for (int i = 0; i < n; i++) {
    V first = load(&p, counter_at(&p, ts_gpu_add(g, p.own, index_of(&p, digit[i]))));
    place[i] = LLVMBuildAdd(g->e->b, first, place[i], "");
  }
  ts_gpu_define(g, s->out[0], place);
  ts_gpu_define(g, s->out[1], &list[0]);
  ts_gpu_define(g, s->out[2], &list[1]);
  ts_gpu_sync(g);
  g->shared_used = before;
}
