/* Which function differentiates which node. */
#include "ir/adjoint/node.h"

#include "lib/mesh.h"

int ts_adjoint_node_zero(TsAdjoint *a) {
  (void)a;
  return 0;
}

int ts_custom_adjoint(TsCustom *f, TsAdjoint *a) {
  if (f && f->adjoint) return f->adjoint(f, a);
  ts_build_fail(a->b, TS_ERR_value, "%s has no derivative: it was made without an adjoint",
                f ? f->name : "custom");
  return ts_error_hint(a->b->err, "give {adjoint = function(x, y, dy) return dx end} with it");
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

/* The gradient lies as what it is the gradient of. */
int ts_adjoint_reshard(TsAdjoint *a) {
  const TsMeta *m = a->b->meta(a->b, a->in[0]);
  char spec[TS_SPEC_TEXT];
  if (!ts_wanted(a, 0)) return 0;
  a->grad_in[0] = a->grad[0];
  if (m->layout)
    a->grad_in[0] = ts_build(a->b, TS_OP_reshard, TS_IN(a->grad[0]),
                             TS_ATTRS({"spec", ts_b_str(ts_layout_spec(ts_layout_of(m), spec))}),
                             NULL);
  return 0;
}
