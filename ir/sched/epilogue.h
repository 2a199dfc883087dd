/* What the fuser puts behind a product whose kernel is one with roles (a GPU's):
 * what ir/tile/gpu/epilogue.h can make again on pieces, and nothing else. */
#ifndef TS_IR_SCHED_EPILOGUE_H
#define TS_IR_SCHED_EPILOGUE_H

#include "ir/sched/why.h"

/* A product of 16-bit floats with one B, in sizes that a copy engine takes. */
bool ts_sched_epilogue_begins(const TsTarget *target, const TsNode *n);
/* n may join the group of such a product; else *w says why not. */
bool ts_sched_epilogue_takes(const TsGroup *g, const TsNode *n, TsWhy *w);

#endif
