/* Whether two tensors have an element in common, or one has an element twice, by their strides.
 *
 * An element of a begins at oa + sum(sa[i] * k[i]) bytes, one of b likewise. With b's indices
 * counted from behind, two elements meet where one sum of positive strides lies in an interval of
 * some bytes. Strides are tried from the largest one on: what the smaller ones can still reach
 * bounds each index, so in tensors whose axes nest, as those of slices and transposes do, an index
 * has few candidates. *Rejected:* comparing the ranges alone, for which x["::2"] and x["1::2"]
 * overlap.
 *
 * Two elements of one tensor are the same if steps along its axes, forwards or backwards, add up
 * to nothing. An axis of n elements takes part with -(n - 1) .. n - 1 steps; counted from there
 * this is a sum as above, for each axis that is the first to take a step.
 *
 * Windows of windows of windows have strides of any size, for which the search may take as long as
 * one through all subsets. Behind MOST_STEPS two tensors count as overlapping: a change
 * may be refused that could be made. The elements of one tensor are marked, no more of them than
 * are about to be written. */
#include "vm/core/overlap.h"

#include <stdlib.h>

#include "devices/cpu_pool.h"

enum { MOST_TERMS = 2 * TS_MAX_RANK, MOST_STEPS = 20000 };

typedef struct Term {
  int64_t stride, most; /* bytes; the largest index */
} Term;

typedef struct Sum {
  Term term[MOST_TERMS];
  int n;
  int64_t reach[MOST_TERMS + 1], gcd[MOST_TERMS + 1]; /* of the terms from i on */
  int steps;
} Sum;

static int64_t gcd(int64_t a, int64_t b) {
  while (b) {
    int64_t r = a % b;
    a = b;
    b = r;
  }
  return a;
}

/* Equal strides are one term; the largest come first. */
static void add_term(Sum *s, int64_t stride, int64_t most) {
  int at = 0;
  if (!most || !stride) return;
  while (at < s->n && s->term[at].stride > stride) at++;
  if (at < s->n && s->term[at].stride == stride) {
    s->term[at].most += most;
    return;
  }
  for (int i = s->n++; i > at; i--) s->term[i] = s->term[i - 1];
  s->term[at] = (Term){stride, most};
}

static int64_t up(int64_t v, int64_t by) { return v <= 0 ? 0 : (v + by - 1) / by; }

/* Whether a sum of the terms from i on lies in low..high. */
static bool meets(Sum *s, int i, int64_t low, int64_t high) {
  if (high < 0 || low > s->reach[i]) return false;
  if (low <= 0 || i == s->n) return low <= 0;
  if (up(low, s->gcd[i]) * s->gcd[i] > high) return false;
  if (++s->steps > MOST_STEPS) return true;
  const Term *t = &s->term[i];
  int64_t first = up(low - s->reach[i + 1], t->stride), last = high / t->stride;
  if (last > t->most) last = t->most;
  for (int64_t k = last; k >= first; k--)
    if (meets(s, i + 1, low - k * t->stride, high - k * t->stride)) return true;
  return false;
}

/* t's axes as terms; the offset of its first element in memory. */
static int64_t add_axes(Sum *s, const TsTensor *t, int64_t *reach) {
  int64_t size = ts_dtypes[t->meta.dtype].nbytes, at = t->offset;
  *reach = 0;
  for (int i = 0; i < t->meta.ndim; i++) {
    int64_t stride = t->stride[i] * size, most = t->meta.dim[i] - 1;
    if (stride < 0) at += stride * most, stride = -stride;
    add_term(s, stride, most);
    *reach += stride * most;
  }
  return at;
}

static void add_up(Sum *s) {
  s->reach[s->n] = s->gcd[s->n] = 0;
  for (int i = s->n; i-- > 0;) {
    s->reach[i] = s->reach[i + 1] + s->term[i].stride * s->term[i].most;
    s->gcd[i] = gcd(s->term[i].stride, s->gcd[i + 1]);
  }
}

bool ts_overlap_within(const TsTensor *a, const TsTensor *b) {
  Sum s;
  int64_t ra, rb;
  s.n = s.steps = 0;
  if (!ts_tensor_numel(a) || !ts_tensor_numel(b)) return false;
  if (ts_dtype_in_blocks(a->meta.dtype) || ts_dtype_in_blocks(b->meta.dtype))
    return true; /* blocks */
  int64_t oa = add_axes(&s, a, &ra), ob = add_axes(&s, b, &rb);
  add_up(&s);
  /* ka - kb = ob - oa up to the elements' sizes; kb = rb - (what the terms of b add up to) */
  int64_t from = ob - oa + rb;
  return meets(&s, 0, from - ts_dtypes[a->meta.dtype].nbytes + 1,
               from + ts_dtypes[b->meta.dtype].nbytes - 1);
}

/* Whether the terms from i on give a sum twice. If there are more of them than sums, that is found
 * behind as many steps as there are sums. */
static int mark(TsContext *c, const Sum *s, int i) {
  int64_t at = 0, k[MOST_TERMS] = {0}, stride[MOST_TERMS];
  uint64_t *seen = calloc((size_t)(s->reach[i] / s->gcd[i] / 64 + 1), sizeof *seen);
  int twice = seen ? 0 : ts_error_memory(&c->err);
  for (int j = i; j < s->n; j++) stride[j] = s->term[j].stride / s->gcd[i];
  for (int j = i; !twice && j >= i;) {
    uint64_t *word = &seen[at / 64], bit = 1ull << at % 64;
    twice = (*word & bit) != 0;
    *word |= bit;
    for (j = s->n - 1; j >= i && k[j] == s->term[j].most; k[j--] = 0) at -= k[j] * stride[j];
    if (j >= i) k[j]++, at += stride[j];
    if (j < s->n - 1 && !twice && ts_cpu_interrupted())
      twice = ts_error_set(&c->err, TS_ERR_interrupt, "assignment: interrupted");
  }
  free(seen);
  return twice;
}

int ts_overlap_itself(TsContext *c, const TsTensor *t) {
  Sum all = {.n = 0};
  int64_t reach;
  int axes = 0;
  if (t->contiguous || t->storage->symbolic || !ts_tensor_numel(t)) return 0;
  for (int i = 0; i < t->meta.ndim; i++) axes += t->meta.dim[i] > 1;
  add_axes(&all, t, &reach);
  if (all.n < axes) return 1; /* one goes nowhere, or two go the same way */
  add_up(&all);
  for (int i = 0; i < all.n; i++) {
    int64_t rest = all.reach[i + 1] - all.term[i].stride;
    if (rest < 0) continue; /* the smaller ones cannot make up for a step */
    Sum s = all;
    s.term[i].most--;
    for (int j = i + 1; j < s.n; j++) s.term[j].most *= 2;
    add_up(&s);
    if (meets(&s, i, rest, rest)) return s.steps > MOST_STEPS ? mark(c, &all, i) : 1;
  }
  return 0;
}
