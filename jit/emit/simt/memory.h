/* What the files of loads and stores share (jit/emit/simt/access.c, memory.c, load.c,
 * store.c, gather.c). Private to those. */
#ifndef TS_JIT_EMIT_GPU_MEMORY_H
#define TS_JIT_EMIT_GPU_MEMORY_H

#include "jit/emit/simt/emit.h"

enum { TS_GPU_VECTOR_MOST = 16 /* elements of a vector of a frame */ };

/* ---- jit/emit/simt/access.c: one access */
typedef struct TsGpuAccess {
  TsTileVal memory;
  const TsTileVal *at;
  const LLVMValueRef *part;
  TsDtype d;
  int rank, axis[TS_TILE_RANK]; /* of the memory, for the tile's axes */
  bool edge;
  TsTileVal below; /* rows from there on are dropped, or NULL */
  bool all;  /* read by all rounds, written by none */
  int width; /* elements of a vector that positions allow */
} TsGpuAccess;

TsGpuAccess ts_gpu_access(TsGpuEmit *g, const TsTileStmt *s, const TsTileType *tile);
/* Threads meet where one may want what another wrote, or writes what another still reads; and
 * the launch before is over when memory of the device is written. */
void ts_gpu_before_read(TsGpuEmit *g, TsTileVal memory);
void ts_gpu_before_write(TsGpuEmit *g, TsTileVal memory);
bool ts_gpu_some_for_all_rounds(const TsGpuEmit *g, const TsTileRegion *r); /* some load */

LLVMValueRef ts_gpu_times(TsGpuEmit *g, LLVMValueRef x, LLVMValueRef stride);
LLVMValueRef ts_gpu_moved(TsGpuEmit *g, const TsGpuAccess *a, LLVMValueRef p, LLVMValueRef by);
LLVMValueRef ts_gpu_pointer(TsGpuEmit *g, const TsGpuAccess *a, const TsGpuCoord *at);
/* Along an axis of the memory: its size, a position. */
LLVMValueRef ts_gpu_axis_size(TsGpuEmit *g, const TsGpuAccess *a, int axis);
LLVMValueRef ts_gpu_axis_position(TsGpuEmit *g, const TsGpuAccess *a, int axis,
                                  const TsGpuCoord *at);
bool ts_gpu_in_global(const TsGpuAccess *a);
bool ts_gpu_guards(const TsGpuEmit *g,
                   const TsGpuAccess *a); /* accesses there have predicates */
bool ts_gpu_along(const TsGpuAccess *a);  /* elements of the last axis are neighbours */
/* A vector is inside or outside as a whole. */
bool ts_gpu_undivided(const TsGpuAccess *a, int n);
/* Whether all, or at least one, of n elements are inside. */
LLVMValueRef ts_gpu_all_inside(TsGpuEmit *g, const TsGpuAccess *a, const TsGpuCoord *at, int n,
                               LLVMValueRef *some);
/* Elements side by side have a predicate each, by what _each_inside says of them, if valid. */
bool ts_gpu_by_predicates(const TsGpuEmit *g, const TsGpuAccess *a);
void ts_gpu_each_inside(TsGpuEmit *g, const TsGpuAccess *a, LLVMValueRef valid,
                        const TsGpuCoord *at, int n, LLVMValueRef *in);

/* ---- jit/emit/simt/memory.c: n stored elements from p on; one vector, or element, where c
 * holds */
void ts_gpu_read_vector(TsGpuEmit *g, const TsGpuAccess *a, LLVMValueRef p, int n,
                        LLVMValueRef *out);
void ts_gpu_write_vector(TsGpuEmit *g, const TsGpuAccess *a, LLVMValueRef p, int n,
                         const LLVMValueRef *x);
void ts_gpu_read_guarded(TsGpuEmit *g, const TsGpuAccess *a, LLVMValueRef p, int by,
                         LLVMValueRef c, int n, LLVMValueRef *out);
void ts_gpu_write_guarded(TsGpuEmit *g, const TsGpuAccess *a, LLVMValueRef p, int by,
                          LLVMValueRef c, LLVMValueRef x);

/* ---- jit/emit/simt/load.c */
typedef struct TsGpuMerge { /* values that come from several blocks */
  LLVMBasicBlockRef end, from[3];
  LLVMValueRef x[3][TS_GPU_VECTOR_MOST];
  int n;
} TsGpuMerge;

void ts_gpu_come(TsGpuEmit *g, TsGpuMerge *m, int n, const LLVMValueRef *x); /* from here */
void ts_gpu_merge(TsGpuEmit *g, TsGpuMerge *m, int n, LLVMValueRef *out);
LLVMBasicBlockRef ts_gpu_block(TsGpuEmit *g);
void ts_gpu_branch(TsGpuEmit *g, LLVMValueRef c, LLVMBasicBlockRef *yes, LLVMBasicBlockRef *no);

#endif
