#include "vm/rows/norm_walk.h"

#include <math.h>

#include "vm/rows/leaf_sum.h"

static double rounded(const TsNormOf *of, double v) { return ts_leaf_rounded(of->w, v); }

static void divide(const TsNormOf *of, void *at, int i) {
  ts_leaf_put(of->w, at, i, ts_leaf_get(of->w, at, i) / (double)of->n);
}

void ts_norm_numbers(const TsNormOf *of, void *rstd, void *c1, void *c2, int i) {
  divide(of, rstd, i);
  if (of->centered) divide(of, c1, i);
  double v = rounded(of, ts_leaf_get(of->w, rstd, i) + rounded(of, of->eps));
  double r = rounded(of, 1 / rounded(of, sqrt(v)));
  double c = rounded(of, ts_leaf_get(of->w, c2, i) * r);
  ts_leaf_put(of->w, rstd, i, r);
  ts_leaf_put(of->w, c2, i, rounded(of, c / (double)of->n) * r);
}

/* The mean of the newest row. */
static void begin(const TsNormOf *of, TsNormRow *row) {
  const void *x = row->x;
  TsRowSums s = {.rows = 1, .n = of->n, .x = &x, .out = &row->mean};
  if (!of->centered) return;
  of->k->sum[of->w](&s);
  divide(of, &row->mean, 0);
}

static void sums(const TsNormOf *of, TsNormRow *row) {
  const void *x = row->x, *g = row->g, *prefetch = NULL;
  TsRowSums s = {.rows = 1,
                 .n = of->n,
                 .x = &x,
                 .g = &g,
                 .prefetch = &prefetch,
                 .w = of->weight,
                 .mean = of->centered ? &row->mean : NULL,
                 .out = &row->c2,
                 .gw = &row->c1,
                 .squares = &row->rstd};
  of->k->norms[of->w](&s);
  ts_norm_numbers(of, &row->rstd, &row->c1, &row->c2, 0);
}

static TsNormEnd end_of(const TsNormOf *of, const TsNormRow *row) {
  return (TsNormEnd){.dx = row->dx,
                     .x = row->x,
                     .g = row->g,
                     .w = of->weight,
                     .n = of->n,
                     .mean = of->centered ? &row->mean : NULL,
                     .rstd = &row->rstd,
                     .c1 = &row->c1,
                     .c2 = &row->c2,
                     .dw = row->dw,
                     .db = row->db,
                     .first = row->nothing != NULL,
                     .past = true};
}

/* The oldest row, the one behind it, and where there is a mean the newest. */
static void walk(const TsNormOf *of, const TsNormRow *oldest, TsNormRow *row,
                 TsNormRow *newest) {
  TsNormWalk a = {.end = end_of(of, oldest),
                  .x = row->x,
                  .g = row->g,
                  .mean = &row->mean,
                  .newest = of->centered ? newest->x : NULL,
                  .norm = &row->c2,
                  .gw = &row->c1,
                  .square = &row->rstd,
                  .sum = &newest->mean,
                  .nothing = oldest->nothing,
                  .next = {newest->next_x, row->next_g},
                  .far = {newest->far_x, row->far_g}};
  of->k->norm_walk[of->w](&a);
  ts_norm_numbers(of, &row->rstd, &row->c1, &row->c2, 0);
  if (of->centered) divide(of, &newest->mean, 0);
}

/* How many rows are under way at most. */
static int depth(const TsNormRows *r) { return r->of->centered ? 3 : 2; }

void ts_norm_rows_push(TsNormRows *r, const TsNormRow *row) {
  TsNormRow *at = r->row;
  at[r->rows++] = *row;
  if (r->rows < depth(r)) {
    begin(r->of, &at[r->rows - 1]);
    if (r->rows == depth(r) - 1) sums(r->of, at);
    return;
  }
  walk(r->of, &at[0], &at[1], &at[r->rows - 1]);
  at[0] = at[1], at[1] = at[2];
  r->rows--;
}

void ts_norm_rows_end(TsNormRows *r) {
  for (int i = 0; i < r->rows; i++) {
    if (i || r->rows < depth(r) - 1) sums(r->of, &r->row[i]);
    TsNormEnd e = end_of(r->of, &r->row[i]);
    r->of->k->norm_end[r->of->w](&e);
  }
  r->rows = 0;
}
