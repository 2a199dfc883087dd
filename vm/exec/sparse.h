/* What products of sparse matrices share. */
#ifndef TS_VM_EXEC_SPARSE_H
#define TS_VM_EXEC_SPARSE_H

#include "vm/drive/index.h"

/* Opens call->in[input], places along an axis of x, which the error names. */
int ts_sparse_open(TsCall *call, int input, const TsMeta *x, int axis, TsIndex *ix);
/* The type in which sums of elements of d are computed. */
static inline TsDtype ts_sparse_sum(TsDtype d) { return (TsDtype)ts_dtypes[d].compute; }

#endif
