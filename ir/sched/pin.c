/* What the program chose for a group: with options of its operators, of which tile_shape is
 * {rows, columns, steps of k} of a matmul and {rows} of attention, whose blocks of keys are part of
 * its definition, or by f:choose, which comes later and counts more. The tuner leaves it alone. */
#include "ir/sched/sched.h"

static const TsAttr *shape_of(const TsNode *n) {
  const TsAttr *a = n->op == TS_OP_matmul      ? &n->attr[0]
                    : n->op == TS_OP_attention ? &n->attr[3]
                                               : NULL;
  return a && a->type == TS_ATTR_ints && a->n > 0 ? a : NULL;
}

bool ts_sched_is_pinned(const TsNode *n) { return shape_of(n) || n->choice; }

static int clip(int64_t n) { return n > 1 << 20 ? 1 << 20 : (int)n; }

static void shape(const TsNode *n, TsSchedChoice *c) {
  const TsAttr *a = shape_of(n);
  if (!a) return;
  c->rows = clip(a->ints[0]);
  if (n->op == TS_OP_matmul && a->n > 1) c->columns = clip(a->ints[1]);
  if (n->op == TS_OP_matmul && a->n > 2) c->depth = clip(a->ints[2]);
}

/* What several nodes of a group say counts from the first that says it, the heart of the group
 * before all. */
static void add(const TsNode *n, TsSchedChoice *c) {
  TsSchedChoice own = {0};
  if (n->choice && !ts_sched_choice_parse(n->choice, &own)) own = (TsSchedChoice){0};
  shape(n, &own);
  for (int i = 0; i < TS_CHOICE_FIELDS; i++)
    if (!ts_choice_value(c, i)) *ts_choice_at(c, i) = ts_choice_value(&own, i);
}

static bool is_heart(const TsNode *n) {
  return n->op < TS_OP_COUNT && ts_op_info((TsOp)n->op)->cls != TS_CLASS_POINTWISE;
}

void ts_sched_pin(TsSched *s, TsGroup *g) {
  const TsSchedChoice none = {0};
  if (!s->target) return;
  for (int heart = 1; heart >= 0; heart--)
    for (int i = 0; i < g->nnode; i++)
      if (is_heart(g->node[i]) == heart) add(g->node[i], &g->want);
  g->pinned = !ts_sched_choice_same(&g->want, &none);
}
