/* The legality of a schedule: every node that runs is in one group, groups need only what groups
 * before them made, and the values of a kernel lie in its space. */
#include <stdlib.h>

#include "ir/graph_copy.h"
#include "ir/sched.h"

static int bad(TsError *err, const TsGroup *g, const TsNode *n, const char *what) {
  return ts_error_set(err, TS_ERR_value, "schedule: group %d, %s: %s", g->index,
                      n ? ts_node_name(n) : "as a whole", what);
}

static int check_node(const TsSched *s, const TsGroup *g, const TsNode *n, TsError *err) {
  if (s->of[n->id] != g->index) return bad(err, g, n, "the node is in another group as well");
  for (int i = 0; i < n->nin; i++) {
    TsVal v = n->in[i];
    while (v && ts_sched_is_view(v->node)) v = v->node->in[0];
    if (v && s->of[v->node->id] > g->index) return bad(err, g, n, "needs a later group");
  }
  if (g->kind == TS_GROUP_vm) return 0;
  if (ts_sched_kind(n) == TS_GROUP_vm) return bad(err, g, n, "has no place in a kernel");
  for (int i = 0; i < n->nout; i++)
    if (ts_sched_role(g, &n->out[i].meta) == TS_ROLE_none)
      return bad(err, g, n, "its result does not fit the space");
  return 0;
}

int ts_sched_check(const TsSched *s, TsError *err) {
  for (int i = 0; i < s->ngroup; i++) {
    const TsGroup *g = s->group[i];
    if (g->index != i) return bad(err, g, NULL, "is not where its index says");
    if (!g->nnode || (g->kind == TS_GROUP_vm && g->nnode != 1))
      return bad(err, g, NULL, "has the wrong number of nodes");
    if (g->kind != TS_GROUP_rows && g->nrow) return bad(err, g, NULL, "has rows but is a map");
    for (int k = 0; k < g->nnode; k++)
      if (check_node(s, g, g->node[k], err)) return -1;
  }
  return 0;
}
