/* See ir/mesh/leaves.h. */
#include "ir/mesh/leaves.h"

#include <stdlib.h>

TsVal ts_leaves_combine(TsBuild *b, TsFactorKind kind, TsVal x, TsVal y) {
  return ts_build2(b, ts_factor_operator(kind), x, y);
}

static bool is_narrow(TsBuild *b, TsVal v) { return v && ts_shard_is_narrow(b->meta(b, v)); }

/* What operand i is of a leaf, which begins `before` elements behind the part. */
static TsVal operand(TsBuild *b, const TsShard *s, int i, TsVal v, int f, int64_t before,
                     int64_t count) {
  for (int d = 0; v && s->in[i] && d < s->in[i]->ndim; d++) {
    if (s->in_axis[i][d] != f) continue;
    int64_t times = s->in[i]->dim[d] / s->factor[f].size;
    if (b->meta(b, v)->dim[d] == count * times) continue; /* the leaf is the part */
    v = ts_build_narrow(b, v, d, before * times, count * times);
  }
  return s->widens && is_narrow(b, v) ? ts_build_cast(b, v, TS_DT_f32) : v;
}

static void run_leaf(TsBuild *b, const TsShard *s, const TsShardPart *leaf, int f,
                     int64_t before, const TsVal *in, TsVal *out) {
  TsVal cut[TS_MAX_IN];
  TS_ASSERT(s->nin <= TS_MAX_IN);
  for (int i = 0; i < s->nin; i++)
    cut[i] = in[i] ? operand(b, s, i, in[i], f, before, leaf->count[f]) : NULL;
  b->emit(b, s->op, s->nin, cut, s->attr ? leaf->attr : NULL, out);
  for (int o = 0; o < s->nout && !b->failed; o++)
    if (ts_shard_axis(s, o, f) < 0 && s->factor[f].kind == TS_FACTOR_sum &&
        is_narrow(b, out[o]))
      out[o] = ts_build_cast(b, out[o], TS_DT_f32);
}

static TsVal tree(TsBuild *b, TsFactorKind kind, int n, int level, int place, int lo,
                  const TsVal *leaf) {
  if (level == 0) return leaf[place - lo];
  TsVal left = tree(b, kind, n, level - 1, 2 * place, lo, leaf);
  if (((int64_t)2 * place + 1) << (level - 1) >= n) return left;
  return ts_leaves_combine(b, kind, left, tree(b, kind, n, level - 1, 2 * place + 1, lo, leaf));
}

int ts_leaves_build(TsBuild *b, const TsShard *s, const TsShardPart *part, int f, int leaves,
                    int lo, int hi, const TsVal *in, TsVal *out, TsVal (*sum)[TS_LEAF_SUMS]) {
  TsVal *leaf[TS_MAX_OUT];
  int level[TS_LEAF_SUMS], place[TS_LEAF_SUMS];
  TsVal *all = malloc(sizeof *all * (size_t)(hi - lo) * (size_t)s->nout);
  if (!all) {
    ts_build_fail(b, TS_ERR_memory, "out of memory");
    return 0;
  }
  for (int o = 0; o < s->nout; o++) leaf[o] = all + (size_t)o * (size_t)(hi - lo);
  TsShardPart one;
  for (int i = lo; i < hi; i++) {
    TsVal made[TS_MAX_OUT] = {NULL};
    if (ts_shard_leaf(s, part, f, leaves, i, &one)) b->failed = true;
    run_leaf(b, s, &one, f, one.start[f] - part->start[f], in, made);
    for (int o = 0; o < s->nout; o++) leaf[o][i - lo] = made[o];
  }
  int n = ts_leaves_subtrees(leaves, lo, hi, level, place);
  for (int o = 0; o < s->nout; o++) {
    int axis = ts_shard_axis(s, o, f);
    out[o] = NULL;
    if (axis < 0)
      for (int k = 0; k < n; k++)
        sum[o][k] = tree(b, s->factor[f].kind, leaves, level[k], place[k], lo, leaf[o]);
    else if (hi - lo == 1)
      out[o] = leaf[o][0];
    else
      out[o] =
          ts_build(b, TS_OP_concat, hi - lo, leaf[o], TS_ATTRS({"axis", ts_b_int(axis)}), NULL);
  }
  free(all);
  return n;
}
