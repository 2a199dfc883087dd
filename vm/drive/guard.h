/* What a kernel takes for granted about its operands: indices that are in range, and sizes of
 * groups that are not negative and not larger than all rows. The VM's operators look while they
 * work; who runs a kernel in their place looks before. */
#ifndef TS_VM_GUARD_H
#define TS_VM_GUARD_H

#include "ir/graph/graph.h"
#include "vm/core/tensor.h"

typedef struct TsGuard {
  uint16_t as; /* see TsNode */
  TsOp op; /* whose message it is: of a loss, of groups, or one that reads or adds at indices */
  TsMeta x;
  int axis; /* or of vm/drive/index.h what the numbers stand for */
  int64_t
      size; /* the numbers are below it: of groups one more than x has rows; of offsets the last */
  int64_t ignored;
  char function[40], place[56]; /* where the operator stands */
} TsGuard;

/* Of operand `input` of n. */
TsGuard ts_guard_of(const TsNode *n, int input, const char *function);
/* 0, or -1 with the operator's own error. */
int ts_guard_check(const TsGuard *g, TsContext *c, TsTensor *index);
/* Of numbers that may be negative: counted from the end. */
bool ts_guard_wraps(const TsGuard *g);
bool ts_guard_of_loss(const TsGuard *g); /* which ignores one number */
/* The same of n sizes of groups of `rows` rows, at hand. */
int ts_guard_groups(TsContext *c, TsOp op, int64_t rows, const int64_t *size, int64_t n);
/* The error of route_rows of a place beyond its rows; -1. */
int ts_guard_place(TsContext *c, int64_t rows, int64_t value);
/* The operator's error of element `row`, which is `value`, of offsets before `next`; -1. */
int ts_guard_wrong(const TsGuard *g, TsContext *c, int64_t row, int64_t value, int64_t next);
/* Of offsets, which go up from 0 to the size: each is looked at beside the next one. */
bool ts_guard_of_offsets(const TsGuard *g);
/* The same of offsets of rows at hand. 0, or -1 with the error of csr_rows. */
int ts_guard_offsets(TsContext *c, const int64_t *first, int64_t rows, int64_t entries);

#endif
