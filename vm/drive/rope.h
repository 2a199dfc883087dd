/* What rope makes of its attributes (vm/exec/rope.c), for kernels of devices. */
#ifndef TS_VM_ROPE_H
#define TS_VM_ROPE_H

#include "vm/core/vm.h"

typedef struct TsRope {
  int64_t half;      /* pairs of a row */
  int64_t per_batch; /* rows of a batch entry that share positions [B, S]; 0: all share [S] */
  double *frequency, concentration;
} TsRope;

/* -1 with the operator's error. */
int ts_rope_open(TsCall *call, TsRope *r);
void ts_rope_close(TsRope *r);

#endif
