/* What of a GPU kernel is decided before any code is made: phases, threads, vectors. */
#ifndef TS_JIT_GPU_PLAN_H
#define TS_JIT_GPU_PLAN_H

#include "ir/tile/tile.h"
#include "jit/gpu/gpu.h"

enum {
  TS_GPU_ELEMS = 64, /* most elements of a tile in one thread's registers */
  TS_GPU_LARGE =
      256 /* registers of a thread of Intel's that has all of two, and twice as many */
};

typedef struct TsGpuPhasePlan {
  const TsTileStmt *loop; /* the phase's outermost */
  int nloop;              /* parallel loops directly in one another: axes of the grid */
  const TsTileStmt *axis[4];
  int threads;     /* of a round */
  int rounds;      /* of a block */
  int vector;      /* most elements of a memory access */
  int64_t most;    /* elements of the largest tile in registers */
  bool paired;     /* halves of a block take turns: a thread has twice as many */
  int64_t row;     /* tiles of this one dimension lie in the order of lanes; 0: none */
  int lanes, each; /* of a leaf then, and threads of one */
  int registers;   /* the driver's compiler has so many, or 0: it knows best */
  int64_t walk;    /* rows of this length are walked, by warps that take leaves; 0: none */
} TsGpuPhasePlan;

typedef struct TsGpuPlan {
  int nphase;
  TsGpuPhasePlan phase[TS_GPU_PHASES];
} TsGpuPlan;

/* aligned: parameters begin at multiples of 16 bytes; else vectors are of one element. */
int ts_gpu_plan(const TsTile *k, const TsTarget *t, bool aligned, TsGpuPlan *plan,
                TsError *err);
/* Elements of which every position that an access begins at is a multiple: a power of two, as
 * far as it can be seen, and no more than 16 bytes have. */
int ts_gpu_alignment(const TsTileStmt *s);
/* A power of two, at most 16, that divides this whole number. depth: 0. */
int ts_gpu_divisor(const TsTileValue *v, int depth);
/* The host's steps and what else of TsGpuCode the kernel itself tells. */
int ts_gpu_outline(const TsTile *k, const TsGpuPlan *plan, TsGpuCode *code, TsError *err);

#endif
