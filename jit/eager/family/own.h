/* Operators that have kernels of their own on a device, beside those that schedules make: each
 * file jit/eager/family/<family>.c builds Tile IR in block form for a call and says what it depends
 * on. Here is what they share. */
#ifndef TS_JIT_OFFLOAD_OWN_H
#define TS_JIT_OFFLOAD_OWN_H

#include "ir/lower/short.h"
#include "ir/tile/gpu/mma.h"
#include "jit/eager/state.h"

enum { TS_OWN_WORDS = 96, TS_OWN_PARAMS = 8 };

/* A kernel and its operands: row-major tensors. Outputs may be NULL where nobody wants them,
 * but then build leaves them out too. */
typedef struct TsOwn {
  int nword;
  int64_t word[TS_OWN_WORDS]; /* all that the kernel depends on, beside the operator */
  TsTile *(*build)(const void *arg);
  const void *arg;
  int nin, nout, ndim;
  TsTensor *in[TS_OWN_PARAMS], *out[TS_OWN_PARAMS];
  int64_t dim[TS_TILE_DIMS];
} TsOwn;

/* 1: queued; 0: no kernel; -1 with the error. As call of vm/core/offload.h. */
int ts_own_run(TsOffloader *o, const TsCall *call, int device, const TsOwn *k);
void ts_own_flush(TsOffloader *o);
void ts_own_word(TsOwn *k, int64_t w);

/* x row-major, apart from y; a new reference. */
TsTensor *ts_own_ready(const TsCall *call, TsTensor *x);

/* Processors that run kernels with roles of so much work, 0: none; whether those by warps run. */
int ts_own_roles(int device, double work);
bool ts_own_warps(int device, double work, TsGpuMachine *gpu);

/* Input `input` of the call holds numbers below size, as ts_index_open has them: 1, or it will
 * be told (jit/eager/guard.c); 0: it does not, the VM says so; -1. */
int ts_offload_in_range(TsOffloader *o, const TsCall *call, int device, int input, int axis,
                        int64_t size);

/* ---- families: 1, 0 or -1 as above, 0 for operators of others */
int ts_offload_conv(TsOffloader *o, TsCall *call, int device);
int ts_offload_grouped(TsOffloader *o, TsCall *call, int device);

#endif
