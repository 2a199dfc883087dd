/* The driver of Fourier transforms: takes a batch apart, moves it through work memory and
 * runs the trees of vm/fft/plan.c with the kernels of vm/kernels/fft/fft.h.
 *
 * Two ways through the same dataflow:
 * - rows (vm/fft/rows.c): LANES transforms of the batch at a time, one a lane. Right when
 *   the batch is adjacent in memory (any axis but the last), and for short lengths.
 * - line (vm/fft/line.c): one transform in contiguous memory, its n = n1*n2 points as a matrix
 *   [n1][n2] whose columns are the lanes of the n1-point transforms; transposed by tiles
 *   into [n2][n1], whose columns are the lanes of the n2-point ones. Two trips through
 *   memory for any length, and short transforms stay in L1.
 * The choice is by cost and may change; bits do not. */
#include "vm/fft/fft.h"

#include "devices/cpu_pool.h"
#include "vm/fft/job.h"

enum { STREAM = 4 << 20 };

/* Estimated work a transform. Rows waste missing lanes and, from 128 points, work in L2;
 * lines waste missing columns and copy what is not contiguous. A batch from main memory
 * suits rows: measured 1.7 times faster than lines for 1024 and 4096 points, as a line's
 * stripes are no stream that the prefetcher sees. */
int ts_fft_rows_are_better(const TsFftJob *j) {
  const TsFftNode *t = j->core->root;
  int64_t length = t->n, lanes = j->lanes;
  int along = j->in_step <= 2 * j->size && j->out_step <= 2 * j->size;
  int streams = j->batch * length * 2 * j->size > STREAM;
  if (length > TS_FFT_ROWS_MAX) return 0;
  double full = (double)(ts_fft_blocks(j, j->batch) * lanes) / (double)j->batch;
  double rows = full * (length <= 2 * TS_FFT_LEAF ? 1 : length < 4096 ? 1.3 : 1.6);
  if (!along || streams) rows = full * (length <= 8192 ? 0.7 : 1.2);
  double line = (double)lanes;
  if (t->left)
    line = ((double)ts_fft_padded(j, t->n1) / (double)t->n1 +
            (double)ts_fft_padded(j, t->n2) / (double)t->n2) /
           2;
  line += 20.0 / (double)length;
  return rows < line;
}

static void run(TsFftJob *j) {
  if (ts_fft_rows_are_better(j)) {
    int64_t grain = TS_FFT_ROWS_MAX / (j->core->root->n * j->lanes);
    ts_cpu_parallel(ts_fft_blocks(j, j->batch), grain < 1 ? 1 : grain, ts_fft_rows_task, j);
    return;
  }
  int64_t length = j->core->root->n;
  j->split = length >= TS_FFT_ROWS_MAX / 2 && j->batch < 4 * ts_cpu_threads();
  if (j->split)
    ts_fft_line_task(j, 0, j->batch, 0);
  else
    ts_cpu_parallel(j->batch, ts_fft_max(1, TS_FFT_ROWS_MAX / length), ts_fft_line_task, j);
}

/* The outer axes in bytes, the one of adjacent elements last, so that it makes lanes. */
static int take_outer(TsFftJob *j) {
  const TsFft *f = j->f;
  int in = (j->real_in ? 1 : 2) * j->size, out = (j->real_out ? 1 : 2) * j->size, last = -1;
  if (f->nouter < 0 || f->nouter > TS_FFT_OUTER) return 0;
  j->batch = 1;
  j->nouter = f->nouter;
  for (int d = 0; d < f->nouter; d++) {
    if (f->outer_dim[d] < 0) return 0;
    j->batch *= f->outer_dim[d];
    j->dim[d] = f->outer_dim[d];
    j->in_outer[d] = f->in_outer_stride[d] * in;
    j->out_outer[d] = f->out_outer_stride[d] * out;
    if (f->in_outer_stride[d] == 1 && f->outer_dim[d] > 1) last = d;
  }
  j->last = last;
  if (last < 0) return 1;
  int64_t dim = j->dim[last], a = j->in_outer[last], b = j->out_outer[last];
  for (int d = last; d + 1 < j->nouter; d++) {
    j->dim[d] = j->dim[d + 1];
    j->in_outer[d] = j->in_outer[d + 1];
    j->out_outer[d] = j->out_outer[d + 1];
  }
  j->dim[j->nouter - 1] = dim;
  j->in_outer[j->nouter - 1] = a;
  j->out_outer[j->nouter - 1] = b;
  return 1;
}

static int take_lengths(TsFftJob *j) {
  const TsFft *f = j->f;
  int even_real = f->kind != TS_FFT_c2c && f->n % 2 == 0;
  j->n = f->n;
  j->half = f->n / 2;
  j->length = even_real ? j->half : j->n;
  j->real_in = f->kind != TS_FFT_c2c && f->kind != TS_FFT_c2r;
  j->real_out = f->kind != TS_FFT_c2c && f->kind != TS_FFT_r2c;
  j->wanted = f->kind == TS_FFT_c2r ? j->half + 1 : j->n;
  j->given = f->in_n < j->wanted ? f->in_n : j->wanted;
  j->bins = f->kind == TS_FFT_r2c ? j->half + 1 : j->n;
  j->size = f->type == TS_FFT_f64 ? 8 : 4;
  j->lanes = 64 / j->size;
  j->in_step = f->in_stride * (j->real_in ? 1 : 2) * j->size;
  j->out_step = f->out_stride * (j->real_out ? 1 : 2) * j->size;
  return take_outer(j);
}

static int take_plans(TsFftJob *j, const TsFftKernels *k) {
  int type = j->f->type, real = j->f->kind != TS_FFT_c2c;
  if (!(j->core = ts_fft_plan_take(type, TS_FFT_TREE, j->length, k))) return 0;
  if (real && j->n % 2 == 0 && !(j->roots = ts_fft_plan_take(type, TS_FFT_ROOTS, j->n, k)))
    return 0;
  return j->f->kind < TS_FFT_dct2 ||
         (j->quarter = ts_fft_plan_take(type, TS_FFT_QUARTER, j->n, k)) != NULL;
}

static int legal(const TsFft *f) {
  return f->n >= 1 && f->n < (int64_t)1 << 40 && f->in_n >= 0 &&
         (f->type == TS_FFT_f32 || f->type == TS_FFT_f64) && f->kind >= TS_FFT_c2c &&
         f->kind <= TS_FFT_dct3;
}

int ts_fft_job_open(TsFftJob *j, const TsFft *f, const TsFftKernels *k) {
  *j = (TsFftJob){.f = f};
  if (!legal(f)) return TS_FFT_bad_argument;
  j->k = &k->type[f->type];
  if (!take_lengths(j)) return TS_FFT_bad_argument;
  return j->batch == 0 || take_plans(j, k) ? TS_FFT_ok : TS_FFT_no_memory;
}

void ts_fft_job_close(TsFftJob *j) {
  ts_fft_plan_give(j->core);
  ts_fft_plan_give(j->roots);
  ts_fft_plan_give(j->quarter);
}

int ts_fft(const TsFft *f, const TsFftKernels *k) {
  TsFftJob j;
  int code = ts_fft_job_open(&j, f, k);
  if (!code && j.batch > 0) run(&j);
  ts_fft_job_close(&j);
  return !code && j.failed ? TS_FFT_no_memory : code;
}

void ts_fft_normalise(TsFft *f, int norm) {
  TsFftScale s = ts_fft_scale(f->kind, f->inverse, f->n, norm);
  f->scale = s.scale, f->dc = s.dc;
}
