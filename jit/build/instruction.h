/* A compiled kernel as an instruction of the VM. */
#ifndef TS_JIT_INSTRUCTION_H
#define TS_JIT_INSTRUCTION_H

#include "jit/code/kernel.h"
#include "vm/code/fused.h"
#include "vm/drive/guard.h"

/* What is done before a kernel runs: indices are looked at, seeds and streams drawn. */
typedef struct TsInstructionNeeds {
  int ndraw;
  TsSchedDraw draw[TS_SCHED_DRAWS];
  int nguard, guarded[TS_SCHED_GUARDS];
  TsGuard guard[TS_SCHED_GUARDS];
} TsInstructionNeeds;
void ts_instruction_needs(TsInstructionNeeds *u, const TsSchedKernel *from);
/* Fills in the kernel's sizes that are seeds; -1 with the error of an index. */
int ts_instruction_before(const TsInstructionNeeds *u, TsContext *c, TsTensor *const *in,
                          int64_t *dim);

/* With one reference. Takes the kernel over; layouts say how its inputs lie. NULL: no memory,
 * and the kernel stays the caller's. */
TsFused *ts_instruction_new(TsKernel *kernel, const TsSchedKernel *from, TsLayouts *layouts);
/* The same for a kernel of either form that the interpreter runs. */
TsFused *ts_instruction_interpreted(TsTile *tile, const TsSchedKernel *from,
                                    TsLayouts *layouts);
/* All of f but its functions; -1: no memory. */
int ts_instruction_describe(TsFused *f, TsArena *arena, const TsSchedKernel *from,
                            TsLayouts *layouts);
const TsKernel *ts_instruction_kernel(const TsFused *f);

#endif
