/* Tasks of a persistent kernel (ir/persistent/program.h) as functions of one module, and the
 * kernel that calls them. For NVIDIA's GPUs. */
#ifndef TS_JIT_EMIT_GPU_TASK_H
#define TS_JIT_EMIT_GPU_TASK_H

#include "jit/emit/simt/emit.h"

/* A function void(words, turn): the words of a task are its parameters' addresses, those of its
 * scratch, and its sizes, 8 bytes each. */
LLVMValueRef ts_gpu_task_function(TsEmit *e, const char *name);
LLVMValueRef ts_gpu_task_word(TsEmit *e, int i);    /* i64 */
LLVMValueRef ts_gpu_task_pointer(TsEmit *e, int i); /* the same as an address of the device */

/* Phase `phase` of e->k, in block form and expanded, for threads from `from` on; gives its
 * bytes of shared memory. */
int64_t ts_gpu_task(TsEmit *e, const TsGpuPlan *plan, int phase, const char *name, int from);
const TsGpuMaker *ts_gpu_task_maker(TsEmit *e);

/* Of kernels with roles each group of four warps has a way of its own through all tasks, so
 * that it has the registers that its roles need from the beginning: the first one few, as it
 * fetches, the others many. Kernels of threads are done by those. Else, parts 1, there is one
 * way. */
enum { TS_GPU_TASK_PARTS = 3, TS_GPU_TASK_FEW = 40, TS_GPU_TASK_MANY = 232 };

typedef struct TsGpuTaskFunction {
  LLVMValueRef fn[TS_GPU_TASK_PARTS]; /* by part; NULL: it has nothing to do */
  int threads;                        /* of one part alone: of a block, the first ones */
} TsGpuTaskFunction;

/* The kernel, of n functions: jit/gpu/persistent.h has its arguments. */
void ts_gpu_task_kernel(TsEmit *e, const char *name, int n, const TsGpuTaskFunction *of,
                        int threads, int parts);

#endif
