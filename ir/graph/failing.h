/* Nodes that can fail on what the elements are, and so run although nobody reads what they give:
 * the error is the program's, whatever becomes of the values. */
#ifndef TS_IR_FAILING_H
#define TS_IR_FAILING_H

#include "ir/graph/graph.h"

/* An index out of range, a singular matrix, an iteration without an end, code from outside; and
 * whatever holds a function with such a node. */
bool ts_node_may_fail(const TsNode *n);
bool ts_op_may_fail(TsOp op);

/* Nodes of g that may fail run from now on (TsNode.runs), unless what results, updates and the n
 * values read needs them anyway. Those of reverse passes are no calls of the program. -1 when
 * memory runs out. */
int ts_graph_keep_failing(TsGraph *g, int n, const TsVal *used);

#endif
