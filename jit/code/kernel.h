/* A compiled kernel of the CPU: its functions and what they need to be called.
 *
 * Generated code has one interface. A kernel is one function a phase, which does the rounds
 * lo..hi-1 of the phase's parallel loop, counted from 0, whatever the loop's bounds are:
 *   arg    the memory of each parameter, then the scratch buffers
 *   dim    the symbolic sizes
 *   local  memory of this thread, aligned to 64
 * and gives the number of its rounds where arg is NULL; that is no function of its own, since
 * each costs a hundred passes. What stands between the phases is done again in each of them:
 * sizes and constants, a few instructions. Functions keep no state, throw nothing and call
 * nothing but the C library's mathematics. */
#ifndef TS_JIT_KERNEL_H
#define TS_JIT_KERNEL_H

#include "ir/tile/tile.h"
#include "jit/code/object.h"
#include "jit/code/target.h"

typedef int64_t TsPhaseFn(void *const *arg, const int64_t *dim, int64_t lo, int64_t hi,
                          void *local);

enum { TS_KERNEL_PHASES = 16, TS_KERNEL_SCRATCH = 16 };

/* A profile mark's words behind a thread's local memory. */
typedef struct TsKernelClock {
  int64_t cycles, count;
} TsKernelClock;

typedef struct TsKernelMark {
  const char *stage;
  char what[40], place[40]; /* "", or words of its kernel */
} TsKernelMark;

typedef struct TsKernel {
  const char *target; /* "avx512" */
  int nparam, ndim, nphase, nscratch;
  TsPhaseFn *phase[TS_KERNEL_PHASES];
  int64_t grain[TS_KERNEL_PHASES];       /* fewest rounds that are worth a thread's while */
  TsTileType scratch[TS_KERNEL_SCRATCH]; /* sizes may be symbolic */
  int64_t local_bytes;                   /* of one thread, clocks included */
  int nmark;
  TsKernelMark *mark; /* what its clocks measure, or NULL */
  int64_t marks_at;   /* where they are in local memory */
  TsObject object;
  size_t object_bytes; /* of the file */
  bool cached;         /* it came from the disk cache */
} TsKernel;

/* What of a kernel can be told without compiling it: phases, scratch, local memory. */
int ts_kernel_outline(TsKernel *kernel, const TsTile *k, const TsTarget *t, TsError *err);
/* Where the local memory of an alloc begins; -1 for other values. Memory of a region is used
 * again after it. */
int64_t ts_kernel_local_at(const TsTile *k, const TsTileValue *alloc);
/* Where the clocks of its marks begin. */
int64_t ts_kernel_marks_at(const TsTile *k);

/* The top-level loops, in order, as far as there is room; gives their number, and whether so
 * many are compiled. */
int ts_kernel_phases(const TsTile *k, TsTileStmt *phase[TS_KERNEL_PHASES]);
int ts_kernel_check_phases(const TsTile *k, int n, TsError *err);

/* Loads an object that was compiled from a kernel with this outline. */
int ts_kernel_load(TsKernel *kernel, const void *elf, size_t nbytes, TsError *err);

int64_t ts_kernel_scratch_bytes(const TsKernel *kernel, int i, const int64_t *dim);

/* Runs all phases on the CPU's threads. arg: the parameters' memory. -1: no memory. */
int ts_kernel_run(const TsKernel *kernel, void *const *arg, const int64_t *dim, TsError *err);
/* The same; what each thread does in each phase becomes spans, unless that is NULL. */
struct TsSpans;
int ts_kernel_run_timed(const TsKernel *kernel, void *const *arg, const int64_t *dim,
                        struct TsSpans *spans, TsError *err);

void ts_kernel_free(TsKernel *kernel);

/* Of the sources that generated code depends on (jit/code/version.c). */
const char *ts_code_version(void);

/* The name of a kernel's code: what it does, not how its values are called nor where it comes
 * from, with `salt` (the code generator's version) and the target. */
void ts_kernel_key(const TsTile *k, const TsTarget *t, const char *salt, uint8_t key[32]);
/* The same in two steps, so that a kernel is walked once: what it does, then for whom. */
void ts_kernel_digest(const TsTile *k, uint8_t digest[32]);
/* Of its code alone: strides that only views of the copy engine have (jit/gpu/map.c) are not
 * part of it, so that attention over parts of any matrix is one entry on disk. */
void ts_kernel_code_digest(const TsTile *k, uint8_t digest[32]);
void ts_kernel_key_of(const uint8_t digest[32], const TsTarget *t, const char *salt,
                      uint8_t key[32]);

#endif
