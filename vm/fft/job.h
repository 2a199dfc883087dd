/* A batch of transforms under way: what vm/fft/fft.c sets up, vm/fft/rows.c and vm/fft/line.c run
 * in two forms, and vm/fft/filter.c runs there and back. Private to those. */
#ifndef TS_VM_FFT_JOB_H
#define TS_VM_FFT_JOB_H

#include <stdatomic.h>

#include "vm/fft/fft.h"
#include "vm/fft/plan.h"

enum { TS_FFT_OUTER = 16, TS_FFT_ROWS_MAX = 1 << 16 };

typedef struct TsFftJob {
  const TsFft *f;
  const TsFftReal *k;
  TsFftPlan *core, *roots, *quarter; /* roots and quarter only where the kind needs them */
  int size, lanes, real_in, real_out;
  int64_t n, half, length;     /* half: n/2; length: of the complex transform inside */
  int64_t wanted, given, bins; /* elements along the axis: wanted, there, of the output */
  int64_t in_step, out_step;   /* bytes */
  int nouter;
  int64_t batch, dim[TS_FFT_OUTER], in_outer[TS_FFT_OUTER], out_outer[TS_FFT_OUTER];
  int last;  /* which of f's outer axes was made the last one; -1: none */
  int split; /* the threads share one transform rather than the batch */
  _Atomic int failed;
} TsFftJob;

/* Lengths, strides and plans for f; 0 or a negative code. Close it in any case. */
int ts_fft_job_open(TsFftJob *j, const TsFft *f, const TsFftKernels *k);
void ts_fft_job_close(TsFftJob *j);
int ts_fft_rows_are_better(const TsFftJob *j);

static inline int64_t ts_fft_max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t ts_fft_blocks(const TsFftJob *j, int64_t n) {
  return (n + j->lanes - 1) / j->lanes;
}
static inline int64_t ts_fft_padded(const TsFftJob *j, int64_t n) {
  return ts_fft_blocks(j, n) * j->lanes;
}

/* Where transform `index` of the batch begins, in bytes. */
static inline void ts_fft_offsets(const TsFftJob *j, int64_t index, int64_t *in, int64_t *out) {
  *in = *out = 0;
  for (int d = j->nouter - 1; d >= 0; d--) {
    int64_t i = index % j->dim[d];
    index /= j->dim[d];
    *in += i * j->in_outer[d];
    *out += i * j->out_outer[d];
  }
}

/* ---- rows: x, y and tmp are work memory of ts_fft_work_rows and ts_fft_tree_rows rows */
static const TsFftTwist ts_fft_no_twist = {NULL, 0, 0};

int64_t ts_fft_tree_rows(const TsFftNode *t);
int64_t ts_fft_work_rows(const TsFftJob *j);
TsFftTwist ts_fft_twist_of(const TsFftJob *j, const TsFftNode *t, int64_t column, int each);
/* The transform of one row of lanes, from x to y. */
void ts_fft_run_tree(const TsFftJob *j, const TsFftNode *t, const char *x, int64_t xs, char *y,
                     int64_t ys, const TsFftTwist *tw, char *tmp);
/* Of whole transforms the result is in x or y, and the other is free. Real ones come with re
 * and im exchanged. */
char *ts_fft_core_rows(const TsFftJob *j, char *x, char *y, char *tmp);
char *ts_fft_half_rows(const TsFftJob *j, char *x, char *y, char *tmp);
char *ts_fft_real_rows(const TsFftJob *j, char *x, char *y, char *tmp);
void ts_fft_ports(const TsFftJob *j, int64_t block, TsFftPort *in, TsFftPort *out);
void ts_fft_load_reals(const TsFftJob *j, const TsFftPort *in, char *x);
void ts_fft_store_reals(const TsFftJob *j, const TsFftPort *out, const char *z);
void ts_fft_rows_task(void *job, int64_t lo, int64_t hi, int worker);

/* ---- lines: contiguous arrays. Lines 0 to 2 are in use while a transform runs. */
enum { TS_FFT_LINES = 5 };

typedef struct TsFftBench {
  char *line[TS_FFT_LINES], *matrix, *work;
} TsFftBench;

/* False: no memory, and the job has failed. */
int ts_fft_bench_take(TsFftJob *j, TsFftBench *b);
void ts_fft_bench_give(TsFftBench *b);
void ts_fft_core_line(TsFftJob *j, const TsFftBench *b, const char *in, char *out, int swap_in,
                      int swap_out, double scale);
void ts_fft_half_line(TsFftJob *j, const TsFftBench *b, const char *x, char *y, double scale);
void ts_fft_real_line(TsFftJob *j, const TsFftBench *b, const char *x, char *y, double scale);
void ts_fft_copy(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n,
                 int size);
/* The input of a transform as a line: in itself, or line 3. */
const char *ts_fft_line_in(const TsFftJob *j, const TsFftBench *b, const char *in);
void ts_fft_line_task(void *job, int64_t lo, int64_t hi, int worker);

#endif
