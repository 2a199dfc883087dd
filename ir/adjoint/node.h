/* Adjoints of the nodes that are no operators of the table: calls, regions, functions from
 * outside. The entry's arg is the node. */
#ifndef TS_IR_ADJOINT_NODE_H
#define TS_IR_ADJOINT_NODE_H

#include "ir/adjoint/adjoint.h"
#include "ir/graph/custom.h"
#include "ir/graph/graph.h"

/* A node as an entry of the reverse pass; out has room for its outputs. */
TsTapeEntry ts_graph_entry(const TsNode *n, TsVal *out);

extern TsAdjointFn *const ts_adjoint_node[TS_NODE_END - TS_OP_COUNT];

TsAdjointFn ts_adjoint_node_call, ts_adjoint_node_cond, ts_adjoint_node_while_loop,
    ts_adjoint_node_scan, ts_adjoint_node_fixed_point, ts_adjoint_node_custom,
    ts_adjoint_node_recursive, ts_adjoint_node_recur, ts_adjoint_node_zero;

/* The adjoint of a call of f; the error says what it lacks. */
int ts_custom_adjoint(TsCustom *f, TsAdjoint *a);

#endif
