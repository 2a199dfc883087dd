/* Where values are made: updates and results straight in the bytes of a parameter, parts of wholes
 * in their places. See vm/code/lower.c. */
#include "vm/code/lower_state.h"
#include "vm/drive/optim.h"

/* ---- updates: which results may be written straight into their parameter */
static void find_last_uses(TsLowering *l) {
  const TsGraph *g = l->g;
  for (int i = 0; i < g->nnode; i++) l->last_use[i] = -1;
  for (int at = l->norder; at-- > 0;) {
    int i = l->order[at];
    const TsNode *n = g->node[i];
    int own = is_view(n) && l->last_use[i] > at ? l->last_use[i] : at;
    for (int k = 0; k < n->nin; k++)
      if (n->in[k] && l->last_use[n->in[k]->node->id] < own)
        l->last_use[n->in[k]->node->id] = own;
  }
  for (int i = 0; i < g->nresult; i++) l->last_use[g->result[i]->node->id] = g->nnode;
  for (int i = 0; i < g->nupdate; i++) l->last_use[g->update[i].value->node->id] = g->nnode;
  for (int i = g->nnode; i-- > 0;) { /* a result that is a view keeps what it looks at */
    const TsNode *n = g->node[i];
    if (is_view(n) && l->last_use[i] == g->nnode) l->last_use[n->in[0]->node->id] = g->nnode;
  }
}

/* What works on memory of its own meanwhile might have to stop half way. */
static bool writes_in_place(const TsNode *n) {
  const TsOpInfo *o = row_of(n);
  return o && (o->cls == TS_CLASS_POINTWISE || ts_optim_groups((TsOp)n->op));
}

/* No other operand of the node may be a view of the parameter. */
static bool reads_directly(const TsNode *n, TsVal p) {
  for (int k = 0; k < n->nin; k++) {
    TsVal v = n->in[k];
    if (!v || v == p) continue;
    while (is_view(v->node)) v = v->node->in[0];
    if (v == p) return false;
  }
  return true;
}

/* A result must not change with the parameter, unless it is the parameter. */
static bool leaves(const TsGraph *g, TsVal v, int param) {
  for (int i = 0; i < g->nresult; i++) {
    TsVal r = g->result[i];
    if (g->bytes && g->bytes[i] == param) continue;
    while (r != v && is_view(r->node)) r = r->node->in[0];
    if (r == v) return true;
  }
  return false;
}

/* The last place of the nodes that run with n. */
static int end_of(const TsLowering *l, const TsNode *n) {
  const TsFusedGroup *u = fused_group(l, n);
  int end = l->when[n->id];
  for (int i = 0; u && i < u->group->nnode; i++)
    if (l->when[u->group->node[i]->id] > end) end = l->when[u->group->node[i]->id];
  return end;
}

/* A kernel writes v over its input p. */
static bool kernel_takes(const TsFusedGroup *u, TsVal v, TsVal p) {
  uint32_t root[TS_SCHED_PARAMS];
  int own = -1, out = -1;
  for (int i = 0; i < u->fused->nin; i++) {
    TsVal from = u->value[i];
    if (from == p) own = i;
    while (is_view(from->node)) from = from->node->in[0];
    root[i] = from == p;
  }
  for (int i = 0; i < u->fused->nout; i++)
    if (u->value[u->fused->nin + i] == v) out = i;
  return own >= 0 && out >= 0 && ts_fused_over(u->fused, out, own, root);
}

/* What looks at its indices first may refuse them: never behind all that may fail, but in memory
 * that the caller gave away. */
static bool is_scatter(const TsNode *n) { return n->op == TS_OP_scatter; }

static bool takes_operand(const TsLowering *l, TsVal v, TsVal p) {
  const TsFusedGroup *u = fused_group(l, v->node);
  if (u) return kernel_takes(u, v, p);
  bool first = is_scatter(v->node) && v->node->in[0] == p;
  return (first || writes_in_place(v->node)) && reads_directly(v->node, p);
}

/* v may be written over p where it is made: p has its type, is read no later and in no other
 * way, and nothing else is written there. */
static bool could_take(const TsLowering *l, TsVal v, TsVal p) {
  return v->meta.dtype == p->meta.dtype && ts_meta_same_shape(&v->meta, &p->meta) &&
         takes_operand(l, v, p) && !place_of(l, v)->known;
}

static bool may_take(const TsLowering *l, TsVal v, TsVal p) {
  return could_take(l, v, p) && l->last_use[p->node->id] <= end_of(l, v->node) &&
         l->target[value_index(l, v)] == TS_CODE_NONE;
}

bool ts_lower_may_update(const TsLowering *l, int u) {
  const TsGraph *g = l->g;
  int param = g->update[u].param;
  TsVal v = g->update[u].value;
  const TsTensor *bound = l->code->bound[param];
  return bound && bound->contiguous && !is_scatter(v->node) && !leaves(g, v, param) &&
         could_take(l, v, g->param[param]);
}

static void find_targets(TsLowering *l) {
  const TsGraph *g = l->g;
  for (int v = 0; v < l->nplace; v++) l->target[v] = TS_CODE_NONE;
  for (int i = 0; i < g->nupdate; i++) {
    int param = g->update[i].param;
    TsVal v = g->update[i].value;
    if (l->late[v->node->id] && ts_lower_may_update(l, i) && may_take(l, v, g->param[param]))
      l->target[value_index(l, v)] = (uint32_t)param;
  }
}

/* Results in the bytes of arguments that the caller gave away. */
static void find_donations(TsLowering *l) {
  const TsGraph *g = l->g;
  for (int i = 0; l->donated && i < g->nparam; i++) {
    bool given = l->donated[i] && !g->bound[i];
    for (int k = 0; given && k < g->nresult; k++) {
      if (!may_take(l, g->result[k], g->param[i])) continue;
      l->target[value_index(l, g->result[k])] = (uint32_t)i;
      l->code->donated[i] = true;
      break;
    }
  }
}

void ts_lower_targets(TsLowering *l) {
  find_last_uses(l);
  find_targets(l);
  find_donations(l);
}

/* ---- parts of wholes that are made in their places */
static bool has_place(const TsLowering *l, TsVal v) {
  return place_of(l, v)->known || l->target[value_index(l, v)] != TS_CODE_NONE;
}

int ts_lower_may_be_part(void *arg, const TsPart *p) {
  const TsLowering *l = arg;
  const TsFusedGroup *u = fused_group(l, p->v->node);
  const unsigned char *spread = l->fusion ? l->fusion->sched->spread : NULL;
  if (has_place(l, p->v) || has_place(l, (TsVal)(uintptr_t)&p->whole->out[0])) return 0;
  if (p->dense) return !u || !u->group->transposed;
  if (l->fusion && !(spread && spread[p->v->node->id])) return 0;
  return u ? 2 : row_of(p->v->node)->cls == TS_CLASS_POINTWISE;
}
