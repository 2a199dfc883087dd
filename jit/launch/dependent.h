/* Launches that begin before the one in front of them ends.
 *
 * When a kernel's last blocks run, most of a GPU has nothing to do, and the next kernel begins
 * microseconds after they end. Code for such devices reads, waits until the launch before is
 * over, and only then writes (TsLaunch.dependent): so it may begin while that one still runs, if
 * nothing of what it touches is what that one writes. Who launches knows: here the bytes that
 * the last launch wrote are compared with those that the next one touches. What came before the
 * last launch is over by then, for that one waited for it.
 *
 * The bits do not depend on it, and neither does the order of anything that writes. */
#ifndef TS_JIT_DEPENDENT_H
#define TS_JIT_DEPENDENT_H

#include "devices/device.h"
#include "jit/launch/replay_order.h"

/* Around a run of a kernel in the device's own order, which touches these bytes. Behind one that
 * failed, or left out one of its launches, the next launch is an ordinary one. */
void ts_dependent_begin(TsDevice *d, const TsAccesses *a);
void ts_dependent_end(TsDevice *d, const TsAccesses *a, bool failed);

#endif
