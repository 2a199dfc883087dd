/* Stores of one thread. See jit/emit/simt/memory.h. */
#include "jit/emit/simt/memory.h"

typedef LLVMValueRef V;
typedef TsGpuAccess Access;

static void write_plain(TsGpuEmit *g, const Access *a, const TsGpuCoord (*at)[TS_TILE_RANK],
                        int n, const V *x) {
  if (ts_gpu_along(a)) {
    ts_gpu_write_vector(g, a, ts_gpu_pointer(g, a, at[0]), n, x);
    return;
  }
  for (int i = 0; i < n; i++)
    LLVMSetAlignment(LLVMBuildStore(g->e->b, x[i], ts_gpu_pointer(g, a, at[i])),
                     ts_dtypes[a->d].nbytes);
}

static void write_each(TsGpuEmit *g, const Access *a, V valid,
                       const TsGpuCoord (*at)[TS_TILE_RANK], int n, const V *x) {
  V in[TS_GPU_VECTOR_MOST], p = ts_gpu_pointer(g, a, at[0]);
  ts_gpu_each_inside(g, a, valid, at[0], n, in);
  for (int i = 0; i < n; i++)
    ts_gpu_write_guarded(g, a, p, i * ts_dtypes[a->d].nbytes, in[i], x[i]);
}

static void write_some(TsGpuEmit *g, const Access *a, const TsGpuCoord (*at)[TS_TILE_RANK],
                       int n, const V *x) {
  int axis = a->axis[a->rank - 1];
  for (int i = 0; i < n; i++) {
    V in =
        ts_gpu_below(g, ts_gpu_axis_position(g, a, axis, at[i]), ts_gpu_axis_size(g, a, axis));
    LLVMBasicBlockRef after = ts_gpu_if(g, in);
    write_plain(g, a, at + i, 1, x + i);
    ts_gpu_if_end(g, after);
  }
}

static void write_elems(TsGpuEmit *g, const Access *a, V valid,
                        const TsGpuCoord (*at)[TS_TILE_RANK], int n, const V *x) {
  V stored[TS_GPU_VECTOR_MOST], some = NULL, all = NULL;
  for (int i = 0; i < n; i++) stored[i] = ts_gpu_to_stored(g, a->d, x[i]);
  if (a->edge) all = ts_gpu_all_inside(g, a, at[0], n, &some);
  V c = ts_gpu_and(g, valid, all);
  if (!c) {
    write_plain(g, a, at, n, stored);
    return;
  }
  LLVMBasicBlockRef yes, no, end = ts_gpu_block(g);
  ts_gpu_branch(g, c, &yes, &no);
  write_plain(g, a, at, n, stored);
  LLVMBuildBr(g->e->b, end);
  LLVMPositionBuilderAtEnd(g->e->b, no);
  if (some && ts_gpu_by_predicates(g, a)) {
    write_each(g, a, valid, at, n, stored);
  } else if (some) {
    LLVMBasicBlockRef after = ts_gpu_if(g, ts_gpu_and(g, valid, some));
    write_some(g, a, at, n, stored);
    ts_gpu_if_end(g, after);
  }
  LLVMBuildBr(g->e->b, end);
  LLVMMoveBasicBlockAfter(end, LLVMGetLastBasicBlock(g->e->fn));
  LLVMPositionBuilderAtEnd(g->e->b, end);
}

static void store_scalar(TsGpuEmit *g, const TsTileStmt *s, const Access *a) {
  TsGpuCoord at[1][TS_TILE_RANK] = {{{0}}};
  V x = ts_gpu_scalar(g, s->in[s->nin - 1]), first;
  first =
      LLVMBuildICmp(g->e->b, LLVMIntEQ, g->tid, ts_emit_int(g->e, LLVMTypeOf(g->tid), 0), "");
  write_elems(g, a, first, (const TsGpuCoord(*)[TS_TILE_RANK])at, 1, &x);
}

/* A chunk that is valid, and not behind the last row that may be written. */
static V valid_chunk(TsGpuEmit *g, const Access *a, TsGpuFrame *f, int k) {
  if (!a->below) return f->valid[k];
  V row = ts_gpu_axis_position(g, a, 0, f->at[k * f->vector]);
  V in = LLVMBuildICmp(g->e->b, LLVMIntSLT, row, ts_gpu_scalar(g, a->below), "");
  return ts_gpu_and(g, f->valid[k], in);
}

static void store_frame(TsGpuEmit *g, const Access *a, TsGpuFrame *f, TsTileVal x) {
  V *list = ts_gpu_slots(g, f, x);
  for (int k = 0; k < f->chunks; k++)
    write_elems(g, a, valid_chunk(g, a, f, k),
                (const TsGpuCoord(*)[TS_TILE_RANK])f->at + k * f->vector, f->vector,
                list + k * f->vector);
}

/* Chunk after chunk of a tile that has no frame. */
static void store_loose(TsGpuEmit *g, const Access *a, TsTileVal x) {
  TsGpuFrame probe = {.vector = 1};
  V n = ts_gpu_i64(g, 1), zero = ts_gpu_i64(g, 0);
  for (int i = 0; i < x->type.rank; i++)
    n = LLVMBuildNSWMul(g->e->b, n, ts_emit_size(g->e, x->type.dim[i]), "");
  ts_gpu_prepare(g, x);
  for (int v = g->phase->vector; v > 1 && probe.vector == 1; v /= 2) {
    int64_t last = x->type.dim[x->type.rank - 1];
    if (!ts_tile_dim_is(last) && last % v == 0) probe.vector = v;
  }
  V span = ts_gpu_i64(g, ts_gpu_frame_span(g, &probe));
  V chunks = LLVMBuildAdd(g->e->b, n, ts_gpu_add(g, span, ts_gpu_i64(g, -1)), "");
  chunks = LLVMBuildSDiv(g->e->b, chunks, span, "");
  TsGpuLoop l = ts_gpu_loop(g, zero, chunks, ts_gpu_i64(g, 1));
  store_frame(g, a, ts_gpu_frame_loose(g, &x->type, l.i), x);
  ts_gpu_loop_end(g, &l);
}

void ts_gpu_store_chunk(TsGpuEmit *g, const TsTileStmt *s, TsGpuFrame *f) {
  TsTileVal x = s->in[s->nin - 1];
  Access a = ts_gpu_access(g, s, &x->type);
  store_frame(g, &a, f, x);
}

void ts_gpu_store(TsGpuEmit *g, const TsTileStmt *s) {
  TsTileVal x = s->in[s->nin - 1];
  Access a = ts_gpu_access(g, s, &x->type);
  bool here = x->type.rank && ts_gpu_resident(g, &x->type);
  if (s->op == TS_TILE_store_below) {
    a.below = s->in[s->nin - 2];
    if (x->type.rank != 2 || a.axis[0] != 0 || a.axis[1] != 1 || !here)
      ts_emit_fail(g->e, "store_below: rows of a matrix are told, of tiles in registers");
  }
  if (here) ts_gpu_force(g, x);
  ts_gpu_before_write(g, s->in[0]);
  if (!x->type.rank)
    store_scalar(g, s, &a);
  else if (here)
    store_frame(g, &a, ts_gpu_frame(g, &x->type), x);
  else if (!ts_gpu_walk_store(g, s))
    store_loose(g, &a, x);
}
