/* Canonical sums of rows of any length over the row sums of vm/kernels/rows/grad.h: the
 * sums of leaves, pushed in order, merge like the digits of a binary counter, which is
 * pairwise level by level. */
#ifndef TS_VM_LEAF_SUM_H
#define TS_VM_LEAF_SUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vm/core/kernels.h"

typedef struct TsLeafSum {
  double stack[64];
  int depth;
  bool f64; /* else every sum is rounded to f32 */
  int64_t count;
} TsLeafSum;

static inline double ts_leaf_rounded(bool f64, double x) { return f64 ? x : (double)(float)x; }

static inline double ts_leaf_get(bool f64, const void *at, int64_t i) {
  return f64 ? ((const double *)at)[i] : (double)((const float *)at)[i];
}

static inline void ts_leaf_put(bool f64, void *at, int64_t i, double v) {
  if (f64)
    ((double *)at)[i] = v;
  else
    ((float *)at)[i] = (float)v;
}

static inline void ts_leaf_push(TsLeafSum *s, double x) {
  for (int64_t c = s->count++; c & 1; c >>= 1)
    x = ts_leaf_rounded(s->f64, s->stack[--s->depth] + x);
  s->stack[s->depth++] = x;
}

/* The total of at least one leaf. */
static inline double ts_leaf_total(TsLeafSum *s) {
  double x = s->stack[--s->depth];
  while (s->depth > 0) x = ts_leaf_rounded(s->f64, s->stack[--s->depth] + x);
  return x;
}

/* As fn does for rows of n <= a leaf, for rows of any n > 0; fn has no other results then. */
static inline void ts_leaf_rows(bool f64, TsRowSumFn *fn, const TsRowSums *a) {
  int64_t size = f64 ? 8 : 4;
  if (a->n <= TS_RED_LEAF) {
    fn(a);
    return;
  }
  for (int r = 0; r < a->rows; r++) {
    TsLeafSum s = {.depth = 0, .f64 = f64};
    for (int64_t i = 0; i < a->n; i += TS_RED_LEAF) {
      int64_t at = i * size;
      double part = 0;
      const void *x = (const char *)a->x[r] + at, *g = a->g ? (const char *)a->g[r] + at : NULL;
      TsRowSums one = {.rows = 1,
                       .n = a->n - i < TS_RED_LEAF ? a->n - i : TS_RED_LEAF,
                       .x = &x,
                       .g = &g,
                       .w = a->w ? (const char *)a->w + at : NULL,
                       .mean = a->mean ? (const char *)a->mean + r * size : NULL,
                       .out = &part};
      fn(&one);
      ts_leaf_push(&s, ts_leaf_get(f64, &part, 0));
    }
    ts_leaf_put(f64, a->out, r, ts_leaf_total(&s));
  }
}

/* The sum of one row. */
static inline double ts_leaf_row(bool f64, TsRowSumFn *fn, const void *x, const void *g,
                                 int64_t n) {
  double out = 0;
  TsRowSums a = {.rows = 1, .n = n, .x = &x, .g = &g, .out = &out};
  ts_leaf_rows(f64, fn, &a);
  return ts_leaf_get(f64, &out, 0);
}

#endif
