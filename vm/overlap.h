/* Whether two tensors have an element in common. */
#ifndef TS_VM_OVERLAP_H
#define TS_VM_OVERLAP_H

#include "vm/tensor.h"

/* Of two tensors of one storage. Exact, but for shapes that would take too long to decide, which
 * count as overlapping. */
bool ts_overlap_within(const TsTensor *a, const TsTensor *b);

/* Pending tensors have no bytes yet and share none. */
static inline bool ts_tensors_overlap(const TsTensor *a, const TsTensor *b) {
  return a->storage == b->storage && !a->storage->pending && ts_overlap_within(a, b);
}

#endif
