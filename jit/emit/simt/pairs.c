/* The end of a sum whose leaves are the elements: neighbours are added level by level, an
 * unpaired last one going up as it is, which is what adding the identity does. */
#include "jit/emit/simt/reduce.h"

typedef LLVMValueRef V;

enum { WARP = TS_GPU_WARP, MOST = 8 }; /* sums that a thread takes at the end */

/* By way of shared memory, level by level, all threads having read before one writes. */
static void by_levels(TsGpuEmit *g, const TsTileStmt *s) {
  const TsTileType *t = &s->in[0]->type;
  TsDtype d = (TsDtype)t->dtype;
  int64_t n = t->dim[0], before = g->shared_used;
  if (t->rank != 1 || ts_tile_dim_is(n)) ts_emit_fail(g->e, "pairs of more than one row");
  LLVMTypeRef type = ts_emit_elem(g->e, d);
  int size = ts_dtypes[d].nbytes;
  ts_gpu_prepare(g, s->in[0]);
  /* The first level straight from the elements. */
  int64_t room[2] = {0, 0};
  bool one = n == 1;
  room[0] = ts_gpu_shared_take(g, (n + 1) / 2 * size);
  room[1] = ts_gpu_shared_take(g, (n + 3) / 4 * size);
  int from = -1;
  for (int to = 0; n > 1 || one; n = (n + 1) / 2, from = to, to = !to, one = false) {
    int64_t m = (n + 1) / 2;
    TsGpuLoop l = ts_gpu_loop(g, g->tid64, ts_gpu_i64(g, m), ts_gpu_i64(g, g->threads));
    V x[2], even = ts_gpu_mul(g, l.i, 2);
    V odd = ts_gpu_add(g, even, ts_gpu_i64(g, 1));
    V in = ts_gpu_below(g, odd, ts_gpu_i64(g, n));
    V near = LLVMBuildSelect(g->e->b, in, odd, even, "");
    for (int i = 0; i < 2; i++) {
      V at = i ? near : even;
      x[i] = from < 0
                 ? ts_gpu_elem_at(g, s->in[0], (TsGpuCoord[TS_TILE_RANK]){{at, 0, 0}})
                 : LLVMBuildLoad2(g->e->b, type, ts_gpu_shared_at(g, room[from], type, at), "");
    }
    V sum = ts_gpu_combine(g, TS_TILE_sum, d, x[0], x[1]);
    LLVMBuildStore(g->e->b, LLVMBuildSelect(g->e->b, in, sum, x[0], ""),
                   ts_gpu_shared_at(g, room[to], type, l.i));
    ts_gpu_loop_end(g, &l);
    ts_gpu_sync(g);
  }
  V y = LLVMBuildLoad2(g->e->b, type, ts_gpu_shared_at(g, room[from], type, NULL), "");
  ts_gpu_define(g, s->out[0], &y);
  ts_gpu_sync(g);
  g->shared_used = before;
}

static bool in_registers(TsGpuEmit *g, const TsTileStmt *s) {
  const TsTileType *t = &s->in[0]->type;
  if (t->rank != 1 || !ts_gpu_resident(g, t) || t->dim[0] < 1) return false;
  const TsGpuFrame *f = ts_gpu_frame(g, t);
  return !f->laned && !(g->threads & (g->threads - 1)) &&
         (int64_t)f->chunks * (g->threads / WARP) <= WARP * MOST;
}

/* n neighbours, n a power of two. */
static V tree(TsGpuEmit *g, TsDtype d, V *x, int n) {
  for (; n > 1; n /= 2)
    for (int i = 0; i < n / 2; i++)
      x[i] = ts_gpu_combine(g, TS_TILE_sum, d, x[2 * i], x[2 * i + 1]);
  return x[0];
}

static V warp_tree(TsGpuEmit *g, TsDtype d, V x) {
  for (int mask = 1; mask < WARP; mask *= 2)
    x = ts_gpu_combine(g, TS_TILE_sum, d, x, ts_gpu_shuffle(g, x, mask));
  return x;
}

/* Vectors, warps, then all that warps have left by each of them. */
static void by_warps(TsGpuEmit *g, const TsTileStmt *s) {
  const TsTileType *t = &s->in[0]->type;
  TsDtype d = (TsDtype)t->dtype;
  LLVMTypeRef type = ts_emit_elem(g->e, d), i64 = ts_emit_int_type(g->e, 64, 0);
  TsGpuFrame *f = ts_gpu_frame(g, t);
  V *x = ts_gpu_slots(g, f, s->in[0]), none = ts_gpu_identity(g, TS_TILE_sum, d);
  int warps = g->threads / WARP, count = f->chunks * warps, each = 1;
  int64_t before = g->shared_used;
  int64_t room = ts_gpu_shared_take(g, (int64_t)count * ts_dtypes[d].nbytes);
  V zero = ts_emit_int(g->e, LLVMTypeOf(g->lane), 0), warp = ts_gpu_div(g, g->tid64, WARP);
  for (int k = 0; k < f->chunks; k++) {
    V *own = x + k * f->vector, part[16];
    for (int i = 0; i < f->vector; i++)
      part[i] = f->valid[k] ? LLVMBuildSelect(g->e->b, f->valid[k], own[i], none, "") : own[i];
    V sum = warp_tree(g, d, tree(g, d, part, f->vector));
    LLVMBasicBlockRef after =
        ts_gpu_if(g, LLVMBuildICmp(g->e->b, LLVMIntEQ, g->lane, zero, ""));
    LLVMBuildStore(g->e->b, sum,
                   ts_gpu_shared_at(g, room, type,
                                    ts_gpu_add(g, warp, ts_gpu_i64(g, (int64_t)k * warps))));
    ts_gpu_if_end(g, after);
  }
  ts_gpu_sync(g);
  while (each * WARP < count) each *= 2;
  V left[MOST], first = ts_gpu_mul(g, LLVMBuildZExt(g->e->b, g->lane, i64, ""), each);
  for (int i = 0; i < each; i++) {
    V at = ts_gpu_add(g, first, ts_gpu_i64(g, i));
    V in = ts_gpu_below(g, at, ts_gpu_i64(g, count));
    at = LLVMBuildSelect(g->e->b, in, at, ts_gpu_i64(g, 0), "");
    left[i] = LLVMBuildLoad2(g->e->b, type, ts_gpu_shared_at(g, room, type, at), "");
    left[i] = LLVMBuildSelect(g->e->b, in, left[i], none, "");
  }
  V y = warp_tree(g, d, tree(g, d, left, each));
  ts_gpu_define(g, s->out[0], &y);
  ts_gpu_sync(g);
  g->shared_used = before;
}

void ts_gpu_pairs(TsGpuEmit *g, const TsTileStmt *s) {
  if (in_registers(g, s))
    by_warps(g, s);
  else
    by_levels(g, s);
}
