/* Control operators: nodes whose regions are graphs. */
#ifndef TS_IR_CONTROL_H
#define TS_IR_CONTROL_H

#include "ir/graph/graph.h"

/* A control node in g over regions captured for it. Regions have the node's operands as
 * parameters; what they also use from outside (their outer parameters) is brought to one
 * order in all of them and appended to the operands. Checks that the regions' types fit the
 * operator. attr: as the node's row in ir/graph/graph.def. NULL with the error. */
TsNode *ts_graph_control(TsGraph *g, TsNodeOp op, int nin, const TsVal *in, int nregion,
                         TsGraph *const *region, const TsAttr *attr);

/* What such a function gives, also where it runs eagerly: how many values, their types
 * (value i, from 0), the condition. 0, or -1 with the error. */
int ts_control_check_count(TsError *err, const char *op, const char *what, int have, int want);
int ts_control_check_type(TsError *err, const char *op, const char *what, int i,
                          const TsMeta *have, const TsMeta *want);
int ts_control_check_condition(TsError *err, const char *op, const TsMeta *m);
bool ts_control_same(const TsMeta *a, const TsMeta *b);

/* Attributes of scan, by their order in ir/graph/graph.def. */
enum { TS_SCAN_carry, TS_SCAN_xs, TS_SCAN_length, TS_SCAN_reverse, TS_SCAN_nattr };
enum { TS_FIXED_tol, TS_FIXED_max, TS_FIXED_nattr };
enum { TS_WHILE_max, TS_WHILE_nattr };

static inline int64_t ts_scan_length(const TsAttr *attr, const TsVal *in) {
  return attr[TS_SCAN_length].type == TS_ATTR_int ? attr[TS_SCAN_length].i
                                                  : in[attr[TS_SCAN_carry].i]->meta.dim[0];
}

#endif
