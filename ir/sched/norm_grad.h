/* Gradients of norms as parts of groups of columns, for targets whose blocks hold a row. */
#ifndef TS_IR_SCHED_NORM_GRAD_H
#define TS_IR_SCHED_NORM_GRAD_H

#include "ir/sched/rows.h"

/* The length of n's rows if it is such a gradient, and one that a block can take; else 0. */
int64_t ts_sched_norm_grad(const TsNode *n);
/* One row: c->in are x, weight or NULL, g; c->out[0] is dx. sums: tiles of the results behind
 * the first, in their order, which this row is added to; they begin as -0. */
void ts_norm_grad_row(TsRowCall *c, TsTileVal *sums);

#endif
