/* The processor that the program runs on as a target: rows of devices/target.h with the
 * numbers of this machine. The instruction sets are those of the kernels in C
 * (vm/core/kernels.h), under the same names, and mean the same features: an object compiled
 * for one of them runs wherever the kernels of that name run. */
#ifndef TS_JIT_TARGET_H
#define TS_JIT_TARGET_H

#include "devices/target.h"

/* The target of this name, or the best of this machine for NULL; NULL if there is no such name
 * or the machine lacks it. */
const TsTarget *ts_jit_target(const char *name);

#endif
