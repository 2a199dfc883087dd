/* Launches that begin before the one in front of them ends.
 *
 * When a kernel's last blocks run, most of a GPU has nothing to do, and the next kernel begins
 * microseconds after they end. Code for such devices reads, waits until the launch before is
 * over, and only then writes (TsLaunch.dependent): so it may begin while that one still runs, if
 * nothing of what it touches before it waits is what that one writes. Who launches knows: here the
 * bytes that the last launch wrote are compared with those that the next one touches, or, where its
 * kernel says which parameters it reads ahead (ir/tile/ahead.h), with these. A product of a row reads
 * its matrix ahead, which is most of its time, and a kernel of few blocks reads nothing. What came
 * before the last launch is over by then, for that one waited for it.
 *
 * The bits do not depend on it, and neither does the order of anything that writes. */
#ifndef TS_JIT_DEPENDENT_H
#define TS_JIT_DEPENDENT_H

#include "jit/device/kernel.h"
#include "jit/launch/replay_order.h"

/* A run of a kernel as it is launched. */
typedef struct TsDependentRun {
  const TsDeviceKernel *kernel;
  void *const *arg;
  const int64_t *dim;
} TsDependentRun;

/* Whether a run, which touches `a`, may begin while a launch runs that touches `before`. */
bool ts_dependent_may(const TsAccesses *before, const TsAccesses *a, const TsDependentRun *r);

/* Around a run of a kernel in the device's own order, which touches these bytes. Behind one that
 * failed, or left out one of its launches, the next launch is an ordinary one. */
void ts_dependent_begin(TsDevice *d, const TsAccesses *a, const TsDependentRun *r);
void ts_dependent_end(TsDevice *d, const TsAccesses *a, bool failed);

#endif
