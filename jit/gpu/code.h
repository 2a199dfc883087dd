/* How code is made, between what compiles and what launches. */
#ifndef TS_JIT_GPU_CODE_H
#define TS_JIT_GPU_CODE_H

#include "jit/gpu/plan.h"
#include "jit/code/target.h"

struct TsEmit;

typedef struct TsGpuJob {
  const TsGpuPlan *plan;
  TsGpuForm form;
  bool host;
  bool lean;       /* what is multiplied is read where it lies, and has no shared memory */
  int64_t *shared; /* out, by phase: bytes of a round */
  bool *crowded;   /* out: a round had too few of them; or NULL */
} TsGpuJob;

/* For ts_llvm_emit: the functions of all phases; arg is a TsGpuJob. */
void ts_gpu_emit(struct TsEmit *e, void *arg);

/* The kernel as code is made of it: operators of the target alone, and nothing without use.
 * NULL with the error. */
TsTile *ts_gpu_code_expanded(const TsTile *k, const TsTarget *t, TsError *err);

/* Everything of the code but its image and the bytes of shared memory. */
int ts_gpu_code_outline(const TsTile *k, const TsTarget *t, bool aligned, TsGpuCode *code,
                        TsGpuPlan *plan, TsError *err);

#endif
