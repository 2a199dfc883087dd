/* What the files of jit/collective share. */
#ifndef TS_JIT_COLLECTIVE_STATE_H
#define TS_JIT_COLLECTIVE_STATE_H

#include "devices/flags.h"

/* An operation was given to all devices of f: of those that are noted, that with n - 1 - nth behind
 * it (vm/mesh/collective.h). */
void ts_collective_queued(TsFlags *f, int nth, int n);

#endif
