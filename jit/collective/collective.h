/* Collectives of the GPUs of one process by kernels that meet: one launch a device, whatever is
 * added up. vm/core/offload.h has the calls, jit/eager/offload.c gives them these. */
#ifndef TS_JIT_COLLECTIVE_H
#define TS_JIT_COLLECTIVE_H

#include "vm/mesh/combine.h"

/* 1: queued, and s->out is filled; 0: not for these devices or types, and nothing happened; -1
 * with the error. nth of n that are done at once. */
int ts_collective_sum(TsContext *c, const TsMeshSum *s, int nth, int n);
/* Boxes of tensors go from device to device; as ts_collective_sum. */
int ts_collective_exchange(TsContext *c, int n, const TsMeshBox *box);
/* Whether a device was waited for in vain, since the last time: -1 with the error, which names
 * it. Of whoever waits for a device. */
int ts_collective_tell(TsContext *c);
/* For tests: whether they are used; as they are at first. */
void ts_collective_use(bool on);
int64_t ts_collective_count(void);    /* that were queued */
int64_t ts_collective_meetings(void); /* of these, in slot 0 */
/* Why the last one that did not meet went the other way; "": all did. */
const char *ts_collective_why(void);
void ts_collective_close(void); /* kernels and plans go */

#endif
