/* From Tile IR to a kernel that runs: the disk cache, else LLVM. */
#ifndef TS_JIT_COMPILE_H
#define TS_JIT_COMPILE_H

#include "jit/code/kernel.h"

/* k: explicit form, expanded. In any thread. NULL with the error, which is no more than that:
 * the program goes on without the kernel. */
TsKernel *ts_kernel_compile(const TsTile *k, const TsTarget *t, TsError *err);

/* The same from the disk cache alone: NULL where it is not there. */
TsKernel *ts_kernel_find(const TsTile *k, const TsTarget *t);

#endif
