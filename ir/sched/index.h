/* Operators that read or add slices at indices, as kernels for targets with blocks of
 * threads. */
#ifndef TS_IR_SCHED_INDEX_H
#define TS_IR_SCHED_INDEX_H

#include "ir/sched/sched.h"

bool ts_sched_is_index(const TsTarget *t, const TsNode *n);
/* The kernel of a group of that node alone. */
int ts_sched_lower_index(const TsSched *s, const TsGroup *g, TsLayoutFn *layout, void *arg,
                         TsSchedKernel *out, TsError *err);

#endif
