/* What the host's processor can do, for the passes over Tile IR and for LLVM. The instruction
 * sets are those of the kernels in C (vm/core/kernels.h), under the same names, and mean the same
 * features: an object compiled for one of them runs wherever the kernels of that name run. */
#ifndef TS_JIT_TARGET_H
#define TS_JIT_TARGET_H

#include "ir/tile/tile.h"

typedef struct TsJitTarget {
  TsTarget tile;        /* numbers for passes */
  const char *triple;   /* NULL: no code can be generated for this machine */
  const char *cpu;      /* LLVM's name; the oldest one, features come on top of it */
  const char *features; /* "+avx2,+fma", .. */
  bool half;            /* has instructions between f16 and f32 */
  bool brain;           /* between bf16 and f32 */
  bool round;           /* has floor, ceil, trunc and round as instructions */
} TsJitTarget;

/* The target of this name, or the best of this machine for NULL; NULL if there is no such name
 * or the machine lacks it. */
const TsJitTarget *ts_jit_target(const char *name);

#endif
