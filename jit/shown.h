/* At a prompt people look at what runs: behind the compiles of a function the same thread makes the LLVM IR
 * and the machine code of its kernels as text (jit/code/texts.h), so that they are there when
 * somebody asks. It stops as soon as something waits to be compiled: whoever asks makes the rest. */
#ifndef TS_JIT_SHOWN_H
#define TS_JIT_SHOWN_H

#include "jit/build/build.h"
#include "jit/code/queue.h"

typedef struct TsShown TsShown;

TsShown *ts_shown_open(TsQueue *q); /* NULL: out of memory */
/* Kernels of b, which kept them (TsBuildJob.shows), are its from now on. */
void ts_shown_later(TsShown *s, TsBuildJob *b);
void ts_shown_stop(TsShown *s);  /* before the queue is stopped */
void ts_shown_close(TsShown *s); /* behind that */

#endif
