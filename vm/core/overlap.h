/* Whether two tensors have an element in common, or two elements of one are the same. */
#ifndef TS_VM_OVERLAP_H
#define TS_VM_OVERLAP_H

#include "vm/core/tensor.h"

/* Of two tensors of one storage. Exact, but for shapes that would take too long to decide, which
 * count as overlapping. */
bool ts_overlap_within(const TsTensor *a, const TsTensor *b);

/* Whether two elements of t are the same: 1 or 0, which is exact; -1 with the error where marking
 * them takes memory that is not there, or is interrupted. */
int ts_overlap_itself(TsContext *c, const TsTensor *t);

/* Pending tensors have no bytes yet and share none. */
static inline bool ts_tensors_overlap(const TsTensor *a, const TsTensor *b) {
  return a->storage == b->storage && !a->storage->pending && ts_overlap_within(a, b);
}

#endif
