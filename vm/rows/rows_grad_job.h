/* Gradients of rows under way: what softmaxes (vm/exec/rows_grad.c) and norms (vm/exec/norm_grad.c,
 * vm/rows/norm_grad_rows.c, vm/rows/norm_grad_sums.c) share. Private to those. */
#ifndef TS_VM_ROWS_GRAD_JOB_H
#define TS_VM_ROWS_GRAD_JOB_H

#include <stddef.h>

#include "vm/core/exec.h"
#include "vm/rows/norm_walk.h"
#include "vm/core/scratch.h"

enum {
  TS_GRAD_GRAIN = 1 << 14,
  TS_GRAD_PAST = 12 << 20, /* bytes of dx that goes past the caches */
  TS_GRAD_PREFETCH =
      48 << 10, /* bytes of y, and of g, from what is read to what is asked for */
  TS_GRAD_LINE = 64
};

typedef struct TsGradJob {
  const TsKernels *k;
  const TsRowsGradKernels *rk;
  TsConvertFn *load, *store; /* NULL where the storage type is the wide one */
  int w;                     /* index of the wide type's kernels */
  int64_t esize, size, n, rows;
  const char *x, *g; /* x is y for the softmaxes */
  char *dx;
  TsScratch scratch;
  bool past;
  /* softmaxes */
  bool log;
  int64_t step; /* bytes from what is read to what is asked for */
  /* norms */
  const char *weight; /* in the wide type, or NULL */
  bool centered, want_w, want_b;
  bool by_lanes; /* through norm_lane */
  TsNormOf of;
  int64_t sums, db_at;   /* numbers of one partial row, 0 if none is wanted; where db begins */
  int64_t lanes, groups; /* of a full leaf, after the halves within groups */
  char *part;            /* [leaves][lanes][sums] */
} TsGradJob;

static inline int64_t ts_grad_min(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- some rows at once, in the wide type */
typedef struct TsGradBatch {
  int rows;
  int64_t row[TS_GRAD_ROWS];
  int64_t prefetch[TS_GRAD_ROWS]; /* who takes its place, or -1 */
  const void *x[TS_GRAD_ROWS], *g[TS_GRAD_ROWS];
  char *dx[TS_GRAD_ROWS];
  double mean[TS_GRAD_ROWS], rstd[TS_GRAD_ROWS], c1[TS_GRAD_ROWS], c2[TS_GRAD_ROWS];
} TsGradBatch; /* the last four hold numbers of the wide type */

/* Rows of a batch: scratch for narrow types, and the cache, hold so many. */
static inline int ts_grad_batch_rows(const TsGradJob *j) {
  return j->n > 2048 ? 1 : j->n > 512 ? 4 : TS_GRAD_ROWS;
}

/* wide: scratch for three rows of each row of the batch, where the type is narrow. */
static inline void ts_grad_open_batch(const TsGradJob *j, TsGradBatch *b, char *wide) {
  int64_t nbytes = j->n * j->size;
  for (int i = 0; i < b->rows; i++) {
    int64_t at = b->row[i] * j->n * j->esize;
    b->x[i] = j->x + at, b->g[i] = j->g + at, b->dx[i] = j->dx + at;
    if (!j->load) continue;
    char *to = wide + 3 * i * nbytes;
    j->load(j->n, to, b->x[i]), j->load(j->n, to + nbytes, b->g[i]);
    b->x[i] = to, b->g[i] = to + nbytes, b->dx[i] = to + 2 * nbytes;
  }
}

static inline void ts_grad_close_row(const TsGradJob *j, const TsGradBatch *b, int i) {
  if (j->store) j->store(j->n, j->dx + b->row[i] * j->n * j->esize, b->dx[i]);
}

static inline int64_t ts_grad_scratch_bytes(const TsGradJob *j) {
  return j->load ? 3 * ts_grad_batch_rows(j) * j->n * j->size : 0;
}

/* Whether dx goes past the caches. */
static inline bool ts_grad_goes_past(const TsGradJob *j) {
  return !j->load && j->rows * j->n * j->size >= TS_GRAD_PAST &&
         j->n * j->size % TS_GRAD_LINE == 0 && (uintptr_t)j->dx % TS_GRAD_LINE == 0 &&
         j->dx != j->x && j->dx != j->g;
}

static inline void ts_grad_set_kernels(TsGradJob *j, TsDtype d) {
  TsDtype wide = (TsDtype)ts_dtypes[d].accum;
  j->rk = &j->k->rows_grad;
  j->w = wide == TS_DT_f64;
  j->esize = ts_dtypes[d].nbytes, j->size = ts_dtypes[wide].nbytes;
  if (d == wide) return;
  j->load = j->k->convert.convert[d][wide];
  j->store = j->k->convert.convert[wide][d];
}

static inline int ts_grad_open_scratch(TsCall *call, TsGradJob *j) {
  if (!ts_scratch_open(&j->scratch, ts_grad_scratch_bytes(j))) return 0;
  return ts_scratch_failed(call);
}

static inline int64_t ts_grad_grain(const TsGradJob *j) {
  return TS_GRAD_GRAIN / (j->n + 1) + 1;
}

/* ---- norms: rows (vm/rows/norm_grad_rows.c) */

/* Rows at one step from each other: their first, how many. */
typedef struct TsNormRun {
  int64_t first, rows, step;
} TsNormRun;

/* How rows go: through norm_lane, or, if not, through ts_norm_rows. */
bool ts_norm_goes_by_lanes(const TsGradJob *j);
bool ts_norm_walks(const TsGradJob *j);
/* Of the rows of a batch, mean, rstd, c1, c2. */
void ts_norm_statistics(const TsGradJob *j, TsGradBatch *b);
/* The end of row i of a batch; first: of a chain of dw and db. */
void ts_norm_end_row(const TsGradJob *j, const TsGradBatch *b, int i, char *dw, char *db,
                     int first);
/* Row i, then row `next`, and some rows later row `far`. */
TsNormRow ts_norm_walk_row(const TsGradJob *j, int64_t i, int64_t next, int64_t far);
/* All of some rows; `then` is what comes behind them. nothing: n numbers -0. */
void ts_norm_lane_rows(const TsGradJob *j, TsNormRun run, TsNormRun then, char *dw, char *db,
                       const char *nothing);
/* A task: rows without sums. */
void ts_norm_grad_rows(void *arg, int64_t lo, int64_t hi, int worker);

/* ---- vm/rows/norm_grad_sums.c: rows, and the sums over them that are wanted; 0, or -1 with
 * an error */
int ts_norm_grad_sums(TsCall *call, TsGradJob *j);

#endif
