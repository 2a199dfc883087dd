/* What a function changes for its caller comes last: nodes that are written over parameters,
 * and what reads them, behind everything that may fail. So a run that ends with an error or by
 * Ctrl-C has changed nothing, and one that came so far changes all (vm/code/frame.c, commit).
 * See vm/code/lower.c.
 *
 * The part behind must not fail, so only simple work may stand there: steps of optimisers,
 * element-wise rows, views, kernels that write over a parameter. A value whose readers are
 * anything else is made in memory of its own and copied at the end (TS_VM_update).
 *
 * *Rejected:* the old bytes put aside before they are overwritten (as much memory as parameters
 * and moments, and the time to copy them, in every step), and writing each where the graph has
 * it (statistics of a layer would have moved when its loss fails). */
#include <stdlib.h>
#include <string.h>

#include "vm/code/lower_state.h"

static bool is_safe(const TsLowering *l, const TsNode *n, const unsigned char *over) {
  const TsFusedGroup *u = fused_group(l, n);
  for (int i = 0; u && i < u->group->nnode; i++)
    if (over[u->group->node[i]->id]) return true;
  if (u) return false;
  return over[n->id] || is_view(n) || (row_of(n) && row_of(n)->cls == TS_CLASS_POINTWISE);
}

static bool reads_late(const TsLowering *l, const TsNode *n) {
  for (int k = 0; k < n->nin; k++)
    if (n->in[k] && l->late[n->in[k]->node->id]) return true;
  return false;
}

/* Late: over a parameter, or behind something late; a kernel is as late as any of its nodes. */
static void mark_late(TsLowering *l, const unsigned char *over) {
  memset(l->late, 0, (size_t)l->g->nnode);
  for (int at = 0; at < l->norder; at++) {
    const TsNode *n = l->g->node[l->order[at]];
    const TsFusedGroup *u = fused_group(l, n);
    bool late = l->late[n->id] || over[n->id] || reads_late(l, n);
    for (int i = 0; u && !late && i < u->group->nnode; i++)
      late = over[u->group->node[i]->id] || reads_late(l, u->group->node[i]);
    if (!late) continue;
    l->late[n->id] = 1;
    for (int i = 0; u && i < u->group->nnode; i++) l->late[u->group->node[i]->id] = 1;
  }
}

static void mark_inputs(const TsLowering *l, const TsNode *n, unsigned char *bad) {
  for (int k = 0; k < n->nin; k++)
    if (n->in[k] && l->late[n->in[k]->node->id]) bad[n->in[k]->node->id] = 1;
}

/* Nodes that something reads that may fail are not written over parameters. */
static bool find_bad(const TsLowering *l, const unsigned char *over, unsigned char *bad) {
  bool any = false;
  for (int at = l->norder; at-- > 0;) {
    const TsNode *n = l->g->node[l->order[at]];
    const TsFusedGroup *u = fused_group(l, n);
    if (!l->late[n->id]) continue;
    bool is = bad[n->id] || !is_safe(l, n, over);
    for (int i = 0; u && i < u->group->nnode; i++) is |= bad[u->group->node[i]->id] != 0;
    if (!is) continue;
    any = true;
    bad[n->id] = 1;
    mark_inputs(l, n, bad);
    for (int i = 0; u && i < u->group->nnode; i++) mark_inputs(l, u->group->node[i], bad);
  }
  return any;
}

static int move_late(TsLowering *l) {
  int *order = malloc(sizeof *order * ((size_t)l->norder + 1)), n = 0;
  if (!order) return no_memory(l);
  for (int late = 0; late < 2; late++)
    for (int at = 0; at < l->norder; at++)
      if (l->late[l->order[at]] == late) l->when[l->order[at]] = n, order[n++] = l->order[at];
  free(l->order);
  l->order = order;
  return 0;
}

int ts_lower_late(TsLowering *l) {
  const TsGraph *g = l->g;
  size_t n = (size_t)g->nnode + 1;
  unsigned char *over = calloc(n, 1), *bad = calloc(n, 1);
  l->late = calloc(n, 1);
  int failed = over && bad && l->late ? 0 : no_memory(l);
  for (int i = 0; i < g->nupdate && !failed; i++)
    if (ts_lower_may_update(l, i)) over[g->update[i].value->node->id] = 1;
  if (!failed) mark_late(l, over);
  if (!failed && find_bad(l, over, bad)) {
    for (int i = 0; i < g->nnode; i++) over[i] &= !bad[i];
    mark_late(l, over);
  }
  for (int i = 0; i < g->nnode && !failed; i++) l->late[i] &= l->live[i] != 0;
  if (!failed) failed = move_late(l);
  free(over);
  free(bad);
  return failed;
}
