/* See ir/mesh/buckets.h. */
#include "ir/mesh/buckets.h"

#include <stdlib.h>

#include "ir/mesh/delays.h"

int ts_buckets_open(TsSlots *a, const unsigned char *live) {
  const TsGraph *g = a->p->g;
  const TsOverlap *o = &a->p->overlap;
  if (!o->on) return 0;
  if (!(a->rest = calloc((size_t)g->nnode + 1, sizeof *a->rest)))
    return ts_error_memory(a->err);
  double sum = 0;
  for (int i = g->nnode; i-- > 0;) {
    const TsNode *n = g->node[i];
    a->rest[i] = sum / a->p->space.n;
    if (live[i] && n->backward && n->op < TS_OP_COUNT)
      sum += ts_chunks_cost_at(n, o->flops, o->memory);
  }
  return 0;
}

bool ts_buckets_last(const TsSlots *a, const TsMeshJoin *j, const TsSlotReader *r) {
  const TsMeshPlan *p = a->p;
  if (!p->overlap.on || !r->node || !j || !j->node || p->slot[j->from].group < 0) return false;
  bool updates = j->kind == TS_JOIN_sum && !r->node->backward; /* or it is in their way */
  if (!updates && (j->kind != TS_JOIN_move || !r->node->backward)) return false;
  const TsMeshGroup *g = &p->group[p->slot[j->from].group];
  if (g->closed || !g->bytes) return false;
  for (int i = 0; i < p->ngroup; i++)
    if (p->group[i].closed && p->group[i].level <= g->level && p->group[i].bytes) return true;
  return false;
}

bool ts_buckets_early(const TsSlots *a, const TsMeshJoin *j) {
  return j && j->kind == TS_JOIN_sum && a->p->slot[j->from].group >= 0 &&
         a->p->group[a->p->slot[j->from].group].closed;
}

void ts_buckets_close(TsSlots *a) { free(a->rest); }

void ts_buckets_sum(TsSlots *a, const TsNode *n, int group, int slot) {
  const TsOverlap *o = &a->p->overlap;
  if (!o->on || !n->backward || group < 0) return;
  if (a->delays) ts_delays_keep(a->delays, n->id);
  TsMeshGroup *g = &a->p->group[group];
  TsMeta part = ts_layout_part(ts_layout_of(&a->p->slot[slot].meta), &a->p->slot[slot].meta, 0);
  g->bytes += ts_meta_nbytes(&part);
  double takes = (double)g->bytes / o->link, left = a->rest[n->id];
  double hidden = takes < left ? takes : left;
  int times = g->micro ? a->p->space.nmicro : 1; /* it is launched so often, and summed once */
  if (g->bytes >= o->bucket && hidden > 0 && hidden >= o->least * times) g->closed = true;
}
