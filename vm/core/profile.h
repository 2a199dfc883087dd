/* Where the time of a run goes: spans of instructions, and of the phases of kernels on each
 * thread. Recorded only while TsContext.spans is there; else it costs a look at that pointer
 * for each instruction, and kernels contain nothing of it. */
#ifndef TS_VM_PROFILE_H
#define TS_VM_PROFILE_H

#include <stdatomic.h>
#include <stdint.h>

#include "lib/activity.h"
#include "vm/core/vm.h"

typedef struct TsSpan {
  int64_t start, end; /* nanoseconds */
  const char *what;   /* an operator; what a kernel says of itself */
  const char *place;  /* "model.lua:12", or NULL */
  int phase;          /* of a kernel, from 0; -1: an instruction */
  int thread;         /* 0 is the program's */
  int depth;          /* instructions around it: loops */
  int64_t nbytes;     /* of its inputs and outputs, each once */
  double flops;       /* of an instruction, where they are known */
  const char
      *stage;    /* of a profile mark of a kernel, else NULL; then what says more of it, and */
  int64_t count; /* so many times it took end - start in all, from the phase's start on */
} TsSpan;

/* What is recorded: the first spans in the first half of the room, the last ones by turns in the
 * other; those between are counted only. Texts belong to the code that ran. */
typedef struct TsSpans {
  TsSpan *span;
  int room, depth;
  bool marks; /* kernels are to have profile marks */
  atomic_llong n;
} TsSpans;

void ts_spans_add(TsSpans *s, const TsSpan *span); /* from any thread */
/* The bytes of a call's inputs and outputs, each once; its arithmetic, where that is known. */
int64_t ts_call_nbytes(const TsCall *call);
double ts_call_flops(const TsCall *call);
/* What the program called itself, in its tree of work (lib/activity.h): under its line. NULL: nothing is
 * recorded, or it is part of another call. */
TsActivity *ts_activity_begin_call(TsContext *c, TsActivityKind kind, const char *what);
void ts_activity_end_call(TsActivity *w, const TsCall *call);

/* An instruction that has run: call has its operands. flops: of a kernel, else 0. */
void ts_spans_step(TsSpans *s, const TsCall *call, const char *what, const char *place,
                   int64_t start, double flops);

#endif
