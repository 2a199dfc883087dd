/* Which nodes can fail while they run, and which of those nobody reads. */
#include "ir/graph/failing.h"

#include <stdlib.h>

bool ts_op_may_fail(TsOp op) { return ts_op_info(op)->fails != TS_FAILS_NOTHING; }

bool ts_node_may_fail(const TsNode *n) {
  if (n->op < TS_OP_COUNT) return ts_op_may_fail((TsOp)n->op);
  if (n->op == TS_NODE_custom || n->op == TS_NODE_fixed_point || n->op == TS_NODE_recursive)
    return true;
  for (int i = 0; i < n->nregion; i++)
    for (int k = 0; k < n->region[i]->nnode; k++)
      if (ts_node_may_fail(n->region[i]->node[k])) return true;
  return false;
}

/* A value and what stands instead of it. */
static void mark(const TsGraph *g, unsigned char *read, TsVal v) {
  for (; v; v = v->instead)
    if (v->graph == g) read[v->node->id] = 1;
}

int ts_graph_keep_failing(TsGraph *g, int n, const TsVal *used) {
  unsigned char *read = calloc((size_t)g->nnode + 1, 1);
  if (!read) return ts_error_memory(g->err);
  for (int i = 0; i < n; i++) mark(g, read, used[i]);
  for (int i = 0; i < g->nresult; i++) mark(g, read, g->result[i]);
  for (int i = 0; i < g->nupdate; i++) mark(g, read, g->update[i].value);
  for (int i = g->nnode; i-- > 0;) {
    const TsNode *k = g->node[i];
    for (int j = 0; read[i] && j < k->nin; j++) mark(g, read, k->in[j]);
    for (int j = 0; read[i] && j < k->nout; j++) mark(g, read, k->out[j].instead);
  }
  for (int i = 0; i < g->nnode; i++)
    g->node[i]->runs |= !read[i] && !g->node[i]->backward && ts_node_may_fail(g->node[i]);
  free(read);
  return 0;
}
