/* cross_entropy, its gradient and gather of one element, as parts of groups of rows. */
#ifndef TS_IR_SCHED_LOSS_H
#define TS_IR_SCHED_LOSS_H

#include "ir/sched/lower.h"
#include "ir/sched/rows.h"

/* The node as something along rows, NULL: it is not, or not like this. */
TsRowFn *ts_loss_row(const TsNode *n);
/* Around the loop over rows: what must be counted before, and what is reduced after. */
int ts_loss_open(TsLower *l);
int ts_loss_close(TsLower *l);
/* Rows of one length, since something is reduced over them. */
bool ts_loss_counts(const TsGroup *g);
/* In a round: n's tiles; the loss of a row that is reduced goes to memory. */
int ts_loss_put(TsLower *l, const TsNode *n);
/* n's result is made by ts_loss_close. */
bool ts_loss_reduced(const TsNode *n);
void ts_loss_guards(const TsLower *l, TsSchedKernel *out);

#endif
