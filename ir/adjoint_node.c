/* Which function differentiates which node. */
#include "ir/adjoint_node.h"

#include "ir/custom.h"

int ts_adjoint_node_zero(TsAdjoint *a) {
  (void)a;
  return 0;
}

int ts_adjoint_node_custom(TsAdjoint *a) {
  const TsNode *n = a->arg;
  return ts_custom_adjoint(n->ref, a);
}

TsAdjointFn *const ts_adjoint_node[TS_NODE_END - TS_OP_COUNT] = {
    [TS_NODE_param - TS_OP_COUNT] = ts_adjoint_node_zero,
    [TS_NODE_number - TS_OP_COUNT] = ts_adjoint_node_zero,
    [TS_NODE_cotangent - TS_OP_COUNT] = ts_adjoint_node_zero,
    [TS_NODE_call - TS_OP_COUNT] = ts_adjoint_node_call,
    [TS_NODE_cond - TS_OP_COUNT] = ts_adjoint_node_cond,
    [TS_NODE_while_loop - TS_OP_COUNT] = ts_adjoint_node_while_loop,
    [TS_NODE_scan - TS_OP_COUNT] = ts_adjoint_node_scan,
    [TS_NODE_fixed_point - TS_OP_COUNT] = ts_adjoint_node_fixed_point,
    [TS_NODE_recursive - TS_OP_COUNT] = ts_adjoint_node_recursive,
    [TS_NODE_recur - TS_OP_COUNT] = ts_adjoint_node_recur,
    [TS_NODE_custom - TS_OP_COUNT] = ts_adjoint_node_custom,
};

int ts_adjoint_barrier(TsAdjoint *a) {
  if (ts_wanted(a, 0)) a->grad_in[0] = a->grad[0];
  return 0;
}
