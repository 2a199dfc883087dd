/* What a compile finds in no cache. Of the 6.4 ms that a process's second kernel took, as many as
 * three went by until LLVM's own code and tables were there: the same kernel took 3.2 again. So
 * behind the first kernel that was compiled the thread that did it compiles others, of the usual
 * sorts, which nobody runs. A process that needs no compiler, or finds its kernels on disk, does
 * none of it. */
#ifndef TS_JIT_WARM_H
#define TS_JIT_WARM_H

#include "jit/code/queue.h"
#include "jit/code/target.h"
#include "lib/error.h"

typedef struct TsWarm {
  TsQueueJob job; /* first */
  const TsTarget *target;
  bool begun;
} TsWarm;

/* Compiles them in this thread. -1 with the error. */
int ts_warm_compile(const TsTarget *target, TsError *err);
/* Once: the queue is idle now. w stays until the queue is stopped. */
void ts_warm_begin(TsWarm *w, TsQueue *queue, const TsTarget *target);

#endif
