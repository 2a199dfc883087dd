/* Who may change a tensor in place. A destination whose elements overlap has no defined result,
 * and functions that run for an operator change nothing from outside (vm/core/region.h). */
#ifndef TS_VM_WRITE_H
#define TS_VM_WRITE_H

#include "vm/core/tensor.h"

/* Before a change of t: -1 with the error if it is the program's own, and it may not. */
int ts_write_check(TsContext *c, const TsTensor *t);
/* -1 with the error for elements of t that lie one over the other. */
int ts_write_refuse_overlap(TsContext *c, const TsTensor *t);
int ts_write_refuse(TsContext *c, const char *name); /* -1 with the error for what is outside */

#endif
