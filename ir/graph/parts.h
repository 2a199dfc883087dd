/* Parts: values that can be made where the result of a concat or of a pad has them, so that
 * nobody copies them there. Who lowers the graph decides which of them are
 * (vm/code/lower_place.c). */
#ifndef TS_IR_PARTS_H
#define TS_IR_PARTS_H

#include "ir/graph/graph.h"

typedef struct TsPart {
  TsVal v;                     /* what is made */
  const TsNode *whole;         /* the concat or pad that wants it */
  TsVal as;                    /* its operand: v, or v in another shape */
  int64_t start[TS_MAX_RANK];  /* of the part along the axes of the whole */
  int64_t stride[TS_MAX_RANK]; /* of v there, in elements */
  bool dense;                  /* v lies row-major there */
} TsPart;

typedef struct TsParts {
  TsPart *part;
  int n;
  int *of; /* by node: its part, or -1 */
} TsParts;

/* Keeps g, whose sizes are concrete. A value is part of one whole at most. -1: no memory. */
int ts_parts_find(const TsGraph *g, TsParts *p);
void ts_parts_free(TsParts *p);

#endif
