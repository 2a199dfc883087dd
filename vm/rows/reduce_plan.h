/* How vm/rows/reduce.c goes about one pass of a reduction; and the staging of what the
 * kernels cannot read in place. */
#ifndef TS_VM_REDUCE_PLAN_H
#define TS_VM_REDUCE_PLAN_H

#include "vm/rows/reduce.h"

typedef enum TsReducePath {
  TS_PATH_rows,   /* reduced elements are adjacent */
  TS_PATH_cols,   /* outputs are adjacent */
  TS_PATH_staged, /* neither, or adjacent but to be converted */
} TsReducePath;

typedef enum TsReduceKind {
  TS_KIND_tree,
  TS_KIND_arg,
  TS_KIND_cprod,
  TS_KIND_test, /* any, all, count_nonzero of adjacent elements, by counting */
} TsReduceKind;

/* Axes of size 1 are gone and axes that lie one after the other are one. */
typedef struct TsReducePlan {
  TsReducePath path;
  TsReduceKind kind;
  int op, map, acc; /* of the kernels; for arguments op is 1 for argmin */
  int esize, osize; /* bytes of an element and of a result */
  TsDtype dtype;    /* of x */
  TsLoad *load;     /* NULL: elements are of the accumulator's type */
  const TsReduceKernels *k;
  const char *x, *c;
  char *out;
  double p;
  int64_t outer, n, leaves;
  int nouter, ninner;
  int64_t odim[TS_REDUCE_DIMS + 1], ostride[TS_REDUCE_DIMS + 1];
  int64_t idim[TS_REDUCE_DIMS], istride[TS_REDUCE_DIMS];
} TsReducePlan;

/* Fills dims, path, kind, load and sizes for kernel operation `op` of r; the rest of
 * the operands (x, c, out, p) are r's. */
void ts_reduce_plan(TsReducePlan *p, const TsReduce *r, const TsReduceTables *t);

/* Offset in elements of output o. */
int64_t ts_reduce_plan_offset(const TsReducePlan *p, int64_t o);

/* Offsets of reduced elements start .. start+count-1 of any output. */
void ts_reduce_plan_inner(const TsReducePlan *p, int64_t start, int64_t count, int64_t *at);

/* The same elements of the output at `base`, converted, to dst. count <= TS_RED_LEAF. */
void ts_reduce_plan_stage(const TsReducePlan *p, const char *base, int64_t start, int64_t count,
                          void *dst);

#endif
