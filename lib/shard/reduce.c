/* How reductions and scans are done in parts. */
#include "lib/shard/shard.h"

static TsFactorKind kind_of(TsOp op) {
  switch (op) {
  case TS_OP_max: return TS_FACTOR_max;
  case TS_OP_min: return TS_FACTOR_min;
  case TS_OP_any: return TS_FACTOR_any;
  case TS_OP_all: return TS_FACTOR_all;
  case TS_OP_sum:
  case TS_OP_mean: /* as a sum (vm/mesh/define.c) */
  case TS_OP_count_nonzero: return TS_FACTOR_sum;
  default: return TS_FACTOR_along; /* in one piece */
  }
}

static void reduced_axes(const TsShard *s, bool reduced[TS_MAX_RANK]) {
  const TsAttr *a = ts_shard_attr(s, "axis");
  int ndim = s->in[0]->ndim;
  for (int d = 0; d < ndim; d++) reduced[d] = a->type == TS_ATTR_none;
  if (a->type == TS_ATTR_int && ndim) reduced[a->i < 0 ? a->i + ndim : a->i] = true;
  for (int i = 0; a->type == TS_ATTR_ints && ndim && i < a->n; i++)
    reduced[a->ints[i] < 0 ? a->ints[i] + ndim : a->ints[i]] = true;
}

/* Leaves are of one axis alone: those of several would be leaves of leaves. What does not depend on
 * the order takes an axis that is split, sums and means the first one with several elements. */
static int summed_axis(const TsShard *s, const bool *reduced) {
  const TsLayout *l = ts_layout_of(s->in[0]);
  int first = -1;
  for (int d = 0; d < s->in[0]->ndim; d++) {
    if (!reduced[d] || s->in[0]->dim[d] == 1) continue;
    if (first < 0) first = d;
    if (l && l->naxis[d] && s->op != TS_OP_sum && s->op != TS_OP_mean) return d;
  }
  return first;
}

void ts_shard_reduce(TsShard *s) {
  bool reduced[TS_MAX_RANK] = {false}, keeps = ts_shard_attr(s, "keepdims")->i;
  TsFactorKind kind = kind_of(s->op);
  reduced_axes(s, reduced);
  for (int d = 0, o = 0; d < s->in[0]->ndim; d++) {
    if (!reduced[d]) ts_shard_along(s, 0, d, 0, o);
    o += !reduced[d] || keeps;
  }
  int summed = kind == TS_FACTOR_along ? -1 : summed_axis(s, reduced);
  if (summed >= 0) ts_shard_in(s, 0, summed, ts_shard_factor(s, kind, s->in[0]->dim[summed]));
  s->widens = s->op == TS_OP_sum;
}
