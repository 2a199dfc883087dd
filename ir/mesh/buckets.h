/* Where a backward pass is cut, so that sums of gradients are sent while it goes on.
 *
 * A piece gives what it makes when it is over, so a backward pass that is one piece has all of its
 * gradients summed behind it. It ends, and another one begins behind it, when the sums that it has to
 * give have so many bytes that they are worth a launch of their own (a bucket), and what is left
 * to compute hides them. */
#ifndef TS_IR_MESH_BUCKETS_H
#define TS_IR_MESH_BUCKETS_H

#include "ir/mesh/slots.h"

int ts_buckets_open(TsSlots *a, const unsigned char *live); /* -1 with the error */
/* The group has made the summands of a sum over devices, which gives the slot, for node n. */
void ts_buckets_sum(TsSlots *a, const TsNode *n, int group, int slot);
/* r reads what j gives of a piece behind which no bucket was full: it is the last to be there, so r stands
 * behind those that update parameters by sums of earlier pieces. */
bool ts_buckets_last(const TsSlots *a, const TsMeshJoin *j, const TsSlotReader *r);
/* It gives a sum of an earlier one. */
bool ts_buckets_early(const TsSlots *a, const TsMeshJoin *j);
void ts_buckets_close(TsSlots *a);

#endif
