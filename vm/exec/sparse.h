/* What products of sparse matrices share. */
#ifndef TS_VM_EXEC_SPARSE_H
#define TS_VM_EXEC_SPARSE_H

#include "vm/core/vm.h"

/* The error that the definition of a row has for entries that are wrong: -1. */
int ts_sparse_explain(TsCall *call);

#endif
