/* The order in which nodes run: the graph's, or with kernels the groups', each with the views that
 * it needs. See vm/code/lower.c. */
#include "vm/code/lower_state.h"

enum {
  MOST_GATHERED = 64 << 20 /* bytes made together, some of it long before it is read */
};

bool ts_lower_is_joined(const TsLowering *l, const TsNode *n) {
  if (!l->fusion || n->op != TS_OP_concat || !n->nin || !n->in[0]) return false;
  TsVal v = n->in[0];
  while (is_view(v->node)) v = v->node->in[0];
  const TsFusedGroup *u = fused_group(l, v->node);
  return u && u->into == n;
}

static void put_in_order(TsLowering *l, const TsNode *n) {
  if (l->when[n->id] >= 0) return;
  l->when[n->id] = l->norder;
  l->order[l->norder++] = (int)n->id;
}

/* Views go where they are first needed: what they look at is there by then. */
static void order_view(TsLowering *l, TsVal v) {
  if (!v || !is_view(v->node) || l->when[v->node->id] >= 0) return;
  order_view(l, v->node->in[0]);
  put_in_order(l, v->node);
}

/* What a kernel makes is there when all of it has run: views of that come later. */
static void order_views(TsLowering *l, const TsGroup *group, const TsNode *n, bool fused) {
  for (int i = 0; i < n->nin; i++) {
    TsVal root = n->in[i];
    while (root && is_view(root->node)) root = root->node->in[0];
    bool own = root && l->fusion->sched->of[root->node->id] == group->index;
    if (!own || !fused) order_view(l, n->in[i]);
  }
}

static void order_group(TsLowering *l, const TsGroup *group) {
  bool fused = l->fusion->of[group->index].fused != NULL;
  for (int k = 0; k < group->nnode; k++) {
    if (!ts_lower_is_joined(l, group->node[k])) order_views(l, group, group->node[k], fused);
    if (!fused) put_in_order(l, group->node[k]);
  }
  for (int k = 0; k < group->nnode; k++) put_in_order(l, group->node[k]);
}

/* Casts of parameters on a device, as many as lie in the memory that they may take. */
static void order_gathered(TsLowering *l, int k) {
  const TsSched *s = l->fusion->sched;
  int64_t nbytes = 0;
  for (; k < s->ngroup; k++) {
    const TsNode *n = s->group[k]->node[0];
    if (!ts_sched_gathered(s, s->group[k]) || l->when[n->id] >= 0) continue;
    if (nbytes && nbytes + node_nbytes(n) > MOST_GATHERED) return;
    nbytes += node_nbytes(n);
    put_in_order(l, n);
  }
}

void ts_lower_order(TsLowering *l) {
  const TsGraph *g = l->g;
  for (int i = 0; i < g->nnode; i++) l->when[i] = -1;
  for (int i = 0; i < g->nnode; i++) { /* what is there before any kernel */
    const TsNode *n = g->node[i];
    if (!l->live[i] || (l->fusion && (l->fusion->sched->of[i] >= 0 || is_view(n)))) continue;
    for (int k = 0; k < n->nin; k++) order_view(l, n->in[k]);
    put_in_order(l, n);
  }
  for (int k = 0; l->fusion && k < l->fusion->sched->ngroup; k++) {
    const TsGroup *group = l->fusion->sched->group[k];
    if (!ts_sched_gathered(l->fusion->sched, group))
      order_group(l, group);
    else if (l->when[group->node[0]->id] < 0)
      order_gathered(l, k);
  }
  for (int i = 0; i < g->nresult; i++) order_view(l, g->result[i]);
  for (int i = 0; i < g->nupdate; i++) order_view(l, g->update[i].value);
}
