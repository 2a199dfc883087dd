/* A node of the whole graph as nodes of the graphs of parts, in its group; what they need comes by
 * joins, and sums that parts have pieces of are joins behind it. */
#ifndef TS_IR_MESH_NODE_PARTS_H
#define TS_IR_MESH_NODE_PARTS_H

#include "ir/mesh/slots.h"

/* r: the node, its chunk, place and phase. A failure is that of a. */
void ts_node_parts(TsSlots *a, const TsNode *n, const TsSlotReader *r);

#endif
