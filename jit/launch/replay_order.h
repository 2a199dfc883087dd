/* Which launches of a record wait for which: for those before that write what they read or
 * write, or read what they write. What needs nothing of each other runs side by side, so that
 * the end of one kernel, when few of its blocks are left, is the beginning of another. */
#ifndef TS_JIT_REPLAY_ORDER_H
#define TS_JIT_REPLAY_ORDER_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes that a launch touches. */
typedef struct TsAccess {
  uint64_t at, nbytes;
  bool write;
} TsAccess;

/* The accesses of one launch; n < 0: of which nothing is known, so it waits for all before it
 * and all behind it wait for it. */
typedef struct TsAccesses {
  const TsAccess *of;
  int n;
} TsAccesses;

bool ts_access_meet(const TsAccesses *a, const TsAccesses *b); /* one waits for the other */

/* By launch, those that it waits for: the fewest from which the others follow. */
typedef struct TsReplayOrder {
  int n, nwait;
  int *first; /* n + 1: where a launch's begin in wait */
  int *wait;
} TsReplayOrder;

/* False: no memory. */
bool ts_replay_order(int n, const TsAccesses *a, TsReplayOrder *out);
void ts_replay_order_free(TsReplayOrder *o);

#endif
