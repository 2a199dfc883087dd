/* Hot loops of eager code: what the rest of jit/ and Lua see of them. How they work is told
 * in jit/trace/match.c. */
#ifndef TS_JIT_TRACE_H
#define TS_JIT_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "jit/jit.h"

typedef struct TsTracer TsTracer;

TsTracer *ts_tracer_open(TsContext *c, TsJit *j); /* NULL: out of memory */
void ts_tracer_close(TsTracer *t);
/* Off: what is pending is computed now, and no call is put off. */
void ts_tracer_enable(TsTracer *t, bool on);
void ts_tracer_verbose(TsTracer *t, bool on);
/* Everything that repeats twice is a trace at once: for tests. */
void ts_tracer_eager(TsTracer *t, bool on);
void ts_tracer_flush(TsTracer *t); /* forgets all traces */

/* A call of it that was right once is right for all tensors of the same types: it may be put
 * off. Others look at what the elements are. */
bool ts_trace_allowed(TsOp op);

typedef struct TsTracerStats {
  int traces;                        /* roots alive */
  int64_t deferred, runs;            /* calls put off, traces run to their end */
  int64_t quick;                     /* of the former: by ts_trace_quick */
  int64_t exits, observed, replayed; /* mismatches; values read too early; calls run again */
} TsTracerStats;
TsTracerStats ts_tracer_stats(const TsTracer *t);

/* A way through a trace that has a function: the calls from its first to where a run ends. */
typedef struct TsTracerLoop {
  uint32_t id; /* no other loop of this tracer has or had it */
  int calls;
  uint32_t runs;
  char where[200]; /* "train.lua:7..11" */
  const TsGraph *g;
  const TsCode *code; /* of tier 0 */
  TsJitFunction *hot;
} TsTracerLoop;

/* Those that are alive, the newest trace first: at most cap. Gives how many there are. What they
 * point to stays until the next operator is called. */
int ts_tracer_loops(const TsTracer *t, TsTracerLoop *loop, int cap);

#endif
