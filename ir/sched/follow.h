/* What the fuser puts behind a product whose kernel is one with roles (a GPU's):
 * what ir/tile/gpu/follow.h can make again on pieces, and nothing else. */
#ifndef TS_IR_SCHED_FOLLOW_H
#define TS_IR_SCHED_FOLLOW_H

#include "ir/sched/sched.h"

/* A product of 16-bit floats with one B, in sizes that a copy engine takes. */
bool ts_sched_leads(const TsTarget *target, const TsNode *n);
/* n may join the group of such a product. */
bool ts_sched_follows(const TsGroup *g, const TsNode *n);

#endif
