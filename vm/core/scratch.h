/* Work memory (devices/work.h) of a call. It is taken by the thread that owns the context, before
 * work is spread over threads: a failure is then the call's error, and no part of a result stays
 * unwritten. */
#ifndef TS_VM_SCRATCH_H
#define TS_VM_SCRATCH_H

#include "devices/work.h"
#include "vm/core/vm.h"

/* Parts of the same size, one for each worker of ts_cpu_parallel, aligned as
 * ts_work_take says. */
typedef struct TsScratch {
  char *at;
  int64_t step;
} TsScratch;

/* -1: no memory, no error filled. */
int ts_scratch_open(TsScratch *s, int64_t nbytes);
void ts_scratch_close(TsScratch *s);

static inline void *ts_scratch_part(const TsScratch *s, int worker) {
  return s->at + worker * s->step;
}

/* The next part of scratch that is laid out in a row, on a cache line of its own. From NULL
 * the addresses are sizes. */
static inline char *ts_scratch_carve(char **mem, int64_t nbytes) {
  char *at = *mem;
  *mem += (nbytes + 63) & ~(int64_t)63;
  return at;
}

/* Fills the error: "conv2d: out of memory"; returns -1. */
int ts_scratch_failed(const TsCall *call);

#endif
