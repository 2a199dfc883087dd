/* Tile shapes that the program pins: {rows, columns, steps of k} of a matmul, {rows} of attention,
 * whose blocks of keys are part of its definition. They are a choice that the tuner leaves alone.
 * On a CPU a block is made of whole register tiles, the next that are large enough; on a GPU it
 * must be one of the tiles that there are, else nothing is pinned. */
#include "ir/sched/sched.h"

static const TsAttr *shape_of(const TsNode *n) {
  const TsAttr *a = n->op == TS_OP_matmul      ? &n->attr[0]
                    : n->op == TS_OP_attention ? &n->attr[3]
                                               : NULL;
  return a && a->type == TS_ATTR_ints && a->n > 0 ? a : NULL;
}

bool ts_sched_is_pinned(const TsNode *n) { return shape_of(n) != NULL; }

static bool find_tile(TsGroup *g, const TsSchedChoice *want) {
  TsSchedChoice all[TS_SCHED_CHOICES];
  int n = ts_sched_choices_gpu(g, all);
  for (int i = 0; i < n; i++)
    if (all[i].rows && all[i].rows == want->rows && all[i].columns == want->columns) {
      g->choice = all[i];
      return true;
    }
  return false;
}

static int clip(int64_t n) { return n > 1 << 20 ? 1 << 20 : (int)n; }

void ts_sched_pin(const TsSched *s, TsGroup *g) {
  const TsAttr *a = NULL;
  for (int i = 0; i < g->nnode && !a; i++) a = shape_of(g->node[i]);
  if (!a || !s->target || (g->kind != TS_GROUP_matmul && g->kind != TS_GROUP_attention)) return;
  TsSchedChoice c = {.rows = clip(a->ints[0])};
  if (g->kind == TS_GROUP_matmul && a->n > 1) c.columns = clip(a->ints[1]);
  if (g->kind == TS_GROUP_matmul && a->n > 2) c.steps = clip(a->ints[2]);
  if (ts_target_gpu(s->target)) {
    g->pinned = find_tile(g, &c);
    return;
  }
  g->choice = c;
  g->pinned = true;
}
