/* The check of one node, for the reader and the check of a whole graph. */
#ifndef TS_IR_GRAPH_CHECK_H
#define TS_IR_GRAPH_CHECK_H

#include "ir/graph/graph.h"

/* Operands, attributes, regions and types of n fit together. Regions are not entered. */
int ts_node_check(const TsNode *n, TsError *err);
/* v can be written into the parameter: the same shape and dtype. */
int ts_update_check(const TsGraph *g, int param, TsVal v, TsError *err);

#endif
