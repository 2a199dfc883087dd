/* See vm/mesh/leaves.h. */
#include "vm/mesh/leaves.h"

#include <stdlib.h>
#include <string.h>

#include "vm/mesh/parts.h"

/* ---- the tree */
int ts_leaves_sums(int n, int lo, int hi, TsLeafSum *sum) {
  int level[TS_LEAF_SUMS], place[TS_LEAF_SUMS], k = ts_leaves_subtrees(n, lo, hi, level, place);
  for (int i = 0; i < k; i++) sum[i] = (TsLeafSum){.level = level[i], .place = place[i]};
  return k;
}

typedef struct Tree {
  TsContext *c;
  TsOp op;
  int n, nsum, device;
  TsLeafSum *sum;
} Tree;

/* Values are used up: each is needed once. */
static TsTensor *value_of(Tree *t, int level, int place) {
  for (int i = 0; i < t->nsum; i++)
    if (t->sum[i].level == level && t->sum[i].place == place && t->sum[i].value) {
      TsTensor *v = t->sum[i].value;
      TsTensor *there = ts_tensor_to(t->c, v, t->device);
      ts_tensor_unref(v);
      t->sum[i].value = NULL;
      return there;
    }
  if (level == 0) TS_BUG("leaf %d of %d is missing", place, t->n);
  TsTensor *left = value_of(t, level - 1, 2 * place), *right = NULL;
  if (!left || ((int64_t)2 * place + 1) << (level - 1) >= t->n) return left;
  if ((right = value_of(t, level - 1, 2 * place + 1))) {
    TsTensor *both[] = {left, right};
    TsTensor *sum = ts_vm_call1(t->c, t->op, 2, both, NULL);
    ts_tensor_unref(left);
    ts_tensor_unref(right);
    return sum;
  }
  ts_tensor_unref(left);
  return NULL;
}

static TsTensor *root(TsContext *c, TsFactorKind kind, int n, int level, int place, int nsum,
                      TsLeafSum *sum) {
  Tree t = {.c = c, .op = ts_factor_operator(kind), .n = n, .nsum = nsum, .sum = sum};
  t.device = sum[0].value->meta.device;
  TsTensor *value = value_of(&t, level, place);
  for (int i = 0; i < nsum; i++) {
    ts_tensor_unref(sum[i].value);
    sum[i].value = NULL;
  }
  return value;
}

TsTensor *ts_leaves_root(TsContext *c, TsFactorKind kind, int n, int nsum, TsLeafSum *sum) {
  int level = 0;
  while (1 << level < n) level++;
  return root(c, kind, n, level, 0, nsum, sum);
}

static int by_place(const void *a, const void *b) {
  const TsLeafSum *x = a, *y = b;
  int64_t p = (int64_t)x->place << x->level, q = (int64_t)y->place << y->level;
  return p < q ? -1 : p > q;
}

/* x and the one behind it are the two halves of a subtree. */
static bool are_halves(const TsLeafSum *x) {
  return !(x->place & 1) && x[1].level == x->level && x[1].place == x->place + 1;
}

int ts_leaves_fold(TsContext *c, TsFactorKind kind, int n, int *nsum, TsLeafSum *sum) {
  qsort(sum, (size_t)*nsum, sizeof *sum, by_place);
  for (int i = 0; i < *nsum;) {
    TsLeafSum *x = &sum[i];
    bool more = 1 << x->level < n && !(x->place & 1);
    if (more && ((int64_t)x->place + 1) << x->level >= n) { /* the last one goes up as it is */
      x->level++, x->place /= 2;
    } else if (more && i + 1 < *nsum && are_halves(x)) {
      TsTensor *both[] = {x->value, x[1].value};
      TsTensor *y = ts_vm_call1(c, ts_factor_operator(kind), 2, both, NULL);
      if (!y) return -1;
      ts_tensor_unref(both[0]);
      ts_tensor_unref(both[1]);
      *x = (TsLeafSum){x->level + 1, x->place / 2, y};
      --*nsum;
      for (int k = i + 1; k < *nsum; k++) sum[k] = sum[k + 1];
    } else {
      i++;
      continue;
    }
    if (i) i--; /* the one in front may be its other half now */
  }
  return 0;
}

/* ---- a call, leaf by leaf */
typedef struct Run {
  TsContext *c;
  const TsShard *s;
  TsShardPart part; /* of one leaf */
  int f;
  int64_t before; /* of the factor, what of the part stands in front of the leaf */
} Run;

static TsTensor *narrowed(TsContext *c, TsTensor *t, int d, int64_t start, int64_t count) {
  TsAttr a[] = {ts_attr_int(d), ts_attr_int(start), ts_attr_int(count)};
  return ts_vm_call1(c, TS_OP_narrow, 1, &t, a);
}

static TsTensor *in_f32(TsContext *c, TsTensor *t) {
  TsAttr a = ts_attr_dtype(TS_DT_f32);
  return ts_vm_call1(c, TS_OP_cast, 1, &t, &a);
}

/* What operand i is of the leaf: a reference. */
static TsTensor *operand(const Run *r, int i, TsTensor *t) {
  const TsShard *s = r->s;
  TsTensor *cut = ts_tensor_ref(t);
  for (int d = 0; cut && s->in[i] && d < s->in[i]->ndim; d++) {
    if (s->in_axis[i][d] != r->f) continue;
    int64_t times = s->in[i]->dim[d] / s->factor[r->f].size;
    int64_t start = r->before * times, count = r->part.count[r->f] * times;
    if (!start && count == cut->meta.dim[d]) continue; /* the only leaf */
    TsTensor *next = narrowed(r->c, cut, d, start, count);
    ts_tensor_unref(cut);
    cut = next;
  }
  if (cut && s->widens && ts_shard_is_narrow(&cut->meta)) {
    TsTensor *wide = in_f32(r->c, cut);
    ts_tensor_unref(cut);
    cut = wide;
  }
  return cut;
}

static int run_leaf(const Run *r, TsTensor *const *in, TsTensor **out) {
  TsTensor *cut[TS_MAX_IN] = {NULL};
  int failed = 0, nout = 0;
  for (int i = 0; i < r->s->nin && !failed; i++)
    failed = in[i] && !(cut[i] = operand(r, i, in[i]));
  if (!failed)
    failed = ts_vm_call(r->c, r->s->op, r->s->nin, cut, r->part.attr, TS_MAX_OUT, &nout, out);
  for (int i = 0; i < r->s->nin; i++) ts_tensor_unref(cut[i]);
  for (int o = 0; o < nout && !failed; o++) { /* summands of 16 bits are added in f32 */
    bool summand = ts_shard_axis(r->s, o, r->f) < 0;
    if (!summand || !ts_shard_is_narrow(&out[o]->meta) ||
        r->s->factor[r->f].kind != TS_FACTOR_sum)
      continue;
    TsTensor *wide = in_f32(r->c, out[o]);
    ts_tensor_unref(out[o]);
    failed = !(out[o] = wide);
  }
  for (int o = 0; o < nout && failed; o++) ts_tensor_unref(out[o]);
  return failed ? -1 : 0;
}

/* All leaves of one result that has the factor. */
static TsTensor *joined(TsContext *c, int axis, int n, TsTensor **leaf) {
  TsAttr a = ts_attr_int(axis);
  return n == 1 ? ts_tensor_ref(leaf[0]) : ts_vm_call1(c, TS_OP_concat, n, leaf, &a);
}

int ts_leaves_run(TsContext *c, const TsShard *s, const TsShardPart *part, int f, int leaves,
                  int lo, int hi, TsTensor *const *in, TsTensor **out,
                  TsLeafSum (*sum)[TS_LEAF_SUMS], int *nsum) {
  TsTensor **leaf[TS_MAX_OUT];
  int n = 0, failed = 0, own = hi - lo;
  TsTensor **all = malloc(sizeof *all * (size_t)own * (size_t)s->nout);
  TsLeafSum *part_of = malloc(sizeof *part_of * (size_t)own);
  if (!all || !part_of) {
    free(all), free(part_of);
    return ts_error_memory(&c->err);
  }
  for (int o = 0; o < s->nout; o++) leaf[o] = all + (size_t)o * (size_t)own;
  Run r = {.c = c, .s = s, .f = f};
  *nsum = ts_leaves_sums(leaves, lo, hi, sum[0]);
  for (int o = 0; o < s->nout; o++) {
    out[o] = NULL;
    memcpy(sum[o], sum[0], sizeof *sum[0] * (size_t)*nsum);
  }
  for (int i = lo; i < hi && !failed; i++) {
    TsTensor *made[TS_MAX_OUT] = {NULL};
    failed = ts_shard_leaf(s, part, f, leaves, i, &r.part);
    r.before = r.part.start[f] - part->start[f];
    failed = failed || run_leaf(&r, in, made);
    for (int o = 0; o < s->nout && !failed; o++) leaf[o][n] = made[o];
    n += !failed;
  }
  for (int o = 0; o < s->nout && !failed; o++) {
    int axis = ts_shard_axis(s, o, f);
    if (axis >= 0) {
      failed = !(out[o] = joined(c, axis, n, leaf[o]));
      continue;
    }
    for (int k = 0; k < *nsum && !failed; k++) {
      int first = sum[o][k].place << sum[o][k].level, m = 0;
      for (int i = first; i < ts_leaves_end(leaves, sum[o][k].level, sum[o][k].place); i++)
        part_of[m++] = (TsLeafSum){0, i, ts_tensor_ref(leaf[o][i - lo])};
      sum[o][k].value =
          root(c, s->factor[f].kind, leaves, sum[o][k].level, sum[o][k].place, m, part_of);
      failed = !sum[o][k].value;
    }
  }
  for (int o = 0; o < s->nout; o++)
    for (int i = 0; i < n; i++) ts_tensor_unref(leaf[o][i]);
  free(all), free(part_of);
  for (int o = 0; o < s->nout && failed; o++) {
    ts_tensor_unref(out[o]);
    for (int k = 0; k < *nsum; k++) ts_tensor_unref(sum[o][k].value);
  }
  return failed ? -1 : 0;
}
