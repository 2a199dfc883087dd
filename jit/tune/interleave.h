/* Candidates of a kernel timed in turns, so that what else the machine does meets all of them. */
#ifndef TS_JIT_TUNE_INTERLEAVE_H
#define TS_JIT_TUNE_INTERLEAVE_H

#include "jit/tune/tune.h"

typedef struct TsTuneInterleave {
  void *arg;
  /* Microseconds of one of so many runs of candidate i; less than 0: the time is over. */
  double (*sample)(void *arg, int i, int times);
  double usec; /* a sample repeats a shorter kernel until it is that long */
  int percent; /* by which a candidate has to be better than the usual one */
} TsTuneInterleave;

/* entry: in r, of each of n candidates, the first of which is the usual one. Fills in times and
 * the best, or why there is none. */
void ts_tune_interleave(const TsTuneInterleave *t, int n, const int *entry, TsTuneRecord *r);

#endif
