/* There and back: a transform, a product with a filter, the inverse transform, for LANES rows
 * of the batch at a time, or for one as a line. Both forms are those of vm/fft/fft.c, without the
 * steps that would store terms and load them again. */
#include "devices/cpu_pool.h"
#include "devices/work.h"
#include "vm/fft/job.h"

enum { ROW = TS_FFT_ROW };

typedef struct Filter {
  TsFft there_f, back_f;
  TsFftJob there, back; /* of the first the input is used, of the second the output */
  const char *h;
  int64_t terms, h_outer[TS_FFT_OUTER]; /* bytes */
} Filter;

static const char *filter_of(const Filter *f, int64_t index) {
  int64_t at = 0;
  for (int d = f->there.nouter - 1; d >= 0; d--) {
    at += index % f->there.dim[d] * f->h_outer[d];
    index /= f->there.dim[d];
  }
  return f->h + at;
}

/* ---- rows */

/* The filters of a block of lanes into rows; NULL where all lanes have the same. */
static const char *filter_lanes(const Filter *f, int64_t block, int lanes, char *rows) {
  int size = f->there.size, own = 0;
  TsFftPort p = {
      .base = (char *)(uintptr_t)f->h, .step = 2 * size, .valid = f->terms, .lanes = lanes};
  for (int l = 0; l < lanes; l++) {
    p.off[l] = filter_of(f, block * f->there.lanes + l) - f->h;
    own |= p.off[l] != p.off[0];
  }
  if (!own) return NULL;
  f->there.k->load_complex(&p, 0, 1, f->terms, rows, 0);
  return rows;
}

static void block(const Filter *f, int64_t index, char *x, char *y, char *tmp, char *own) {
  const TsFftJob *a = &f->there, *b = &f->back;
  int real = a->real_in;
  TsFftPort in, out, unused;
  char *z;
  ts_fft_ports(a, index, &in, &unused);
  ts_fft_ports(b, index, &unused, &out);
  if (real) {
    ts_fft_load_reals(a, &in, x);
    z = ts_fft_half_rows(a, x, y, tmp);
  } else {
    a->k->load_complex(&in, 0, 1, a->n, x, 0);
    z = ts_fft_core_rows(a, x, y, tmp);
  }
  char *other = z == x ? y : x;
  const char *each = filter_lanes(f, index, in.lanes, own);
  const char *h = each ? each : filter_of(f, index * a->lanes);
  a->k->filter_rows(z, h, f->terms, each != NULL, !real, a->f->scale);
  if (real)
    ts_fft_store_reals(b, &out, ts_fft_real_rows(b, z, other, tmp));
  else
    b->k->store_complex(&out, 0, 1, b->n, ts_fft_core_rows(b, z, other, tmp), 1, b->f->scale);
}

static void rows_task(void *arg, int64_t lo, int64_t hi, int worker) {
  Filter *f = arg;
  (void)worker;
  int64_t rows = ts_fft_work_rows(&f->there);
  char *x = ts_work_take((2 * rows + ts_fft_tree_rows(f->there.core->root) + f->terms) * ROW);
  if (!x) {
    atomic_store(&f->there.failed, 1);
    return;
  }
  char *y = x + rows * ROW, *own = y + rows * ROW, *tmp = own + f->terms * ROW;
  for (int64_t b = lo; b < hi; b++) block(f, b, x, y, tmp, own);
  ts_work_give(x);
}

/* ---- lines */

/* Line 4 has the terms; line 3 the input before, and the output after. */
static void line(Filter *f, const TsFftBench *w, int64_t index) {
  TsFftJob *a = &f->there, *b = &f->back;
  int size = a->real_in ? a->size : 2 * a->size;
  int64_t in_off, out_off, unused;
  ts_fft_offsets(a, index, &in_off, &unused);
  ts_fft_offsets(b, index, &unused, &out_off);
  const char *in = ts_fft_line_in(a, w, (const char *)a->f->in + in_off);
  char *out = (char *)b->f->out + out_off, *y = b->out_step == size ? out : w->line[3];
  if (a->real_in)
    ts_fft_half_line(a, w, in, w->line[4], a->f->scale);
  else
    ts_fft_core_line(a, w, in, w->line[4], 0, 0, a->f->scale);
  a->k->filter_line(w->line[4], filter_of(f, index), f->terms);
  if (a->real_in)
    ts_fft_real_line(b, w, w->line[4], y, b->f->scale);
  else
    ts_fft_core_line(b, w, w->line[4], y, 1, 1, b->f->scale);
  if (y != out) ts_fft_copy(out, b->out_step, y, size, b->n, size);
}

static void line_task(void *arg, int64_t lo, int64_t hi, int worker) {
  Filter *f = arg;
  TsFftBench w;
  (void)worker;
  if (!ts_fft_bench_take(&f->there, &w)) return;
  for (int64_t i = lo; i < hi && !ts_cpu_interrupted(); i++) line(f, &w, i);
  ts_fft_bench_give(&w);
}

/* ---- the batch */
static void run(Filter *f) {
  TsFftJob *a = &f->there;
  int64_t length = a->core->root->n;
  a->out_step = f->back.out_step;
  if (ts_fft_rows_are_better(a)) {
    int64_t grain = TS_FFT_ROWS_MAX / (length * a->lanes * 2);
    ts_cpu_parallel(ts_fft_blocks(a, a->batch), grain < 1 ? 1 : grain, rows_task, f);
    return;
  }
  a->split = f->back.split = length >= TS_FFT_ROWS_MAX / 2 && a->batch < 4 * ts_cpu_threads();
  if (a->split)
    line_task(f, 0, a->batch, 0);
  else
    ts_cpu_parallel(a->batch, ts_fft_max(1, TS_FFT_ROWS_MAX / 2 / length), line_task, f);
}

/* The filter's strides in the order that the job has given to the outer axes. */
static void take_filter(Filter *f, const TsFftFilter *given) {
  int n = f->there.nouter, last = f->there.last, at = 0;
  f->h = given->h;
  f->terms = given->x.kind == TS_FFT_r2c ? given->x.n / 2 + 1 : given->x.n;
  for (int d = 0; d < n; d++)
    if (d != last) f->h_outer[at++] = given->h_outer[d] * 2 * f->there.size;
  if (last >= 0) f->h_outer[at] = given->h_outer[last] * 2 * f->there.size;
}

int ts_fft_filter(const TsFftFilter *given, const TsFftKernels *k) {
  Filter f = {.there_f = given->x, .back_f = given->x};
  if (given->x.kind != TS_FFT_c2c && given->x.kind != TS_FFT_r2c) return TS_FFT_bad_argument;
  f.there_f.inverse = 0;
  f.back_f.kind = given->x.kind == TS_FFT_r2c ? TS_FFT_c2r : TS_FFT_c2c;
  f.back_f.inverse = 1;
  ts_fft_normalise(&f.there_f, given->norm);
  ts_fft_normalise(&f.back_f, given->norm);
  int code = ts_fft_job_open(&f.there, &f.there_f, k);
  if (!code) code = ts_fft_job_open(&f.back, &f.back_f, k);
  if (!code) take_filter(&f, given);
  if (!code && f.there.batch > 0) run(&f);
  ts_fft_job_close(&f.there);
  ts_fft_job_close(&f.back);
  return !code && (f.there.failed || f.back.failed) ? TS_FFT_no_memory : code;
}
