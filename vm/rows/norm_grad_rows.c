/* Rows of the gradients of norms, one after the other: in batches, lane by lane, or several in one
 * walk. */
#include "devices/cpu_kind.h"
#include "devices/cpu_pool.h"
#include "vm/rows/leaf_sum.h"
#include "vm/rows/rows_grad_job.h"

enum {
  ROW = 2 << 10, /* bytes of a row that goes by lanes, at least */
  WALK = 8 << 10 /* bytes of a row from which several go in one walk */
};

/* y = y / n */
static void mean_of(const TsGradJob *j, int rows, double *y) {
  for (int i = 0; i < rows; i++)
    ts_leaf_put(j->w, y, i, ts_leaf_get(j->w, y, i) / (double)j->n);
}

/* A row of x, g or dx, or NULL. */
static const char *row_or_null(const TsGradJob *j, int64_t row, const char *of) {
  return row < 0 || j->load ? NULL : of + row * j->n * j->size;
}

/* To rstd, c2 and c1: the sums of squares, of (g w) xc and of g w. */
static void sums_of(const TsGradJob *j, TsGradBatch *b) {
  TsRowSums s = {.rows = b->rows,
                 .n = j->n,
                 .x = b->x,
                 .g = b->g,
                 .w = j->weight,
                 .out = b->c2,
                 .mean = j->centered ? b->mean : NULL,
                 .gw = b->c1,
                 .squares = b->rstd};
  const void *prefetch[TS_GRAD_ROWS];
  for (int i = 0; i < b->rows; i++) prefetch[i] = row_or_null(j, b->prefetch[i], j->x);
  s.prefetch = prefetch;
  if (j->n <= TS_RED_LEAF) {
    j->rk->norms[j->w](&s);
    return;
  }
  ts_leaf_rows(j->w, j->rk->norm[j->w], &s);
  s.out = b->rstd;
  ts_leaf_rows(j->w, j->centered ? j->rk->sqdev[j->w] : j->rk->square[j->w], &s);
  const void *w[1] = {j->weight};
  TsRowSums c = {.rows = 1, .n = j->n, .x = b->g, .g = w, .out = b->c1};
  if (j->centered) ts_leaf_rows(j->w, j->weight ? j->rk->dot[j->w] : j->rk->sum[j->w], &c);
}

void ts_norm_statistics(const TsGradJob *j, TsGradBatch *b) {
  if (j->centered) {
    TsRowSums s = {.rows = b->rows, .n = j->n, .x = b->x, .out = b->mean};
    ts_leaf_rows(j->w, j->rk->sum[j->w], &s);
    mean_of(j, b->rows, b->mean);
  }
  sums_of(j, b);
  for (int i = 0; i < b->rows; i++) ts_norm_numbers(&j->of, b->rstd, b->c1, b->c2, i);
}

void ts_norm_end_row(const TsGradJob *j, const TsGradBatch *b, int i, char *dw, char *db,
                     int first) {
  int64_t at = i * j->size;
  TsNormEnd e = {.dx = b->dx[i],
                 .x = b->x[i],
                 .g = b->g[i],
                 .w = j->weight,
                 .n = j->n,
                 .mean = j->centered ? (const char *)b->mean + at : NULL,
                 .rstd = (const char *)b->rstd + at,
                 .c1 = (const char *)b->c1 + at,
                 .c2 = (const char *)b->c2 + at,
                 .dw = dw,
                 .db = db,
                 .first = first,
                 .past = j->past};
  int64_t next = b->prefetch[i];
  e.prefetch[0] = row_or_null(j, next, j->g), e.prefetch[1] = row_or_null(j, next, j->dx);
  if (j->n > TS_RED_LEAF)
    e.prefetch[2] = row_or_null(j, next, j->x); /* else norms asked for it */
  j->rk->norm_end[j->w](&e);
  ts_grad_close_row(j, b, i);
}

/* Of the rows that a lane asks for, how far the last one is: the first cache has w, dw, db and the
 * rows of x and g up to it. 1: it does not hold three rows. */
static int far_row(const TsGradJob *j) {
  int64_t row = j->n * j->size, rows = (ts_cpu_first_cache() - 3 * row) / (2 * row);
  return (int)(rows > 4 ? 3 : rows < 3 ? 1 : rows - 1);
}

/* Whether a row of 2 KiB to a leaf goes through norm_lane: where vectors are lines, or the
 * first cache holds rows of 4 KiB and what comes behind them. GB/s of a Zen 5 with one
 * thread, layernorm and rmsnorm, before and after: 512 columns 30 to 41 and 37 to 42, 1024
 * 36 to 45 and 40 to 45, 4096 31 to 36 and 31 to 39; two threads with 4096 51 to 68 and 56
 * to 74. With vectors of 32 bytes: 1024 16 to 36 and 33 to 44. Long rows only on AMD's
 * processors: others read several rows at a time faster (4096, two threads of an Emerald
 * Rapids: 22 and 25 GB/s in one walk, 18 and 22 so; of 1024 20 and 22, 23 and 25 so). */
bool ts_norm_goes_by_lanes(const TsGradJob *j) {
  bool lanes = j->rk->vector_bytes >= TS_GRAD_LINE || ts_cpu_first_cache() >= 48 << 10;
  bool fits = far_row(j) > 1 || ts_cpu_is_amd();
  return j->past && lanes && fits && j->n <= TS_RED_LEAF && j->n * j->size >= ROW;
}

/* Whether others go through ts_norm_rows. */
bool ts_norm_walks(const TsGradJob *j) {
  return j->past && !j->by_lanes && j->n <= TS_RED_LEAF && j->n * j->size >= WALK;
}

TsNormRow ts_norm_walk_row(const TsGradJob *j, int64_t i, int64_t next, int64_t far) {
  int64_t row = j->n * j->size;
  return (TsNormRow){.x = j->x + i * row,
                     .g = j->g + i * row,
                     .dx = j->dx + i * row,
                     .next_x = j->x + next * row,
                     .next_g = j->g + next * row,
                     .far_x = j->x + far * row,
                     .far_g = j->g + far * row};
}

static void walk_rows(const TsGradJob *j, int64_t lo, int64_t hi) {
  TsNormRows r = {.of = &j->of};
  int64_t prefetch = TS_GRAD_PREFETCH / (j->n * j->size), last = j->rows - 1;
  for (int64_t i = lo; i < hi; i++) {
    TsNormRow row =
        ts_norm_walk_row(j, i, ts_grad_min(i + 1, last), ts_grad_min(i + prefetch, last));
    ts_norm_rows_push(&r, &row);
  }
  ts_norm_rows_end(&r);
}

void ts_norm_lane_rows(const TsGradJob *j, TsNormRun run, TsNormRun then, char *dw, char *db,
                       const char *nothing) {
  int64_t row = j->n * j->size;
  TsNormLane a = {.x = j->x + run.first * row,
                  .g = j->g + run.first * row,
                  .w = j->weight,
                  .dx = j->dx + run.first * row,
                  .dw = dw,
                  .db = db,
                  .n = j->n,
                  .rows = run.rows,
                  .step = run.step * j->n,
                  .eps = j->of.eps,
                  .nothing = nothing,
                  .then_x = j->x + then.first * row,
                  .then_g = j->g + then.first * row,
                  .then_rows = then.rows,
                  .far = far_row(j),
                  .centered = j->centered};
  j->rk->norm_lane[j->w](&a);
}

void ts_norm_grad_rows(void *arg, int64_t lo, int64_t hi, int worker) {
  const TsGradJob *j = arg;
  if (ts_norm_walks(j)) {
    walk_rows(j, lo, hi);
    ts_copy_fence();
    return;
  }
  if (j->by_lanes) {
    int64_t then = ts_grad_min(hi, j->rows - 1);
    ts_norm_lane_rows(j, (TsNormRun){lo, hi - lo, 1}, (TsNormRun){then, j->rows - then, 1},
                      NULL, NULL, NULL);
    ts_copy_fence();
    return;
  }
  char *wide = ts_scratch_part(&j->scratch, worker);
  TsGradBatch b = {.rows = 0};
  for (int64_t i = lo; i < hi && !ts_cpu_interrupted(); i += b.rows) {
    b.rows = (int)ts_grad_min(ts_grad_batch_rows(j), hi - i);
    for (int r = 0; r < b.rows; r++) {
      b.row[r] = i + r;
      b.prefetch[r] = i + r + b.rows < hi ? i + r + b.rows : -1;
    }
    ts_grad_open_batch(j, &b, wide);
    ts_norm_statistics(j, &b);
    for (int r = 0; r < b.rows; r++) ts_norm_end_row(j, &b, r, NULL, NULL, 0);
  }
  if (j->past) ts_copy_fence();
}
