/* Gradients of parts of a value, that is of what slices, narrows and selects read, as gradients of
 * the whole. Put among zeros one by one, n parts would be n values of the whole's size. */
#ifndef TS_IR_ADJOINT_BOXES_H
#define TS_IR_ADJOINT_BOXES_H

#include "ir/adjoint/adjoint.h"

typedef struct TsBoxed {
  TsVal g; /* of the whole's rank */
  TsBox box;
} TsBoxed;

/* The sum of base, if any, and of the parts of x in their order; n > 0, parts are reordered. In
 * time and memory of the parts and x, unless few of them overlap. */
TsVal ts_boxes_sum(TsBuild *b, TsVal base, TsVal x, int n, TsBoxed *part);

#endif
