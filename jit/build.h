/* From a graph to kernels: what one job of the background thread does. */
#ifndef TS_JIT_BUILD_H
#define TS_JIT_BUILD_H

#include "jit/target.h"
#include "vm/fused.h"

typedef struct TsBuildJob {
  /* given */
  const TsGraph *g;
  TsLayouts *layouts;
  const TsJitTarget *target;
  int threads;
  double spent_msec; /* by the function so far: a compilation may cost as much */
  /* made */
  TsFusion fusion; /* its schedule and kernels are the caller's */
  int nkernel, ncached, nfailed, nnode; /* nnode: of the graph, in kernels */
  double msec;
  double need_msec; /* > 0: not worth it before so much was spent; nothing was made */
  TsText why;       /* a line for each group without a kernel that should have one */
} TsBuildJob;

/* -1 with the error when not even a schedule could be made. */
int ts_build_run(TsBuildJob *b, TsError *err);
void ts_build_free(TsBuildJob *b);

/* The kernel of a group in block form. */
int ts_build_tile(const TsBuildJob *b, const TsGroup *group, TsSchedKernel *out, TsError *err);

/* Whether a group is worth a kernel: the VM's own kernels of single operators are as good. */
bool ts_build_worth(const TsGroup *g);

#endif
