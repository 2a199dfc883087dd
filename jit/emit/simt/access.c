/* Which memory a load or store reaches and where in it: who else writes or reads it, pointers,
 * what of a vector is inside. See jit/emit/simt/memory.h. */
#include <string.h>

#include "jit/emit/simt/memory.h"

typedef LLVMValueRef V;
typedef TsGpuAccess Access;

/* ---- who reads and writes */
/* The memory that a view is of. */
static TsTileVal memory_of(TsTileVal memory) {
  while (memory->stmt && memory->stmt->op == TS_TILE_view) memory = memory->stmt->in[0];
  return memory;
}

static void note_uses(uint8_t *uses, const TsTileRegion *r) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    bool write =
        s->op == TS_TILE_store || s->op == TS_TILE_store_below || s->op == TS_TILE_scatter;
    bool read = s->op == TS_TILE_load || s->op == TS_TILE_gather;
    if (write || read) uses[memory_of(s->in[0])->id] |= write ? TS_GPU_WRITTEN : TS_GPU_READ;
    if (s->op == TS_TILE_copy_async) {
      uses[memory_of(s->in[0])->id] |= TS_GPU_WRITTEN | TS_GPU_COPIED;
      uses[memory_of(s->in[1])->id] |= TS_GPU_READ;
    }
    for (int i = 0; i < s->nregion; i++) note_uses(uses, s->region[i]);
  }
}

void ts_gpu_note_uses(TsGpuEmit *g) {
  memset(g->uses, 0, g->e->k->nvalue + 1);
  note_uses(g->uses, g->phase->loop->region[0]);
}

bool ts_gpu_reads_only(const TsGpuEmit *g, TsTileVal memory) {
  return !(g->uses[memory_of(memory)->id] & TS_GPU_WRITTEN);
}

/* What all rounds read is in the caches, and waits in no register for its use. */
bool ts_gpu_for_all_rounds(const TsGpuEmit *g, const TsTileStmt *s) {
  if (!ts_gpu_reads_only(g, s->in[0])) return false;
  for (int i = 1; i < s->nin; i++)
    if (!s->in[i]->stmt || s->in[i]->stmt->op != TS_TILE_const) return false;
  return true;
}

bool ts_gpu_some_for_all_rounds(const TsGpuEmit *g, const TsTileRegion *r) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    if (s->op == TS_TILE_load && s->out[0]->type.rank && ts_gpu_for_all_rounds(g, s))
      return true;
    for (int i = 0; i < s->nregion; i++)
      if (ts_gpu_some_for_all_rounds(g, s->region[i])) return true;
  }
  return false;
}

/* Threads meet where one may want what another wrote, or writes what another still reads. */
void ts_gpu_before_read(TsGpuEmit *g, TsTileVal memory) {
  if (ts_gpu_reads_only(g, memory)) return;
  if (g->wrote) ts_gpu_sync(g);
  g->read = true;
}

/* What the phase only writes is nobody's to wait for, but for the launch before. */
void ts_gpu_before_write(TsGpuEmit *g, TsTileVal memory) {
  bool read = g->uses[memory_of(memory)->id] & TS_GPU_READ;
  if (read && g->read) ts_gpu_sync(g);
  g->wrote |= read;
  if (memory->type.space == TS_SPACE_shared) return;
  ts_gpu_await_last(g);
  g->awaited |= g->depth == 1 && g->phase->nloop;
}

/* ---- one access */
Access ts_gpu_access(TsGpuEmit *g, const TsTileStmt *s, const TsTileType *tile) {
  Access a = {.memory = s->in[0], .at = s->in + 1, .rank = tile->rank};
  const TsTileType *m = &a.memory->type;
  const TsAttr *axes = ts_tile_attr(s, "axes");
  a.d = (TsDtype)m->dtype;
  a.part = g->memory[a.memory->id];
  if (!a.part) ts_emit_fail(g->e, "%s: memory that a GPU has not", ts_tile_op_name(s->op));
  for (int i = 0; i < tile->rank; i++)
    a.axis[i] =
        axes->type == TS_ATTR_ints && axes->n ? (int)axes->ints[i] : m->rank - tile->rank + i;
  a.edge = ts_tile_attr(s, "edge")->i;
  a.all = s->op == TS_TILE_load && tile->rank && ts_gpu_for_all_rounds(g, s);
  bool own = m->space == TS_SPACE_local || m->space == TS_SPACE_shared;
  a.width = g->aligned || own || m->space == TS_SPACE_scratch ? ts_gpu_alignment(s) : 1;
  return a;
}

V ts_gpu_moved(TsGpuEmit *g, const Access *a, V p, V by) {
  LLVMTypeRef t = ts_gpu_stored(g, a->d);
  if (!by || (LLVMIsAConstantInt(by) && !LLVMConstIntGetSExtValue(by))) return p;
  return LLVMBuildGEP2(g->e->b, t, p, &by, 1, "");
}

V ts_gpu_times(TsGpuEmit *g, V x, V stride) {
  return LLVMIsAConstantInt(stride) ? ts_gpu_mul(g, x, LLVMConstIntGetSExtValue(stride))
                                    : LLVMBuildNSWMul(g->e->b, x, stride, "");
}

/* What is the same for all threads, then what is the thread's own, then what is known. */
V ts_gpu_pointer(TsGpuEmit *g, const Access *a, const TsGpuCoord *at) {
  V all = NULL, own = NULL, known = NULL;
  for (int k = 0; k < a->memory->type.rank; k++)
    all = ts_gpu_add(g, all, ts_gpu_times(g, ts_gpu_scalar(g, a->at[k]), a->part[1 + k]));
  for (int i = 0; i < a->rank; i++) {
    V stride = a->part[1 + a->axis[i]];
    if (at[i].base) own = ts_gpu_add(g, own, ts_gpu_times(g, at[i].base, stride));
    if (at[i].off)
      known = ts_gpu_add(g, known, ts_gpu_times(g, ts_gpu_i64(g, at[i].off), stride));
  }
  return ts_gpu_moved(g, a, ts_gpu_moved(g, a, ts_gpu_moved(g, a, a->part[0], all), own),
                      known);
}

V ts_gpu_axis_size(TsGpuEmit *g, const Access *a, int axis) {
  return ts_emit_size(g->e, a->memory->type.dim[axis]);
}

/* Position along an axis of the memory. */
V ts_gpu_axis_position(TsGpuEmit *g, const Access *a, int axis, const TsGpuCoord *at) {
  V p = ts_gpu_scalar(g, a->at[axis]);
  for (int i = 0; i < a->rank; i++)
    if (a->axis[i] == axis) p = ts_gpu_add(g, p, ts_gpu_coord(g, at[i]));
  return p;
}

/* Inside along all axes but `but`. */
static V inside(TsGpuEmit *g, const Access *a, const TsGpuCoord *at, int but) {
  V all = NULL;
  for (int k = 0; k < a->memory->type.rank; k++)
    if (k != but)
      all = ts_gpu_and(
          g, all,
          ts_gpu_below(g, ts_gpu_axis_position(g, a, k, at), ts_gpu_axis_size(g, a, k)));
  return all;
}

bool ts_gpu_along(const Access *a) {
  V s = a->rank ? a->part[1 + a->axis[a->rank - 1]] : NULL;
  return s && LLVMIsAConstantInt(s) && LLVMConstIntGetSExtValue(s) == 1;
}

bool ts_gpu_in_global(const Access *a) {
  return a->memory->type.space != TS_SPACE_local && a->memory->type.space != TS_SPACE_shared;
}

/* Whether accesses there have predicates. */
bool ts_gpu_guards(const TsGpuEmit *g, const Access *a) {
  return g->maker->read_guarded && ts_gpu_in_global(a);
}

/* A vector is inside or outside as a whole. */
bool ts_gpu_undivided(const Access *a, int n) {
  int last = a->rank ? a->axis[a->rank - 1] : -1;
  if (last < 0 || a->width < n || !ts_gpu_along(a)) return n == 1;
  int64_t size = a->memory->type.dim[last];
  return n == 1 || (!ts_tile_dim_is(size) && size % n == 0);
}

/* Elements side by side in the memory that all blocks see: each has a predicate, which is the
 * fewest instructions that the driver's compiler has to look at. */
bool ts_gpu_by_predicates(const TsGpuEmit *g, const Access *a) {
  int size = ts_dtypes[a->d].nbytes;
  return ts_gpu_guards(g, a) && ts_gpu_along(a) && size <= 8 && (size & (size - 1)) == 0;
}

/* For each of n elements at these coordinates whether it is inside, if valid. */
void ts_gpu_each_inside(TsGpuEmit *g, const Access *a, V valid, const TsGpuCoord *at, int n,
                        V *in) {
  int axis = a->axis[a->rank - 1];
  V p = ts_gpu_axis_position(g, a, axis, at), size = ts_gpu_axis_size(g, a, axis);
  valid = ts_gpu_and(g, valid, inside(g, a, at, axis));
  for (int i = 0; i < n; i++) {
    V below = ts_gpu_below(g, ts_gpu_add(g, p, ts_gpu_i64(g, i)), size);
    in[i] = ts_gpu_and(g, valid, below);
  }
}

/* Whether all, or at least one, of n elements are inside. */
V ts_gpu_all_inside(TsGpuEmit *g, const Access *a, const TsGpuCoord *at, int n, V *some) {
  LLVMBuilderRef b = g->e->b;
  int axis = a->rank ? a->axis[a->rank - 1] : -1;
  V rest = inside(g, a, at, axis);
  *some = NULL;
  if (axis < 0) return rest;
  V p = ts_gpu_axis_position(g, a, axis, at), size = ts_gpu_axis_size(g, a, axis);
  if (ts_gpu_undivided(a, n)) return ts_gpu_and(g, rest, ts_gpu_below(g, p, size));
  V from = LLVMBuildICmp(b, LLVMIntSGE, p, ts_gpu_i64(g, 0), "");
  V until = LLVMBuildICmp(b, LLVMIntSLE, ts_gpu_add(g, p, ts_gpu_i64(g, n)), size, "");
  V begins = LLVMBuildICmp(b, LLVMIntSLT, p, size, "");
  V ends = LLVMBuildICmp(b, LLVMIntSGT, p, ts_gpu_i64(g, -n), "");
  *some = ts_gpu_and(g, rest, ts_gpu_and(g, begins, ends));
  return ts_gpu_and(g, rest, ts_gpu_and(g, from, until));
}
