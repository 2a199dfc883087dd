/* The driver of softmax and the norms. Rows in place where they are contiguous; panels
 * of columns for softmax along another axis; anything else goes through scratch rows. A
 * row too long for one thread goes through its passes leaf by leaf on all of them. */
#include "vm/rows/rows_job.h"

#include <stdlib.h>

enum {
  GRAIN = 1 << 15,  /* elements worth a thread */
  SHARED = 1 << 18, /* a row of so many elements may occupy all threads */
  PAST = 1 << 23,   /* bytes of output from which stores go past the caches */
  SHORT = 256,      /* rows up to this length go in blocks */
};

typedef TsRowsJob Job;

void ts_rows_spread(int64_t items, int64_t work, TsTask *task, void *arg) {
  if (items <= 1 || items * work <= 2 * GRAIN)
    task(arg, 0, items, 0);
  else
    ts_cpu_parallel(items, work >= GRAIN ? 1 : GRAIN / work, task, arg);
}

/* ---- any layout and type, through scratch rows */

typedef struct Scratch {
  Job *j;
  int64_t batch; /* rows staged together */
} Scratch;

/* k rows from o on, k within the last outer axis, to rows of n elements and back. */
static void stage_in(const Job *j, int64_t o, int64_t k, char *raw) {
  const TsRows *r = j->r;
  int64_t ox, oy, e = j->esize;
  ts_rows_offsets(r, o, &ox, &oy);
  const char *x = (const char *)r->x + ox * e;
  int64_t next = r->nouter ? r->x_stride[r->nouter - 1] : 0;
  if (next == 1 && k > 1) {
    j->copy->transpose(k, r->n, raw, r->n * e, x, r->x_step * e, (int)e, 0);
    return;
  }
  for (int64_t i = 0; i < k; i++)
    j->copy->gather(r->n, raw + i * r->n * e, x + i * next * e, r->x_step * e, (int)e);
}

static void stage_out(const Job *j, int64_t o, int64_t k, const char *raw) {
  const TsRows *r = j->r;
  int64_t ox, oy, e = j->esize;
  ts_rows_offsets(r, o, &ox, &oy);
  char *y = (char *)r->y + oy * e;
  int64_t next = r->nouter ? r->y_stride[r->nouter - 1] : 0;
  if (next == 1 && k > 1) {
    j->copy->transpose(r->n, k, y, r->y_step * e, raw, r->n * e, (int)e, 0);
    return;
  }
  for (int64_t i = 0; i < k; i++)
    j->copy->scatter(r->n, y + i * next * e, r->y_step * e, raw + i * r->n * e, (int)e);
}

static void scratch_task(void *arg, int64_t lo, int64_t hi, int worker) {
  const Scratch *s = arg;
  Job *j = s->j;
  const TsRows *r = j->r;
  int64_t last = r->nouter ? r->outer_dim[r->nouter - 1] : 1, n = r->n;
  char *wide = ts_work_take(s->batch * n * (j->tsize + j->esize));
  char *raw = wide && j->load ? wide + s->batch * n * j->tsize : wide;
  (void)worker;
  if (!wide) j->failed = true;
  for (int64_t o = lo, k; o < hi && wide; o += k) {
    k = ts_rows_min(ts_rows_min(hi - o, s->batch), last - o % last);
    stage_in(j, o, k, raw);
    if (j->load) j->load(k * n, wide, raw);
    for (int64_t i = 0; i < k; i++) {
      char *row = wide + i * n * j->tsize;
      ts_rows_one(j, row, row, row, 0, NULL);
    }
    if (j->load) j->store(k * n, raw, wide);
    stage_out(j, o, k, raw);
  }
  ts_work_give(wide);
}

/* ---- the choice */

/* Rows of y are whole lines past the caches, and short enough to stay in L2. */
static bool overlaps(const Job *j) {
  const TsRows *r = j->r;
  int64_t odd = (int64_t)(uintptr_t)r->y | r->n * j->esize;
  for (int d = 0; d < r->nouter; d++) odd |= r->y_stride[d] * j->esize;
  return j->past && !j->load && odd % 64 == 0 && r->n * j->tsize <= TS_ROWS_CACHED;
}

static TsTask *task_of(const Job *j) {
  const TsRows *r = j->r;
  if (r->n <= SHORT && !j->load) return ts_rows_short_task;
  if (!overlaps(j)) return ts_rows_line_task;
  if (r->op == TS_ROWS_softmax || r->op == TS_ROWS_log_softmax) return ts_rows_soft_task;
  /* With a bias there is one stream more than pays for one thread, which memory does not hold
   * up. */
  bool bias = !r->b || (r->op == TS_ROWS_layernorm && ts_cpu_threads() > 1);
  bool norms = r->w && bias && j->k->affine_sum[j->acc] && r->n * j->tsize % 1024 == 0;
  return norms ? ts_rows_norm_task : ts_rows_line_task;
}

static int run_scratch(Job *j) {
  int64_t batch = TS_ROWS_CACHED / (j->r->n * j->tsize + 1);
  Scratch s = {j, batch < 16 ? 16 : batch > 64 ? 64 : batch};
  if (j->r->n > SHARED) s.batch = 1;
  /* A range of at least a batch, so that neighbouring rows are staged together. */
  int64_t grain = j->r->n >= GRAIN ? 1 : GRAIN / j->r->n;
  ts_cpu_parallel(j->outer, grain < s.batch ? s.batch : grain, scratch_task, &s);
  return j->failed ? -1 : 0;
}

int ts_rows(const TsRows *r, const TsRowsTables *t) {
  Job j = {.r = r, .red = t->reduce, .k = t->rows, .copy = t->copy, .outer = 1};
  for (int d = 0; d < r->nouter; d++) j.outer *= r->outer_dim[d];
  if (j.outer == 0 || r->n == 0) return 0;
  TsDtype wide = (TsDtype)ts_dtypes[r->dtype].accum;
  j.acc = wide == TS_DT_f64 ? TS_RED_F64 : TS_RED_F32;
  j.esize = ts_dtypes[r->dtype].nbytes;
  j.tsize = ts_dtypes[wide].nbytes;
  if (wide != r->dtype) {
    j.load = t->convert->convert[r->dtype][wide];
    j.store = t->convert->convert[wide][r->dtype];
  }
  j.past = j.outer * r->n * j.esize >= PAST && r->x != r->y;
  bool rows = (r->x_step == 1 && r->y_step == 1) || r->n == 1;
  int last = r->nouter - 1;
  bool soft = r->op == TS_ROWS_softmax || r->op == TS_ROWS_log_softmax;
  bool columns = r->nouter > 0 && r->x_stride[last] == 1 && r->y_stride[last] == 1 &&
                 r->outer_dim[last] >= 16;
  if (rows && r->n >= SHARED && j.outer < 4 * ts_cpu_threads()) return ts_rows_shared(&j);
  if (rows) {
    ts_rows_spread(j.outer, r->n, task_of(&j), &j);
    return j.failed ? -1 : 0;
  }
  if (columns && soft && !j.load) return ts_rows_panels(&j);
  return run_scratch(&j);
}
