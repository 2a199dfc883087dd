/* Operands of attention as the copy engine of a GPU sees them: heads of rows in batches. */
#ifndef TS_IR_LOWER_HEADS_H
#define TS_IR_LOWER_HEADS_H

#include "ir/sched/sched.h"

typedef struct TsLowerHeads {
  int64_t dim[4], stride[4]; /* batches, heads, rows, numbers of a row; in elements */
  bool plain;                /* row-major */
} TsLowerHeads;

/* False: the copy engine cannot fetch it. The last axis has to be adjacent, rows to begin at
 * multiples of 16 bytes, and axes before the heads to be as good as one. */
bool ts_lower_heads(TsLowerHeads *h, TsVal v, TsLayoutFn *layout, void *arg);
/* Whether kernels of attention take these. */
bool ts_lower_heads_fit(const TsLowerHeads *q, const TsLowerHeads *k, const TsLowerHeads *v);
/* The parameter lies so. */
void ts_lower_heads_set_layout(const TsLowerHeads *h, TsTileVal param);

#endif
