/* What a kernel takes for granted about its operands: indices that are in range. The VM's
 * operators look while they work; who runs a kernel in their place looks before. */
#ifndef TS_VM_GUARD_H
#define TS_VM_GUARD_H

#include "ir/graph.h"
#include "vm/tensor.h"

typedef struct TsGuard {
  TsOp op; /* whose message it is: of a loss, or one that reads or adds at indices */
  TsMeta x;
  int axis;
  int64_t ignored;
  char function[40], place[56]; /* where the operator stands */
} TsGuard;

TsGuard ts_guard_of(const TsNode *n, const char *function);
/* 0, or -1 with the operator's own error. */
int ts_guard_check(const TsGuard *g, TsContext *c, TsTensor *index);

#endif
