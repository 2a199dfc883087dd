/* Whether two tensors have an element in common. */
#ifndef TS_VM_OVERLAP_H
#define TS_VM_OVERLAP_H

#include "vm/tensor.h"

/* Exact, but for shapes that would take too long to decide, which count as overlapping. Pending
 * tensors have no bytes yet and share none. */
bool ts_tensors_overlap(const TsTensor *a, const TsTensor *b);

#endif
