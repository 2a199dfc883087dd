/* Random rows as parts of a kernel. */
#ifndef TS_IR_SCHED_RANDOM_H
#define TS_IR_SCHED_RANDOM_H

#include "ir/sched/lower.h"

/* What n draws in a round, as tiles of f32 or bool; NULL: refused. */
TsTileVal ts_sched_draw(TsLower *l, const TsNode *n);

#endif
