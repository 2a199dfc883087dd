/* Whether two schedules say the same, as far as their text goes. The graphs may be two. */
#include <string.h>

#include "ir/sched/sched.h"

static bool same_value(TsVal a, TsVal b) {
  return a->node->id == b->node->id && a->index == b->index;
}

static bool same_values(int na, const TsVal *a, int nb, const TsVal *b) {
  for (int i = 0; i < na && i < nb; i++)
    if (!same_value(a[i], b[i])) return false;
  return na == nb;
}

static const char *difference(const TsGroup *a, const TsGroup *b) {
  if (a->kind != b->kind) return "kinds";
  if (a->nnode != b->nnode) return "nodes";
  for (int i = 0; i < a->nnode; i++)
    if (a->node[i]->id != b->node[i]->id) return "nodes";
  if (a->kind == TS_GROUP_vm) return NULL;
  if (a->naxis != b->naxis || a->nrow != b->nrow || a->transposed != b->transposed)
    return "spaces";
  if (memcmp(a->axis, b->axis, sizeof *a->axis * (size_t)a->naxis)) return "spaces";
  if (!ts_sched_choice_same(&a->choice, &b->choice)) return "choices";
  if (!same_values(a->nin, a->in, b->nin, b->in)) return "values that are read";
  return same_values(a->nout, a->out, b->nout, b->out) ? NULL : "values that are written";
}

static bool same_target(const TsTarget *a, const TsTarget *b) {
  return a && b ? !strcmp(a->name, b->name) : !a == !b;
}

static bool differ(TsText *why, int group, const char *what) {
  if (!why) return false;
  if (group >= 0) ts_text_format(why, "group %d: ", group);
  ts_text_format(why, "other %s", what);
  return false;
}

bool ts_sched_equal(const TsSched *a, const TsSched *b, TsText *why) {
  if (!same_target(a->target, b->target)) return differ(why, -1, "target");
  if ((a->profile == TS_PROFILE_fast) != (b->profile == TS_PROFILE_fast))
    return differ(why, -1, "instruction for pairs");
  if (a->threads != b->threads) return differ(why, -1, "number of threads");
  for (int i = 0; i < a->ngroup && i < b->ngroup; i++) {
    const char *what = difference(a->group[i], b->group[i]);
    if (what) return differ(why, i, what);
  }
  return a->ngroup == b->ngroup || differ(why, -1, "number of groups");
}
