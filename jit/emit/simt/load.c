/* Loads of one thread. See jit/emit/simt/memory.h. */
#include <string.h>

#include "jit/emit/simt/memory.h"
#include "ir/tile/find.h"

typedef LLVMValueRef V;
typedef TsGpuAccess Access;
typedef TsGpuMerge Merge;

/* ---- values that come from several blocks */
void ts_gpu_come(TsGpuEmit *g, Merge *m, int n, const V *x) {
  memcpy(m->x[m->n], x, sizeof *x * (size_t)n);
  m->from[m->n++] = LLVMGetInsertBlock(g->e->b);
  LLVMBuildBr(g->e->b, m->end);
}

void ts_gpu_merge(TsGpuEmit *g, Merge *m, int n, V *out) {
  LLVMMoveBasicBlockAfter(m->end, LLVMGetLastBasicBlock(g->e->fn));
  LLVMPositionBuilderAtEnd(g->e->b, m->end);
  for (int i = 0; i < n; i++) {
    out[i] = LLVMBuildPhi(g->e->b, LLVMTypeOf(m->x[0][i]), "");
    for (int k = 0; k < m->n; k++) LLVMAddIncoming(out[i], &m->x[k][i], &m->from[k], 1);
  }
}

LLVMBasicBlockRef ts_gpu_block(TsGpuEmit *g) {
  return LLVMAppendBasicBlockInContext(g->e->ctx, g->e->fn, "");
}

void ts_gpu_branch(TsGpuEmit *g, V c, LLVMBasicBlockRef *yes, LLVMBasicBlockRef *no) {
  *yes = ts_gpu_block(g), *no = ts_gpu_block(g);
  LLVMBuildCondBr(g->e->b, c, *yes, *no);
  LLVMPositionBuilderAtEnd(g->e->b, *yes);
}

/* ---- elements */
/* n elements at these coordinates, which differ along the last axis. */
static void read_plain(TsGpuEmit *g, const Access *a, const TsGpuCoord (*at)[TS_TILE_RANK],
                       int n, V *out) {
  if (ts_gpu_along(a)) {
    ts_gpu_read_vector(g, a, ts_gpu_pointer(g, a, at[0]), n, out);
    return;
  }
  for (int i = 0; i < n; i++) {
    out[i] = LLVMBuildLoad2(g->e->b, ts_gpu_stored(g, a->d), ts_gpu_pointer(g, a, at[i]), "");
    LLVMSetAlignment(out[i], ts_dtypes[a->d].nbytes);
  }
}

static void read_each(TsGpuEmit *g, const Access *a, V valid,
                      const TsGpuCoord (*at)[TS_TILE_RANK], int n, const V *fill, V *out) {
  V in[TS_GPU_VECTOR_MOST], p = ts_gpu_pointer(g, a, at[0]);
  ts_gpu_each_inside(g, a, valid, at[0], n, in);
  memcpy(out, fill, sizeof *out * (size_t)n);
  for (int i = 0; i < n; i++)
    ts_gpu_read_guarded(g, a, p, i * ts_dtypes[a->d].nbytes, in[i], 1, out + i);
}

/* Some elements are inside: those outside read what is nearest. */
static void read_some(TsGpuEmit *g, const Access *a, const TsGpuCoord (*at)[TS_TILE_RANK],
                      int n, const V *fill, V *out) {
  int axis = a->axis[a->rank - 1];
  V first = ts_gpu_axis_position(g, a, axis, at[0]), size = ts_gpu_axis_size(g, a, axis);
  for (int i = 0; i < n; i++) {
    V p = ts_gpu_add(g, first, ts_gpu_i64(g, i)), in = ts_gpu_below(g, p, size);
    V near = ts_emit_call2(g->e, "llvm.smax", p, ts_gpu_i64(g, 0));
    near = ts_emit_call2(g->e, "llvm.smin", near, ts_gpu_add(g, size, ts_gpu_i64(g, -1)));
    V by = ts_gpu_times(g, LLVMBuildSub(g->e->b, near, first, ""), a->part[1 + axis]);
    V x = LLVMBuildLoad2(g->e->b, ts_gpu_stored(g, a->d),
                         ts_gpu_moved(g, a, ts_gpu_pointer(g, a, at[0]), by), "");
    LLVMSetAlignment(x, ts_dtypes[a->d].nbytes);
    out[i] = LLVMBuildSelect(g->e->b, in, x, fill[i], "");
  }
}

static void read_elems(TsGpuEmit *g, const TsTileStmt *s, const Access *a, V valid,
                       const TsGpuCoord (*at)[TS_TILE_RANK], int n, V *out) {
  V fill[TS_GPU_VECTOR_MOST], x[TS_GPU_VECTOR_MOST], some = NULL, all = NULL;
  double with = a->edge ? ts_tile_attr(s, "fill")->f : 0;
  for (int i = 0; i < n; i++)
    fill[i] = ts_gpu_to_stored(g, a->d, ts_emit_number(g->e, a->d, 0, with));
  if (a->edge) all = ts_gpu_all_inside(g, a, at[0], n, &some);
  if (!all && !valid) {
    read_plain(g, a, at, n, out);
  } else if (ts_gpu_guards(g, a) && ts_gpu_undivided(a, n)) {
    memcpy(out, fill, sizeof *out * (size_t)n);
    ts_gpu_read_guarded(g, a, ts_gpu_pointer(g, a, at[0]), 0, ts_gpu_and(g, valid, all), n,
                        out);
  } else {
    Merge m = {.end = ts_gpu_block(g)};
    LLVMBasicBlockRef yes, no;
    ts_gpu_branch(g, ts_gpu_and(g, valid, all), &yes, &no);
    read_plain(g, a, at, n, x);
    ts_gpu_come(g, &m, n, x);
    LLVMPositionBuilderAtEnd(g->e->b, no);
    if (some && ts_gpu_by_predicates(g, a)) {
      read_each(g, a, valid, at, n, fill, x);
      ts_gpu_come(g, &m, n, x);
      ts_gpu_merge(g, &m, n, out);
      for (int i = 0; i < n; i++) out[i] = ts_gpu_from_stored(g, a->d, out[i]);
      return;
    }
    if (some) {
      LLVMBasicBlockRef part, none;
      ts_gpu_branch(g, ts_gpu_and(g, valid, some), &part, &none);
      read_some(g, a, at, n, fill, x);
      ts_gpu_come(g, &m, n, x);
      LLVMPositionBuilderAtEnd(g->e->b, none);
    }
    ts_gpu_come(g, &m, n, fill);
    ts_gpu_merge(g, &m, n, out);
  }
  for (int i = 0; i < n; i++) out[i] = ts_gpu_from_stored(g, a->d, out[i]);
}

void ts_gpu_load_chunk(TsGpuEmit *g, TsGpuFrame *f, const TsTileStmt *s, int chunk, V *out) {
  Access a = ts_gpu_access(g, s, &s->out[0]->type);
  read_elems(g, s, &a, f->valid[chunk],
             (const TsGpuCoord(*)[TS_TILE_RANK])f->at + chunk * f->vector, f->vector, out);
}

V ts_gpu_load_at(TsGpuEmit *g, const TsTileStmt *s, const TsGpuCoord *at) {
  Access a = ts_gpu_access(g, s, &s->out[0]->type);
  V x;
  read_elems(g, s, &a, NULL, (const TsGpuCoord(*)[TS_TILE_RANK])at, 1, &x);
  return x;
}

V ts_gpu_row_at(TsGpuEmit *g, const TsTileStmt *s) {
  Access a = ts_gpu_access(g, s, &s->out[0]->type);
  const TsGpuCoord at[TS_TILE_RANK] = {{0}};
  if (a.edge || a.rank != 1 || !ts_gpu_along(&a) || !ts_gpu_in_global(&a)) return NULL;
  return a.width * ts_dtypes[a.d].nbytes == 16 ? ts_gpu_pointer(g, &a, at) : NULL;
}

void ts_gpu_read_row(TsGpuEmit *g, TsDtype d, V p, int n, V *out) {
  int size = ts_dtypes[d].nbytes;
  Access a = {.d = d, .width = n * size > 16 ? 16 / size : n};
  ts_gpu_read_vector(g, &a, p, n, out);
  for (int i = 0; i < n; i++) out[i] = ts_gpu_from_stored(g, d, out[i]);
}

/* Loads stand before branches that they are wanted behind: these stay there. */
void ts_gpu_load(TsGpuEmit *g, const TsTileStmt *s) {
  TsTileVal y = s->out[0];
  const TsGpuMatrixRing *ring = ts_gpu_ring_of(g, s->in[0]);
  if (ring && ring->unit) return; /* the unit reads it */
  ts_gpu_before_read(g, s->in[0]);
  if (!y->type.rank) {
    TsGpuCoord at[TS_TILE_RANK] = {{0}};
    V x = ts_gpu_load_at(g, s, at);
    ts_gpu_define(g, y, &x);
    return;
  }
  if (!ts_gpu_resident(g, &y->type)) {
    if (!ts_gpu_reads_only(g, s->in[0]))
      ts_emit_fail(g->e, "a tile of changing memory is too large for registers");
    ts_gpu_walk_load(g, s);
    return; /* whoever wants elements reads them */
  }
  if (ts_gpu_for_all_rounds(g, s)) return;
  if (ts_gpu_intel_box(g, y)) return; /* its product reads it */
  const TsTileRegion *all = g->phase->loop->region[0];
  g->stays = ts_gpu_reads_only(g, s->in[0]) && ts_tile_find(all, TS_TILE_rare);
  g->once = g->stays || (ts_gpu_reads_only(g, s->in[0]) && ts_gpu_some_for_all_rounds(g, all));
  TsGpuFrame *f = ts_gpu_frame(g, &y->type);
  V *list = ts_emit_take(g->e, sizeof *list * (size_t)(f->vector * f->chunks));
  for (int k = 0; k < f->chunks; k++) ts_gpu_load_chunk(g, f, s, k, list + k * f->vector);
  g->once = g->stays = false;
  ts_gpu_define(g, y, list);
}
