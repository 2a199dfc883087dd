/* Casts of parameters: weights that are kept in f32 and multiplied in bf16, say. Each is a
 * kernel of some microseconds, and a model has a hundred; a device launches those that stand
 * near each other as one (vm/code/lower_order.c puts them in a row, jit/eager/group.c launches
 * them). */
#include "ir/sched/sched.h"

static bool leaves(const TsGraph *g, const TsValue *v) {
  for (int i = 0; i < g->nresult; i++) {
    TsVal r = g->result[i];
    while (r != v && ts_sched_is_view(r->node)) r = r->node->in[0];
    if (r == v) return true;
  }
  return false;
}

bool ts_sched_gathered(const TsSched *s, const TsGroup *group) {
  const TsNode *n = group->nnode == 1 ? group->node[0] : NULL;
  bool device = ts_target_gpu(s->target);
  return device && n && group->kind == TS_GROUP_map && n->op == TS_OP_cast &&
         n->in[0]->node->op == TS_NODE_param && !leaves(s->g, &n->out[0]);
}
